"""The core's members over real transports, without stores: the smallest driver for its duties.

For tests of links: what sites agree on in the end must not depend on what happened to the
connections between them, nor on who came and went meanwhile.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from zlib import crc32

from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import EpochOpened
from ordercast.forest.forest import Forest
from ordercast.forest.star import build_star
from ordercast.model.epochs import Edit
from ordercast.model.errors import UnknownGroup, WindowFull
from ordercast.model.groups import GroupTable
from ordercast.model.messages import DeliveredBatch
from ordercast.model.options import NEVER, SECOND, Limits, Options
from ordercast.net.link.connection import LinkLimits, LinkTimes
from ordercast.net.link.hello import FOUNDING, Identity
from ordercast.net.link.tls import TlsConfig
from ordercast.net.link.transport import Transport
from ordercast.net.site.peer_list import PeerList
from ordercast.wire.codec import WireFrame
from ordercast.wire.epochs import SiteFrame
from support.network.links import CLUSTER, QUICK

TIMES = replace(QUICK, suspect=SECOND, handshake=SECOND)
GROUP = "g"


class DrivenSite:
    """A member, its transport, and everything that was delivered."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        addresses: Mapping[str, tuple[str, int]],
        *,
        tls: TlsConfig | None = None,
        times: LinkTimes = TIMES,
    ) -> None:
        self.name = name
        options = Options(deliver="agreed", limits=Limits(window_messages=200))
        store = crc32(name.encode()) + 1
        self.member = Member(name, layout, options, star, store=store, excluding=False)
        self.transport = Transport(
            name, Identity(CLUSTER, terms={FOUNDING: layout.founding}), addresses, tls,
            on_frames=self._frames, on_connected=self._connected, on_lost=self._lost,
            on_congested=self._congested, times=times, limits=LinkLimits(),
        )  # fmt: skip
        self.delivered: list[tuple[str, int, bytes]] = []  # origin, seq, payload
        self.opened: list[int] = []  # epochs
        self.outcomes: dict[str, str] = {}  # of changes asked for here
        self.sent = 0
        self.losses = 0
        self._layout = layout
        self._meeting = PeerList(name, self.transport, addresses, layout)
        self._due = False
        self._alarm: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        await self.transport.start()
        self.member.start(time.monotonic_ns())
        self._soon()

    def offer(self, payload: bytes) -> bool:
        """Send it, if there is room, and this site has been told of the group."""
        try:
            self.member.submit(time.monotonic_ns(), GROUP, [payload])
        except (WindowFull, UnknownGroup):
            return False
        self.sent += 1
        self._soon()
        return True

    def ask(self, change: str, *edits: Edit) -> None:
        self.member.ask(time.monotonic_ns(), change, edits)
        self._soon()

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._meeting.close()
        self._due = True  # nothing more
        await self.transport.close()

    def _frames(self, peer: str, frames: list[WireFrame]) -> None:
        now = time.monotonic_ns()
        for frame in frames:
            assert isinstance(frame, SiteFrame)
            self.member.receive(now, peer, frame)
        self._soon()

    def _connected(self, peer: str) -> None:
        self.member.connected(time.monotonic_ns(), peer)
        self._soon()

    def _lost(self, peer: str) -> None:
        self.losses += 1
        self.member.congest(time.monotonic_ns(), peer, congested=False)
        self._soon()

    def _congested(self, peer: str, congested: bool) -> None:
        self.member.congest(time.monotonic_ns(), peer, congested=congested)
        self._soon()

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _ring(self) -> None:
        self.member.alarm(time.monotonic_ns())
        self._drain()

    def _drain(self) -> None:
        self._due = False
        box = self.member.drain()
        self._follow()  # before anything is sent to a site that is new
        sends: dict[str, list[WireFrame]] = {}
        for peer, frame in (*box.send, *box.then_send):
            sends.setdefault(peer, []).append(frame)
        for peer, frames in sends.items():
            self.transport.send(peer, frames)
        self.member.stored(box.counted)
        for batch in box.deliver:
            if isinstance(batch, EpochOpened):
                self.opened.append(batch.epoch)
                continue
            assert isinstance(batch, DeliveredBatch)  # nobody is excluded
            for delivery in batch.deliveries():
                self.delivered.append((delivery.origin, delivery.seq, delivery.payload))
        self.outcomes.update(box.outcomes)
        if self._alarm is not None:
            self._alarm.cancel()
        alarm = min(box.epochs_alarm, box.voters_alarm)
        if alarm < NEVER:
            wait = max(alarm - time.monotonic_ns(), 0) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(wait, self._ring)

    def _follow(self) -> None:
        before, self._layout = self._layout, self.member.layout
        if before is not self._layout:
            self._meeting.follow(self._layout)
            if before.founding != self._layout.founding:
                self.transport.retell({FOUNDING: self._layout.founding}, ())


def star(table: GroupTable, _builder: str, _protocol: str) -> Forest:
    return build_star(table)


def one_group_of(names: Sequence[str]) -> Layout:
    """All in one group, ordered by the first; up to three vote."""
    groups = {GROUP: tuple(names)}
    voters = sorted(names)[:3]
    return first_layout(names, voters, groups, "star", "propagation", star, founding="driven")


def wrong_deliveries(
    stayed: Mapping[str, DrivenSite], visitors: Sequence[DrivenSite] = ()
) -> list[str]:
    """What a reliable, ordered multicast to one group of all would not have done."""
    wrong = []
    logs = {name: site.delivered for name, site in stayed.items()}
    first = next(iter(logs.values()))
    for name, log in logs.items():
        if log != first:
            wrong.append(f"{name} delivered in another order, or other messages")
    wrong += [
        f"{visitor.name} delivered no stretch of what the others did"
        for visitor in visitors
        if not visitor.delivered or not is_stretch(visitor.delivered, first)
    ]
    for origin, site in {**stayed, **{visitor.name: visitor for visitor in visitors}}.items():
        seqs = [seq for source, seq, _ in first if source == origin]
        if seqs != list(range(1, site.sent + 1)):
            wrong.append(f"of {site.sent} messages of {origin}, {len(seqs)} arrived, or reordered")
        for source, seq, payload in first:
            if source == origin and not payload.startswith(f"{origin}/{seq}/".encode()):
                wrong.append(f"message {seq} of {origin} arrived as another")
                break
    return wrong


def is_stretch(
    part: Sequence[tuple[str, int, bytes]], whole: Sequence[tuple[str, int, bytes]]
) -> bool:
    if part[0] not in whole:
        return False
    start = whole.index(part[0])
    return list(whole[start : start + len(part)]) == list(part)
