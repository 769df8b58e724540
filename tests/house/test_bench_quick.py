"""`make bench-quick`: what is named as worse, and which peers are left out."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.peers.__main__ import PEERS, lines
from bench.peers.member import TARGETS
from bench.quick import RATIOS, RECORDED, WORSE, compared, worse

RATIO = st.floats(0.01, 100)


def test_the_recorded_ratios_are_those_that_are_measured() -> None:
    assert json.loads(RECORDED.read_text(encoding="utf-8")).keys() == RATIOS.keys()


@given(before=RATIO, now=RATIO)
def test_a_ratio_is_worse_if_it_went_the_wrong_way_by_more_than_a_share(
    before: float, now: float
) -> None:
    up = next(name for name, (_, more, _) in RATIOS.items() if more)
    down = next(name for name, (_, more, _) in RATIOS.items() if not more)
    assert worse(up, now, before) == ((before - now) / before > WORSE) or near(before, now)
    assert worse(down, now, before) == ((now - before) / before > WORSE) or near(before, now)


def near(before: float, now: float) -> bool:
    """So near to the limit that rounding decides."""
    return abs(abs(now - before) / before - WORSE) < 1e-9


@pytest.mark.parametrize("name", RATIOS)
def test_what_got_worse_is_named_and_nothing_else(name: str) -> None:
    before = dict.fromkeys(RATIOS, 1.0)
    factor = 0.8 if RATIOS[name][1] else 1.2
    lines = compared({**before, name: factor}, before)
    assert [line.endswith("WORSE") for line in lines[1:-1]] == [each == name for each in RATIOS]
    assert lines[-1] == f"worse by more than 15%: {name}"
    assert compared(before, before)[-1] == "worse by more than 15%: nothing"


def test_peers_that_are_not_installed_are_left_out_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # nothing is installed there
    found = {line.name for line in lines(3, 100, [])}
    ours = {"ordercast, agreed, memory", "ordercast, safe, sync"}
    assert found - {"ZeroMQ"} == {"floor", *ours, *(f"{name}, TLS" for name in ours)}
    said = capsys.readouterr().err
    for word in ("redis-server", "nats-server", "etcd", "corosync"):
        assert f"{word} " in said
    assert {peer.name for peer in PEERS} == TARGETS.keys()
