"""Runs of a sweep on Spark: one row per run, by `mapInArrow` on the caller's session.

Each partition takes some of a wave's tasks, which travel with the function; what comes back is one
encoded outcome per run. A run that kills its worker is found by halving the wave, and becomes a
failed run like any other.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ordercast.pipeline.sweeps.subject import Experiment
from ordercast.pipeline.sweeps.tasks import FinishedRun, Task, failed, perform, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PER_SLOT = 4  # partitions: enough to even out runs of different cost, few enough to cost little
_MOST_SLOTS = 4096  # at most


def on_spark(
    spark: "SparkSession", experiment: Experiment, partitions: int
) -> Callable[[Sequence[Task]], list[FinishedRun]]:
    """A runner on the session that splits each wave into so many partitions."""

    def run(tasks: Sequence[Task]) -> list[FinishedRun]:
        try:
            return _run(spark, experiment, tasks, min(partitions, len(tasks)))
        except Exception as error:
            if not _alive(spark):
                raise
            if len(tasks) == 1:
                return [failed(tasks[0], f"the worker died: {_cause(error)}")]
            half = len(tasks) // 2
            return run(tasks[:half]) + run(tasks[half:])

    return run


def partitions_for(spark: "SparkSession") -> int:
    """A few for each partition that the session itself would make: as a rule, for each core."""
    from pyspark.sql import functions as sql

    ids = spark.range(_MOST_SLOTS).select(sql.spark_partition_id().alias("part"))
    # Counted here: a `distinct` is a shuffle, for which a fresh JVM takes seconds.
    return _PER_SLOT * len({row.part for row in ids.collect()})


def _run(
    spark: "SparkSession", experiment: Experiment, tasks: Sequence[Task], partitions: int
) -> list[FinishedRun]:
    places = spark.range(0, len(tasks), 1, partitions)
    done = places.mapInArrow(partial(_perform, experiment, list(tasks)), "outcome binary")
    decoder = msgspec.msgpack.Decoder(FinishedRun)
    return [decoder.decode(row.outcome) for row in done.collect()]


def _perform(
    experiment: Experiment, tasks: Sequence[Task], batches: Iterator[Any]
) -> Iterator[Any]:
    """In a worker: takes places in the list of tasks, gives one outcome for each."""
    import pyarrow as pa

    for batch in batches:
        for place in batch.column(0).to_pylist():
            outcome = msgspec.msgpack.encode(perform(experiment, tasks[place]))
            yield pa.RecordBatch.from_pydict({"outcome": [outcome]})


def _alive(spark: "SparkSession") -> bool:
    try:
        return spark.range(1).count() == 1
    except Exception:
        return False


def _cause(error: Exception) -> str:
    """The line of Spark's long complaint that tells what became of the worker."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    crashed = [line for line in lines if "crashed" in line or "exited" in line]
    return (crashed or [told(error)])[0][:200]
