"""Protocols over real processes and TLS: [GS] Figure 3's nine sites send 10,000 messages each
time, twenty times one of them is killed with SIGKILL (a leaf, an inner site, the root, any origin,
the manager, if it is known then) and restarted on its store; under `exclude` the others go on
without it. Nothing that was accepted is lost, nothing is doubled or reordered, and every
application finds again what it has not confirmed, and only that."""

from pathlib import Path

import pytest

from ordercast.core.order.registry import PROTOCOLS
from support.processes import Processes, write_cluster
from support.tables import FIGURE_3

ON_TREES = ("propagation", "centralized")
FEW = {"alpha": ["a", "b", "c"], "beta": ["b", "c", "d"], "gamma": ["a", "d"]}
GROUPS = {group: list(members) for group, members in FIGURE_3.items()}


@pytest.mark.parametrize(
    ("protocol", "deliver", "policy", "seed", "kills"),
    [
        ("propagation", "safe", "exclude", 1, 20),
        ("centralized", "agreed", "exclude", 2, 20),
        ("propagation", "agreed", "wait", 3, 10),
    ],
)
def test_nothing_is_lost_doubled_or_reordered_by_sigkill(
    protocol: str, deliver: str, policy: str, seed: int, kills: int, tmp_path: Path
) -> None:
    builder = "greedy" if protocol == "propagation" else "star"
    options = {
        "protocol": protocol, "builder": builder, "deliver": deliver, "on_failure": policy,
    }  # fmt: skip
    cluster = write_cluster(tmp_path, GROUPS, options)
    with Processes(tmp_path, cluster, messages=10_000, seed=seed) as running:
        running.kill_at_random(kills)
        running.settle(60)
        running.stop()
        verdict = running.judge()
    assert not verdict.wrong, f"seed {seed}: {verdict.wrong[:5]}"
    assert sum(verdict.kills.values()) == kills
    inner = {"inner"} if builder == "greedy" else set()
    assert set(verdict.kills) - {"manager"} == {"leaf", "root", "origin"} | inner
    assert verdict.sent >= 10_000


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name not in ON_TREES])
def test_nor_by_any_other_protocol(protocol: str, tmp_path: Path) -> None:
    """2,000 messages each, at four sites; half of those that can exclude do."""
    seed = list(PROTOCOLS).index(protocol)
    options = {
        "protocol": protocol,
        "deliver": "safe" if seed % 3 else "agreed",
        "on_failure": "exclude" if seed % 2 and PROTOCOLS[protocol].exclude else "wait",
    }
    cluster = write_cluster(tmp_path, FEW, options)
    with Processes(tmp_path, cluster, messages=2_000, seed=seed) as running:
        running.kill_at_random(4, pause_s=0.4, down_s=0.3)
        running.settle(60)
        running.stop()
        verdict = running.judge()
    assert not verdict.wrong, f"{options}, seed {seed}: {verdict.wrong[:5]}"
    assert sum(verdict.kills.values()) == 4
    assert verdict.sent >= 2_000
