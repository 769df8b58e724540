"""Soak campaign: as `moving_clients`, with the daemons in one process, so that there are many more
kills: sites with stores and sockets of their own, which stop at once and lose what is not there.
In two of four cases there are daemons of other sites than members, in the domain and outside."""

import tempfile
from pathlib import Path

from support.clusters.campaigns.client_kills import Case
from support.clusters.campaigns.moving_clients import run_here
from tools.soak.campaign import Outcome

CASE_S = 40
KILLS = 20
MEMBERS = {"alpha": ["a", "b", "c"]}
OTHERS = {"beta": ["c", "d"], "gamma": ["e"]}


def run(seed: int) -> Outcome:
    level = ("agreed", "safe")[seed % 2]
    groups = {**MEMBERS, **OTHERS} if seed & 2 else MEMBERS
    case = Case(seed, "propagation", level=level, groups=groups, clients=6, kills=KILLS)
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run_here(case, Path(place), losses=3)
    return Outcome(not found.wrong, dict(found.counts), f"{case}: {'; '.join(found.wrong)[:1500]}")
