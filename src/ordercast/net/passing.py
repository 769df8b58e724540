"""Packets to many along a tree, over TCP: each site passes them to two, whoever they come from.

Probes without a packet go the same way twice a second. Who gets one says so to the origin, and is
served by the tree for two seconds; everybody else by unicast. A site that fails on the way takes
packets with it: the links repeat what was in them.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ordercast.core.dissemination.fanout import Fanout, Sends
from ordercast.core.dissemination.registry import TREE
from ordercast.core.dissemination.settings import StreamLimits, StreamTimes
from ordercast.core.dissemination.tree import Reach, branches, parent_in
from ordercast.model.errors import FrameError
from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.net.beside import Beside, MakeTransport
from ordercast.wire.codec import WireFrame
from ordercast.wire.dissemination import Heard, Many, decode_many, encode_many, frames_for
from ordercast.wire.dissemination import Passing as Pass
from ordercast.wire.limits import LARGEST_NUMBER

if TYPE_CHECKING:
    from ordercast.net.node import Node

log = logging.getLogger("ordercast.net.passing")

NOT_PASSED: Final = "it does not say that our packets get to it"


class Passing(Beside):
    """`deaf`: for tests, packets that come are lost here."""

    def __init__(self, node: "Node", make: MakeTransport) -> None:
        super().__init__(node, make)
        self._times = StreamTimes()
        self._fanout = Fanout(StreamLimits().packet_bytes)
        self._reach = Reach(self._times)
        self._epoch = 0
        self._sites: tuple[Site, ...] = ()
        self._stream = 0
        self._timer: asyncio.TimerHandle | None = None
        self.counts: Counter[str] = Counter()
        self.deaf = False

    async def start(self) -> None:
        await super().start()
        self._node.on_layout.append(self._laid_out)
        self._laid_out()
        self._beat()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await super().close()

    def _laid_out(self) -> None:
        found = self.members()
        if found == (self._epoch, self._sites):
            return
        self._epoch, self._sites = found
        self._fanout.forget([self._epoch, *self._node.core.engines])
        self._stream = secrets.randbelow(LARGEST_NUMBER - 1) + 1
        self._reach.begin()

    def _beat(self) -> None:
        pause = self._times.beat_most / SECOND
        self._timer = asyncio.get_running_loop().call_later(pause, self._beat)
        if self._epoch:
            probe = Pass(self._epoch, self._node.site, self._stream, b"")
            for child in branches(self._node.site, self._sites, self._node.site):
                self.inner.send(child, [probe])

    # --- to many ----------------------------------------------------------------------------------

    def share(self, sends: Sends) -> Sends:
        now = time.monotonic_ns()
        packets, rest = self._fanout.split(now, sends, self._reach.reached(now))
        for many in packets:
            self.counts["packets_sent"] += 1
            frame = Pass(self._epoch, self._node.site, self._stream, encode_many(many))
            self._pass(frame, many)
        return rest

    def _pass(self, frame: Pass, many: Many) -> None:
        wanted = {head.site for head in many.heads}
        for child, below in branches(frame.origin, self._sites, self._node.site).items():
            if not wanted.isdisjoint(below):
                self.inner.send(child, [frame])
                self.counts["packets_passed"] += 1

    def frames(self, peer: Site, frames: list[WireFrame]) -> None:
        rest: list[WireFrame] = []
        for frame in frames:
            if isinstance(frame, Heard):
                if frame.stream == self._stream:
                    self._reach.answered(time.monotonic_ns(), peer)
            elif isinstance(frame, Pass):
                self._take(peer, frame)
            else:
                rest.append(frame)
        if rest:
            self._node.frames(peer, rest)

    def _take(self, peer: Site, frame: Pass) -> None:
        site = self._node.site
        if self.deaf:
            return
        parent = parent_in(frame.origin, self._sites, site)
        if frame.epoch != self._epoch or parent != peer:
            self.counts["not_of_the_tree"] += 1  # one of us has not heard of the epoch yet
            return
        if not frame.packet:
            self.inner.send(frame.origin, [Heard(frame.stream)])
            for child in branches(frame.origin, self._sites, site):
                self.inner.send(child, [frame])
            return
        try:
            many = decode_many(frame.packet)
            mine = frames_for(many, site)
        except FrameError as error:
            self.counts["wrong_packets"] += 1
            log.error("packet of %s from %s refused: %s", frame.origin, peer, error)
            return
        self._pass(frame, many)
        if mine:
            self.counts["packets_taken"] += 1
            self._node.frames(frame.origin, mine)

    def connected(self, peer: Site) -> None:
        self._fanout.restarted(peer)
        super().connected(peer)

    def lost(self, peer: Site) -> None:
        for child, below in branches(self._node.site, self._sites, self._node.site).items():
            if child == peer:
                for site in below:
                    self._reach.lost(site)
        self._reach.lost(peer)
        super().lost(peer)

    # --- for operators ----------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        told = self.told(TREE, self._reach.reached(time.monotonic_ns()), NOT_PASSED)
        return {**told, "counts": dict(sorted(self.counts.items()))}
