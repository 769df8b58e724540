"""A runner of sweeps in this process, without Spark."""

from collections.abc import Callable, Sequence

from ordercast.pipeline.sweeps.swept_verb import Experiment
from ordercast.pipeline.sweeps.tasks import FinishedRun, Task, perform


def here(experiment: Experiment) -> Callable[[Sequence[Task]], list[FinishedRun]]:
    return lambda tasks: [perform(experiment, task) for task in tasks]
