"""Random schedules along trees and by multicast: the links below keep what the sites promise."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ordercast.core.dissemination import fanout
from ordercast.core.dissemination.fanout import Fanout
from ordercast.model.groups import GroupTable
from ordercast.sim.config import SimConfig
from ordercast.sim.schedules import LONG_EVERY, schedule
from ordercast.sim.simulate import simulate
from ordercast.wire.dissemination import Head, Many
from ordercast.wire.frames import Data
from support.cases.spread_schedules import run

SCHEDULES = [seed for seed in range(1, 52) if seed % LONG_EVERY]  # fifty short ones


def test_what_goes_to_many_arrives_in_one_order_whatever_happens() -> None:
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seed in SCHEDULES:
        config, result = run(seed)
        assert result.ok, f"seed {seed}: {result.violations[0]}"
        counts.update({f"{config.dissemination} {k}": v for k, v in result.spread.items()})
        faults.update(result.faults)
    for what in ("tree packets_taken", "multicast packets_taken", "multicast repairs_sent"):
        assert counts[what] > 50, counts
    assert counts["multicast pieces_sent"] > counts["multicast packets_sent"]
    assert counts["multicast skipped"] > 0
    assert {"loss", "crash", "partition", "join", "leave", "switch"} <= set(faults)


def test_the_bodies_of_tom_go_to_all_receivers_in_one_packet() -> None:
    """[TOM] §3.2: the origin multicasts the body and sends the header to the ordering node."""
    table = GroupTable.of({"all": [f"s{number}" for number in range(8)]})
    one, many = (
        simulate(SimConfig(table, protocol="tom", messages=100, rate=200, dissemination=way), 3)
        for way in ("unicast", "multicast")
    )
    assert one.ok
    assert many.ok
    assert many.data_frames < one.data_frames / 2
    assert many.spread["packets_sent"] > 150  # a body and a header of each message


def test_tom_by_multicast_keeps_its_guarantees() -> None:
    for seed in range(1, 9):
        config = replace(schedule("tom", seed), dissemination="multicast")
        result = simulate(config, seed)
        assert result.ok, f"seed {seed}: {result.violations[0]}"


def everything_to_everyone(epoch: int, items: Any, going: Any) -> Many:
    """The places are forgotten."""
    many = fanout_many(epoch, items, going)
    heads = tuple(Head(h.site, h.of, h.number, (), h.acks) for h in many.heads)
    return Many(many.epoch, many.boot, many.lane, heads, many.items)


def numbers_of_the_first(epoch: int, items: Any, going: Any) -> Many:
    many = fanout_many(epoch, items, going)
    first = many.heads[0].number
    heads = tuple(Head(h.site, h.of, first, h.places, h.acks) for h in many.heads)
    return Many(many.epoch, many.boot, many.lane, heads, many.items)


def repeats_left_out(self: Fanout, now: int, sends: Any, reached: Any) -> Any:
    """What a link repeats is taken for what the stream has already."""
    had = dict(self._sent)
    packets, rest = fanout_split(self, now, sends, reached)
    return packets, [(peer, frame) for peer, frame in rest if not _again(had, peer, frame)]


def _again(had: dict[Any, int], peer: str, frame: Any) -> bool:
    data = getattr(frame, "frame", None)
    return type(data) is Data and data.number <= had.get((peer, frame.epoch, data.lane), 0)


fanout_many, fanout_split = fanout._many, Fanout.split


@pytest.mark.parametrize(
    ("owner", "name", "instead", "seed"),
    [
        (fanout, "_many", everything_to_everyone, 12),
        (fanout, "_many", numbers_of_the_first, 1),
        (Fanout, "split", repeats_left_out, 2),
    ],
    ids=["everything to everyone", "numbers of the first", "repeats left out"],
)
def test_a_broken_way_is_caught(
    owner: Any,
    name: str,
    instead: Callable[..., Any],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(seed)[1].ok
    monkeypatch.setattr(owner, name, instead)
    assert not run(seed)[1].ok


def test_a_run_can_be_replayed() -> None:
    config, first = run(7)
    assert run(7)[1].history_hash == first.history_hash
    assert f"--dissemination {config.dissemination}" in first.replay
