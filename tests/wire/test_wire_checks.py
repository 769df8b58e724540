"""What a frame must mean: each rule refuses by name what it is for."""

import msgspec
import pytest

from ordercast.model.errors import FrameError
from ordercast.model.fields import KNOWN_NAMES
from ordercast.model.limits import LARGEST_NUMBER, NAMES_KEPT
from ordercast.model.messages import Key, Placed
from ordercast.wire.codec import decode_frame, encode_frame
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    UP,
    Ack,
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
from wire.samples import batch, relay_frame, submit_frame

SUBMIT = Submit(batch())
RELAY = Relay(Placed(Key((0, 1), "d"), 1, batch()))
REPORT = DurableCounts((("alpha", 3, 2),))
SETTLED = Settled((("alpha", 3),))
OFFERS = (Offer(batch(), 0), Timed(batch(), 7), Null(7), Wanted(7, "d"))
ANSWERS = (Proposal(1, "alpha", 3, 7), Final(1, "alpha", 3, 7, "d"))
TOM = (Body(batch()), Bid("a", 1, "alpha", 3, "d"), BodyRequest((("a", 1, "alpha", 3),)))
ROUNDS = (
    RoundStart(1),
    RoundAsk(0),
    RoundAck(1, 0, True, (("alpha", 3, 2, 1, "a"),)),
    RoundInfo(1, 0, False, ()),
    RoundMissing(1, ("a",)),
)
NAME = ("a", 1, "alpha", 3)
SWAPS = (
    Swap(1, batch(), NAME, "d"),
    Count(1, 2),
    CountValue(1, NOBODY, 7),
    ChainMark(1, 2),
    MarkValue(1, 2, NAME),
    Follows(batch(), NAME),
    Counted(batch(), 7),
    Reached(7),
)
IMPLICIT = "@0123456789abcdef"


def with_rider(rider: Rider) -> Data:
    return msgspec.structs.replace(relay_frame(batch()), rider=rider)


