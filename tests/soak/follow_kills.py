"""Soak campaign: a live audit on Spark whose driver or Python worker is killed with SIGKILL while
its history grows: right or with violations, a folder or a lake. The last verdict must be that of
all rows."""

import random
import tempfile
from pathlib import Path

from support.clusters.campaigns.follow_kills import run_follow_kills
from tools.soak.campaign import Outcome

CASE_S = 120


def run(seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        wrong, counts = run_follow_kills(random.Random(f"follow kills {seed}"), Path(place))
    return Outcome(not wrong, dict(counts), "; ".join(wrong)[:2500])
