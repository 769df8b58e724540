"""Soak campaign: the sink under 1,000 retries of its tasks by Spark itself. Nothing is doubled, and
nothing is lost."""

import tempfile
from pathlib import Path

from support.clusters.sink_tasks import run_sink_tasks
from tools.soak.campaign import Outcome

CASE_S = 300
RETRIES = 1_000


def run(seed: int) -> Outcome:
    """The seed is not used: Spark schedules tasks as it likes."""
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        wrong, counts = run_sink_tasks(Path(place), RETRIES)
    if counts["forced retries"] < RETRIES:
        wrong.append(f"only {counts['forced retries']} retries in time (case {seed})")
    return Outcome(not wrong, dict(counts), "; ".join(wrong)[:2500])