def round_frame(group: str, logged: int, settled: int, members: int, slowest: str) -> Data:
    entry = (group, logged, settled, members, slowest)
    return Data(1, 1, CONTROL, 1, (RoundAck(1, 0, False, (entry,)),))


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (Ack(0, 1, ()), "boot is 0"),
        (Ack(1, -1, ()), "of is -1"),
        (Ack(1, 1, ((3, 1, 1),)), r"acks\[0\]\[0\] is 3: expected `int` <= 2"),
        (Ack(1, 1, ((0, 1, 2),)), "acks: got is 1 and done 2"),
        (Ack(1, 1, ((0, 1, -1),)), r"acks\[0\]\[2\] is -1"),
        (Repair(1, 1, 3, 1, 1), "lane is 3"),
        (Repair(1, 1, 0, 0, 1), "first is 0"),
        (Repair(1, 1, 0, 5, 4), "last is 4"),
        (Data(0, 1, UP, 1, (SUBMIT,)), "boot is 0"),
        (Data(1, -1, UP, 1, (SUBMIT,)), "of is -1"),
        (Data(1, 1, -1, 1, (SUBMIT,)), "lane is -1"),
        (Data(1, 1, UP, 0, (SUBMIT,)), "number is 0"),
        (Data(1, 1, UP, LARGEST_NUMBER + 1, (SUBMIT,)), "number is 4611686018427387905"),
        (Data(1, 1, UP, 1, ()), "items: expected `array` of length >= 1"),
        (Data(1, 1, UP, 1, (SUBMIT,), ((0, 1, -1),)), r"acks\[0\]\[2\] is -1"),
        (Data(1, 1, UP, 1, (SUBMIT,), ((0, 1, 2),)), "acks: got is 1 and done 2"),
        (submit_frame(batch(origin="")), r"items\[0\].batch.origin: '' is not a site's name"),
        (submit_frame(batch(origin="-a")), "'-a' is not a site's name"),
        (submit_frame(batch(origin="a\n")), r"'a\\n' is not a site's name"),
        (submit_frame(batch(group="é")), "'é' is not a group's name"),
        (submit_frame(batch(group=IMPLICIT)), "is not a group's name"),
        (submit_frame(batch(members=("a", "b"))), "'alpha' is not implicit"),
        (submit_frame(batch(group=IMPLICIT[:-1], members=("a",))), "is not implicit"),
        (submit_frame(batch(group=IMPLICIT + "0", members=("a",))), "is not implicit"),
        (submit_frame(batch(group=IMPLICIT.upper(), members=("a",))), "is not implicit"),
        (submit_frame(batch(group=IMPLICIT, members=("a", " "))), "' ' is not a site's name"),
        (submit_frame(batch(incarnation=0)), "incarnation is 0"),
        (submit_frame(batch(seq=0)), "seq is 0"),
        (submit_frame(batch(seq=2**64 - 1)), "seq is 18446744073709551615"),
        (submit_frame(batch(count=0)), "count is 0"),
        (submit_frame(batch(past=(("alpha", 0, ()),))), r"past\[0\]\[1\] is 0"),
        (submit_frame(batch(past=(("", 1, ()),))), "'' is not a group's name"),
        (submit_frame(batch(past=(("alpha", 1, ("a",)),))), "'alpha' is not implicit"),
        (submit_frame(batch(past=((IMPLICIT, 1, ()),))), "is not a group's name"),
        (relay_frame(batch(), number=0), "number is 0"),
        (relay_frame(batch(), path=()), "path has 0 entries"),
        (relay_frame(batch(), site="a b"), r"items\[0\].key.site: 'a b' is not a site's name"),
        (relay_frame(batch(seq=-1)), "seq is -1"),
        (Data(1, 1, UP, 1, (Offer(batch(), -1),)), r"items\[0\].clock is -1"),
        (Data(1, 1, UP, 1, (Timed(batch(seq=0), 1),)), "seq is 0"),
        (Data(1, 1, UP, 1, (Null(0),)), "clock is 0"),
        (Data(1, 1, UP, 1, (Wanted(1, "a b"),)), "'a b' is not a site's name"),
        (Data(1, 1, UP, 1, (Swap(0, batch(), NAME, "d"),)), "number is 0"),
        (Data(1, 1, UP, 1, (Swap(1, batch(seq=0), NAME, "d"),)), "seq is 0"),
        (Data(1, 1, UP, 1, (Swap(1, batch(), NOBODY, "d"),)), "last.origin: '' is not"),
        (Data(1, 1, UP, 1, (Swap(1, batch(), NAME, "d e"),)), "issuer: 'd e' is not"),
        (Data(1, 1, UP, 1, (Count(0, 1),)), "number is 0"),
        (Data(1, 1, UP, 1, (Count(1, 0),)), "count is 0"),
        (Data(1, 1, UP, 1, (CountValue(0, NAME, 1),)), "number is 0"),
        (Data(1, 1, UP, 1, (CountValue(1, ("a", 1, "alpha", 0), 1),)), "name.seq is 0"),
        (Data(1, 1, UP, 1, (CountValue(1, NAME, 0),)), "value is 0"),
        (Data(1, 1, UP, 1, (ChainMark(0, 1),)), "number is 0"),
        (Data(1, 1, UP, 1, (ChainMark(1, 0),)), "mark is 0"),
        (Data(1, 1, UP, 1, (MarkValue(1, 0, NAME),)), "mark is 0"),
        (Data(1, 1, UP, 1, (MarkValue(1, 1, NOBODY),)), "last.origin: '' is not"),
        (Data(1, 1, UP, 1, (Follows(batch(seq=0), NAME),)), "seq is 0"),
        (Data(1, 1, UP, 1, (Follows(batch(), ("a", -1, "alpha", 1)),)), r"after\[1\] is -1"),
        (Data(1, 1, UP, 1, (Counted(batch(), 0),)), "place is 0"),
        (Data(1, 1, UP, 1, (Reached(0),)), "place is 0"),
        (Data(1, 1, DOWN, 1, (Proposal(-1, "alpha", 1, 1),)), "incarnation is -1"),
        (Data(1, 1, DOWN, 1, (Proposal(1, "@", 1, 1),)), "'@' is not a group's name"),
        (Data(1, 1, DOWN, 1, (Proposal(1, "alpha", 0, 1),)), "seq is 0"),
        (Data(1, 1, DOWN, 1, (Final(1, "alpha", 1, 0, "a"),)), "clock is 0"),
        (Data(1, 1, DOWN, 1, (Final(1, "alpha", 1, 1, ""),)), "'' is not a site's name"),
        (Data(1, 1, CONTROL, 1, (DurableCounts((("alpha", -1, 0),)),)), r"counts\[0\]\[1\] is -1"),
        (Data(1, 1, CONTROL, 1, (DurableCounts((("alpha", 0, -1),)),)), r"counts\[0\]\[2\] is -1"),
        (Data(1, 1, CONTROL, 1, (DurableCounts((("@", 1, 1),)),)), "'@' is not a group's name"),
        (
            Data(1, 1, CONTROL, 1, (DurableCounts(((IMPLICIT + "\n", 1, 1),)),)),
            "is not a group's name",
        ),
        (Data(1, 1, CONTROL, 1, (Body(batch(seq=0)),)), "seq is 0"),
        (Data(1, 1, CONTROL, 1, (Bid("a b", 1, "alpha", 1, "d"),)), "'a b' is not a site's name"),
        (Data(1, 1, CONTROL, 1, (Bid("a", -1, "alpha", 1, "d"),)), "incarnation is -1"),
        (Data(1, 1, CONTROL, 1, (Bid("a", 1, "@", 1, "d"),)), "'@' is not a group's name"),
        (Data(1, 1, CONTROL, 1, (Bid("a", 1, "alpha", 0, "d"),)), "seq is 0"),
        (Data(1, 1, CONTROL, 1, (Bid("a", 1, "alpha", 1, ""),)), "to: '' is not a site's name"),
        (Data(1, 1, CONTROL, 1, (BodyRequest(()),)), "wanted: expected `array` of length >= 1"),
        (Data(1, 1, CONTROL, 1, (BodyRequest((("a", 1, "alpha", 0),)),)), "wanted.seq is 0"),
        (Data(1, 1, CONTROL, 1, (Settled((("alpha", -1),)),)), r"seqs\[0\]\[1\] is -1"),
        (Data(1, 1, CONTROL, 1, (RoundStart(0),)), "round is 0"),
        (Data(1, 1, CONTROL, 1, (RoundAsk(-1),)), "round is -1"),
        (Data(1, 1, CONTROL, 1, (RoundAck(0, 0, False, ()),)), "round is 0"),
        (Data(1, 1, CONTROL, 1, (RoundInfo(1, -1, False, ()),)), "base is -1"),
        (round_frame("@", 1, 1, 1, "a"), "'@' is not a group's name"),
        (round_frame("alpha", -1, 1, 1, "a"), r"counts\[0\]\[1\] is -1"),
        (round_frame("alpha", 1, -1, 1, "a"), r"counts\[0\]\[2\] is -1"),
        (round_frame("alpha", 1, 1, 0, "a"), r"counts\[0\]\[3\] is 0"),
        (round_frame("alpha", 1, 1, 1, ""), "'' is not a site's name"),
        (Data(1, 1, CONTROL, 1, (RoundMissing(0, ()),)), "round is 0"),
        (Data(1, 1, CONTROL, 1, (RoundMissing(1, ("a b",)),)), "'a b' is not a site's name"),
        (Data(1, 1, UP, 1, (RoundStart(1),)), "a RoundStart does not go on lane 0"),
        (Data(1, 1, CONTROL, 1, (REPORT, Settled((("@", 1),)))), r"items\[1\].seqs: '@' is not"),
        (with_rider(Rider(0, (RoundStart(1),))), "rider.number is 0"),
        (with_rider(Rider(1, ())), "rider.items: expected `array` of length >= 1"),
        (
            with_rider(Rider(1, (RoundStart(1),) * 17)),
            "rider.items: .* of length <= 16",
        ),
        (with_rider(Rider(1, (RoundStart(0),))), r"rider.items\[0\].round is 0"),
        (
            with_rider(Rider(1, (REPORT, Body(batch())))),  # type: ignore[arg-type]
            r"rider.items\[1\].tag is 'b'",
        ),
        (
            with_rider(Rider(1, (SUBMIT,))),  # type: ignore[arg-type]
            r"rider.items\[0\].tag is 's'",
        ),
        (
            Data(1, 1, CONTROL, 1, (REPORT,), (), Rider(2, (REPORT,))),
            "rider: in a frame of lane 2, its own",
        ),
    ],
)
def test_each_rule_names_what_is_wrong(frame: Frame, complaint: str) -> None:
    with pytest.raises(FrameError, match=complaint):
        decode_frame(encode_frame(frame))


