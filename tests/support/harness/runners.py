"""Sweeps and reproductions run in this process, without Spark."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ordercast.pipeline.sweeps.results import Results, results_of
from ordercast.pipeline.sweeps.rounds import Progressed, run_points
from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.pipeline.sweeps.swept_verb import Experiment
from ordercast.pipeline.sweeps.tasks import FinishedRun, Point, Task, perform
from ordercast.studies.catalogue import CATALOGUE


def here(experiment: Experiment) -> Callable[[Sequence[Task]], list[FinishedRun]]:
    return lambda tasks: [perform(experiment, task) for task in tasks]


class Nowhere:
    """In the place of a sweep's files."""

    def append(self, _outcomes: Any, /) -> None: ...


def table_of(name: str, points: list[dict[str, Any]], repeats: int = 2) -> Results:
    """A reproduction's table for these points."""
    each = dataclasses.replace(CATALOGUE[name], repeats=lambda _: Repeats(repeats, repeats))
    state = Progressed([Point.of(point) for point in points], each.repeats(True))
    run_points(state, 1, here(each.family.experiment), Nowhere())
    assert not [run.error for point in state.points for run in state.runs(point) if run.error]
    return each.table(results_of(state))
