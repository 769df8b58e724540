"""Frames that keep every rule of the wire, drawn from the codec's types and a live site's state.

Whatever type a frame or an item has, its fields are drawn by their types and names; numbers and
names are often those that the site expects next, so that many get past the first checks.
"""

import random
import types
import typing
from dataclasses import replace
from typing import Any

import msgspec

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import pack_layout
from ordercast.core.order.interface import CLOSING
from ordercast.model.epochs import Entry, EpochRecord
from ordercast.model.errors import FrameError
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.model.messages import (
    CLIENT_BYTES,
    Batch,
    Key,
    Requests,
    Vector,
    pack_payloads,
)
from ordercast.wire.codec import decode_frame, encode_frame
from ordercast.wire.epochs import Feed, InEpoch, SiteFrame
from ordercast.wire.frames import (
    CONTROL,
    LANES,
    Ack,
    ControlItem,
    Data,
    DownItem,
    LightItem,
    Repair,
    Rider,
    UpItem,
)

LARGE = (2**31, 2**40, 2**41, 2**55, LARGEST_NUMBER)
GROUP_FIELDS = ("group", "groups")
SITE_FIELDS = ("site", "sites", "origin", "to", "issuer", "slow", "awaited", "members", "out")
FRAMES: tuple[type, ...] = tuple(kind for kind in typing.get_args(SiteFrame) if kind is not InEpoch)
"""Those beside a link's; nested unions are flat here."""
LANE_ITEMS: tuple[tuple[type, ...], ...] = tuple(
    typing.get_args(items) for items in (UpItem, DownItem, ControlItem)
)
RECORDS: tuple[type, ...] = typing.get_args(EpochRecord)