@pytest.mark.parametrize(
    ("lane", "right"),
    [
        (UP, (SUBMIT, *OFFERS, *SWAPS)),
        (DOWN, (RELAY, *ANSWERS)),
        (CONTROL, (REPORT, SETTLED, *TOM, *ROUNDS)),
    ],
)
@pytest.mark.parametrize(
    "item",
    [SUBMIT, RELAY, REPORT, SETTLED, *OFFERS, *ANSWERS, *TOM, *SWAPS, *ROUNDS],
    ids=lambda i: type(i).__name__,
)
def test_items_travel_on_their_own_lane_only(
    lane: int, right: tuple[Item, ...], item: Item
) -> None:
    frame = Data(1, 1, lane, 1, (*right, item))
    if item in right:
        assert decode_frame(encode_frame(frame)) == frame
    else:
        with pytest.raises(FrameError, match=rf"a {type(item).__name__} does not go on lane"):
            decode_frame(encode_frame(frame))


def test_a_long_wrong_name_is_not_repeated_in_full() -> None:
    with pytest.raises(FrameError) as caught:
        decode_frame(encode_frame(submit_frame(batch(origin="\n" * 100_000))))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_the_names_kept_are_bounded() -> None:
    for number in range(NAMES_KEPT + 10):
        submit_frame(batch(origin=f"passing-{number}")).check()
    assert len(KNOWN_NAMES) <= NAMES_KEPT
    assert "passing-1" not in KNOWN_NAMES
