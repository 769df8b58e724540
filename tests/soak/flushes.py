"""Soak campaign: exclusion and return under loss, partitions, lost stores, crashes anywhere."""

from support.exclude_schedules import schedule
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world = schedule(seed)
    wrong = world.judge()
    counters = {
        "simulated ms": world.now // 1_000_000,
        "events": world.events,
        "crashes": world.crashes,
        "lost stores": sum(world.lost.values()),
        "rollbacks": len(world.rollbacks),
        "messages": len(world.before),
        "epochs": max(world.epochs, default=0),
    }
    return Outcome(not wrong, counters, str(wrong[:2]))
