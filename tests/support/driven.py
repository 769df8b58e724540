"""The core's sites over real transports, without stores: the smallest driver that does its duties.

For tests of links: what two sites agree on in the end must not depend on what happened to the
connections between them.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

from ordercast.core.site import Site
from ordercast.core.structure import Structure
from ordercast.forest.star import build_star
from ordercast.model.errors import WindowFull
from ordercast.model.groups import GroupTable
from ordercast.model.options import SECOND, Limits, Options
from ordercast.net.connection import LinkLimits, LinkTimes
from ordercast.net.hello import Identity
from ordercast.net.tls import TlsConfig
from ordercast.net.transport import Transport
from ordercast.wire.frames import Frame
from support.links import CLUSTER, QUICK

TIMES = replace(QUICK, suspect=SECOND)


class DrivenSite:
    """A site, its transport, and everything that was delivered."""

    def __init__(
        self,
        name: str,
        structure: Structure,
        addresses: Mapping[str, tuple[str, int]],
        *,
        tls: TlsConfig | None = None,
        times: LinkTimes = TIMES,
    ) -> None:
        options = Options(deliver="agreed", limits=Limits(window_messages=200))
        self.site = Site(name, structure, options)
        self.transport = Transport(
            name, Identity(CLUSTER), addresses, tls,
            on_frames=self._frames, on_connected=self._connected, on_lost=self._lost,
            on_congested=self._congested, times=times, limits=LinkLimits(),
        )  # fmt: skip
        self.delivered: list[tuple[str, int, bytes]] = []  # origin, seq, payload
        self.sent = 0
        self.losses = 0
        self._due = False
        self._alarm: asyncio.TimerHandle | None = None

    def offer(self, group: str, payload: bytes) -> bool:
        """Send it, if there is room."""
        try:
            self.site.submit(time.monotonic_ns(), group, [payload])
        except WindowFull:
            return False
        self.sent += 1
        self._soon()
        return True

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        await self.transport.close()

    def _frames(self, peer: str, frames: list[Frame]) -> None:
        now = time.monotonic_ns()
        for frame in frames:
            self.site.receive(now, peer, frame)
        self._soon()

    def _connected(self, peer: str) -> None:
        self.site.connected(time.monotonic_ns(), peer)
        self._soon()

    def _lost(self, peer: str) -> None:
        self.losses += 1
        self.site.congest(time.monotonic_ns(), peer, congested=False)
        self._soon()

    def _congested(self, peer: str, congested: bool) -> None:
        self.site.congest(time.monotonic_ns(), peer, congested=congested)
        self._soon()

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _ring(self) -> None:
        self.site.alarm(time.monotonic_ns())
        self._drain()

    def _drain(self) -> None:
        self._due = False
        box = self.site.drain()
        sends: dict[str, list[Frame]] = {}
        for peer, frame in (*box.send, *box.then_send):
            sends.setdefault(peer, []).append(frame)
        for peer, frames in sends.items():
            self.transport.send(peer, frames)
        for batch in box.deliver:
            for delivery in batch.deliveries():
                self.delivered.append((delivery.origin, delivery.seq, delivery.payload))
        if self._alarm is not None:
            self._alarm.cancel()
        if box.alarm is not None:
            wait = max(box.alarm - time.monotonic_ns(), 0) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(wait, self._ring)


def star_of(names: str) -> Structure:
    """One group of all, ordered by the first."""
    table = GroupTable.of({"g": list(names)})
    return Structure(1, table, build_star(table))


def wrong_deliveries(sites: Mapping[str, DrivenSite]) -> list[str]:
    """What a reliable, ordered multicast to one group of all would not have done."""
    wrong = []
    logs = {name: site.delivered for name, site in sites.items()}
    first = next(iter(logs.values()))
    for name, log in logs.items():
        if log != first:
            wrong.append(f"{name} delivered in another order, or other messages")
    for origin, site in sites.items():
        seqs = [seq for source, seq, _ in first if source == origin]
        if seqs != list(range(1, site.sent + 1)):
            wrong.append(f"of {site.sent} messages of {origin}, {len(seqs)} arrived, or reordered")
        for source, seq, payload in first:
            if source == origin and not payload.startswith(f"{origin}/{seq}/".encode()):
                wrong.append(f"message {seq} of {origin} arrived as another")
                break
    return wrong
