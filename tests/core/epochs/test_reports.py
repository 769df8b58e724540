"""Long reports and long ends go in parts; the number of streams that a site sends in is bounded."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.epochs import member, reports, window
from ordercast.core.epochs.records import Folded
from ordercast.core.epochs.reports import ReportParts, log_in_parts, needs_in_parts
from ordercast.model.epochs import EndPart, JoinGroup, LeaveGroup
from ordercast.model.errors import TooLarge
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.epochs import ClosedPart, LogReport, PastNeeded
from support.worlds.epochs import World

SITES = ["a", "b", "c", "d", "e"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["d", "e", "a"]}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part has two streams, so everything goes in parts."""
    monkeypatch.setattr(reports, "PART", 2)
    monkeypatch.setattr(member, "PART", 2)


def run(policy: str, deliver: str, *, loss: float = 0.0, crashes: bool = True) -> World:
    world = World(
        GROUPS, SITES, ["a", "b", "c"], policy=policy, deliver=deliver, loss=loss,
        checkpoint_batches=4, log_entries=4,
    )  # fmt: skip
    lists = [list(pair) for pair in itertools.combinations(SITES, 2)]
    for number in range(80):
        site, at = SITES[number % 5], SECOND + number * 20 * MILLISECOND
        group, to = sorted(GROUPS)[number % 3], lists[number % len(lists)]
        world.at(at, lambda s=site, g=group: world.submit(s, g, b"x"))  # type: ignore[misc]
        world.at(at, lambda s=site, t=to: world.submit_to(s, t, b"y"))  # type: ignore[misc]
    for number, edit in enumerate((JoinGroup("beta", "a"), LeaveGroup("alpha", "b"))):
        world.at(
            SECOND + (300 + 600 * number) * MILLISECOND,
            lambda n=number, e=edit: world.ask("d", f"change {n}", e),  # type: ignore[misc]
        )
    for number, site in enumerate(("e", "a", "c") if crashes else ()):
        world.at(
            SECOND + (200 + 400 * number) * MILLISECOND,
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
    parts = [record for record in told if isinstance(record, EndPart)]
    assert len(parts) > 10
    assert all(len(part.lasts) <= 2 and len(part.counts) <= 2 for part in parts)
    assert world.judge() == []


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.randoms(use_true_random=False))
def test_parts_in_any_order_and_doubled_are_the_whole_again(
    counts: int, lasts: int, holds: int, chance: Any
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reports, "PART", 3)
        report = LogReport(
            7,
            tuple((1, f"g{n}", n, ()) for n in range(counts)),
            tuple(("a", 1, f"g{n}", n + 1) for n in range(lasts)),
            tuple((1, f"g{n}") for n in range(holds)),
        )
        frames = log_in_parts(report)
        needs = PastNeeded(7, tuple((1, f"g{n}", n, (), "a") for n in range(counts)))
        assert reports.joined_needs(needs_in_parts(needs)) == needs
    sent = [*frames[:-1], *frames[:-1]]
    chance.shuffle(sent)
    gathered = ReportParts[LogReport]()
    older = LogReport(6, (), (), (), 0, len(frames) + 1)
    assert gathered.take(older, 6) is None
    for frame in sent:
        assert gathered.take(frame, 7) is None
    whole = gathered.take(frames[-1], 7)
    assert whole is not None
    assert reports.joined_log(whole) == LogReport(7, report.counts, report.lasts, report.holds)


def test_a_report_on_a_change_that_is_over_is_not_looked_at() -> None:
    world = World(GROUPS, SITES, ["a"])
    world.run(2 * SECOND)
    manager = world.members["a"].manager
    manager.closed_part("b", ClosedPart(99, (), 0, 2))
    assert not manager._parts


def test_a_site_that_sends_to_too_many_lists_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "STREAMS", 20)
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
