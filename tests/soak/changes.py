"""Soak campaign: random fault schedules of both protocols with groups that change meanwhile."""

from ordercast.sim.schedules import changing
from support.schedules import outcome
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    return outcome("propagation" if seed % 3 else "centralized", seed, changing)
