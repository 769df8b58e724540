"""Soak campaign: every interleaving of a small cluster through one change, case after case.

The seed chooses the case (`support.small_cases`); after as many as there are, they repeat. A space
that is larger than the limit is looked at as far as that, and counted as such."""

from support.small_cases import CASES
from tools.soak.campaign import Outcome

CASE_S = 20
LIMIT = 1_500_000  # states: a few GB


def run(seed: int) -> Outcome:
    name = sorted(CASES)[seed % len(CASES)]
    found = CASES[name]().explore(LIMIT)
    counters = {
        "states": found.states,
        "steps": found.steps,
        "ends": found.ends,
        "spaces seen as a whole": int(found.complete),
    }
    trace = " > ".join(found.trace)[:1000]
    return Outcome(not found.violations, counters, f"{name}: {found.violations[:1]} {trace}")
