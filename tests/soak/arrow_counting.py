"""Soak campaign: random fault schedules of `arrow_counting` (ordercast.sim.schedules)."""

from support.cases.schedules import outcome
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    return outcome("arrow_counting", seed)
