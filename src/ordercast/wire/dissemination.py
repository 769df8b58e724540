"""What dissemination puts into frames: keys and answers between two sites, and packets to many.

Keyed, Heard and TreePacket travel over TCP. A Many is one packet. Each peer makes of it the frame
that it would have been sent alone.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Ordinal, Packed, check_site
from ordercast.model.groups import Site
from ordercast.model.limits import ITEMS, MEMBERS
from ordercast.wire.complaint import complaint
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import Data, FewAcks, Item, Lane

KEY_BYTES: Final = 32


class Keyed(Packed, frozen=True, tag="k"):
    """The sender's stream, its key, and the first number that concerns the receiver."""

    epoch: Ordinal
    stream: Ordinal
    key: Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    number: Ordinal


class Heard(Packed, frozen=True, tag="d"):
    """The receiver's stream gets through to the sender."""

    stream: Ordinal


class TreePacket(Packed, frozen=True, tag="p"):
    """A packet of the origin's that goes along its tree; without one, to see who hears it."""

    epoch: Ordinal
    origin: Site
    stream: Ordinal
    packet: bytes

    def check(self) -> None:
        check_site(self.origin, "origin")


DisseminationFrame: TypeAlias = Keyed | Heard | TreePacket


class Head(Packed, frozen=True):
    """What differs between the peers: a Data's own fields, and which items are for this one (all
    of them when there is no place)."""

    site: Site
    of: Natural
    number: Ordinal
    places: Annotated[tuple[int, ...], Meta(max_length=ITEMS)] = ()
    acks: FewAcks = ()


class Many(Packed, frozen=True):
    """Frames for several peers, which share their items."""

    epoch: Ordinal
    boot: Ordinal
    lane: Lane
    heads: Annotated[tuple[Head, ...], Meta(min_length=1, max_length=MEMBERS)]
    items: Annotated[tuple[Item, ...], Meta(min_length=1, max_length=ITEMS)]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Many).decode


def encode_many(many: Many) -> bytes:
    return _encode(many)


def decode_many(packet: bytes) -> Many:
    """The packet, or FrameError. Names and relations are checked in the frames made of it."""
    try:
        return _decode(packet)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(complaint(error, packet, Many, "not a packet")) from None


def frames_for(many: Many, site: Site) -> list[InEpoch]:
    """The frames that a packet holds for this site; FrameError if one breaks a rule."""
    found = []
    for head in many.heads:
        if head.site != site:
            continue
        if any(not 0 <= place < len(many.items) for place in head.places):
            raise FrameError(f"places: {head.places} of {len(many.items):,} items")
        items = tuple(many.items[place] for place in head.places) if head.places else many.items
        data = Data(many.boot, head.of, many.lane, head.number, items, head.acks)
        data.check()
        found.append(InEpoch(many.epoch, data))
    return found
