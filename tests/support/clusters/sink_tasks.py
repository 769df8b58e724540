"""The sink under Spark's own attempts of its tasks: those that fail, and those that are slow.

All are real processes. Both members must deliver every row of the batches that are done once, and
the rows of a task in their order. What each attempt came to is noted by the attempt itself.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.types import StructType

from ordercast.pipeline.session import open_session
from ordercast.pipeline.streams.format import OrdercastFormat
from ordercast.pipeline.streams.options import sink_options
from ordercast.pipeline.streams.sink import SinkWriter, Staged
from support.clusters.campaigns.reader_kills import log_of
from support.clusters.node_processes import NodeProcesses
from support.clusters.processes import ROOT, write_cluster

GROUPS = {"gamma": ["b", "c"]}
FAILED, STAGED = "failed", "staged"
LIMIT_S = 1_200.0
_ATTEMPTS = 4  # of a task
_WARM = {
    "spark.executorEnv.PYTHONPATH": str(ROOT / "tests"),
    "spark.python.daemon.module": "support.programs.warm_workers",
}


class AttemptFailed(Exception):
    """The attempt of a task that was chosen to fail."""


@dataclass(frozen=True)
class TasksCase:
    """`kind`: the format that is written to. Rows are of a batch, and divided among its tasks."""

    kind: str
    batches: int
    tasks: int = 50
    rows: int = 500
    master: str = f"local[2,{_ATTEMPTS}]"
    conf: Mapping[str, str] | None = None


class FailingWriter(SinkWriter):
    """The first attempt of a task fails, and some of the second and third. It has other rows in
    another order, and fails among them, or when it has staged them."""

    def write(self, iterator: Iterator[Any]) -> Staged:
        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        chance = random.Random()
        if attempt and (attempt == _ATTEMPTS - 1 or chance.random() < 0.8):
            return super().write(iterator)
        early = chance.random() < 0.5
        try:
            super().write(_disturbed(iterator, chance, early))
        finally:
            note(self, FAILED)
        raise AttemptFailed("when its rows were staged")


class SlowWriter(SinkWriter):
    """The first attempt of one task in ten takes its time, so that Spark runs another beside it.
    Either may be the first."""

    def write(self, iterator: Iterator[Any]) -> Staged:
        context = TaskContext.get()
        assert context is not None
        slow = not context.attemptNumber() and context.partitionId() % 10 == 3
        until = time.monotonic() + (random.Random().uniform(1.0, 4.0) if slow else 0.0)
        found = super().write(_delayed(iterator, until))
        note(self, STAGED)
        return found


class FailingFormat(OrdercastFormat):
    @classmethod
    def name(cls) -> str:
        return "ordercast_failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, N802
        return FailingWriter(sink_options(self.options), schema)


class SlowFormat(OrdercastFormat):
    @classmethod
    def name(cls) -> str:
        return "ordercast_slow"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, N802
        return SlowWriter(sink_options(self.options), schema)


def note(writer: SinkWriter, what: str) -> None:
    """One file for each attempt, beside the checkpoint."""
    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    place = writer.options.staging.parent.parent / "attempts"
    (place / f"{what}-{batch}-{context.partitionId()}-{context.attemptNumber()}").touch()


def _disturbed(batches: Iterator[Any], chance: random.Random, early: bool) -> Iterator[Any]:
    """Some of the rows, in another order; `early`: then the attempt fails."""
    for batch in batches:
        rows = list(range(batch.num_rows))
        chance.shuffle(rows)
        yield batch.take(rows[: chance.randrange(len(rows) + 1)])
    if early:
        raise AttemptFailed("among its rows")


def _delayed(batches: Iterator[Any], until: float) -> Iterator[Any]:
    yield from batches
    while time.monotonic() < until:
        time.sleep(0.02)


def run_sink_tasks(folder: Path, case: TasksCase) -> tuple[list[str], Counter[str]]:
    """What is wrong, and how much was done."""
    options = {"durability": "os", "unnamed_reader": False}
    file = write_cluster(folder, GROUPS, options, tls=False)
    daemons = NodeProcesses(folder, dict.fromkeys("bc", file), [ROOT / "src"])
    (folder / "attempts").mkdir()
    try:
        for site in "bc":
            daemons.start(site)
        done, failed = _stream(folder, file, daemons.stores, case)
        wrong = failed + daemons.stop()
    finally:
        daemons.end()
    logs = {site: [int(t) for *_, t in log_of(daemons.stores / f"{site}.db")] for site in "bc"}
    for site, got in logs.items():
        wrong += judge(site, got, done, case)
    if logs["b"] != logs["c"]:
        wrong.append("b and c have other orders")
    return wrong, Counter({"batches": done, "rows": len(logs["b"]), **_noted(folder / "attempts")})


def _noted(place: Path) -> dict[str, int]:
    """How many attempts came to what, how many of them were not the first of their task, and of how
    many tasks two attempts came to the same."""
    found: Counter[str] = Counter()
    tasks: Counter[tuple[str, str, str]] = Counter()
    for path in place.iterdir():
        what, batch, partition, attempt = path.name.split("-")
        found[what] += 1
        found[f"{what} by a later attempt"] += attempt != "0"
        tasks[what, batch, partition] += 1
    found.update(f"{what} twice" for (what, *_), count in tasks.items() if count > 1)
    return dict(found)


def judge(site: str, got: list[int], done: int, case: TasksCase) -> list[str]:
    """The rows of a task are those with one remainder: Spark's source deals them out in turn."""
    wrong = []
    if len(set(got)) < len(got):
        wrong.append(f"{site}: {len(got) - len(set(got))} rows twice")
    lost = set(range(done * case.rows)) - set(got)
    if lost:
        wrong.append(f"{site}: {len(lost)} of {done * case.rows} rows lost, the first {min(lost)}")
    wanted = sorted(got, key=lambda n: (n // case.rows, n % case.tasks, n))
    if got != wanted:
        wrong.append(f"{site}: rows are out of order")
    return wrong


def _stream(folder: Path, file: Path, stores: Path, case: TasksCase) -> tuple[int, list[str]]:
    """Run the query until so many batches are done. Returns how many are, and what is wrong."""
    checkpoint = folder / "checkpoint"
    conf = {**_WARM, **(case.conf or {})}
    with open_session(
        "sink", master=case.master, memory="1g", progress=False, brief=True, conf=conf
    ) as spark:
        for kind in (FailingFormat, SlowFormat):
            spark.dataSource.register(kind)
        rows = (
            spark.readStream.format("rate-micro-batch")
            .options(rowsPerBatch=str(case.rows), numPartitions=str(case.tasks))
            .load()
            .selectExpr("cast(value as string) as payload")
        )
        writing = rows.writeStream.format(case.kind).options(
            nodes=str(file), dir=str(stores), site="b", group="gamma", timeout="120",
            checkpointLocation=str(checkpoint),
        )  # fmt: skip
        query = writing.trigger(processingTime="0 seconds").start()
        end = time.monotonic() + LIMIT_S
        while query.isActive and _done(checkpoint) < case.batches and time.monotonic() < end:
            time.sleep(0.2)
        error = query.exception()
        query.stop()
    return _done(checkpoint), [] if error is None else [f"the query failed: {error}"]


def _done(checkpoint: Path) -> int:
    """The last batch that Spark knows to be done; of older ones it forgets the files."""
    commits = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    return max(commits, default=-1) + 1
