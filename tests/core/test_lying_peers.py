"""What a peer may not say drops its connection and changes nothing: by search, and case by case."""

import pytest

from ordercast.core.engine import Engine
from ordercast.core.epochs.layout import first_layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import pack_layout
from ordercast.core.epochs.raft import LEADER
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.outbox import OrderingState
from ordercast.core.structure import Structure
from ordercast.model.epochs import Entry, Nothing, RemoveGroup, Voters
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Batch, Key, Placed, pack_payloads
from ordercast.model.options import SECOND, Options
from ordercast.wire.epochs import ChangeRequest, Fed, Feed, Pages, PastNeeded
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    UP,
    Data,
    DurableCounts,
    Final,
    Item,
    Null,
    Offer,
    Relay,
    Repair,
    Settled,
    Submit,
    Timed,
    Wanted,
)
from ordercast.wire.ring import Call, Header, Numbered, Token
from ordercast.wire.swap import NOBODY, Count, Counted, CountValue, Follows, Reached, Swap
from ordercast.wire.tom import Bid, Body, BodyRequest
from ordercast.wire.voting import Append, Appended, Install, Vote
from support.worlds.alone import submit
from support.worlds.epochs import build
from support.worlds.lying_peers import FRAMES, run_case

SEARCHED = 10_000
TABLE = GroupTable.of({"alpha": ["a", "b"], "beta": ["b", "c"]}, sites=["a", "b", "c", "z"])
SWAPS = ("arrow", "combining", "hybrid", "arrow_counting", "combining_counting")
BODY = pack_payloads([b"x"])


def of(origin: str, group: str = "alpha", **fields: object) -> Batch:
    given = {"incarnation": 1, "seq": 1, "count": 1, "body": BODY, **fields}
    return Batch(origin=origin, group=group, **given)  # type: ignore[arg-type]


def site(name: str, protocol: str, **options: object) -> Engine:
    structure = Structure(1, TABLE, build(TABLE, "greedy", protocol))
    made = Engine(name, structure, Options(on_failure="wait", **options), protocol=protocol)  # type: ignore[arg-type]
    made.start(0)
    return made


def mistakes(taker: Engine, peer: str, lane: int, *items: Item) -> list[str]:
    """What the site says of these items, the next of the lane; it has neither sent nor kept any."""
    number = taker.link(peer).incoming[lane].got + 1
    taker.receive(0, peer, Data(1, 1, lane, number, items))
    box = taker.drain()
    if box.mistakes:
        assert not box.persist
        assert not box.deliver
        assert not [frame for _, frame in (*box.send, *box.then_send) if isinstance(frame, Data)]
    return [why for who, why in box.mistakes if who == peer]


