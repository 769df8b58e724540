"""`bench/many_sites.py`: what is measured is a cluster at work, not one that comes up."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "many_sites.py"
SITES, RATE, SECONDS = 4, 40.0, 1.5


def test_time_runs_from_when_all_sites_may_send() -> None:
    """The voters of the cluster file need three seconds at least to elect a manager, longer than
    this run: sites that are not admitted by then would each have sent what waited for it."""
    command = [sys.executable, str(BENCH), f"--shapes={SITES}x2", "--protocols=ring", "--json"]
    command += [f"--rate={RATE}", f"--seconds={SECONDS}"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    rows = json.loads(done.stdout)
    assert {row["protocol"] for row in rows} == {"ring"}
    for row in rows:
        assert row["sent"] > 2 * SITES
        assert set(row["by_site"]) == {f"s{number:02}" for number in range(SITES)}
