"""Right frames for the tests of the codec, drawn by their types, by Hypothesis or by a seed.

A new kind of frame or item is drawn as it is. Only what no type expresses is made here by hand: the
items of a lane, a list of sites under its own name, requests that fill their batch.
"""

import random
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from ordercast.model.epochs import Grant, RevokeCertificate, UseGrants, Withdraw
from ordercast.model.errors import FrameError
from ordercast.model.fields import Packed
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import BATCH_MESSAGES, LARGEST_NUMBER
from ordercast.model.messages import CLIENT_BYTES, Batch, Key, Placed, Requests, by_id, producer_id
from ordercast.wire.client_marks import ListMarksTold, ListMarksWanted
from ordercast.wire.codec import WireFrame
from ordercast.wire.copies import CopyTold, CopyWanted
from ordercast.wire.epochs import ClientChange, InEpoch
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    LANE_ITEMS,
    LANES,
    UP,
    Ack,
    Acks,
    Data,
    Frame,
    Relay,
    Repair,
    Rider,
    Submit,
)
from ordercast.wire.ring import Token

IMPLICIT = "@0123456789abcdef"
NAMES = ("a", "b", "site-1", "x.y_z", "9" * 64)  # of sites, groups, changes, features
TEXTS = ("", "change 1", "~ !" * 80)
SUBJECTS = ("socket", "site:*", "client:a")
ACTS = ("read", "send:a*b", "admin:x.y_z")
COPIED = (b"", producer_id(7), by_id("site a", "x"))
SIZES = (0, 1, 5, 100, 300)
TRIES = 1_000
Given = dict[str, Any]


