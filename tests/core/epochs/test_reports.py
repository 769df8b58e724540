"""Long reports and long ends go in parts; the number of streams that a site sends in is bounded."""

import itertools
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.epochs import window
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.layout import first_layout
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.epochs.records import Folded
from ordercast.core.epochs.streams import closings, parts
from ordercast.core.epochs.streams.closings import ClosingReports
from ordercast.core.epochs.streams.parts import ReportParts, log_in_parts, needs_in_parts
from ordercast.model.epochs import (
    Begin,
    EndPart,
    Entry,
    Finish,
    Flush,
    JoinGroup,
    LeaveGroup,
    Open,
)
from ordercast.model.errors import TooLarge
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.codec import decode_frame, encode_frame
from ordercast.wire.epochs import ClosedPart, LogReport, PastNeeded
from support.worlds.epochs import World, build

SITES = ["a", "b", "c", "d", "e"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["d", "e", "a"]}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part has two streams, so everything goes in parts."""
    monkeypatch.setattr(parts, "PART", 2)
    monkeypatch.setattr(closings, "PART", 2)


def run(policy: str, deliver: str, *, loss: float = 0.0, crashes: bool = True) -> World:
    world = World(
        GROUPS, SITES, ["a", "b", "c"], policy=policy, deliver=deliver, loss=loss,
        checkpoint_batches=4, log_entries=4,
    )  # fmt: skip
    lists = [list(pair) for pair in itertools.combinations(SITES, 2)]
    for number in range(80):
        site, at = SITES[number % 5], SECOND + number * 20 * MILLISECOND
        group, to = sorted(GROUPS)[number % 3], lists[number % len(lists)]
        world.at(at, partial(world.submit, site, group, b"x"))
        world.at(at, partial(world.submit_to, site, to, b"y"))
    for number, edit in enumerate((JoinGroup("beta", "a"), LeaveGroup("alpha", "b"))):
        world.at(
            SECOND + (300 + 600 * number) * MILLISECOND,
            lambda n=number, e=edit: world.ask("d", f"change {n}", e),  # type: ignore[misc]
        )
    for number, site in enumerate(("e", "a", "c") if crashes else ()):
        world.at(
            SECOND + (200 + 350 * number) * MILLISECOND,
            lambda s=site: world.crash(s, 500 * MILLISECOND),  # type: ignore[misc]
        )
    world.run(4 * SECOND)
    world.settle()
    return world


@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("policy", ["wait", "exclude"])
@pytest.mark.usefixtures("short")
def test_epochs_close_by_reports_in_parts(policy: str, deliver: str, loss: float) -> None:
    world = run(policy, deliver, loss=loss)
    assert world.quiet()
    assert world.judge() == []
    assert set(world.outcomes.values()) == {""}
    assert len(world.outcomes) == 2


@pytest.mark.usefixtures("short")
def test_the_parts_are_records_of_their_own() -> None:
    told: list[object] = []
    usual = World._persist

    def noting(world: World, site: str, box: Any) -> None:
        told.extend(r.record for r in box.persist if isinstance(r, Folded))
        usual(world, site, box)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "_persist", noting)
        world = run("exclude", "safe", crashes=False)
    found = [record for record in told if isinstance(record, EndPart)]
    assert len(found) > 10
    assert all(len(part.lasts) <= 2 and len(part.counts) <= 2 for part in found)
    assert world.judge() == []


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.randoms(use_true_random=False))
def test_parts_in_any_order_and_doubled_are_the_whole_again(
    counts: int, lasts: int, holds: int, chance: Any
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PART", 3)
        report = LogReport(
            7,
            tuple((1, f"g{n}", n, ()) for n in range(counts)),
            tuple(("a", 1, f"g{n}", n + 1) for n in range(lasts)),
            tuple((1, f"g{n}") for n in range(holds)),
        )
        frames = log_in_parts(report)
        needs = PastNeeded(7, tuple((1, f"g{n}", n, (), "a") for n in range(counts)))
        assert parts.joined_needs(needs_in_parts(needs)) == needs
    sent = [*frames[:-1], *frames[:-1]]
    chance.shuffle(sent)
    gathered = ReportParts[LogReport]()
    older = LogReport(6, (), (), (), 0, len(frames) + 1)
    assert gathered.take(older, 6) is None
    for frame in sent:
        assert gathered.take(frame, 7) is None
    whole = gathered.take(frames[-1], 7)
    assert whole is not None
    assert parts.joined_log(whole) == LogReport(7, report.counts, report.lasts, report.holds)


def test_a_report_on_a_change_that_is_over_is_not_looked_at() -> None:
    world = World(GROUPS, SITES, ["a"])
    world.run(2 * SECOND)
    manager = world.members["a"].manager
    manager.closed_part("b", ClosedPart(99, (), 0, 2))
    assert not manager._parts


def test_a_site_that_sends_to_too_many_lists_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "STREAM_BYTES", 5 * 4 * (28 + 1 + 2 * 4))
    monkeypatch.setattr(window, "LEAST_STREAMS", 2)
    world = World(GROUPS, SITES, ["a"])
    world.run(SECOND)
    member = world.members["a"]
    lists = [list(pair) for pair in itertools.combinations(SITES, 2)]
    for to in lists[:4]:
        member.submit_to(world.now, to, [b"x"])
    for _ in range(2):  # those that it has sent to before are no new ones
        member.submit_to(world.now, lists[0], [b"x"])
        with pytest.raises(TooLarge, match=r"a has sent to 4 groups and lists; .* 4 is the limit"):
            member.submit_to(world.now, lists[5], [b"x"])
        with pytest.raises(TooLarge, match="4 is the limit"):
            member.admission.reserve_listed(lists[5], [b"x"])
    assert member.admission.reserve_listed(lists[1], [b"x"])[1] > 0


def test_parts_count_only_with_an_end_of_the_same_manager() -> None:
    folds = Folds(build)
    groups = {name: tuple(sites) for name, sites in GROUPS.items()}
    layout = first_layout(SITES, "a", groups, "greedy", "propagation", build)
    layout = folds.fold(layout, Entry(1, Begin("c", (JoinGroup("beta", "a"),), "")))
    number = layout.closing["c"].number
    layout = folds.fold(layout, Entry(1, EndPart(number, (), (("a", 1, "alpha", 9),))))
    layout = unpack_layout(pack_layout(layout), build)
    ended = folds.fold(layout, Entry(1, Finish("c", (("b", 1, "alpha", 3),))))
    assert ended.lasts == {("a", 1, "alpha"): 9, ("b", 1, "alpha"): 3}
    assert not ended.closing
    other = folds.fold(layout, Entry(2, EndPart(number, (), (("a", 1, "alpha", 8),))))
    ended = folds.fold(other, Entry(2, Finish("c", (("b", 1, "alpha", 3),))))
    assert ended.lasts == {("a", 1, "alpha"): 8, ("b", 1, "alpha"): 3}
    flushed = folds.fold(layout, Entry(1, Flush(("e",), ())))
    part = EndPart(flushed.count, (), (("a", 1, "alpha", 9),))
    flushed = folds.fold(flushed, Entry(1, part))
    assert unpack_layout(pack_layout(flushed), build) == flushed
    opened = folds.fold(flushed, Entry(2, Open(part.begun, (), ())))
    assert opened.flushing is None
    assert opened.lasts == {}


def test_a_part_has_no_more_names_than_fit_into_a_frame() -> None:
    sites = tuple(f"{n:064}" for n in range(1_000))
    counts = tuple((1, f"@{n:016x}", 1, sites) for n in range(300))
    frames = log_in_parts(LogReport(1, counts, (), ()))
    assert parts.joined_log(frames).counts == counts
    assert len(frames) == 3
    for frame in frames:
        encode_frame(frame)  # raises if it is too long


MANY = 70_000  # more than one frame or record may have


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Site b has had a message in each of very many streams, to itself. Frames travel as bytes."""
    names = [f"@{number:016x}" for number in range(MANY)]
    streams = tuple(("b", 1, name, 1) for name in names)
    closed = ClosingReports.closed
    transmit = World._transmit

    def as_bytes(world: World, site: str, frames: Any) -> None:
        transmit(world, site, [(to, decode_frame(encode_frame(f))) for to, f in frames])

    monkeypatch.setattr(
        ClosingReports, "closed",
        lambda self, change: closed(self, change) + (streams if self._member.name == "b" else ()),
    )  # fmt: skip
    monkeypatch.setattr(World, "_transmit", as_bytes)


@pytest.mark.usefixtures("many")
def test_an_epoch_of_very_many_streams_is_closed() -> None:
    world = World({"alpha": ["a", "b", "c"]}, ["a", "b", "c", "d"], ["a"], policy="exclude")
    world.at(SECOND, lambda: world.ask("d", "c", JoinGroup("alpha", "d")))
    world.run(2 * SECOND)
    assert world.outcomes == {"c": ""}
    assert len(world.members["d"].layout.lasts) == MANY
