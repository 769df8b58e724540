"""The bytes of each kind of frame stay as they are, and so does the verdict on each variant."""

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from ordercast.model.epochs import Edit, EpochRecord
from ordercast.wire.codec import WireFrame, decode_frame, encode_frame
from ordercast.wire.dissemination import decode_many, encode_many
from ordercast.wire.frames import Item, Relay
from ordercast.wire.items import LaneItem
from wire import every_kind
from wire.every_kind import FRAMES, MANY, is_right, is_right_packet, kept, variants
from wire.mutations import Place, at, places, sealed, with_value

KEPT = kept()


def test_there_is_one_of_every_kind() -> None:
    assert {type(frame) for frame in FRAMES} == set(get_args(WireFrame))
    assert {type(item) for _, item in every_kind.ITEMS} == set(get_args(Item))
    assert {type(record) for record in every_kind.RECORDS} == set(get_args(EpochRecord))
    assert {type(edit) for edit in every_kind.EDITS} == set(get_args(Edit))
    assert len(KEPT) == len(FRAMES) + 1


@pytest.mark.parametrize(
    ("frame", "body"),
    [(frame, body) for frame, (body, _) in zip(FRAMES, KEPT, strict=False)],
    ids=lambda value: type(value).__name__,
)
def test_the_bytes_of_each_kind_of_frame_stay_as_they_are(frame: WireFrame, body: bytes) -> None:
    assert encode_frame(frame) == sealed(body)
    assert decode_frame(sealed(body)) == frame


def test_the_bytes_of_a_packet_to_many_stay_as_they_are() -> None:
    assert encode_many(MANY) == KEPT[-1][0]
    assert decode_many(KEPT[-1][0]) == MANY


@pytest.mark.parametrize("number", range(len(KEPT)))
def test_the_rules_are_as_strict_as_ever(number: int) -> None:
    body, verdicts = KEPT[number]
    right: Callable[[bytes], bool] = is_right if number < len(FRAMES) else is_right_packet
    wrong = [
        f"{msgspec.msgpack.decode(variant)} was {'right' if before == '1' else 'refused'}"
        for variant, before in zip(variants(body), verdicts, strict=True)
        if right(variant) != (before == "1")
    ]
    assert wrong == []


# --- what an item says of itself ------------------------------------------------------------------

WEIGHTS = {
    "Submit": (198, 652, 324), "Offer": (214,), "Timed": (214,), "Null": (192,), "Wanted": (192,),
    "Numbered": (214,), "Header": (192,), "Token": (288,), "Call": (192,), "Swap": (454,),
    "Count": (192,), "CountValue": (192, 192), "ChainMark": (192,), "MarkValue": (192,),
    "Follows": (454, 454), "Counted": (454,),
    "Reached": (192,), "Relay": (230, 668), "Proposal": (192,), "Final": (192,),
    "DurableCounts": (256,), "Settled": (256,), "Body": (198,), "Bid": (192,),
    "BodyRequest": (384,), "RoundStart": (192,), "RoundAck": (416,), "RoundInfo": (416,),
    "RoundAsk": (192,), "RoundMissing": (196,),
}  # fmt: skip


def test_every_kind_of_item_weighs_what_it_always_did() -> None:
    found: dict[str, tuple[int, ...]] = {}
    for _, item in every_kind.ITEMS:
        name = type(item).__name__
        found[name] = (*found.get(name, ()), item.weight())
    assert found == WEIGHTS


def test_a_weight_is_about_what_an_item_takes_in_a_frame() -> None:
    for _, item in every_kind.ITEMS:
        assert len(msgspec.msgpack.encode(item)) <= item.weight()


def test_a_kind_of_item_without_a_weight_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="Odd does not say what it weighs"):

        class Odd(LaneItem, frozen=True, tag="odd"):
            number: int


def test_an_item_carries_the_batch_that_stands_in_it_and_no_other() -> None:
    for _, item in every_kind.ITEMS:
        batch = item.placed.batch if isinstance(item, Relay) else getattr(item, "batch", None)
        assert item.carried() is batch


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_no_text_of_a_frame_is_left_unchecked(number: int) -> None:
    """A new kind of frame or item that has a name, and does not check it, fails here."""
    value = msgspec.msgpack.decode(KEPT[number][0])
    for place in places(value):
        if isinstance(at(value, place), str) and not of_counts(value, place):
            other = with_value(value, place, "no\nname")
            assert not is_right(msgspec.msgpack.encode(other)), f"{place} of {value}"


def of_counts(value: Any, place: Place) -> bool:
    """Whether it is a member in `Counts`, (epoch, group, number, members): those never were."""
    return place[-2:-1] == (3,) and isinstance(at(value, place[:-2])[0], int)
