"""Soak campaign: lost stores among sites that went one after the other, and return together."""

from support.loss_schedules import loss_schedule
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world = loss_schedule(seed)
    wrong = world.judge()
    counters = {
        "simulated ms": world.now // 1_000_000,
        "events": world.events,
        "crashes": world.crashes,
        "lost stores": sum(world.lost.values()),
        "returns by snapshot": sum(map(len, world.lapses.values())),
        "rollbacks": len(world.rollbacks),
        "messages": len(world.before),
        "epochs": max(world.epochs, default=0),
    }
    return Outcome(not wrong, counters, str(wrong[:2]))
