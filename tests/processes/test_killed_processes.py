"""Real processes over TLS: [GS] Figure 3's nine sites and one in no group send messages to all
groups, and again and again one of them is killed with SIGKILL, each role in turn: a leaf, an inner
site, the root, a voter, the manager, the origin outside. It is restarted on its store; under
`exclude` the others go on without it. Nothing that was accepted is lost, nothing is doubled or
reordered, and every application finds again what it has not confirmed, and only that."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ordercast.core.order.registry import PROTOCOLS
from support.cases.tables import FIGURE_3
from support.clusters.processes import Processes, Verdict, write_cluster

FEW = {"alpha": ["a", "b", "c"], "beta": ["b", "c", "d"], "gamma": ["a", "d"]}
GROUPS = {group: list(members) for group, members in FIGURE_3.items()}
ROLES = {"leaf", "inner", "root", "outside", "voter", "manager"}


def run(
    folder: Path,
    groups: Mapping[str, Sequence[str]],
    options: Mapping[str, object],
    *,
    seed: int,
    kills: int,
    messages: int,
) -> Verdict:
    cluster = write_cluster(folder, groups, options, outside=["x"], timeouts={"suspect": "500ms"})
    with Processes(folder, cluster, messages=messages, seed=seed) as running:
        running.kill_at_random(kills, pause_s=0.4, down_s=0.4)
        running.settle(180)
        running.stop()
        verdict = running.judge()
    assert not verdict.wrong, f"{options}, seed {seed}: {verdict.wrong[:5]}"
    assert sum(verdict.kills.values()) == kills
    assert verdict.sent >= messages
    return verdict


@pytest.mark.parametrize(("deliver", "seed", "kills"), [("safe", 1, 6), ("agreed", 2, 6)])
def test_nothing_is_lost_doubled_or_reordered_by_sigkill(
    deliver: str, seed: int, kills: int, tmp_path: Path
) -> None:
    options = {"builder": "greedy", "deliver": deliver}
    verdict = run(tmp_path, GROUPS, options, seed=seed, kills=kills, messages=1_500)
    assert set(verdict.kills) == ROLES
    assert min(verdict.kills.values()) >= kills // len(ROLES)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nor_by_any_protocol_whatever_the_policy(protocol: str, tmp_path: Path) -> None:
    """At five sites; half of those that can exclude do."""
    seed = list(PROTOCOLS).index(protocol)
    options = {
        "protocol": protocol,
        "deliver": "safe" if seed % 3 else "agreed",
        "on_failure": "exclude" if seed % 2 and PROTOCOLS[protocol].exclude else "wait",
    }
    run(tmp_path, FEW, options, seed=seed, kills=2, messages=500)
