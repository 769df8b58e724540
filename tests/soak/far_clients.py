"""Soak campaign: a client in another network namespace than its cluster, under load. Its daemon is
killed, grants come and go, its certificate is revoked, four times over; then that of a site."""

import tempfile
from pathlib import Path

from support.clusters.far_clients import FarCase, run_case
from tools.soak.campaign import Outcome

CASE_S = 120
ROUNDS = 4


def run(seed: int) -> Outcome:
    case = FarCase(seed, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run_case(case, Path(place))
    return Outcome(not found.wrong, dict(found.counts), f"{case}: {'; '.join(found.wrong)[:1500]}")
