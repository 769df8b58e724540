"""Random schedules in one process, with real stores: groups, sites, protocol and builder change all
the time while sites are killed, also all at once, and restarted in any order."""

import pytest

from support.clusters.campaigns.changing_campaigns import LEAST_KILLS, run_changing
from support.clusters.campaigns.local_kills import Case

CASES = [
    Case("propagation", "safe", "sync", seed=1),
    Case("propagation", "agreed", "os", seed=2),
    Case("propagation", "safe", "os", causal=True, seed=3),
    Case("centralized", "safe", "os", seed=4),
    Case("symmetric", "agreed", "os", causal=True, seed=6),
    Case("tom", "safe", "os", seed=7),
    Case("metagroup", "agreed", "os", seed=8),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_guarantee_holds_over_all_epochs_when_sites_are_killed_within_changes(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found, campaign = run_changing(case, tmp_path_factory.mktemp("cluster"), changes=10)
    assert not found.wrong, f"{case}: {found.wrong}"
    assert found.kills >= LEAST_KILLS
    assert campaign.done >= 10
    assert found.delivered > 50
