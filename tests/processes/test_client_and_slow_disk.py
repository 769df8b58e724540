"""Daemons on a slow disk are killed while clients send through them: a message is relayed to nobody
before its daemon has stored it, so that what the client repeats is sent once."""

from pathlib import Path

import pytest

from support.clusters.campaigns.client_kills import Case, run_case


@pytest.mark.parametrize(
    ("protocol", "builder", "level"),
    [("propagation", "greedy", "safe"), ("centralized", "star", "agreed")],
)
def test_what_clients_repeat_to_killed_daemons_is_delivered_once(
    protocol: str, builder: str, level: str, tmp_path: Path
) -> None:
    case = Case(1, protocol, builder, level, clients=4, kills=3, pause_s=0.2)
    found = run_case(case, tmp_path)
    assert not found.wrong, f"{case}: {found.wrong}"
    assert found.counts["repeats"] > 0
    assert found.counts["kills"] == case.kills
