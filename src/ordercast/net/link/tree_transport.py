"""A transport that sends packets for many sites along trees, over TCP (docs/dissemination.md)."""

import asyncio
import secrets
import time
from typing import Any, Final

from ordercast.core.dissemination.along_tree import AlongTree
from ordercast.core.dissemination.fanout import Sends
from ordercast.core.dissemination.registry import TREE
from ordercast.model.groups import Site
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.model.options import NEVER, SECOND
from ordercast.net.link.combined_transport import (
    CombinedTransport,
    MakePlainTransport,
    TransportHost,
)
from ordercast.wire.codec import WireFrame

NOT_PASSED: Final = "it does not say that our packets get to it"


class TreeTransport(CombinedTransport):
    """Sends packets along trees over the `inner` transport, as `AlongTree` says."""

    def __init__(self, host: TransportHost, make: MakePlainTransport) -> None:
        super().__init__(host, make)
        self.way = AlongTree(host.site)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._closed = False

    async def start(self) -> None:
        await super().start()
        self._host.on_layout.append(self._laid_out)
        self._laid_out()

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await super().close()

    def _laid_out(self) -> None:
        epoch, sites = self._host.members()
        if self.way.differs(epoch, sites):
            stream = secrets.randbelow(LARGEST_NUMBER - 1) + 1
            now = time.monotonic_ns()
            self.way.laid_out(now, epoch, sites, self._host.epochs(), stream)
            self._pump()

    def share(self, sends: Sends) -> Sends:
        rest = self.way.share(time.monotonic_ns(), sends)
        if len(rest) < len(sends):
            self._pump()
        return rest

    def frames(self, peer: Site, frames: list[WireFrame]) -> None:
        now = time.monotonic_ns()
        rest = [frame for frame in frames if not self.way.receive(now, peer, frame)]
        if len(rest) < len(frames):
            self._pump()
        if rest:
            self._host.frames(peer, rest)

    def _pump(self) -> None:
        if self._closed:
            return
        now = time.monotonic_ns()
        box = self.way.drain(now)
        self._hand_out(box)
        if box.alarm != self._timer_at:
            self._arm(now, box.alarm)

    def _arm(self, now: int, alarm: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, alarm
        if alarm != NEVER:
            pause = max(0, alarm - now) / SECOND
            self._timer = asyncio.get_running_loop().call_later(pause, self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_at = None, NEVER
        self._pump()

    def connected(self, peer: Site) -> None:
        self.way.connected(peer)
        super().connected(peer)

    def lost(self, peer: Site) -> None:
        self.way.lost(peer)
        super().lost(peer)

    # --- for operators ----------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        found = self.ways_status(TREE, self.way.reached(time.monotonic_ns()), NOT_PASSED)
        return {**found, "counts": dict(sorted(self.way.counts.items()))}
