"""What dissemination puts into frames: keys and answers between two sites, and packets to many.

Keyed, Heard and Passing travel over TCP. A Many is one packet; each peer makes of it the frame that
it would have been sent alone.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from ordercast.model.errors import FrameError
from ordercast.model.groups import Site
from ordercast.wire.checks import check_frame, check_length, check_number, check_site
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import Acks, Data, Item
from ordercast.wire.limits import ITEMS, MEMBERS
from ordercast.wire.plain import is_plain

KEY_BYTES: Final = 32


class Keyed(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="k"
):
    """The sender's stream, its key, and the first number that concerns the receiver."""

    epoch: int
    stream: int
    key: bytes
    number: int


class Heard(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="d"
):
    """The receiver's stream gets through to the sender."""

    stream: int


class Passing(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="p"
):
    """A packet of the origin's that goes along its tree; without one, to see who hears it."""

    epoch: int
    origin: Site
    stream: int
    packet: bytes


Spreading: TypeAlias = Keyed | Heard | Passing


def _keyed(frame: Keyed) -> None:
    check_number(frame.epoch, 1, "epoch")
    check_number(frame.stream, 1, "stream")
    check_number(frame.number, 1, "number")
    if len(frame.key) != KEY_BYTES:
        raise FrameError(f"key has {len(frame.key)} bytes, not {KEY_BYTES}")


def _heard(frame: Heard) -> None:
    check_number(frame.stream, 1, "stream")


def _passing(frame: Passing) -> None:
    check_number(frame.epoch, 1, "epoch")
    check_site(frame.origin, "origin")
    check_number(frame.stream, 1, "stream")


SPREADING_RULES: Final[dict[type, Callable[[Any], None]]] = {
    Keyed: _keyed,
    Heard: _heard,
    Passing: _passing,
}


class Head(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What differs between the peers: a Data's own fields, and which items are for this one (all
    of them when there is no place)."""

    site: Site
    of: int
    number: int
    places: tuple[int, ...] = ()
    acks: Acks = ()


class Many(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    epoch: int
    boot: int
    lane: int
    heads: tuple[Head, ...]
    items: tuple[Item, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Many).decode


def encode_many(many: Many) -> bytes:
    return _encode(many)


def decode_many(packet: bytes) -> Many:
    """FrameError when the packet is anything else; its frames are checked one by one."""
    try:
        many = _decode(packet)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"not a packet: {str(error)[:200]}") from None
    check_number(many.epoch, 1, "epoch")
    check_length(many.heads, 1, MEMBERS, "heads")
    check_length(many.items, 1, ITEMS, "items")
    return many


def frames_for(many: Many, site: Site) -> list[InEpoch]:
    """The frames that a packet holds for this site."""
    found = []
    for head in many.heads:
        if head.site != site:
            continue
        if any(not 0 <= place < len(many.items) for place in head.places):
            raise FrameError(f"places: {head.places} of {len(many.items)} items")
        items = tuple(many.items[place] for place in head.places) if head.places else many.items
        data = Data(many.boot, head.of, many.lane, head.number, items, head.acks)
        if not is_plain(data):
            check_frame(data)
        found.append(InEpoch(many.epoch, data))
    return found
