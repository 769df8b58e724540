"""The protocols of [TOM] and [SWAP] on Spark: reproduced from end to end, on small points."""

import csv
import dataclasses
from pathlib import Path

from pyspark.sql import SparkSession

from ordercast.pipeline.reproduce.catalogue import CATALOGUE
from ordercast.pipeline.reproduce.run import reproduce
from ordercast.pipeline.sweep_spec import Repeats

POINTS = {
    "gs-table2": [{"network": "broadcast", "sites": 12, "groups": 4, "size": n} for n in (3, 4)],
    "tom-figure5": [
        {"sites": n, "groups": 6, "size": n // 10, "sources": 1, "sent_by": "members"}
        for n in (20, 30)
    ],
    "swap-latency": [
        {"sites": 7, "shape": shape, "requests": k}
        for shape in ("binary", "random", "list")
        for k in (1, 7)
    ],
}


def test_the_other_papers_protocols_are_reproduced(spark: SparkSession, tmp_path: Path) -> None:
    small = [
        dataclasses.replace(
            CATALOGUE[name],
            points=lambda _, name=name: POINTS[name],
            repeats=lambda _: Repeats(2, 2),
        )
        for name in POINTS
    ]
    done = reproduce(spark, small, tmp_path, quick=True)
    for each in done:
        assert (each.runs, each.failed) == (2 * len(POINTS[each.name]), [])
        assert (tmp_path / f"{each.name}.png").stat().st_size > 10_000
    rows = list(csv.DictReader((tmp_path / "swap-latency.csv").read_text().splitlines()))
    assert {row["protocol"] for row in rows if row["measure"] == "known_hops"} == {
        "arrow", "arrow_counting", "combining", "combining_counting", "hybrid",
    }  # fmt: skip
    assert all(row["ci95"] for row in rows if row["measure"] == "known_hops")
    tables = list(csv.DictReader((tmp_path / "gs-table2.csv").read_text().splitlines()))
    measured = {
        (row["protocol"], row["size"]): float(row["mean"])
        for row in tables
        if row["measure"] == "messages"
    }
    assert (measured["two_phase", "3"], measured["two_phase", "4"]) == (5, 6)
