"""Soak campaign: live switches between all protocols, changing groups and sites, crashes."""

from unittest.mock import patch

from ordercast.core.order.registry import PROTOCOLS
from ordercast.sim.members import build_forest
from support.cases.epoch_schedules import schedule
from support.worlds import epochs
from tools.soak.campaign import Outcome

EVERY = tuple(PROTOCOLS)


def run(seed: int) -> Outcome:
    begins = seed % len(EVERY)
    with patch.object(epochs, "build", build_forest):
        world = schedule(seed, protocols=EVERY[begins:] + EVERY[:begins])
    wrong = world.judge()
    counters = {
        "events": world.events,
        "crashes": world.crashes,
        "messages": len(world.before),
        "epochs": max(world.epochs, default=0),
        "changes answered": len(world.outcomes),
    }
    return Outcome(not wrong, counters, str(wrong[:2]))
