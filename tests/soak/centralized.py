"""Soak campaign: random fault schedules of `centralized` (ordercast.sim.schedules)."""

from support.cases.schedules import outcome
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    return outcome("centralized", seed)
