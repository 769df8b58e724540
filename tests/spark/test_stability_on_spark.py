"""[STAB] on Spark: reproductions share their rounds, and a sweep gives the same rows anyhow."""

import csv
import dataclasses
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ordercast.pipeline.grids import sweep
from ordercast.pipeline.sweeps.spec import parse_spec
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.reproduction import AGREES
from ordercast.studies.runner import reproduce

POINTS: list[dict[str, Any]] = [
    {"members": 13, "tree": "b=3,p=2,z=3"},
    {"members": 40, "tree": "b=3,p=3,z=3"},
    {"members": 40, "random_tree": "n=40,b=3,p=3,seed=1"},
    {"members": 40, "random_tree": "n=40,b=3,p=3,seed=2"},
]
SWEEP = """
[sweep]
verb = "stability"
repeat = 3
[grid]
protocol = ["full_dist", "s_train"]
random_tree = ["n=40,b=3,p=3"]
"""


def test_tables_and_figures_are_reproduced_from_the_same_rounds(
    spark: SparkSession, tmp_path: Path
) -> None:
    small = [
        dataclasses.replace(CATALOGUE["stab-table1"], points=lambda _: POINTS[:2]),
        dataclasses.replace(CATALOGUE["stab-figure9"], points=lambda _: POINTS),
    ]
    table, figure = reproduce(spark, small, tmp_path, quick=True)
    assert [(each.points, each.runs, each.failed) for each in (table, figure)] == [
        (2, 2, []), (4, 4, []),
    ]  # fmt: skip
    assert {finding.verdict for finding in table.findings} == {AGREES}
    rows = list(csv.DictReader((tmp_path / "stab-figure9.csv").read_text().splitlines()))
    assert list(rows[0])[:4] == ["members", "tree", "protocol", "random_tree"]
    assert len([row for row in rows if row["measure"] == "rtt_ms"]) == 5 * 4
    for name in ("stab-table1", "stab-figure9"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        assert f'<img src="{name}.png"' in (tmp_path / "index.html").read_text()
    stored = (tmp_path / "rows" / "stab-rounds" / "rows").glob("*.parquet")
    assert len(list(stored)) == 2  # what the table had run the figure did not run again


def test_a_sweep_of_rounds_does_not_depend_on_how_it_is_split(
    spark: SparkSession, tmp_path: Path
) -> None:
    spec = parse_spec(SWEEP, source="s.toml")
    texts = []
    for partitions in (1, 3):
        out = tmp_path / str(partitions)
        result = sweep(spark, spec, out, partitions=partitions)
        assert result.ok
        texts.append((out / "results.csv").read_bytes())
    assert texts[0] == texts[1]
