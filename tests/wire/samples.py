"""Frames for the tests of the codec: Hypothesis strategies, seeded random ones, plain examples."""

import random
from itertools import pairwise

from hypothesis import strategies as st

from ordercast.model.limits import BATCH_MESSAGES, LARGEST_NUMBER
from ordercast.model.messages import CLIENT_BYTES, Batch, Key, Placed, Requests
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    LANES,
    UP,
    Ack,
    Acks,
    Data,
    DurableCounts,
    Final,
    Frame,
    Item,
    Null,
    Offer,
    Proposal,
    Relay,
    Repair,
    Rider,
    Settled,
    Submit,
    Timed,
    Wanted,
)
from ordercast.wire.ring import Call, Header, Numbered, Token
from ordercast.wire.stability import RoundAck, RoundAsk, RoundInfo, RoundMissing, RoundStart
from ordercast.wire.swap import (
    NOBODY,
    ChainMark,
    Count,
    Counted,
    CountValue,
    Follows,
    MarkValue,
    Reached,
    Swap,
)
from ordercast.wire.tom import Bid, Body, BodyRequest

NAMES = st.one_of(
    st.sampled_from(["a", "b", "site-1", "x.y_z"]),
    st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
)
IMPLICIT = st.from_regex(r"\A@[0-9a-f]{16}\Z")
MEMBERS = st.lists(NAMES, min_size=1, max_size=5).map(tuple)
NUMBERS = st.one_of(st.integers(1, 9), st.integers(1, LARGEST_NUMBER))
COUNTS = st.one_of(st.integers(0, 9), st.integers(0, LARGEST_NUMBER))
NO_SITES = st.just(())

past_entries = st.one_of(st.tuples(NAMES, NUMBERS, NO_SITES), st.tuples(IMPLICIT, NUMBERS, MEMBERS))
pasts = st.lists(past_entries, max_size=4).map(tuple)
destinations = st.one_of(st.tuples(NAMES, NO_SITES), st.tuples(IMPLICIT, MEMBERS))


@st.composite
def requests(draw: st.DrawFn, messages: int) -> Requests:
    cuts = sorted(draw(st.sets(st.integers(1, messages - 1), max_size=3))) if messages > 1 else []
    counts = [b - a for a, b in pairwise([0, *cuts, messages])]
    numbers = sorted(draw(st.sets(NUMBERS, min_size=len(counts), max_size=len(counts))))
    client = draw(st.binary(min_size=CLIENT_BYTES, max_size=CLIENT_BYTES))
    return Requests(client, tuple(zip(numbers, counts, strict=True)))


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    group, members = draw(destinations)
    count = draw(st.integers(1, BATCH_MESSAGES))
    return Batch(
        draw(NAMES),
        draw(NUMBERS),
        group,
        draw(NUMBERS),
        count,
        draw(st.binary(max_size=300)),
        draw(pasts),
        members,
        draw(st.one_of(st.none(), requests(count))),
    )


