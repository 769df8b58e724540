"""Soak campaign: the verbs of the pipeline on Spark get SIGINT or SIGTERM at any moment. They say
one line, end with 130, and leave nothing."""

import random
import tempfile
from pathlib import Path

from support.clusters.campaigns.interrupted_verbs import run_interrupted
from tools.soak.campaign import Outcome

CASE_S = 30


def run(seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        wrong, counts = run_interrupted(random.Random(f"interrupts {seed}"), Path(place))
    return Outcome(not wrong, dict(counts), "; ".join(wrong)[:2500])
