"""Soak campaign: exclusion and return under loss, partitions, lost stores, crashes anywhere.

Every third seed is of the harder kind: long, flapping, one-sided and tangled partitions."""

from support.cases.exclude_schedules import hard_schedule, schedule
from support.cases.soak_counts import counts_of
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world = hard_schedule(seed) if seed % 3 == 0 else schedule(seed)
    wrong = world.judge()
    return Outcome(not wrong, counts_of(world), str(wrong[:2]))
