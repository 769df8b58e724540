"""Runs of a sweep on Spark: one row per run, on the caller's session.

Each partition takes some of a wave's tasks, which travel with the function; what comes back is one
encoded outcome per run. A run that kills its worker again and again is found by halving the wave,
and becomes a failed run like any other.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ordercast.pipeline.arrow_steps import map_batches
from ordercast.pipeline.session import slots
from ordercast.pipeline.sweeps.swept_verb import Experiment
from ordercast.pipeline.sweeps.tasks import FinishedRun, Task, failed, perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PER_SLOT = 4  # partitions: enough to even out runs of different cost, few enough to cost little
_CRASHES = ("Python worker exited unexpectedly", "ExecutorLostFailure", "ExecutorDeadException")


def on_spark(
    spark: "SparkSession", experiment: Experiment, partitions: int
) -> Callable[[Sequence[Task]], list[FinishedRun]]:
    """A runner on the session that splits each wave into this many partitions."""

    def run(tasks: Sequence[Task]) -> list[FinishedRun]:
        try:
            return _run(spark, experiment, tasks, min(partitions, len(tasks)))
        except Exception as error:
            # Whatever else is wrong is wrong with every run: halving would only take long.
            if not _crashed(error):
                raise
            if len(tasks) == 1:
                return [failed(tasks[0], f"the worker died: {_cause(error)}")]
            half = len(tasks) // 2
            return run(tasks[:half]) + run(tasks[half:])

    return run


def partitions_for(spark: "SparkSession") -> int:
    """A few for each task that the cluster can run at a time."""
    return _PER_SLOT * slots(spark)


def _run(
    spark: "SparkSession", experiment: Experiment, tasks: Sequence[Task], partitions: int
) -> list[FinishedRun]:
    places = spark.range(0, len(tasks), 1, partitions)
    done = map_batches(places, partial(_perform, experiment, list(tasks)), "outcome binary")
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


def _crashed(error: Exception) -> bool:
    return any(word in str(error) for word in _CRASHES)


def _cause(error: Exception) -> str:
    """The line of Spark's long complaint that tells what became of the worker."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next(line for line in lines if any(word in line for word in _CRASHES))
