"""Soak campaign: fuzzed histories in portions with random borders through the live audit.

After every portion the verdict is that of the checkers of all rows so far; the audit is stored and
restored between portions. A third of the cases has no patience: what is wrong is condensed at once,
and the counts are right or said to be inexact.
"""

import random

from support.cases.faults import any_history
from support.cases.portions import anyhow, in_order
from support.judges.live import count_portions, follow_portions
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    rng = random.Random(seed)
    history = any_history(seed)
    order = rng.choice((in_order, in_order, anyhow))
    portions = order(rng, history)
    judge = rng.choice((follow_portions, follow_portions, count_portions))
    found = judge(rng, portions)
    kind = "without patience" if judge is count_portions else (
        "rows in order" if order is in_order else "rows in any order"
    )  # fmt: skip
    counters = {"histories": 1, "portions": len(portions), kind: 1}
    counters[f"inexact, {kind}"] = int(found.inexact)
    return Outcome(not found.wrong, counters, "; ".join(found.wrong))
