"""Packets to many along trees, over connections: each site passes every packet on to two others.

Probes without a packet go the same way twice a second. A site that gets a probe says so to the
origin, and for two seconds gets packets by the tree; all other sites get them by unicast. Packets
are lost with a site that fails on the way: the links repeat what was in them.
"""

from collections import Counter
from collections.abc import Iterable

from ordercast.core.dissemination.fanout import Fanout, Sends
from ordercast.core.dissemination.settings import StreamLimits, StreamTimes
from ordercast.core.dissemination.tree import Reach, branches, parent_in
from ordercast.core.dissemination.ways import WayBox
from ordercast.model.errors import FrameError
from ordercast.model.groups import Site
from ordercast.model.options import NEVER
from ordercast.wire.codec import WireFrame
from ordercast.wire.datagrams import Datagram
from ordercast.wire.dissemination import (
    DisseminationFrame,
    Heard,
    Many,
    TreePacket,
    decode_many,
    encode_many,
    frames_for,
)
from ordercast.wire.epochs import InEpoch


class AlongTree:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.counts: Counter[str] = Counter()
        self.epoch = 0
        self.sites: tuple[Site, ...] = ()
        self._times = StreamTimes()
        self._fanout = Fanout(StreamLimits().packet_bytes)
        self._reach = Reach(self._times)
        self._stream = 0
        self._probe_at = NEVER
        self._frames: list[tuple[Site, DisseminationFrame]] = []
        self._packets: list[tuple[Site, list[InEpoch]]] = []
        self._wrong: list[tuple[Site, str]] = []

    def differs(self, epoch: int, sites: tuple[Site, ...]) -> bool:
        return (epoch, sites) != (self.epoch, self.sites)

    def laid_out(
        self, now: int, epoch: int, sites: tuple[Site, ...], epochs: Iterable[int], stream: int,
        key: bytes = b"",  # noqa: ARG002 connections have keys of their own
    ) -> None:  # fmt: skip
        self.epoch, self.sites, self._stream = epoch, sites, stream
        self._fanout.forget([epoch, *epochs])
        self._reach.begin()
        self._probe_at = now if epoch else NEVER

    def share(self, now: int, sends: Sends) -> Sends:
        packets, rest = self._fanout.split(now, sends, self._reach.reached(now))
        for many in packets:
            self.counts["packets_sent"] += 1
            self._pass(TreePacket(self.epoch, self.site, self._stream, encode_many(many)), many)
        return rest

    def _pass(self, frame: TreePacket, many: Many) -> None:
        wanted = {head.site: None for head in many.heads}
        for child, below in branches(frame.origin, self.sites, self.site).items():
            if any(site in wanted for site in below):
                self._frames.append((child, frame))
                self.counts["packets_passed"] += 1

    def receive(self, now: int, peer: Site, frame: WireFrame) -> bool:
        if type(frame) is TreePacket:
            self._take(peer, frame)
        elif type(frame) is Heard:
            if frame.stream == self._stream:
                self._reach.answered(now, peer)
        else:
            return False
        return True

    def _take(self, peer: Site, frame: TreePacket) -> None:
        if frame.epoch != self.epoch or parent_in(frame.origin, self.sites, self.site) != peer:
            self.counts["not_of_the_tree"] += 1  # this site or the peer does not know the epoch yet
            return
        if not frame.packet:
            self._frames.append((frame.origin, Heard(frame.stream)))
            for child in branches(frame.origin, self.sites, self.site):
                self._frames.append((child, frame))
            return
        try:
            many = decode_many(frame.packet)
            mine = frames_for(many, self.site)
        except FrameError as error:
            self.counts["wrong_packets"] += 1
            self._wrong.append((frame.origin, f"from {peer}: {error}"))
            return
        self._pass(frame, many)
        if mine:
            self.counts["packets_taken"] += 1
            self._packets.append((frame.origin, mine))

    def take(self, now: int, datagram: Datagram) -> None:
        """Nothing to do: this way uses no datagrams."""

    def connected(self, peer: Site) -> None:
        self._fanout.restarted(peer)

    def lost(self, peer: Site) -> None:
        below = branches(self.site, self.sites, self.site).get(peer, ())
        for site in (peer, *below):
            self._reach.lost(site)

    def reached(self, now: int) -> dict[Site, None]:
        return self._reach.reached(now)

    def full(self, was: bool) -> bool:  # noqa: ARG002 connections tell the engine themselves
        return False

    def drain(self, now: int) -> WayBox:
        if self._probe_at <= now:
            self._probe_at = now + self._times.beat_most
            probe = TreePacket(self.epoch, self.site, self._stream, b"")
            for child in branches(self.site, self.sites, self.site):
                self._frames.append((child, probe))
        box = WayBox(self._frames, [], self._packets, self._wrong, self._probe_at)
        self._frames, self._packets, self._wrong = [], [], []
        return box
