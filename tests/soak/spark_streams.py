"""Soak campaign: a query of Spark between two groups, over five SIGKILLs of its driver, executors,
Python workers and daemons. Both members must deliver every row once, in order."""

import random
import tempfile
from pathlib import Path

from support.clusters.campaigns.stream_kills import EXECUTOR, StreamCase, run_stream
from tools.soak.campaign import Outcome

CASE_S = 150
KILLS = 5


def run(seed: int) -> Outcome:
    rng = random.Random(f"spark streams {seed}")
    kinds = ("the driver", "a worker", "a node", EXECUTOR)
    kills = [EXECUTOR, *(rng.choice(kinds) for _ in range(KILLS - 1))]
    rng.shuffle(kills)
    case = StreamCase(seed, tuple(kills))
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run_stream(case, Path(place))
    return Outcome(not found.wrong, dict(found.counts), f"{case}: {'; '.join(found.wrong)[:2500]}")
