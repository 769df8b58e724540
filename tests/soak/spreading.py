"""Soak campaign: packets along trees and by multicast in the simulator, while frames, packets and
datagrams are lost, doubled and late, sites crash and groups change; judged by all checks."""

from support.cases.spread_schedules import outcome
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    return outcome(seed)
