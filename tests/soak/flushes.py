"""Soak campaign: exclusion and return under loss, partitions, lost stores, crashes anywhere.

Every third seed is of the harder kind: long, flapping, one-sided and tangled partitions."""

from support.exclude_schedules import hard_schedule, schedule
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world = hard_schedule(seed) if seed % 3 == 0 else schedule(seed)
    wrong = world.judge()
    counters = {
        "simulated ms": world.now // 1_000_000,
        "events": world.events,
        "crashes": world.crashes,
        "crashes within a flush": world.crashes_within,
        "partitions": world.partitions,
        "lost stores": sum(world.lost.values()),
        "returns by snapshot": sum(map(len, world.lapses.values())),
        "rollbacks": len(world.rollbacks),
        "messages": len(world.before),
        "deliveries": sum(map(len, world.seen.values())),
        "epochs": max(world.epochs, default=0),
    }
    return Outcome(not wrong, counters, str(wrong[:2]))
