"""Soak campaign: random fault schedules in which sites are excluded and return."""

from ordercast.core.order.registry import PROTOCOLS
from ordercast.sim.schedules import excluding
from support.schedules import all_return, outcome
from tools.soak.campaign import Outcome

EVERY = tuple(name for name, info in PROTOCOLS.items() if info.exclude)


def run(seed: int) -> Outcome:
    protocol = EVERY[seed % len(EVERY)]
    may_stay_away = protocol in ("propagation", "centralized")
    return outcome(protocol, seed, excluding if may_stay_away else all_return)
