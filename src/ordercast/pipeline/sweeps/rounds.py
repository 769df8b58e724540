"""Running the points of a sweep: in rounds until intervals are narrow, in waves that are kept.

A wave is as many runs as take some seconds; its outcomes are on disk before the next one starts, so
an interruption costs one wave at most. Points are taken one after another, so that those which
are finished are finished whole.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.pipeline.sweeps.statistics import estimate, runs_wanted
from ordercast.pipeline.sweeps.tasks import FinishedRun, Point, Task, failed, tasks_of

LOGGER = logging.getLogger(__name__)

Runner: TypeAlias = Callable[[Sequence[Task]], list[FinishedRun]]
"""Does some runs, on Spark or in this process; one outcome for each, in any order."""

Progress: TypeAlias = Callable[[int, int], None]
"""Told after each wave: runs done, and runs known to be wanted."""

_WAVE_S = 5.0
_LEAST_WAVE = 8
_WAVE_GROWTH = 8
_MOST_RUNS = 20_000  # of a wave
_MOST_BYTES = 128 << 20  # of histories in a wave


class Keeps(Protocol):
    def append(self, outcomes: Sequence[FinishedRun], /) -> None: ...


class Progressed:
    """The progress of a sweep: the runs of every point by repetition, and the number that is wanted
    so far."""

    def __init__(
        self, points: Sequence[Point], repeats: Repeats, least_wave: int | None = None
    ) -> None:
        """`least_wave`: the fewest runs that are done at once; a smaller wave would leave workers
        idle."""
        self.points = points
        self.repeats = repeats
        self.ran = 0  # runs done now; the others were known before
        self.least_wave = least_wave or _LEAST_WAVE
        self.wave = self.least_wave  # runs of the next one
        self.under_way = True
        self._done: dict[str, dict[int, FinishedRun]] = {point.key: {} for point in points}
        self._wanted = {p.key: 1 if p.trouble else repeats.at_least for p in points}

    def add(self, outcomes: Sequence[FinishedRun]) -> None:
        for outcome in outcomes:
            if outcome.key in self._done:  # a grid may have shrunk since
                slim = msgspec.structs.replace(outcome, history=b"")  # it is on disk by now
                self._done[outcome.key][outcome.repetition] = slim

    def runs(self, point: Point) -> list[FinishedRun]:
        """The wanted runs, in the order of their repetitions."""
        done = self._done[point.key]
        return [done[n] for n in sorted(done) if n <= self._wanted[point.key]]

    def missing(self, seed: int) -> list[Task]:
        return [
            task
            for point in self.points
            for task in tasks_of(point, range(1, self._wanted[point.key] + 1), seed)
            if task.repetition not in self._done[point.key]
        ]

    def want_more(self) -> bool:
        """Ask for more runs of the points whose bounds do not hold; False: of none."""
        asked = False
        for point in self.points:
            more = max(self._wishes(point), default=0)
            if more > self._wanted[point.key]:
                self._wanted[point.key] = more
                asked = True
        return asked

    def unreached(self) -> list[Point]:
        """Points that were run as often as allowed, and whose intervals are too wide all the
        same."""
        return [point for point in self.points if list(self._wishes(point))]

    def _wishes(self, point: Point) -> Iterator[int]:
        """Per bound that does not hold: how many runs in all to try."""
        values = values_of(self.runs(point))
        for bound in self.repeats.bounds:
            if bound.measure in values:  # otherwise all runs failed, and more would tell nothing
                estimated = estimate(values[bound.measure])
                if not bound.holds(estimated):
                    yield runs_wanted(estimated, bound, self.repeats.at_most)


def run_points(
    state: Progressed,
    seed: int,
    runner: Runner,
    store: Keeps,
    known: Sequence[FinishedRun] = (),
    progress: Progress | None = None,
) -> None:
    """Do all runs that the points need; what is `known` from before is not done again.

    Runs that failed before are tried once more: what stood in their way may be gone.
    """
    state.add([outcome for outcome in known if not outcome.error])
    _run_all(state.missing(seed), state, runner, store, progress)
    while state.want_more():
        _run_all(state.missing(seed), state, runner, store, progress)
    state.under_way = False


def _run_all(
    tasks: Sequence[Task],
    state: Progressed,
    runner: Runner,
    store: Keeps,
    progress: Progress | None,
) -> None:
    hopeless = [failed(task, task.point.trouble) for task in tasks if task.point.trouble]
    if hopeless:
        store.append(hopeless)
        state.add(hopeless)
        state.ran += len(hopeless)
    waiting = [task for task in tasks if not task.point.trouble]
    begin = 0
    while begin < len(waiting):
        wave = waiting[begin : begin + state.wave]
        begun = time.monotonic()
        # Neighbours cost alike. Sorting by seed mixes them, so that partitions cost alike.
        outcomes = runner(sorted(wave, key=lambda task: task.seed))
        took = time.monotonic() - begun
        outcomes.sort(key=lambda outcome: (outcome.key, outcome.repetition))
        store.append(outcomes)
        state.add(outcomes)
        state.ran += len(outcomes)
        begin += len(wave)
        LOGGER.info("%s of %s runs", f"{begin:,}", f"{len(waiting):,}")
        if progress is not None:
            progress(begin, len(waiting))
        size_bytes = sum(len(outcome.history) for outcome in outcomes)
        state.wave = max(_next_size(len(wave), took, size_bytes), state.least_wave)


def _next_size(runs: int, took: float, size_bytes: int) -> int:
    """As many runs as fill a wave's time, and whose histories fit into its memory."""
    wanted = min(max(runs, _LEAST_WAVE) * _WAVE_GROWTH, _MOST_RUNS)
    if took > 0:
        wanted = min(wanted, int(runs * _WAVE_S / took))
    if size_bytes:
        wanted = min(wanted, int(runs * _MOST_BYTES / size_bytes))
    return wanted


def values_of(runs: Sequence[FinishedRun]) -> dict[str, list[float]]:
    """Every measure's values over the runs that went well."""
    values: dict[str, list[float]] = {}
    for run in runs:
        if not run.error:
            for name, value in run.measures.items():
                values.setdefault(name, []).append(value)
    return values
