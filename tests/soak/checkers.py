"""Soak campaign: fuzzed histories through the checkers and the brute-force oracle.

Both must count the same, and every witness must show what it says.
"""

from ordercast.check.report import check_history
from support.cases.faults import any_history
from support.judges.oracle import judge
from support.judges.witnesses import complaints
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    history = any_history(seed)
    found = check_history(history, causal=True).as_json()
    expected = judge(history)
    wrong = [
        f"{key}: {found[key]} instead of {value}"
        for key, value in expected.items()
        if found[key] != value
    ]
    wrong += complaints(history, found)
    counters = {"histories": 1, "rows": found["rows"], "histories in order": int(found["ok"])}
    counters |= {f"with {name}": int(count > 0) for name, count in found["checks"].items()}
    return Outcome(not wrong, counters, "; ".join(wrong))
