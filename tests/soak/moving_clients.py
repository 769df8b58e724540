"""Soak campaign: clients send through any of three real daemons, which are killed at any moment, at
times with their stores; they move and repeat, and are killed themselves. Each request must be
delivered once at every member, in its client's order; both levels, so that logs are rolled back."""

import tempfile
from pathlib import Path

from support.clusters.client_kills import Case
from support.clusters.moving_clients import run_moving
from tools.soak.campaign import Outcome

CASE_S = 100
KILLS = 10


def run(seed: int) -> Outcome:
    case = Case(
        seed,
        "propagation",
        level=("agreed", "safe")[seed % 2],
        slow=seed % 4 == 1,
        clients=4,
        kills=KILLS,
    )
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run_moving(case, Path(place), losses=3)
    return Outcome(not found.wrong, dict(found.counts), f"{case}: {'; '.join(found.wrong)[:1500]}")