@pytest.mark.parametrize("first", range(0, SEARCHED // FRAMES, 10))
def test_no_frame_that_keeps_the_rules_stops_a_site_or_makes_another_deliver_wrongly(
    first: int,
) -> None:
    wrong = {seed: run_case(seed).wrong for seed in range(first, first + 10)}
    assert {seed: found for seed, found in wrong.items() if found} == {}


# --- whose batch it is ----------------------------------------------------------------------------


def carriers(protocol: str, batch: Batch) -> list[tuple[int, Item]]:
    """Every way in which a peer hands in a batch."""
    if PROTOCOLS[protocol].direct:
        found: list[tuple[int, Item]] = [(UP, Offer(batch, 0))]
        if protocol == "symmetric":
            found.append((UP, Timed(batch, 5)))
        if protocol == "ring":
            found.append((UP, Numbered(batch, 1)))
        return found
    return [(UP, Submit(batch))] + ([(CONTROL, Body(batch))] if protocol == "tom" else [])


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_a_batch_of_another_origin_is_refused(protocol: str) -> None:
    for lane, item in carriers(protocol, of("a", "beta")):
        for taker in "bc":
            assert mistakes(site(taker, protocol), "z", lane, item), (taker, item)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_a_batch_of_another_incarnation_than_its_origin_has_is_refused(protocol: str) -> None:
    for lane, item in carriers(protocol, of("c", "beta", incarnation=7)):
        taker = site("b", protocol)
        taker.incarnation_of = {"c": 2}.get
        assert mistakes(taker, "c", lane, item), item


@pytest.mark.parametrize("protocol", SWAPS)
def test_who_is_of_another_domain_hands_on_nothing_in_the_swap_family(protocol: str) -> None:
    batch, name = of("a", "beta"), ("a", 1, "beta", 1)
    lies = (
        Swap(1, batch, name, "a"), Count(1, 1), CountValue(1, name, 1), Follows(batch, NOBODY),
        Counted(batch, 1), Reached(1),
    )  # fmt: skip
    for item in lies:
        assert mistakes(site("b", protocol), "z", UP, item), item


def test_who_is_of_another_domain_gives_no_stamps_numbers_or_tokens() -> None:
    stamps: tuple[Item, ...] = (Null(9), Wanted(9, "z"), Timed(of("z"), 9))
    numbers: tuple[Item, ...] = (Numbered(of("z"), 1), Header(1), Token(9, 0, 0, 0, 0), Call(1))
    for protocol, lies in (("symmetric", stamps), ("ring", numbers)):
        for item in lies:
            assert mistakes(site("b", protocol), "z", UP, item), item


@pytest.mark.parametrize("protocol", ["propagation", "centralized", "metagroup", "tom"])
def test_only_the_parent_hands_down(protocol: str) -> None:
    placed = Placed(Key((0, 1), "b"), 1, of("a", body=b"" if protocol == "tom" else BODY))
    assert mistakes(site("a", protocol), "z", DOWN, Relay(placed))
    assert not mistakes(site("a", protocol), "b", DOWN, Relay(placed))


def test_what_comes_down_is_the_next_of_its_group_and_behind_what_came() -> None:
    taker = site("a", "propagation")
    assert not mistakes(taker, "b", DOWN, Relay(Placed(Key((0, 5), "b"), 1, of("c"))))
    for wrong in (
        Placed(Key((0, 6), "b"), 3, of("c", seq=2)),  # a hole
        Placed(Key((0, 6), "b"), 1, of("c", seq=2)),  # again
        Placed(Key((0, 4), "b"), 2, of("c", seq=2)),  # before what came
        Placed(Key((0, 6), "b"), 1, of("c", "beta")),  # not for here
        Placed(Key((0, 6), "b"), 2, of("c", seq=2, body=b"\xc1")),
    ):
        assert mistakes(taker, "b", DOWN, Relay(wrong)), wrong
    assert not mistakes(taker, "b", DOWN, Relay(Placed(Key((0, 6), "b"), 2, of("c", seq=2))))


def test_a_list_goes_by_the_name_that_its_sites_give_it() -> None:
    lists = (("a", "b"), ("b", "a"), ("a", "a"), ("a", "nobody"))
    for members in lists:
        batch = of("z", "@0123456789abcdef", members=members)
        assert mistakes(site("b", "propagation"), "z", UP, Submit(batch)), members


def test_a_close_is_of_the_root_and_comes_down_only() -> None:
    sites = ("a", "b", "c")
    group = site("a", "propagation").structure.list_name(sites)
    close = of("a", group, incarnation=0, members=sites)
    assert mistakes(site("b", "propagation"), "a", UP, Submit(close))
    assert mistakes(site("c", "propagation"), "b", DOWN, Relay(Placed(Key((0, 1), "b"), 1, close)))
    assert mistakes(site("c", "two_phase"), "a", UP, Offer(close, 0))
    assert mistakes(site("c", "symmetric"), "a", UP, Timed(close, 1))


# --- numbers --------------------------------------------------------------------------------------


def test_a_clock_far_ahead_is_refused() -> None:
    """The next number above it would be one that no peer takes."""
    far = 2**62 - 1
    assert mistakes(site("b", "two_phase"), "a", UP, Offer(of("a"), far))
    assert mistakes(site("b", "symmetric"), "a", UP, Timed(of("a"), far))
    assert mistakes(site("b", "symmetric"), "a", UP, Null(far))
    assert mistakes(site("b", "arrow_counting"), "a", UP, Counted(of("a"), far))
    assert mistakes(site("b", "combining_counting"), "a", UP, Count(1, far))
    assert mistakes(site("b", "ring"), "a", UP, Token(far, 0, 0, 0, 0))
    assert mistakes(site("b", "ring"), "a", UP, Header(far))


def test_a_fixed_number_is_not_below_what_was_proposed() -> None:
    taker = site("b", "two_phase")
    assert not mistakes(taker, "a", UP, Offer(of("a"), 40))
    assert mistakes(taker, "a", DOWN, Final(1, "alpha", 1, 3, "a"))
    assert mistakes(taker, "a", DOWN, Final(1, "alpha", 1, 99, "c"))  # no member proposed that
    assert not mistakes(taker, "a", DOWN, Final(1, "alpha", 1, 99, "a"))


def test_a_bid_comes_from_its_origins_side_and_names_who_orders() -> None:
    taker = site("b", "tom")
    for bid in (
        Bid("a", 1, "alpha", 1, "nobody"),
        Bid("nobody", 1, "alpha", 1, "b"),
        Bid("c", 1, "beta", 1, "b"),  # c is on the other side
        Bid("a", 1, "beta", 1, "c"),  # which is ordered by b
    ):
        assert mistakes(taker, "a", CONTROL, bid), bid
    assert not mistakes(taker, "a", CONTROL, Bid("a", 1, "alpha", 1, "b"))
    assert mistakes(taker, "a", CONTROL, BodyRequest((("a", 1, "alpha", 1),) * 65))


def test_a_body_that_does_not_fit_its_header_is_fetched_instead() -> None:
    taker = site("a", "tom")
    assert not mistakes(taker, "c", CONTROL, Body(of("c", count=2, body=pack_payloads([b"x"] * 2))))
    header = Placed(Key((0, 1), "b"), 1, of("c", body=b""))
    assert not mistakes(taker, "b", DOWN, Relay(header))
    assert taker.gate.logged == 0
    assert not mistakes(taker, "b", CONTROL, Body(of("c")))
    assert taker.gate.logged == 1


# --- what is stable -------------------------------------------------------------------------------


def test_only_who_orders_a_group_says_what_is_stable_of_it_and_no_more_than_was_sent() -> None:
    origin = site("z", "propagation")
    submit(origin, 0, "alpha", [b"x"])
    origin.drain()
    assert mistakes(origin, "a", CONTROL, Settled((("alpha", 1),)))
    assert origin.own.unstable == 1
    assert not mistakes(origin, "b", CONTROL, Settled((("alpha", 2**62),)))
    assert origin.own.stable_seq("alpha") == 1


def test_only_members_report_of_a_group() -> None:
    taker = site("b", "propagation", stability="plain")
    assert mistakes(taker, "z", CONTROL, DurableCounts((("alpha", 9, 9),)))
    assert mistakes(taker, "c", CONTROL, DurableCounts((("alpha", 9, 9),)))
    assert not mistakes(taker, "a", CONTROL, DurableCounts((("alpha", 9, 9),)))


def test_what_waited_for_room_and_is_wrong_stops_nothing_when_there_is_room() -> None:
    taker = site("b", "propagation")
    taker.hold(0, held=True)
    taker.receive(0, "a", Data(1, 1, UP, 1, (Submit(of("a")),)))
    taker.receive(0, "a", Data(1, 1, UP, 2, (Submit(of("c", seq=2)),)))
    assert not taker.drain().mistakes
    taker.hold(0, held=False)
    assert [peer for peer, _ in taker.drain().mistakes] == ["a"]
    assert taker.gate.logged == 1


def test_a_peer_that_asks_for_everything_again_and_again_is_sent_no_more_than_is_under_way() -> (
    None
):
    origin = site("z", "propagation")
    for _ in range(8):
        submit(origin, 0, "alpha", [b"x"])
    origin.drain()
    for _ in range(10_000):
        origin.receive(0, "b", Repair(1, 1, UP, 1, 8))
    box = origin.drain()
    assert len(box.then_send) <= origin.options.limits.link_items + 1


# --- the voters' log, records, flushes ------------------------------------------------------------


def member(name: str, policy: str = "exclude") -> Member:
    groups = {group: tuple(sites) for group, sites in TABLE.groups.items()}
    first = first_layout("abcz", "abc", groups, "greedy", "propagation", build)
    made = Member(name, first, Options(on_failure=policy), build)
    made.start(0)
    return made


def said(taker: Member, peer: str, frame: object) -> list[str]:
    taker.receive(0, peer, frame)  # type: ignore[arg-type]
    return [why for who, why in taker.drain().mistakes if who == peer]


def leader() -> Member:
    groups = {group: tuple(sites) for group, sites in TABLE.groups.items()}
    first = first_layout("abcz", "a", groups, "greedy", "propagation", build)
    made = Member("a", first, Options(on_failure="wait"), build)
    made.start(0)
    made.alarm(5 * SECOND)
    made.drain()
    assert made.raft.role == LEADER
    return made


def test_a_follower_that_claims_more_entries_than_there_are_is_refused() -> None:
    manager = leader()
    manager.raft.propose(0, Voters((("a", 1), ("b", 2))))
    answer = Appended(manager.raft.term, True, 10**6, 2, 1)
    with pytest.raises(PeerMistake, match="it has 1,000,000 entries"):
        manager.raft.receive(0, "b", answer)


def test_a_leader_does_not_replace_what_is_committed() -> None:
    manager = leader()
    committed, term = manager.raft.committed, manager.raft.term
    assert committed
    forged = Append(term + 1, 0, 0, (Entry(term + 1, Nothing()),), 1, 1)
    with pytest.raises(PeerMistake, match="is committed"):
        manager.raft.receive(0, "b", forged)
    assert (manager.raft.committed, manager.raft.term) == (committed, term)


def test_a_snapshot_of_the_log_that_is_no_layout_is_refused() -> None:
    taker = member("b")
    assert said(taker, "a", Install(1, 9, 1, (("a", 1),), b"\x90", 1))
    assert said(taker, "a", Install(1, 9, 1, (("a", 1),), pack_layout(taker.layout), 1))
    assert taker.raft.log.last == 0


def test_a_term_far_ahead_is_refused() -> None:
    taker = member("b")
    assert said(taker, "a", Vote(2**62, 0, 0, False))
    assert taker.raft.term == 0


def test_who_is_no_voter_has_no_part_in_the_voters_log() -> None:
    taker = member("b")
    for frame in (Vote(3, 9, 2, False), Append(3, 0, 0, (Entry(3, Nothing()),), 1, 1)):
        assert not said(taker, "z", frame)
    assert (taker.raft.term, taker.raft.log.last) == (0, 0)
    said(taker, "a", Vote(3, 0, 0, False))
    assert taker.raft.term == 3


def test_records_are_heard_from_voters_only() -> None:
    taker = member("b")
    from_outside = Feed(0, (Entry(1, Nothing()),), 1, ())
    assert not said(taker, "z", from_outside)
    assert taker.layout.count == 0
    said(taker, "a", from_outside)
    assert taker.layout.count == 1


def test_a_layout_of_another_cluster_is_refused() -> None:
    taker = member("b")
    taker.layout = first_layout("ab", "ab", {}, "greedy", "propagation", build, founding="ours")
    other = first_layout("ab", "ab", {}, "greedy", "propagation", build, founding="theirs")
    assert said(taker, "a", Feed(9, (), 9, (), pack_layout(other)))


def test_a_voter_feeds_who_asks_although_it_does_not_lead() -> None:
    """Who was away while the voters changed believes none that it does not know."""
    taker = member("b")
    said(taker, "a", Feed(0, (Entry(1, Nothing()),), 1, ()))
    taker.receive(0, "c", Fed(0, ()))
    fed = [frame for peer, frame in taker.drain().then_send if peer == "c"]
    assert [type(frame) for frame in fed] == [Feed]


def test_the_past_of_a_flush_is_told_by_voters_and_given_by_who_is_named() -> None:
    taker = member("b")
    for peer in "cz":
        taker.flush.receive(peer, Pages(1, "alpha", 0, (Placed(Key((0, 1), "b"), 1, of("a")),)))
    taker.flush.receive("z", PastNeeded(1, ((1, "alpha", 1, (), "z"),)))
    assert taker.flush.fetched == {}


def test_a_manager_remembers_no_more_wishes_than_it_can_say() -> None:
    manager = leader()
    for number in range(5_000):
        manager.manager.ask("a", ChangeRequest(f"c{number}", (RemoveGroup("nowhere"),)))
    assert len(manager.manager._wanted) <= 1_024


def test_a_manager_remembers_no_silent_site_that_there_is_not() -> None:
    manager = leader()
    named = tuple(f"s{number}" for number in range(5_000))
    manager.receive(1, "b", Fed(1, (), silent=("b", *named)))
    assert manager.manager._silences._says == {"b": ("b",)}
    assert manager.manager.apart() == []


# --- found by search ------------------------------------------------------------------------------


def test_what_an_outsider_makes_of_a_clock_is_not_too_far_for_the_others() -> None:
    pushed, other = site("b", "two_phase"), site("a", "two_phase")
    assert not mistakes(pushed, "z", UP, Offer(of("z"), 2**59))
    assert not mistakes(pushed, "z", DOWN, Final(1, "alpha", 9, 2**59, "a"))  # of no such batch
    submit(pushed, 0, "alpha", [b"x"])
    offers = [
        item
        for peer, frame in pushed.drain().then_send
        if peer == "a" and isinstance(frame, Data)
        for item in frame.items
        if isinstance(item, Offer)
    ]
    assert 2**40 < offers[0].clock < 2**41
    assert not mistakes(other, "b", UP, *offers)


def test_a_repeat_of_what_an_earlier_epoch_includes_is_let_pass_in_causal_order() -> None:
    taker = site("b", "propagation", causal=True)
    taker.ordering.restore(OrderingState(inherited=(("c", 1, "beta", 7),)))
    assert not mistakes(taker, "c", UP, Submit(of("c", "beta")))
    assert not mistakes(taker, "c", UP, Submit(of("c", "beta", seq=8)))
    assert taker.gate.logged == 1


@pytest.mark.parametrize("seed", [2_010, 2_528, 4_992, 5_033, 6_721])
def test_what_the_search_has_found_stays_mended(seed: int) -> None:
    assert run_case(seed).wrong == []
