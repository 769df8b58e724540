"""Soak campaign: schedules in which links are cut for good, of all protocols and both policies."""

from ordercast.core.order.registry import PROTOCOLS
from ordercast.sim.schedules import cutting
from support.cases.schedules import outcome
from tools.soak.campaign import Outcome

EVERY = tuple(PROTOCOLS)


def run(seed: int) -> Outcome:
    return outcome(EVERY[seed % len(EVERY)], seed, cutting)
