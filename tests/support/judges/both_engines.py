"""The audit of the pipeline beside the checkers in memory: wherever the audit cuts the history,
both must say the same, and the witnesses must show what they say."""

import random
from typing import Any

from ordercast.check.report import check_history
from ordercast.history.rows import History
from support.cases.faults import any_history
from support.cases.fuzz import named, together
from support.judges.parts import audit_in_loop
from support.judges.witnesses import complaints

ALONE, AS_RUNS = 4, 8  # histories of one case
AT_ONCE = ALONE + AS_RUNS
JUDGED = ("ok", "rows", "sites", "messages", "runs", "checks", "informative", "truncated")


def in_memory(history: History) -> dict[str, Any]:
    return check_history(history, causal=True).as_json()


def agree(history: History, rng: random.Random) -> bool:
    found = audit_in_loop(
        history, cuts=rng.choice((0, 1, 2, 3)), shares=rng.choice((1, 2)), rng=rng
    ).report
    expected = in_memory(history)
    return all(found[key] == expected[key] for key in JUDGED) and not complaints(history, found)


def disagreements(first: int) -> list[str]:
    """Of the histories of seeds from `first` on: some alone, the others as runs of one history."""
    rng = random.Random(first)
    wrong = [
        f"seed {seed}, cuts of {first}"
        for seed in range(first, first + ALONE)
        if not agree(any_history(seed), rng)
    ]
    runs = range(first + ALONE, first + AT_ONCE)
    if not agree(together(named(any_history(seed), f"r{seed}") for seed in runs), rng):
        wrong.append(f"runs of {first}")
    return wrong
