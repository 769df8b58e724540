"""Soak campaign: changing epochs under loss, partitions, crashes between any two duties."""

from support.cases.epoch_schedules import schedule
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world = schedule(seed)
    wrong = world.judge()
    counters = {
        "events": world.events,
        "crashes": world.crashes,
        "messages": len(world.before),
        "epochs": max(world.epochs, default=0),
        "changes answered": len(world.outcomes),
    }
    return Outcome(not wrong, counters, str(wrong[:2]))
