"""Soak campaign: lost stores among sites that went one after the other, and return together."""

from support.cases.loss_schedules import loss_schedule
from support.cases.soak_counts import counts_of
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world = loss_schedule(seed)
    wrong = world.judge()
    return Outcome(not wrong, counts_of(world), str(wrong[:2]))
