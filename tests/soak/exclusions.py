"""Soak campaign: random fault schedules in which sites are excluded and return."""

from ordercast.sim.schedules import excluding
from support.schedules import outcome
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    return outcome("propagation" if seed % 3 else "centralized", seed, excluding)
