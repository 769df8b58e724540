"""Soak campaign: live switches between two protocols, there and back, every pair in turn; changing
groups and sites, crashes."""

from itertools import combinations
from unittest.mock import patch

from ordercast.core.order.registry import PROTOCOLS
from ordercast.sim.members import build_forest
from support.cases.epoch_schedules import schedule
from support.worlds import epochs
from tools.soak.campaign import Outcome

PAIRS = tuple(combinations(PROTOCOLS, 2))


def run(seed: int) -> Outcome:
    pair = PAIRS[seed % len(PAIRS)]
    if seed // len(PAIRS) % 2:
        pair = pair[::-1]
    with patch.object(epochs, "build", build_forest):
        world = schedule(seed, protocols=pair)
    wrong = world.judge()
    counters = {
        "events": world.events,
        "crashes": world.crashes,
        "messages": len(world.before),
        "epochs": max(world.epochs, default=0),
        f"runs of {' and '.join(pair)}": 1,
    }
    return Outcome(not wrong, counters, f"{pair}: {wrong[:2]}")
