"""Soak campaign: random fault schedules in which sites are excluded and return."""

from ordercast.core.order.registry import PROTOCOLS
from ordercast.sim.schedules import excluding
from support.cases.schedules import outcome
from tools.soak.campaign import Outcome

EVERY = tuple(name for name, info in PROTOCOLS.items() if info.exclude)


def run(seed: int) -> Outcome:
    return outcome(EVERY[seed % len(EVERY)], seed, excluding)
