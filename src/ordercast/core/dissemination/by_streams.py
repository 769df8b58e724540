"""Packets to many by multicast: streams of numbered datagrams, and the sites that hear them.

A site tells its stream and the stream's key over connections (Keyed), with every new epoch and to
every peer that connects. The sites that hear the stream answer over connections too (Heard).
"""

from collections import Counter
from collections.abc import Iterable

from ordercast.core.dissemination.fanout import Fanout, Sends
from ordercast.core.dissemination.multicast import Multicast
from ordercast.core.dissemination.settings import StreamLimits, StreamTimes
from ordercast.core.dissemination.ways import WayBox
from ordercast.model.errors import FrameError
from ordercast.model.groups import Site
from ordercast.wire.codec import WireFrame
from ordercast.wire.datagrams import Datagram
from ordercast.wire.dissemination import (
    DisseminationFrame,
    Heard,
    Keyed,
    decode_many,
    encode_many,
    frames_for,
)


class ByStreams:
    def __init__(
        self,
        site: Site,
        stream: int,
        limits: StreamLimits | None = None,
        times: StreamTimes | None = None,
    ) -> None:
        self.site = site
        self.multicast = Multicast(site, stream, limits, times)
        self.counts: Counter[str] = self.multicast.counts
        self.epoch = 0
        self.sites: tuple[Site, ...] = ()  # the sites that are told this site's key
        self.keys: dict[int, bytes] = {}  # by stream: this site's own key, and the keys it was told
        self._fanout = Fanout(self.multicast.limits.packet_bytes)
        self._frames: list[tuple[Site, DisseminationFrame]] = []

    def differs(self, epoch: int, sites: tuple[Site, ...]) -> bool:
        return (epoch, sites) != (self.epoch, self.sites)

    def laid_out(
        self, now: int, epoch: int, sites: tuple[Site, ...], epochs: Iterable[int], stream: int,
        key: bytes,
    ) -> None:  # fmt: skip
        """Begin a new stream with a new key, and tell all sites."""
        del now
        self.epoch, self.sites = epoch, sites
        self._fanout.forget([epoch, *epochs])
        self.keys.pop(self.multicast.own.stream, None)
        self.multicast.renew(stream)
        self.keys[stream] = key
        for site in sites:
            self._tell_key(site)

    def _tell_key(self, peer: Site) -> None:
        if peer in self.sites and peer != self.site:
            own = self.multicast.own
            told = Keyed(self.epoch, own.stream, self.keys[own.stream], own.last + 1)
            self._frames.append((peer, told))

    def share(self, now: int, sends: Sends) -> Sends:
        packets, rest = self._fanout.split(now, sends, self.multicast.reached(now))
        for many in packets:
            self.multicast.send(encode_many(many))
        return rest

    def receive(self, now: int, peer: Site, frame: WireFrame) -> bool:
        if type(frame) is Keyed:
            self._learn(peer, frame)
        elif type(frame) is Heard:
            self.multicast.answered(now, peer, frame.stream)
        else:
            return False
        return True

    def _learn(self, peer: Site, told: Keyed) -> None:
        if told.stream in self.keys:  # a repeat, or a stream that is not the peer's
            return
        self.forget(peer)
        self.keys[told.stream] = told.key
        self.multicast.learn(peer, told.stream, told.number)

    def forget(self, peer: Site) -> None:
        """Take the peer's stream no longer."""
        self.keys.pop(self.multicast.stream_of(peer), None)
        self.multicast.forget(peer)

    def take(self, now: int, datagram: Datagram) -> None:
        if datagram.stream != self.multicast.own.stream:  # else it is this site's own
            self.multicast.receive(now, datagram)

    def connected(self, peer: Site) -> None:
        self._fanout.restarted(peer)
        self._tell_key(peer)

    def lost(self, peer: Site) -> None:
        self.multicast.unreached(peer)

    def reached(self, now: int) -> dict[Site, None]:
        return self.multicast.reached(now)

    def full(self, was: bool) -> bool:
        return self.multicast.full(was)

    def drain(self, now: int) -> WayBox:
        drained = self.multicast.drain(now)
        frames, self._frames = self._frames, []
        frames.extend((origin, Heard(stream)) for origin, stream in drained.heard)
        box = WayBox(frames, drained.datagrams, [], [], drained.alarm)
        for origin, packet in drained.packets:
            try:
                mine = frames_for(decode_many(packet), self.site)
            except FrameError as error:
                self.counts["wrong_packets"] += 1
                box.wrong.append((origin, str(error)))
            else:
                if mine:
                    box.packets.append((origin, mine))
        return box