class Drawer:
    """Draws values that keep all rules."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def frame(self) -> Frame:
        """A frame of a link, mostly with data."""
        found: Frame = self.struct(self.rng.choice([Data] * 8 + [Ack, Repair]))
        return found

    def struct(self, kind: Any) -> Any:
        fields, decoder = described(kind)
        for _ in range(TRIES):
            given = MADE[kind](self) if kind in MADE else {}
            values = {
                field.name: given[field.name] if field.name in given else self.value(field.type)
                for field in fields
            }
            try:
                drawn = decoder.decode(msgspec.msgpack.encode(kind(**values)))
                if isinstance(drawn, Packed):
                    drawn.check()
            except (FrameError, msgspec.ValidationError):
                continue
            return drawn
        raise AssertionError(f"no {kind.__name__} keeps the rules")

    def value(self, told: inspect.Type) -> Any:
        rng = self.rng
        match told:
            case inspect.IntType(ge=None):
                return rng.choice((0, -1, 7, -(2**63), 2**64 - 1))
            case inspect.IntType():
                return self.number(told.ge or 0, LARGEST_NUMBER if told.le is None else told.le)
            case inspect.StrType():
                some = rng.random()
                return IMPLICIT if some > 0.95 else rng.choice(TEXTS if some > 0.9 else NAMES)
            case inspect.BytesType():
                sizes = {max(size, told.min_length or 0) for size in SIZES}
                most = told.max_length or max(SIZES)
                return rng.randbytes(rng.choice(sorted({min(size, most) for size in sizes})))
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.NoneType():
                return None
            case inspect.TupleType():
                return tuple(map(self.value, told.item_types))
            case inspect.VarTupleType():
                many = max(rng.choice((1, 0, 1, 2, 3)), told.min_length or 0)
                return tuple(self.value(told.item_type) for _ in range(many))
            case inspect.UnionType():
                return self.value(rng.choice(told.types))
            case inspect.NamedTupleType() | inspect.StructType():
                return self.struct(told.cls)
        raise AssertionError(f"{told} is not of the wire")

    def number(self, least: int, most: int) -> int:
        edges = least, least + 1, least + 2, 300, 70_000, most
        return min(most, self.rng.choice((*edges, self.rng.randint(least, least + 10**6))))

    # --- what types do not express ----------------------------------------------------------------

    def data(self) -> Given:
        lane = self.rng.choice(LANES)
        kinds = KINDS_OF_LANE[lane]
        items = tuple(
            self.struct(self.rng.choice(kinds)) for _ in range(self.rng.choice((1, 1, 2, 4)))
        )
        rides = lane != CONTROL and self.rng.random() > 0.7
        rider = self.struct(Rider) if rides else None
        return {"lane": lane, "items": items, "acks": self.acks(), "rider": rider}

    def acks(self) -> Acks:
        lanes = self.rng.sample(LANES, self.rng.randint(0, 3))
        return tuple((lane, *self.two_numbers(0)[::-1]) for lane in lanes)

    def two_numbers(self, least: int) -> tuple[int, int]:
        first, last = sorted(self.number(least, LARGEST_NUMBER) for _ in range(2))
        return first, last

    def destination(self) -> tuple[str, tuple[str, ...]]:
        if self.rng.random() < 0.8:
            return self.rng.choice(NAMES), ()
        return IMPLICIT, NAMES[: self.rng.randint(1, len(NAMES))]

    def batch(self) -> Given:
        (group, members), count = self.destination(), self.number(1, BATCH_MESSAGES)
        past = tuple(
            (name, self.number(1, LARGEST_NUMBER), sites)
            for name, sites in (self.destination() for _ in range(self.rng.choice((0, 0, 1, 3))))
        )
        requests = self.requests(count) if self.rng.random() > 0.7 else None
        return {
            "incarnation": self.number(0 if members else 1, LARGEST_NUMBER),
            "group": group,
            "count": count,
            "past": past,
            "members": members,
            "requests": requests,
        }

    def requests(self, messages: int) -> Requests:
        cuts = sorted(self.rng.sample(range(1, messages), min(messages - 1, 2)))
        counts = [b - a for a, b in pairwise([0, *cuts, messages])]
        first = self.number(1, LARGEST_NUMBER - len(counts))
        return Requests(self.rng.randbytes(CLIENT_BYTES), tuple(enumerate(counts, first)))

    def token(self) -> Given:
        holes = range(self.rng.randint(0, 3))
        return {"missing": tuple((self.rng.choice(NAMES), *self.two_numbers(1)) for _ in holes)}

    def list_of_sites(self) -> Given:
        members = tuple(sorted(NAMES[: self.rng.randint(1, len(NAMES))]))
        return {"group": implicit_group(members), "members": members}

    def grant(self) -> Given:
        acts = tuple(self.rng.sample(ACTS, self.rng.randint(1, 3)))
        return {"subject": self.rng.choice(SUBJECTS), "acts": acts}

    def grants(self) -> Given:
        lines = (self.grant() for _ in range(self.rng.randint(0, 3)))
        return {"lines": tuple((line["subject"], line["acts"]) for line in lines)}


MADE: Mapping[type, Callable[[Drawer], Given]] = {
    Data: Drawer.data,
    Ack: lambda draw: {"acks": draw.acks()},
    InEpoch: lambda draw: {"frame": draw.frame()},
    Batch: Drawer.batch,
    Token: Drawer.token,
    ListMarksWanted: Drawer.list_of_sites,
    ListMarksTold: lambda _: {"group": IMPLICIT},
    CopyWanted: lambda draw: {"client": draw.rng.choice(COPIED)},
    CopyTold: lambda draw: {"client": draw.rng.choice(COPIED)},
    Grant: Drawer.grant,
    Withdraw: lambda draw: draw.rng.choice(({"subject": "site:*", "acts": ()}, draw.grant())),
    UseGrants: Drawer.grants,
    RevokeCertificate: lambda _: {"subject": "client:a", "fingerprint": "0f" * 32},
    ClientChange: lambda draw: {"subject": draw.rng.choice(SUBJECTS)},
}
KINDS_OF_LANE = [sorted(kinds, key=lambda kind: kind.__name__) for kinds in LANE_ITEMS]


@cache
def described(kind: Any) -> tuple[tuple[Any, ...], msgspec.msgpack.Decoder[Any]]:
    told = inspect.type_info(kind)
    assert isinstance(told, inspect.StructType | inspect.NamedTupleType)
    return told.fields, msgspec.msgpack.Decoder(kind)


def random_frame(rng: random.Random) -> Frame:
    """A frame of a link."""
    return Drawer(rng).frame()


def random_site_frame(rng: random.Random) -> WireFrame:
    """A frame of any kind that is not a link's alone."""
    frame: WireFrame = Drawer(rng).struct(rng.choice(SITE_KINDS))
    return frame


SITE_KINDS = [kind for kind in get_args(WireFrame) if kind not in get_args(Frame)]
chances = st.randoms(use_true_random=False)
frames: st.SearchStrategy[Frame] = chances.map(random_frame)


def of_kind(kind: type[WireFrame]) -> st.SearchStrategy[WireFrame]:
    return chances.map(lambda rng: Drawer(rng).struct(kind))


KINDS = {kind.__name__: of_kind(kind) for kind in SITE_KINDS}
any_frames: st.SearchStrategy[WireFrame] = st.one_of(frames, chances.map(random_site_frame))


# --- plain examples -------------------------------------------------------------------------------


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
) -> Batch:
    return Batch(origin, incarnation, group, seq, count, body, past, members)


def submit_frame(item: Batch, *, acks: Acks = ()) -> Data:
    return Data(1, 1, UP, 5, (Submit(item),), acks)


def relay_frame(
    item: Batch, *, path: tuple[int, ...] = (0, 5, -2, 1), site: str = "d", number: int = 99
) -> Data:
    return Data(1, 1, DOWN, 42, (Relay(Placed(Key(path, site), number, item)),), ((UP, 3, 2),))
