"""Soak campaign: 50 named readers, followed by programs that are killed at daemons that are killed.
Each reader must get every message of its groups once, in order, as far as that is confirmed."""

import random
import tempfile
from pathlib import Path

from support.clusters.campaigns.reader_kills import ReaderCase, run_readers
from tools.soak.campaign import Outcome

CASE_S = 60
KILLS = 20


def run(seed: int) -> Outcome:
    rng = random.Random(f"readers {seed}")
    level, policy = rng.choice([("safe", "exclude"), ("safe", "wait"), ("agreed", "wait")])
    case = ReaderCase(seed, kills=KILLS, level=level, policy=policy)
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run_readers(case, Path(place))
    return Outcome(not found.wrong, dict(found.counts), f"{case}: {'; '.join(found.wrong)[:1500]}")
