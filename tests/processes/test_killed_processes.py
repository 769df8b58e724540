"""Real processes over TLS: [GS] Figure 3's nine sites and one in no group send messages to all
groups, and again and again one of them is killed with SIGKILL, each role in turn: a leaf, an inner
site, the root, a voter, the manager, the origin outside. It is restarted on its store; under
`exclude` the others go on without it. Nothing that was accepted is lost, nothing is doubled or
reordered, and every application finds again what it has not confirmed, and only that."""

from pathlib import Path

import pytest

from support.processes import Processes, Verdict, write_cluster
from support.tables import FIGURE_3

GROUPS = {group: list(members) for group, members in FIGURE_3.items()}
ROLES = {"leaf", "inner", "root", "outside", "voter", "manager"}


def run(folder: Path, seed: int, kills: int, messages: int, **options: object) -> Verdict:
    cluster = write_cluster(folder, GROUPS, options, outside=["x"], timeouts={"suspect": "500ms"})
    with Processes(folder, cluster, messages=messages, seed=seed) as running:
        running.kill_at_random(kills, pause_s=0.4, down_s=0.4)
        running.settle(120)
        running.stop()
        verdict = running.judge()
    assert not verdict.wrong, f"seed {seed}: {verdict.wrong[:5]}"
    assert sum(verdict.kills.values()) == kills
    assert verdict.sent >= messages
    return verdict


@pytest.mark.parametrize(
    ("protocol", "deliver", "seed"), [("propagation", "safe", 1), ("propagation", "agreed", 2)]
)
def test_nothing_is_lost_doubled_or_reordered_by_sigkill(
    protocol: str, deliver: str, seed: int, tmp_path: Path
) -> None:
    verdict = run(tmp_path, seed, 20, 4_000, protocol=protocol, builder="greedy", deliver=deliver)
    assert set(verdict.kills) == ROLES
    assert min(verdict.kills.values()) >= 3


@pytest.mark.parametrize(
    ("protocol", "deliver", "policy", "seed"),
    [
        ("propagation", "agreed", "wait", 3),
        ("centralized", "agreed", "exclude", 4),
        ("two_phase", "safe", "exclude", 5),
        ("symmetric", "agreed", "exclude", 6),
    ],
)
def test_nor_under_other_protocols_and_policies(
    protocol: str, deliver: str, policy: str, seed: int, tmp_path: Path
) -> None:
    run(tmp_path, seed, 4, 1_000, protocol=protocol, deliver=deliver, on_failure=policy)
