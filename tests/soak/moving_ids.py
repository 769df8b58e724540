"""Soak campaign: programs send with ids of their own through any of three real daemons, and both
are killed at any moment, daemons at times with their stores. A program begins again from its
journal, often at another daemon, and sends again what it is not sure of. Each id must be delivered
once at every member, in its program's order; both levels, so that logs are rolled back."""

from functools import partial

from support.clusters.campaigns.moving_cases import moving
from support.clusters.campaigns.moving_ids import run_moving_ids
from tools.soak.campaign import Outcome

CASE_S = 100


def run(seed: int) -> Outcome:
    return moving(seed, 3, partial(run_moving_ids, losses=2))