class Drawer:
    """Draws frames from one peer to one site."""

    def __init__(self, rng: random.Random, victim: Member, peer: str, sites: list[str]) -> None:
        self.rng = rng
        self.victim = victim
        self.peer = peer
        self.sites = sites

    def frame(self) -> SiteFrame:
        """One that passes the codec, there and back."""
        for _ in range(200):
            drawn = self._in_epoch() if self.rng.random() < 0.7 else self._beside()
            try:
                return typing.cast(SiteFrame, decode_frame(encode_frame(drawn)))
            except FrameError:
                continue
        raise AssertionError("no frame keeps the rules")

    # --- of a link --------------------------------------------------------------------------------

    def _in_epoch(self) -> InEpoch:
        rng, victim = self.rng, self.victim
        epochs = [*victim.engines, victim.layout.last_epoch, victim.layout.last_epoch + 1, 1]
        epoch = rng.choice(epochs)
        engine = victim.engines.get(epoch)
        link = None if engine is None else engine.links.get(self.peer)
        boot = 1 if link is None else link.peer_boot
        if rng.random() < 0.01:
            boot += rng.choice((1, 2, 2**40))
        of = rng.choice((victim.boot, victim.boot, victim.boot, 1, 2))
        kind = rng.random()
        if kind < 0.08:
            return InEpoch(epoch, Ack(boot, of, self._acks(link)))
        lane = rng.choice(LANES)
        if kind < 0.14:
            first = self.number()
            return InEpoch(epoch, Repair(boot, of, lane, first, first + rng.randrange(3)))
        items = tuple(self.item(lane) for _ in range(rng.choice((1, 1, 1, 2, 3))))
        acks = self._acks(link) if rng.random() < 0.2 else ()
        rider = None
        if lane != CONTROL and rng.random() < 0.2:
            some = tuple(self.struct(kind) for kind in rng.sample(typing.get_args(LightItem), 2))
            rider = Rider(self._expected(link, CONTROL), some)
        return InEpoch(epoch, Data(boot, of, lane, self._expected(link, lane), items, acks, rider))

    def _expected(self, link: Any, lane: int) -> int:
        got = 0 if link is None else link.incoming[lane].got
        return int(got + 1) if self.rng.random() < 0.9 else self.number()

    def _acks(self, link: Any) -> tuple[tuple[int, int, int], ...]:
        rng, acks = self.rng, []
        for lane in rng.sample(LANES, rng.randint(1, 3)):
            last = 0 if link is None else link.outgoing[lane].last
            got = rng.choice((last, last + 1, rng.randint(0, last + 2), self.number()))
            acks.append((lane, got, rng.choice((got, 0, rng.randint(0, got)))))
        return tuple(acks)

    def item(self, lane: int) -> Any:
        return self.struct(self.rng.choice(LANE_ITEMS[lane]))

    # --- others -----------------------------------------------------------------------------------

    def _beside(self) -> Any:
        return self._feed() if self.rng.random() < 0.15 else self.struct(self.rng.choice(FRAMES))

    def _feed(self) -> Feed:
        """Records, or a layout, that continue what the victim has folded."""
        rng, layout = self.rng, self.victim.layout
        if rng.random() < 0.5:
            some = tuple(
                Entry(max(1, layout.term + rng.randrange(2)), self.struct(rng.choice(RECORDS)))
                for _ in range(rng.randint(1, 3))
            )
            return Feed(layout.count, some, layout.count + 3, (), chain=self.bytes("chain"))
        count = layout.count + rng.randint(0, 2)
        voters = rng.choice((layout.voters, (self.peer,)))
        other = replace(layout, count=count, voters=voters, term=layout.term + rng.randrange(2))
        return Feed(count, (), count, (), pack_layout(other))

    # --- by type ----------------------------------------------------------------------------------

    def struct(self, kind: type) -> Any:
        if kind is Batch:
            return self.batch()
        hints = typing.get_type_hints(kind, include_extras=False)
        fields = msgspec.structs.fields(kind)
        return kind(*(self.value(hints[f.name], f.name) for f in fields))

    def value(self, hint: Any, name: str) -> Any:
        rng = self.rng
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is tuple:
            if len(args) == 2 and args[1] is ...:
                many = rng.choice((0, 1, 1, 2, 3))
                return tuple(self.value(args[0], name) for _ in range(many))
            return tuple(self.value(arg, f"{name}.{at}") for at, arg in enumerate(args))
        if origin in (typing.Union, types.UnionType):
            return self.value(rng.choice(args), name)
        if hint is type(None):
            return None
        if hint is bool:
            return rng.random() < 0.5
        if hint is int:
            return self.number(name)
        if hint is str:
            return self.name(name)
        if hint is bytes:
            return self.bytes(name)
        if hint is Key:
            return self.key()
        return self.struct(hint)

    def number(self, name: str = "") -> int:
        rng, victim = self.rng, self.victim
        if name == "epoch" or name.endswith("counts.0"):
            return rng.choice([*victim.engines, 1, victim.layout.last_epoch])
        if name in ("count", "committed", "match", "before", "last", "upto", "flush"):
            flush = victim.layout.flushing
            known = [victim.layout.count, victim.raft.log.last, victim.raft.committed]
            known += [flush.number] if flush is not None else []
            return max(0, rng.choice(known) + rng.choice((-1, 0, 0, 1)))
        if "term" in name:
            return max(0, victim.raft.term + rng.choice((-1, 0, 0, 0, 1)))
        if name == "incarnation" or name.endswith(".1"):
            return rng.choice((1, 1, 1, 1, 2, CLOSING))
        if rng.random() < 0.05:
            return rng.choice(LARGE) - rng.randrange(2)
        return rng.choice((0, 1, 1, 2, 3, rng.randint(1, 40), rng.randint(1, 2_000)))

    def name(self, field: str) -> str:
        rng = self.rng
        top = field.split(".")[0]
        if top in GROUP_FIELDS or (top in ("counts", "seqs", "lasts") and "0" in field):
            return self.group()
        if top in SITE_FIELDS or top in ("missing", "voters", "back", "vote"):
            return self.site()
        if top in ("protocol", "builder"):
            return rng.choice(("propagation", "ring", "tom", "greedy", "star", "nonsense"))
        if top in ("change", "wanted", "closed"):
            return rng.choice(("c1", "c2", *self.victim.layout.closing))
        return rng.choice((self.site(), self.group(), self.site()))

    def site(self) -> str:
        return self.rng.choice((*self.sites, *self.sites, self.peer, self.peer, "nobody"))

    def group(self) -> str:
        rng = self.rng
        if rng.random() < 0.15:
            return implicit_group(self._list())
        return rng.choice((*self.victim.layout.groups, *self.victim.layout.groups, "nowhere"))

    def _list(self) -> tuple[str, ...]:
        some = self.rng.sample(self.sites, self.rng.randint(1, len(self.sites)))
        return tuple(some) if self.rng.random() < 0.1 else tuple(sorted(some))

    def bytes(self, name: str) -> bytes:
        if name in ("folded", "snapshot"):
            if self.rng.random() < 0.5:
                return b""
            return pack_layout(self.victim.layout) if self.rng.random() < 0.7 else b"\x90"
        if name == "chain":
            return self.rng.choice((self.victim.layout.chain, b"", self.rng.randbytes(16)))
        return self.rng.randbytes(self.rng.randrange(4))

    def key(self) -> Key:
        rng = self.rng
        path = [rng.choice((0, -1, 1, rng.randint(-3, 3_000))) for _ in range(rng.randint(1, 4))]
        return Key(tuple(path), self.site())

    def batch(self) -> Batch:
        rng = self.rng
        members: tuple[str, ...] = self._list() if rng.random() < 0.2 else ()
        group = implicit_group(members) if members else rng.choice(
            (*self.victim.layout.groups, *self.victim.layout.groups, "nowhere")
        )  # fmt: skip
        origin = self.peer if rng.random() < 0.5 else self.site()
        incarnation = rng.choice((1, 1, 1, 1, 1, 2, CLOSING)) if members else 1
        count = rng.choice((1, 1, 1, 2))
        body = pack_payloads([b"forged"] * count)
        if rng.random() < 0.1:
            body = rng.choice((b"", b"\xc1", pack_payloads([b"x"] * 5)))
        past: Vector = ()
        if rng.random() < 0.1:
            past = ((rng.choice(tuple(self.victim.layout.groups)), self.number() or 1, ()),)
        requests = None
        if rng.random() < 0.1:
            requests = Requests(bytes(CLIENT_BYTES), ((self.number() or 1, count),))
        seq = rng.choice((1, 1, 2, 3, rng.randint(1, 30), self.number() or 1))
        return Batch(origin, incarnation, group, seq, count, body, past, members, requests)
