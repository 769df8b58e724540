"""Whom a site believes about the records: voters that it knows, by hash and term; its own log."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.epochs.chain import START, UNKNOWN, linked
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.layout import Layout, first_layout, nowhere
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import pack_layout
from ordercast.core.epochs.records import Folded, MemberRecord
from ordercast.core.epochs.voters_log import VotersLog
from ordercast.model.epochs import (
    AddGroup,
    Begin,
    Entry,
    EpochRecord,
    Finish,
    Founded,
    Nothing,
    RemoveGroup,
    Voters,
)
from ordercast.model.options import MILLISECOND, SECOND, Options
from ordercast.wire.epochs import Fed, Feed
from ordercast.wire.voting import Append, Install
from support.worlds.epochs import World, build

FOUNDED = first_layout(
    "abcdz", "abc", {"g": ("a", "b", "d")}, "greedy", "propagation", build, founding="ours"
)
TRUE: tuple[Entry, ...] = (
    Entry(1, Founded((("a", 1), ("b", 2), ("c", 3)))),
    Entry(1, Begin("c1", (AddGroup("h", ("a", "d")),))),
    Entry(1, Finish("c1", ())),
    Entry(2, Nothing()),
    Entry(2, Begin("c2", (AddGroup("i", ("b", "d")),))),
    Entry(3, Finish("c2", ())),
    Entry(3, Nothing()),
)
LIES: tuple[EpochRecord, ...] = (
    Nothing(),
    Begin("c9", (RemoveGroup("g"),)),
    Finish("c1", (("a", 1, "g", 9),)),
    Voters((("z", 9),)),
)


def layouts(entries: Sequence[Entry]) -> list[Layout]:
    """The layout after each entry."""
    folds, found = Folds(build), [FOUNDED]
    for entry in entries:
        found.append(folds.fold(found[-1], entry))
    return found


LAYOUTS = layouts(TRUE)


def member(name: str, layout: Layout = FOUNDED, gone: Sequence[str] = ()) -> Member:
    made = Member(name, layout, Options(on_failure="wait"), build, store=2, gone=gone)
    made.start(0)
    made.drain()
    return made


def said(taker: Member, peer: str, frame: Feed | Append | Install, now: int = 0) -> list[str]:
    taker.receive(now, peer, frame)
    return [why for who, why in taker.drain().mistakes if who == peer]


def count_of(taker: Member) -> int:
    """How many records it has. They are the true ones."""
    count = taker.layout.count
    assert pack_layout(taker.layout) == pack_layout(LAYOUTS[count])
    return count


def feed(first: int, last: int) -> Feed:
    """The true records after the first so many."""
    return Feed(first, TRUE[first:last], last, (), chain=LAYOUTS[first].chain)


def folded(layout: Layout) -> Feed:
    return Feed(layout.count, (), layout.count, (), pack_layout(layout))


# --- anything that sites say ----------------------------------------------------------------------

counts = st.integers(0, len(TRUE))
lies = st.lists(st.builds(Entry, st.integers(1, 4), st.sampled_from(LIES)), max_size=3).map(tuple)
chains = st.one_of(
    st.binary(min_size=16, max_size=16), st.sampled_from(LAYOUTS).map(lambda o: o.chain)
)
forged = st.one_of(
    st.builds(Feed, counts, lies, counts, st.just(()), chain=chains),
    st.builds(
        lambda count, more: Feed(count, more, 9, (), chain=LAYOUTS[count].chain), counts, lies
    ),
    st.builds(lambda more: folded(layouts(more)[-1]), lies),
)
true = st.builds(lambda one, other: feed(min(one, other), max(one, other)), counts, counts)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ac"), true),
        st.tuples(st.sampled_from("cdz"), forged),
        st.tuples(st.just("lead"), st.tuples(counts, counts)),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_a_voter_with_a_leader_has_a_true_prefix_whatever_others_feed_it(
    run: list[tuple[str, Feed | tuple[int, int]]],
) -> None:
    taker, has = member("b"), 0
    said(taker, "a", Append(3, 0, 0, (), 0, 1))
    for now, (peer, frame) in enumerate(run):
        if isinstance(frame, tuple):
            has = max(has, frame[0])
            said(taker, "a", Append(3, 0, 0, TRUE[:has], min(frame[1], has), 1), now)
        else:
            said(taker, peer, frame, now)
        count_of(taker)
    said(taker, "a", Append(3, 0, 0, TRUE, len(TRUE), 1), len(run))
    said(taker, "a", feed(taker.layout.count, len(TRUE)), len(run))
    assert count_of(taker) == len(TRUE)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(
    st.tuples(st.sampled_from("abc"), true), st.tuples(st.sampled_from("z"), forged),
), max_size=30))  # fmt: skip
def test_a_site_that_is_no_voter_has_a_true_prefix_whatever_others_than_voters_feed_it(
    run: list[tuple[str, Feed]],
) -> None:
    taker = member("d")
    for peer, frame in run:
        assert not said(taker, peer, frame)
        count_of(taker)


# --- each rule by itself --------------------------------------------------------------------------


def test_records_after_other_records_are_a_mistake_and_change_nothing() -> None:
    taker = member("d")
    said(taker, "a", feed(0, 2))
    other = (Entry(1, Nothing()), Entry(1, Nothing()), Entry(1, Begin("x", (RemoveGroup("g"),))))
    for frame in (
        Feed(0, other, 3, (), chain=START),
        Feed(2, other[2:], 3, (), chain=linked(linked(START, other[0]), other[1])),
        Feed(2, (), 3, (), chain=linked(linked(START, other[0]), other[1])),  # a sign of life
    ):
        assert said(taker, "c", frame) == ["its first 2 records are others than this site's"]
        assert count_of(taker) == 2
    assert not said(taker, "c", feed(0, 7))
    assert count_of(taker) == len(TRUE)


def test_a_record_of_an_earlier_term_is_a_mistake() -> None:
    taker = member("d")
    said(taker, "a", feed(0, 6))
    late = Feed(6, (Entry(2, Nothing()),), 7, (), chain=LAYOUTS[6].chain)
    assert said(taker, "a", late) == ["a record of term 2, after one of term 3"]
    old = layouts([Entry(2, Nothing())] * 8)[-1]
    assert said(taker, "a", folded(old)) == ["a layout of term 2, after one of term 3"]
    assert count_of(taker) == 6


def test_a_layout_that_comes_late_is_no_mistake() -> None:
    taker = member("d")
    said(taker, "a", feed(0, 6))
    assert said(taker, "a", folded(LAYOUTS[3])) == []
    stores, snapshot = (("a", 1), ("b", 2), ("c", 3)), pack_layout(LAYOUTS[3])
    assert said(taker, "a", Install(3, 3, 1, stores, snapshot, 1, LAYOUTS[3].chain)) == []
    assert count_of(taker) == 6


def test_a_voter_that_has_a_leader_waits_for_its_own_log() -> None:
    taker = member("b")
    said(taker, "a", Append(1, 0, 0, TRUE[:1], 0, 1))
    said(taker, "c", feed(0, 2))
    assert count_of(taker) == 0  # it does not know that this is committed
    said(taker, "a", feed(0, 2))
    assert count_of(taker) == 1  # its leader says so of what its log has
    said(taker, "a", Append(1, 1, 1, TRUE[1:2], 1, 1))
    said(taker, "a", feed(1, 2))
    assert count_of(taker) == 2


def test_a_voter_without_a_leader_hears_what_another_voter_says_for_it_may_be_removed() -> None:
    taker = member("b")
    said(taker, "a", Append(1, 0, 0, TRUE[:1], 1, 1))
    taker.alarm(900 * MILLISECOND)
    said(taker, "a", feed(1, 3), 900 * MILLISECOND)
    assert count_of(taker) == 3


def test_a_voter_is_not_answered_in_circles_while_its_log_waits() -> None:
    taker = member("b")
    said(taker, "a", Append(1, 0, 0, TRUE[:1], 1, 1))
    taker.receive(0, "c", feed(1, 3))
    assert not [frame for peer, frame in taker.drain().then_send if peer == "c"]


def test_a_newcomer_believes_the_sites_of_its_file_and_only_the_cluster_that_this_founded() -> None:
    newcomer = member("n", nowhere("abd", "ours"))
    said(newcomer, "z", folded(LAYOUTS[3]))  # retired, or added since: its file does not name it
    assert newcomer.layout.count == -1
    theirs = first_layout("z", "z", {"g": ("z",)}, "greedy", "propagation", build, founding="its")
    assert said(newcomer, "d", folded(theirs)) == ["a layout of another cluster"]
    assert newcomer.layout.count == -1
    said(newcomer, "d", folded(LAYOUTS[3]))  # not a voter, but named
    assert count_of(newcomer) == 3
    said(newcomer, "d", feed(3, 4))
    assert newcomer.layout.count == 3  # now it knows the voters
    said(newcomer, "c", feed(3, 4))
    assert count_of(newcomer) == 4


def test_who_is_said_to_be_retired_is_not_believed_by_a_site_that_knows_no_better() -> None:
    founder = member("d", gone=["c"])
    said(founder, "c", feed(0, 3))
    assert founder.layout.count == 0
    said(founder, "a", feed(0, 3))
    assert count_of(founder) == 3


def test_a_retired_site_believes_the_voters_that_it_knew_and_nobody_else() -> None:
    retired = member("n", nowhere("abd", "ours"))
    said(retired, "a", folded(LAYOUTS[3]))
    assert "n" not in retired.layout.roster
    said(retired, "z", feed(3, 4))
    assert retired.layout.count == 3


def test_a_snapshot_of_the_log_has_the_hash_of_its_layout() -> None:
    taker, layout = member("b"), LAYOUTS[6]
    stores = (("a", 1), ("b", 2), ("c", 3))
    for chain, term in ((LAYOUTS[5].chain, 3), (layout.chain, 2)):
        frame = Install(3, 6, term, stores, pack_layout(layout), 1, chain)
        assert said(taker, "a", frame) == ["a snapshot with the hash of another"]
    assert not said(taker, "a", Install(3, 6, 3, stores, pack_layout(layout), 1, layout.chain))
    assert taker.raft.log.chain_at(6) == layout.chain


def test_the_hash_is_as_durable_as_the_layout() -> None:
    taker, disk = member("d"), list[MemberRecord]()
    taker.receive(0, "a", feed(0, 4))
    disk += taker.drain().persist
    whole = taker._whole()
    for records in (disk, [whole]):
        again = Member("d", FOUNDED, Options(on_failure="wait"), build, store=2, records=records)
        assert (again.layout.chain, again.layout.term) == (LAYOUTS[4].chain, 2)


def test_a_store_of_before_the_hashes_is_read_and_has_no_hash() -> None:
    old: list[MemberRecord] = [Folded(entry.record) for entry in TRUE[:4]]
    again = Member("d", FOUNDED, Options(on_failure="wait"), build, store=2, records=old)
    assert (again.layout.count, again.layout.chain) == (4, UNKNOWN)
    again.start(0)
    assert not said(again, "a", feed(4, 7))  # the word of a voter is enough
    assert again.layout.groups == LAYOUTS[7].groups


@pytest.mark.parametrize("upto", range(1, 8))
def test_the_log_knows_the_hash_of_each_prefix(upto: int) -> None:
    log = VotersLog("abc")
    log.write(1, [Entry(1, Nothing())] * 9)
    assert log.chain_at(9) not in [layout.chain for layout in LAYOUTS]
    log.write(1, TRUE)
    assert [log.chain_at(index) for index in range(8)] == [layout.chain for layout in LAYOUTS]
    log.fold(upto, b"")
    assert log.snapshot.chain == LAYOUTS[upto].chain
    assert log.chain_at(7) == LAYOUTS[7].chain


def test_a_site_on_no_roster_is_told_all_records_if_it_says_that_it_knows_few() -> None:
    """A retired site must hear that it is retired. So its certificate lets it learn the layout."""
    world = World({"g": "abc", "secret": "ab"}, "abc", "abc")
    world.run(SECOND)
    for voter in world.members.values():
        assert voter.layout.count > 0
        voter.drain()
        voter.receive(world.now, "z", Fed(0, ()))
        box = voter.drain()
        fed = [f for peer, f in (*box.send, *box.then_send) if peer == "z" and isinstance(f, Feed)]
        assert fed
        assert fed[0].records or fed[0].folded
        assert not any(peer == "z" for peer, _ in box.mistakes)
        assert "z" not in voter.layout.roster
