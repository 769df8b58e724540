"""Soak campaign: exclusion and return on disks that take a while, so that a crash loses many bursts
whose relays and submissions have left. Every third seed is of the harder kind, as in `flushes`."""

from collections.abc import Callable
from functools import partial

from ordercast.model.options import MILLISECOND, SECOND
from support.cases.exclude_schedules import drawn_world, hard_world
from support.cases.soak_counts import counts_of
from support.worlds.epochs import World
from support.worlds.slow_disks import SlowDisks
from tools.soak.campaign import Outcome

DISKS = (2 * MILLISECOND, 15 * MILLISECOND, 60 * MILLISECOND)


def run(seed: int) -> Outcome:
    make_world = partial(SlowDisks, disk=DISKS[seed // 3 % len(DISKS)])
    draw: Callable[..., World] = hard_world if seed % 3 == 0 else drawn_world
    world = draw(seed, make_world=make_world)
    world.run(6 * SECOND)
    world.settle()
    wrong = world.judge()
    return Outcome(not wrong, counts_of(world), str(wrong[:2]))
