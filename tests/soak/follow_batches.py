"""Soak campaign: fuzzed histories, right and wrong, through the live audit on Spark, with random
borders. After every micro-batch the verdict is that of the checkers of all rows so far."""

import random
import tempfile
from collections import Counter
from pathlib import Path

from ordercast.pipeline.session import open_session
from support.cases.faults import any_history
from support.cases.portions import anyhow, in_order
from support.judges.follow_batches import follow_batches
from tools.soak.campaign import Outcome

CASE_S = 120
HISTORIES = 10  # of a case: they share a session
MOST = 25  # portions of a history


def run(seed: int) -> Outcome:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with open_session(
        "follow", master="local[2]", memory="1g", progress=False, brief=True
    ) as spark:
        for number in range(seed * HISTORIES, (seed + 1) * HISTORIES):
            rng = random.Random(f"follow batches {number}")
            portions = rng.choice((in_order, in_order, anyhow))(rng, any_history(number))
            del portions[MOST:]
            with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
                found = follow_batches(rng, spark, portions, Path(place))
            counts += Counter(histories=1, portions=len(portions), inexact=int(found.inexact))
            wrong += [f"history {number}: {each}" for each in found.wrong]
    return Outcome(not wrong, dict(counts), "; ".join(wrong)[:2500])
