"""Soak campaign: clients send through any of three real daemons, which are killed at any moment, at
times with their stores; they move and repeat, and are killed themselves. Each request must be
delivered once at every member, in its client's order; both levels, so that logs are rolled back."""

from functools import partial

from support.clusters.campaigns.moving_cases import moving
from support.clusters.campaigns.moving_clients import run_moving
from tools.soak.campaign import Outcome

CASE_S = 100


def run(seed: int) -> Outcome:
    return moving(seed, 4, partial(run_moving, losses=3))
