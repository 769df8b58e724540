"""The live audit as a query of Spark, judged after every micro-batch beside the checkers of all
rows so far. A portion is a file of every table, and a micro-batch one file of each."""

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ordercast.history.rows import History
from ordercast.pipeline import follow
from ordercast.pipeline.following import tables
from support.cases.growing import GrowingHistory
from support.judges.live import Followed, beside_checkers

_SECOND = 1_000_000_000


def follow_batches(
    rng: random.Random, spark: SparkSession, portions: Sequence[History], folder: Path
) -> Followed:
    """The query is ended and started again somewhere in the middle."""
    growing = GrowingHistory(folder / "h")
    tables.files_per_batch = 1
    found: list[dict[str, Any]] = []
    half = rng.randint(0, len(portions))
    for part in (portions[:half], portions[half:]):
        for portion in part:
            growing.append(portion, every=True)
        _in_order(growing.folder)
        query = follow(spark, growing.folder, checkpoint=folder / "state", once=True)
        try:
            told = [{"batch": each.batch, **each.report} for each in query.verdicts()]
        finally:
            query.stop()
        found += [each for each in told if each["batch"] >= len(found)]
    return _judged(portions, found)


def _in_order(folder: Path) -> None:
    """Spark takes files by their age, and these come within a moment."""
    for path in folder.rglob("*.parquet"):
        number = int(path.stem.removeprefix("part-"))
        os.utime(path, ns=(number * _SECOND, number * _SECOND))


def _judged(portions: Sequence[History], found: Sequence[dict[str, Any]]) -> Followed:
    if [each["batch"] for each in found] != list(range(len(portions) + 1)):
        return Followed([f"{len(found)} batches of {len(portions) + 1}"])
    all_so_far = Followed()
    for count, report in enumerate(found):
        del report["batch"]
        all_so_far.add(beside_checkers(report, portions[:count], f"batch {count}"))
        if all_so_far.wrong:
            break
    return all_so_far
