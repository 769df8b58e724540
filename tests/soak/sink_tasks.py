"""Soak campaign: the sink under attempts of its tasks that fail and are repeated by Spark itself,
250 and more in a case. Nothing is doubled, and nothing is lost."""

import tempfile
from pathlib import Path

from support.clusters.sink_tasks import FAILED, TasksCase, run_sink_tasks
from tools.soak.campaign import Outcome

CASE_S = 90
RETRIES = 250
BATCHES = 5  # of 50 tasks, each of which fails once, and some of them again


def run(seed: int) -> Outcome:
    """The seed is not used: Spark schedules tasks as it likes."""
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        wrong, counts = run_sink_tasks(Path(place), TasksCase("ordercast_failing", BATCHES))
    if counts[FAILED] < RETRIES:
        wrong.append(f"only {counts[FAILED]} retries in {counts['batches']} batches (case {seed})")
    return Outcome(not wrong, dict(counts), "; ".join(wrong)[:2500])
