"""Soak campaign: random fault schedules of `hybrid:N:M` on deep trees, with cores of one to three
sites and arrow groups of two to five below. One of four changes groups, one of eight loses sites.
"""

from ordercast.sim.schedules import changing, excluding, schedule
from support.cases.schedules import deep, outcome
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    draw = {3: changing, 5: changing, 7: excluding}.get(seed % 8, schedule)
    return outcome(f"hybrid:{1 + seed % 3}:{2 + seed // 3 % 4}", seed, deep(draw))
