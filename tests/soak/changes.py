"""Soak campaign: random fault schedules of both protocols with groups that change meanwhile."""

from ordercast.core.order.registry import PROTOCOLS
from ordercast.sim.schedules import changing
from support.cases.schedules import outcome
from tools.soak.campaign import Outcome

EVERY = tuple(PROTOCOLS)


def run(seed: int) -> Outcome:
    return outcome(EVERY[seed % len(EVERY)], seed, changing)