paths = st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=8).map(tuple)
placed_batches = st.builds(Placed, st.builds(Key, paths, NAMES), NUMBERS, batches())
submits = st.builds(Submit, batches())
relays = st.builds(Relay, placed_batches)
any_groups = st.one_of(NAMES, IMPLICIT)
reports = st.builds(
    DurableCounts, st.lists(st.tuples(any_groups, COUNTS, COUNTS), max_size=5).map(tuple)
)
settleds = st.builds(Settled, st.lists(st.tuples(any_groups, COUNTS), max_size=5).map(tuple))
offers = st.one_of(st.builds(Offer, batches(), COUNTS), st.builds(Timed, batches(), COUNTS))
timestamps = st.one_of(st.builds(Null, NUMBERS), st.builds(Wanted, NUMBERS, NAMES))
proposals = st.builds(Proposal, COUNTS, any_groups, NUMBERS, NUMBERS)
finals = st.builds(Final, COUNTS, any_groups, NUMBERS, NUMBERS, NAMES)
names = st.tuples(NAMES, COUNTS, any_groups, NUMBERS)
toms = st.one_of(
    st.builds(Body, batches()),
    st.builds(Bid, NAMES, COUNTS, any_groups, NUMBERS, NAMES),
    st.builds(BodyRequest, st.lists(names, min_size=1, max_size=4).map(tuple)),
)
entries = st.tuples(any_groups, COUNTS, COUNTS, NUMBERS, NAMES)
arrays = st.lists(entries, max_size=4).map(tuple)
rounds = st.one_of(
    st.builds(RoundStart, NUMBERS),
    st.builds(RoundAsk, COUNTS),
    st.builds(RoundAck, NUMBERS, COUNTS, st.booleans(), arrays),
    st.builds(RoundInfo, NUMBERS, COUNTS, st.booleans(), arrays),
    st.builds(RoundMissing, NUMBERS, st.lists(NAMES, max_size=3).map(tuple)),
)
holes = st.tuples(NAMES, NUMBERS, NUMBERS).map(lambda one: (one[0], *sorted(one[1:])))
rings = st.one_of(
    st.builds(Numbered, batches(), NUMBERS),
    st.builds(Header, NUMBERS),
    st.builds(
        Token, NUMBERS, COUNTS, COUNTS, COUNTS, COUNTS, st.lists(holes, max_size=3).map(tuple)
    ),
    st.builds(Call, COUNTS),
)
predecessors = st.one_of(names, st.just(NOBODY))
swaps = st.one_of(
    st.builds(Swap, NUMBERS, batches(), names, NAMES),
    st.builds(Count, NUMBERS, NUMBERS),
    st.builds(CountValue, NUMBERS, predecessors, NUMBERS),
    st.builds(ChainMark, NUMBERS, NUMBERS),
    st.builds(MarkValue, NUMBERS, NUMBERS, names),
    st.builds(Follows, batches(), predecessors),
    st.builds(Counted, batches(), NUMBERS),
    st.builds(Reached, NUMBERS),
)
items_of_lane: dict[int, st.SearchStrategy[Item]] = {
    UP: st.one_of(submits, offers, timestamps, rings, swaps),
    DOWN: st.one_of(relays, proposals, finals),
    CONTROL: st.one_of(reports, settleds, toms, rounds),
}

acks = st.lists(
    st.tuples(st.sampled_from(LANES), COUNTS, COUNTS).map(
        lambda ack: (ack[0], max(ack[1:]), min(ack[1:]))
    ),
    max_size=3,
).map(tuple)


riding = st.one_of(reports, settleds, rounds)
riders = st.builds(Rider, NUMBERS, st.lists(riding, min_size=1, max_size=3).map(tuple))


@st.composite
def datas(draw: st.DrawFn) -> Data:
    lane = draw(st.sampled_from(LANES))
    items = draw(st.lists(items_of_lane[lane], min_size=1, max_size=4))
    rider = None if lane == CONTROL else draw(st.one_of(st.none(), riders))
    return Data(draw(NUMBERS), draw(COUNTS), lane, draw(NUMBERS), tuple(items), draw(acks), rider)


@st.composite
def repairs(draw: st.DrawFn) -> Repair:
    first, last = sorted((draw(NUMBERS), draw(NUMBERS)))
    return Repair(draw(NUMBERS), draw(COUNTS), draw(st.sampled_from(LANES)), first, last)


frames: st.SearchStrategy[Frame] = st.one_of(
    datas(), st.builds(Ack, NUMBERS, COUNTS, acks), repairs()
)


def batch(
    *,
    origin: str = "a",
    incarnation: int = 1,
    group: str = "alpha",
    seq: int = 17,
    count: int = 1,
    body: bytes = b"opaque",
    past: tuple[tuple[str, int, tuple[str, ...]], ...] = (),
    members: tuple[str, ...] = (),
    requests: Requests | None = None,
) -> Batch:
    return Batch(origin, incarnation, group, seq, count, body, past, members, requests)


def submit_frame(item: Batch, *, acks: Acks = ()) -> Data:
    return Data(1, 1, UP, 5, (Submit(item),), acks)


def relay_frame(
    item: Batch, *, path: tuple[int, ...] = (0, 5, -2, 1), site: str = "d", number: int = 99
) -> Data:
    return Data(1, 1, DOWN, 42, (Relay(Placed(Key(path, site), number, item)),), ((UP, 3, 2),))


