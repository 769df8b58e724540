"""The protocols of [TOM] and [SWAP] on Spark: reproduced from end to end, on small points."""

import csv
import dataclasses
from pathlib import Path

from pyspark.sql import SparkSession

from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.reproduction import Reproduction
from ordercast.studies.runner import reproduce

POINTS = {
    "tom-figure5": [
        {"sites": n, "groups": 4, "size": n // 5, "sources": 1, "sent_by": "members"}
        for n in (10, 20)
    ],
    "swap-latency": [
        {"sites": 5, "shape": shape, "requests": k}
        for shape in ("binary", "random", "list")
        for k in (1, 5)
    ],
}


def small(name: str) -> Reproduction:
    return dataclasses.replace(
        CATALOGUE[name], points=lambda _: POINTS[name], repeats=lambda _: Repeats(2, 2)
    )


def test_the_other_papers_protocols_are_reproduced(spark: SparkSession, tmp_path: Path) -> None:
    done = reproduce(spark, [small(name) for name in POINTS], tmp_path, quick=True)
    for each in done:
        assert (each.runs, each.failed) == (2 * len(POINTS[each.name]), [])
        assert (tmp_path / f"{each.name}.png").stat().st_size > 10_000
    rows = list(csv.DictReader((tmp_path / "swap-latency.csv").read_text().splitlines()))
    assert {row["protocol"] for row in rows if row["measure"] == "known_hops"} == {
        "arrow", "arrow_counting", "combining", "combining_counting", "hybrid", "hybrid:3:3",
    }  # fmt: skip
    assert all(row["ci95"] for row in rows if row["measure"] == "known_hops")
    rows = list(csv.DictReader((tmp_path / "tom-figure5.csv").read_text().splitlines()))
    measured = {
        (row["protocol"], row["sites"]): float(row["mean"])
        for row in rows
        if row["measure"] == "transmissions"
    }
    assert len(measured) == 7 * 2
    assert (measured["two_phase", "10"], measured["two_phase", "20"]) == (1 + 2, 1 + 4)
