"""Soak campaign: programs send with ids of their own through any of three real daemons, and both
are killed at any moment, daemons at times with their stores. A program begins again from its
journal, often at another daemon, and sends again what it is not sure of. Each id must be delivered
once at every member, in its program's order; both levels, so that logs are rolled back."""

import tempfile
from pathlib import Path

from support.clusters.client_kills import Case
from support.clusters.moving_ids import run_moving_ids
from tools.soak.campaign import Outcome

CASE_S = 100
KILLS = 10


def run(seed: int) -> Outcome:
    case = Case(
        seed,
        "propagation",
        level=("agreed", "safe")[seed % 2],
        slow=seed % 4 == 1,
        clients=3,
        kills=KILLS,
    )
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run_moving_ids(case, Path(place), losses=2)
    return Outcome(not found.wrong, dict(found.counts), f"{case}: {'; '.join(found.wrong)[:1500]}")
