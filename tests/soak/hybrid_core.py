"""Soak campaign: random fault schedules of `hybrid:N`, with cores of one to eight sites."""

from support.cases.schedules import outcome
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    return outcome(f"hybrid:{1 + seed % 8}", seed)
