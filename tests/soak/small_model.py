"""Soak campaign: every interleaving of a small cluster through one change, case after case.

The seed chooses the case (`support.models.small_cases`), round and round. Of a space that is larger
than the limit, only so many states are visited, and it does not count as seen as a whole."""

from support.models.small_cases import CASES
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
