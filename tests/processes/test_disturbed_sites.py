"""Sites with stores over connections that are reset, stalled, truncated, corrupted and delayed 500
times, some of the sites killed and restarted meanwhile: nothing is lost, doubled or reordered."""

from pathlib import Path

import pytest

from support.clusters.campaigns.local_kills import Case
from support.clusters.disturbed import run_disturbed


@pytest.mark.parametrize(
    ("case", "tls"),
    [
        (Case("propagation", "safe", "os", seed=2, kills=6), True),
        (Case("centralized", "agreed", "os", causal=True, seed=4, kills=6), False),
    ],
    ids=str,
)
def test_disturbed_connections_lose_double_and_reorder_nothing(
    case: Case, tls: bool, tmp_path: Path
) -> None:
    found = run_disturbed(case, tmp_path, disturbances=250, tls=tls)
    assert not found.wrong, f"{case}: {found.wrong[:5]}"
    assert found.kills >= 6
    assert found.disturbances >= 250
