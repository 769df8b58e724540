"""The live audit as a streaming query, and live figures, on Spark."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ordercast.check.report import check_history
from ordercast.history.rows import History
from ordercast.model.errors import ConfigError
from ordercast.pipeline import figures, follow
from ordercast.pipeline.following import lent_batches
from ordercast.pipeline.following.figure import Figure, as_lines
from ordercast.pipeline.following.figures_in_process import WindowFigures
from ordercast.pipeline.following.lent_batches import BatchNames, Lender, LentQuery
from ordercast.pipeline.following.tables import read_streams
from support.cases.fuzz import right_history
from support.cases.growing import GrowingHistory, parts_of_history, ten_a_second
from support.cases.portions import joined


def of_all(history: History) -> dict[str, Any]:
    report = check_history(history).as_json()
    del report["seconds"]
    return report


def judged(spark: SparkSession, growing: GrowingHistory, state: Path) -> list[dict[str, Any]]:
    query = follow(spark, growing.folder, checkpoint=state, once=True)
    try:
        found = [dict(verdict.report) for verdict in query.verdicts()]
    finally:
        query.stop()
    for report in found:
        del report["seconds"]
    return found


def test_the_verdict_is_that_of_the_audit_also_when_a_batch_is_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The second batch is judged and kept, but Spark does not know: it comes again."""
    parts = parts_of_history(3)
    growing = GrowingHistory(tmp_path / "h")
    state = tmp_path / "state"
    for count, part in enumerate(parts[:-1], 1):
        growing.append(part)
        assert judged(spark, growing, state)[-1] == of_all(joined(parts[:count]))
    commits = state / "query" / "commits"
    last = max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    growing.append(parts[-1])
    found = judged(spark, growing, state)[-1]
    assert found == of_all(joined(parts))
    assert found["checks"]["integrity"] == 1


def test_figures_per_site_and_group_in_windows(spark: SparkSession, tmp_path: Path) -> None:
    growing = GrowingHistory(tmp_path / "h")
    growing.append(ten_a_second())
    told: list[Figure] = []
    frames = read_streams(spark, str(growing.folder))
    query = figures(
        frames["deliveries"], frames["sent"], out=tmp_path / "out",
        on_figures=told.extend, checkpoint=tmp_path / "state", once=True,
    )  # fmt: skip
    query.awaitTermination()
    assert query.exception() is None
    second = {row.site: row for row in told if row.window_start.second == 10}
    assert (second["a"].deliveries, second["a"].sends, second["a"].rate) == (100, 100, 10.0)
    assert (second["b"].deliveries, second["b"].sends, second["b"].load) == (90, 0, 9.0)
    assert second["a"].latency_p50_ms == second["a"].latency_p99_ms == 1.0
    assert second["b"].latency_max_ms == 3.0
    assert (second["a"].behind, second["b"].behind) == (0, 10)
    assert second["b"].lag_ms == pytest.approx(998.0)
    assert len(as_lines(told)) == len(told) + 1
    same: list[Figure] = []
    WindowFigures(tmp_path / "here", same.extend).take(0, ten_a_second())
    assert same == told  # one process says the same
    written = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path / "out"))
    assert written.count() == len(told)


@pytest.mark.parametrize("was_there", [False, True])
def test_a_batch_that_no_client_takes_is_not_done(
    spark: SparkSession, tmp_path: Path, was_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be lost if it counted as done. No name stays. A client that has ended is
    known at once, before there is a name: Spark may kill who gives it. One that gives no sign any
    more is known after a time."""
    given: list[str] = []

    class SeenNames(BatchNames):
        def give(self, kind: str, *more: Any) -> None:
            given.append(kind)
            super().give(kind, *more)

    monkeypatch.setattr(lent_batches, "BatchNames", SeenNames)
    growing = GrowingHistory(tmp_path / "h")
    growing.append(ten_a_second())
    state = tmp_path / "state"
    sent = read_streams(spark, str(growing.folder))["sent"].writeStream
    sent = sent.option("checkpointLocation", str(state)).trigger(availableNow=True)
    names = BatchNames(spark, "lent_to_nobody")
    if was_there:
        names.give("beat", 0)
    query = sent.foreachBatch(Lender("lent_to_nobody", 0.5 if was_there else 60)).start()
    with pytest.raises(PySparkException, match="no client takes batch 0"):
        query.awaitTermination()
    assert not list((state / "commits").glob("[0-9]*"))
    assert given == (["batch"] if was_there else [])
    assert names.there() == set()


def test_a_query_that_does_not_start_leaves_no_name(spark: SparkSession, tmp_path: Path) -> None:
    growing = GrowingHistory(tmp_path / "h")
    growing.append(ten_a_second())
    sent = read_streams(spark, str(growing.folder))["sent"].writeStream.outputMode("complete")
    with pytest.raises(PySparkException, match="complete"):
        LentQuery(spark, sent, lambda *_: None)
    assert BatchNames(spark, "ordercast").there() == set()


def test_a_run_that_only_a_folder_names_is_refused_also_when_it_comes_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would read its column as null, and two runs as one."""
    growing = GrowingHistory(tmp_path / "h")
    growing.append(right_history(random.Random(3)))
    query = follow(spark, growing.folder, every_s=0.1)
    try:
        verdicts = query.verdicts()
        assert next(verdicts).ok
        (tmp_path / "run=b").mkdir()
        kept = max((growing.folder / "deliveries").glob("*.parquet"))
        shutil.copy(kept, tmp_path / "run=b" / "more.parquet")
        (tmp_path / "run=b").rename(growing.folder / "deliveries" / "run=b")
        with pytest.raises(ConfigError, match="field 'run' is only in the name of the folder"):
            list(verdicts)
    finally:
        query.stop()


def test_mistakes_are_told_before_a_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    growing = GrowingHistory(tmp_path / "h")
    frames = {
        name: spark.read.parquet(str(growing.folder / name))
        for name in ("groups", "sent", "deliveries")
    }
    with pytest.raises(ConfigError, match="needs a table that is a stream"):
        follow(spark, **frames)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs a history, or its tables"):
        follow(spark)
    with pytest.raises(ConfigError, match="sent: the table is missing"):
        follow(spark, deliveries=frames["deliveries"], groups=frames["groups"])
    with pytest.raises(ConfigError, match="figures need 'out'"):
        figures(frames["deliveries"], frames["sent"])
