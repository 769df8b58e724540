"""Random schedules of nodes on real stores under `exclude`: sites are killed, every other time with
what was queued for the store, networks split and heal. Nothing accepted is lost, nothing doubled or
reordered; applications see what the stores say; at `safe` nothing is taken back."""

from pathlib import Path

import pytest

from support.clusters.campaigns.excluding_campaigns import run_excluding
from support.clusters.campaigns.local_kills import Case

CASES = [
    Case("propagation", "safe", seed=1, kills=6, policy="exclude"),
    Case("propagation", "agreed", seed=2, kills=6, policy="exclude"),
    Case("centralized", "agreed", seed=4, kills=6, policy="exclude"),
    Case("centralized", "safe", seed=5, kills=6, policy="exclude", durability="sync"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_is_lost_doubled_or_reordered(case: Case, tmp_path: Path) -> None:
    found = run_excluding(case, tmp_path)
    assert not found.wrong, f"{case}: {found.wrong[:5]}"
    assert found.kills >= 6
    assert case.deliver == "agreed" or not found.rollbacks
