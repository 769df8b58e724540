"""Soak campaign: live switches between all protocols, changing groups and sites, crashes."""

from ordercast.core.order.registry import PROTOCOLS
from support.epoch_schedules import schedule
from tools.soak.campaign import Outcome

# The test world knows the builders that these run on.
EVERY = tuple(info.name for info in PROTOCOLS.values() if info.builders in ((), ("star",)))


def run(seed: int) -> Outcome:
    begins = seed % len(EVERY)
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
