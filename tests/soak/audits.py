"""Soak campaign: fuzzed histories through the audit and the checkers in memory.

The audit cuts them anywhere, however many messages cross the cut. Both must count the same, and
every witness must show what it says.
"""

from unittest.mock import patch

from ordercast.pipeline.audits import steps
from support.judges.both_engines import AT_ONCE, disagreements
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    with patch.object(steps, "MOST_OVER", 1_000_000):
        wrong = disagreements(seed * AT_ONCE)
    return Outcome(not wrong, {"histories": AT_ONCE}, "; ".join(wrong))
