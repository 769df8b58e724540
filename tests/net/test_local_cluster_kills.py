"""Random schedules over clusters in one process: sites are killed and restarted at any moment while
all of them send and read; then the stores are exported and judged, and so is what each application
saw of its own stream."""

import pytest

from support.clusters.campaigns.local_kills import Case, run_case

CASES = [
    Case(protocol, deliver, durability, causal=causal, seed=seed)
    for seed, (protocol, deliver, durability, causal) in enumerate(
        [
            ("propagation", "safe", "sync", False),
            ("propagation", "agreed", "os", False),
            ("propagation", "safe", "os", True),
            ("propagation", "agreed", "os", True),
            ("centralized", "safe", "os", False),
            ("centralized", "agreed", "sync", False),
            ("centralized", "safe", "os", True),
        ],
        1,
    )
]

CASES += [
    Case(protocol, deliver, durability, causal=causal, seed=seed)
    for seed, (protocol, deliver, durability, causal) in enumerate(
        [
            ("two_phase", "safe", "sync", False),
            ("two_phase", "agreed", "os", True),
            ("symmetric", "safe", "os", False),
            ("symmetric", "agreed", "sync", True),
        ],
        21,
    )
]

CASES += [
    Case(protocol, deliver, durability, causal=causal, seed=seed)
    for seed, (protocol, deliver, durability, causal) in enumerate(
        [
            ("metagroup", "safe", "os", True),
            ("tom", "safe", "sync", False),
            ("tom", "agreed", "os", True),
        ],
        31,
    )
]

CASES += [
    Case("ring", "safe", "sync", causal=True, seed=41),
    Case("ring", "agreed", "os", seed=42),
    Case("arrow", "safe", "sync", causal=True, seed=51),
    Case("combining", "agreed", "os", seed=52),
    Case("hybrid", "safe", "os", seed=53),
]

CASES.append(Case("propagation", "safe", unread=(10,), slow_member="shed", seed=8))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_is_lost_doubled_or_reordered_when_sites_are_killed(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = run_case(case, tmp_path_factory.mktemp("cluster"))
    assert not found.wrong, f"{case}: {found.wrong}"
    assert found.kills >= case.kills
    assert found.sent > 50
    assert found.delivered > 50
