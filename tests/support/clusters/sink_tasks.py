"""The sink under Spark's own retries: the first attempt of every task fails, somewhere in its rows.

All are real processes. Both members must deliver every row of the batches that are done once, and
the rows of a task in their order.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from ordercast.pipeline.session import open_session
from support.clusters.node_processes import NodeProcesses
from support.clusters.processes import ROOT, write_cluster
from support.clusters.reader_kills import log_of

GROUPS = {"gamma": ["b", "c"]}
ROWS = 200  # of a batch
TASKS = 20  # of a batch
LIMIT_S = 900.0


class Failed(Exception):
    """The attempt of a task that was chosen to fail."""


def failing(batches: Iterator[Any]) -> Iterator[Any]:
    """The rows of a task. Its first attempt gives some of them, in another order, and fails."""
    context = TaskContext.get()
    assert context is not None
    first = context.attemptNumber() == 0
    chance = random.Random()
    for batch in batches:
        if not first:
            yield batch
            continue
        rows = list(range(batch.num_rows))
        chance.shuffle(rows)
        yield batch.take(rows[: chance.randrange(len(rows) + 1)])
    if first:
        raise Failed("the first attempt of every task fails")


def run_sink_tasks(folder: Path, retries: int) -> tuple[list[str], Counter[str]]:
    """What is wrong, and how much was done."""
    options = {"durability": "os", "unnamed_reader": False}
    file = write_cluster(folder, GROUPS, options, tls=False)
    daemons = NodeProcesses(folder, dict.fromkeys("bc", file), [ROOT / "src"])
    batches = -(-retries // TASKS)
    try:
        for site in "bc":
            daemons.start(site)
        done = _stream(folder, file, daemons.stores, batches)
        wrong = daemons.stop()
    finally:
        daemons.end()
    logs = {site: [int(t) for *_, t in log_of(daemons.stores / f"{site}.db")] for site in "bc"}
    for site, got in logs.items():
        wrong += judge(site, got, done)
    if logs["b"] != logs["c"]:
        wrong.append("b and c have other orders")
    counts = Counter({"batches": done, "forced retries": done * TASKS, "rows": len(logs["b"])})
    return wrong, counts


def judge(site: str, got: list[int], done: int) -> list[str]:
    wrong = []
    if len(set(got)) < len(got):
        wrong.append(f"{site}: {len(got) - len(set(got))} rows twice")
    lost = set(range(done * ROWS)) - set(got)
    if lost:
        wrong.append(f"{site}: {len(lost)} of {done * ROWS} rows lost, the first {min(lost)}")
    by_batch = [n // ROWS for n in got]
    if by_batch != sorted(by_batch):
        wrong.append(f"{site}: batches are out of order")
    return wrong


def _stream(folder: Path, file: Path, stores: Path, batches: int) -> int:
    """Run the query until so many batches are done. Returns how many are."""
    checkpoint = folder / "checkpoint"
    with open_session(
        "sink", master="local[2,4]", memory="1g", progress=False, brief=True
    ) as spark:
        rows = (
            spark.readStream.format("rate-micro-batch")
            .options(rowsPerBatch=str(ROWS), numPartitions=str(TASKS))
            .load()
            .selectExpr("cast(value as string) as payload")
            .mapInArrow(failing, "payload string")
        )
        writing = rows.writeStream.format("ordercast").options(
            nodes=str(file), dir=str(stores), site="b", group="gamma", timeout="120",
            checkpointLocation=str(checkpoint),
        )  # fmt: skip
        query = writing.trigger(processingTime="0 seconds").start()
        end = time.monotonic() + LIMIT_S
        while query.isActive and _done(checkpoint) < batches and time.monotonic() < end:
            time.sleep(0.5)
        query.stop()
    return _done(checkpoint)


def _done(checkpoint: Path) -> int:
    return sum(path.name.isdecimal() for path in (checkpoint / "commits").glob("*"))
