"""A world is quiet when its applications have been given all that is theirs: not while a site that
has taken its last frame is to be drained yet, nor while a disk is at work on what is delivered
then. Runs that were judged too early are right when they are judged at rest."""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from ordercast.model.options import MILLISECOND, SECOND
from support.cases.exclude_schedules import drawn_world
from support.worlds.epochs import World
from support.worlds.producing import SMALL, judged
from support.worlds.repeating import repeating
from support.worlds.slow_disks import SlowDisks

Run = Callable[[], list[tuple[Any, ...]]]

Early = tuple[type[World], Callable[[World], bool]]
"""A world, and what it once took for handed over."""

UNDRAINED: Early = (World, lambda _: True)
UNWRITTEN: Early = (SlowDisks, World.handed_over)


def small(seed: int) -> Run:
    return lambda: judged(*repeating(seed, SMALL))


def on_slow_disks(seed: int) -> Run:
    def run() -> list[tuple[Any, ...]]:
        world = drawn_world(seed, make_world=partial(SlowDisks, disk=60 * MILLISECOND))
        world.run(6 * SECOND)
        world.settle(step=5 * MILLISECOND)
        return world.judge()

    return run


RUNS: dict[str, tuple[Run, Early]] = {
    "a site has returned, and is to be drained, with all that it has missed": (
        small(1_506_585),
        UNDRAINED,
    ),
    "the same, and it has delivered nothing before": (small(1_501_048), UNDRAINED),
    "a site has returned, and its disk is at work on all that it has missed": (
        on_slow_disks(10),
        UNWRITTEN,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_judged_when_all_is_handed_over(name: str) -> None:
    run, (kind, early) = RUNS[name]
    assert run() == []
    with patch.object(kind, "handed_over", early):
        assert {what for what, *_ in run()} == {"agreement"}