def random_frame(rng: random.Random) -> Frame:
    """A right frame of any kind, mostly data, with every field now and then in use."""
    boot, of = rng.randint(1, 300), rng.randint(0, 3)
    lane = rng.choice(LANES)
    acks = tuple(
        (lane, rng.randint(99, 70_000), rng.randint(0, 99)) for lane in LANES[: rng.randint(0, 3)]
    )
    kind = rng.random()
    if kind < 0.1:
        return Ack(boot, of, acks)
    if kind < 0.2:
        first = rng.randint(1, 10**6)
        return Repair(boot, of, lane, first, first + rng.randint(0, 99))
    items = tuple(random_item(rng, lane) for _ in range(rng.randint(1, 4)))
    rider = None
    if lane != CONTROL and rng.random() < 0.3:
        some = (DurableCounts((("alpha", 3, 2),)), RoundStart(4), RoundAck(4, 1, False, ()))
        rider = Rider(rng.randint(1, 10**6), some[: rng.randint(1, 3)])
    return Data(boot, of, lane, rng.randint(1, 10**10), items, acks, rider)


def random_item(rng: random.Random, lane: int) -> Item:
    groups = ("alpha", "beta", "gamma.9", "@0123456789abcdef")[: rng.randint(0, 4)]
    if rng.random() < 0.3:
        return random_item_of_others(rng, lane)
    if lane == UP:
        return Submit(random_batch(rng))
    if lane == DOWN:
        path = tuple(rng.randint(-9, 99) for _ in range(rng.randint(1, 9)))
        return Relay(
            Placed(Key(path, rng.choice("abcd")), rng.randint(1, 10**6), random_batch(rng))
        )
    if rng.random() < 0.5:
        return DurableCounts(
            tuple((group, rng.randint(0, 300), rng.randint(0, 300)) for group in groups)
        )
    return Settled(tuple((group, rng.randint(0, 10**6)) for group in groups))


def random_item_of_others(rng: random.Random, lane: int) -> Item:
    """Of the protocols without a tree, and of `tom`."""
    clock, site, group = rng.randint(1, 10**6), rng.choice("abcd"), rng.choice(("alpha", "beta"))
    seq = rng.randint(1, 10**6)
    if lane == DOWN:
        answers: tuple[Item, ...] = (
            Proposal(1, group, seq, clock),
            Final(1, group, seq, clock, site),
        )
        return rng.choice(answers)
    body = random_batch(rng)
    if lane == CONTROL:
        name = (site, 1, group, seq)
        if rng.random() < 0.5:
            counts = ((group, seq, clock, 3, site),) * rng.randint(0, 3)
            kind = rng.choice((RoundAck, RoundInfo))
            short = (RoundStart(seq), RoundAsk(seq), RoundMissing(seq, (site,)))
            return rng.choice((*short, kind(clock, seq, rng.random() < 0.5, counts)))
        return rng.choice((Body(body), Bid(*name, "d"), BodyRequest((name,) * rng.randint(1, 3))))
    name = (site, 1, group, seq)
    items: tuple[Item, ...] = (
        Offer(body, clock), Timed(body, clock), Null(clock), Wanted(clock, site),
        Numbered(body, clock), Header(clock), Call(clock),
        Token(clock, seq, 3, 2, 1, ((site, seq, seq + 1),) * rng.randint(0, 2)),
        Swap(seq, body, name, site), Count(seq, clock), CountValue(seq, NOBODY, clock),
        Follows(body, name), Counted(body, clock), Reached(clock), ChainMark(seq, clock),
        MarkValue(seq, clock, name),
    )  # fmt: skip
    return rng.choice(items)


def random_batch(rng: random.Random) -> Batch:
    implicit = rng.random() < 0.2
    past = (("alpha", 3, ()), ("@0123456789abcdef", 9, ("a", "b")))
    return batch(
        origin=rng.choice("abcdef"),
        incarnation=rng.randint(1, 3),
        group="@0123456789abcdef" if implicit else rng.choice(("alpha", "beta")),
        seq=rng.randint(1, 10**6),
        count=rng.randint(1, 20),
        body=rng.randbytes(rng.choice((0, 5, 100, 300))),
        past=past[: rng.choice((0, 0, 0, 1, 2))],
        members=("a", "b", "site-3") if implicit else (),
    )
