"""A transport that sends to many at once where it can: streams over UDP multicast beside TCP.

What goes to several peers
is taken out of a burst (`share`) and sent as a packet of this site's stream to those who said that
they hear it; the others get it over TCP, as without this. See docs/dissemination.md.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ordercast.core.dissemination.fanout import Fanout, Sends
from ordercast.core.dissemination.multicast import Multicast
from ordercast.core.dissemination.registry import MULTICAST
from ordercast.core.dissemination.settings import StreamLimits
from ordercast.core.link import NEVER
from ordercast.model.errors import FrameError
from ordercast.model.groups import Site
from ordercast.net.addresses import why
from ordercast.net.beside import Beside, MakeTransport
from ordercast.net.datagram import DatagramSocket
from ordercast.net.multicast_file import MulticastConfig
from ordercast.net.sealing import OVERHEAD_BYTES, Forged, MakeSeal, Seal, opened, sealed
from ordercast.wire.codec import WireFrame
from ordercast.wire.dissemination import (
    KEY_BYTES,
    Heard,
    Keyed,
    decode_many,
    encode_many,
    frames_for,
)
from ordercast.wire.limits import LARGEST_NUMBER

if TYPE_CHECKING:
    from ordercast.net.node import Node

log = logging.getLogger("ordercast.net.spreading")

NOT_HEARD: Final = "it does not say that it hears our datagrams"
_TIMER_S = 0.0005  # how finely the loop keeps time


class Spreading(Beside):
    """`lose`: for tests, which datagrams never arrive."""

    def __init__(
        self, node: "Node", config: MulticastConfig, seal: MakeSeal, make: MakeTransport
    ) -> None:
        super().__init__(node, make)
        self._config = config
        self._seal = seal
        size = config.datagram_bytes - OVERHEAD_BYTES
        self._multicast = Multicast(node.site, _drawn(), StreamLimits(piece_bytes=size))
        self._fanout = Fanout(self._multicast.limits.packet_bytes)
        self._key = b""
        self._seals: dict[int, Seal] = {}
        self._epoch = 0
        self._members: tuple[Site, ...] = ()  # who is told our key
        self._socket = DatagramSocket(self._took)
        self._why = "not started"  # no datagrams; empty when there are
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._full = False
        self._congested: dict[Site, None] = {}  # over TCP
        self.lose: Callable[[bytes], bool] | None = None

    # --- a transport ------------------------------------------------------------------------------

    async def start(self) -> None:
        await super().start()
        self._loop = asyncio.get_running_loop()
        try:
            self._socket.open(self._config.address, self.inner.address[0], self._config.ttl)
        except OSError as error:
            self._why = f"no multicast socket: {why(error)}"
            log.warning("%s: everything goes by unicast", self._why)
            return
        self._why = ""
        self._node.on_layout.append(self._laid_out)
        self._laid_out()

    def part(self, site: Site) -> None:
        self._forget(site)
        super().part(site)

    async def close(self) -> None:
        self._why = self._why or "closed"
        if self._timer is not None:
            self._timer.cancel()
        self._socket.close()
        await super().close()

    # --- what the transport over TCP tells --------------------------------------------------------

    def frames(self, peer: Site, frames: list[WireFrame]) -> None:
        rest: list[WireFrame] = []
        for frame in frames:
            if isinstance(frame, Keyed):
                self._learn(peer, frame)
            elif isinstance(frame, Heard):
                self._multicast.answered(time.monotonic_ns(), peer, frame.stream)
            else:
                rest.append(frame)
        if len(rest) < len(frames):
            self._pump()
        if rest:
            super().frames(peer, rest)

    def connected(self, peer: Site) -> None:
        self._fanout.restarted(peer)
        self._tell_key(peer)
        super().connected(peer)

    def lost(self, peer: Site) -> None:
        self._multicast.unreached(peer)
        super().lost(peer)

    def congested(self, peer: Site, congested: bool) -> None:
        if congested:
            self._congested[peer] = None
        else:
            self._congested.pop(peer, None)
        if not self._full or peer not in self._members:
            self._node.congested(peer, congested)

    # --- keys -------------------------------------------------------------------------------------

    def _laid_out(self) -> None:
        """A new epoch of our domain, or other sites in it: a new stream with a new key."""
        epoch, sites = self.members()
        if (epoch, sites) == (self._epoch, self._members):
            return
        self._epoch, self._members = epoch, sites
        self._fanout.forget([epoch, *self._node.core.engines])
        self._seals.pop(self._multicast.own.stream, None)
        self._multicast.renew(_drawn())
        self._key = secrets.token_bytes(KEY_BYTES)
        self._seals[self._multicast.own.stream] = self._seal(self._key)
        for site in sites:
            self._tell_key(site)
        self._pump()

    def _tell_key(self, peer: Site) -> None:
        if peer in self._members and peer != self._node.site and not self._why:
            own = self._multicast.own
            self.inner.send(peer, [Keyed(self._epoch, own.stream, self._key, own.last + 1)])

    def _learn(self, peer: Site, told: Keyed) -> None:
        before = self._multicast.stream_of(peer)
        if told.stream in (before, self._multicast.own.stream):
            return
        self._forget(peer)
        self._seals[told.stream] = self._seal(told.key)
        self._multicast.learn(peer, told.stream, told.number)

    def _forget(self, peer: Site) -> None:
        self._seals.pop(self._multicast.stream_of(peer), None)
        self._multicast.forget(peer)

    # --- to many ----------------------------------------------------------------------------------

    def share(self, sends: Sends) -> Sends:
        if self._why:
            return sends
        now = time.monotonic_ns()
        packets, rest = self._fanout.split(now, sends, self._multicast.reached(now))
        if packets:
            for many in packets:
                self._multicast.send(encode_many(many))
            self._pump()
        return rest

    def _took(self, datagrams: list[bytes]) -> None:
        now, counts, most = time.monotonic_ns(), self._multicast.counts, self._config.datagram_bytes
        own = self._multicast.own.stream
        for data in datagrams:
            if self.lose is not None and self.lose(data):
                continue
            if len(data) > most:
                counts["oversized"] += 1
                continue
            try:
                datagram = opened(data, self._seals.get)
            except Forged:
                counts["forged"] += 1
            except FrameError:
                counts["garbage"] += 1
            else:
                if datagram is None:
                    counts["of_no_stream"] += 1
                elif datagram.stream != own:  # else it is what we said ourselves
                    self._multicast.receive(now, datagram)
        self._pump()

    def _pump(self) -> None:
        """Do what the streams ask for, and ring when they want to be asked again."""
        if self._why:
            return
        now = time.monotonic_ns()
        drained = self._multicast.drain(now)
        for datagram in drained.datagrams:
            seal = self._seals.get(datagram.stream)
            if seal is not None:
                self._socket.send(sealed(datagram, seal))
        for origin, stream in drained.heard:
            self.inner.send(origin, [Heard(stream)])
        for origin, packet in drained.packets:
            self._hand_up(origin, packet)
        self._watch()
        self._arm(now, drained.alarm)

    def _hand_up(self, origin: Site, packet: bytes) -> None:
        try:
            frames = frames_for(decode_many(packet), self._node.site)
        except FrameError as error:
            self._multicast.counts["wrong_packets"] += 1
            log.error("packet from %s refused: %s", origin, error)
            return
        if frames:
            self._node.frames(origin, frames)

    def _watch(self) -> None:
        """Tell the engine to wait while the stream has more than it can send soon."""
        full = self._multicast.full(self._full)
        if full == self._full:
            return
        self._full = full
        for peer in self._members:
            if peer != self._node.site and peer not in self._congested:
                self._node.congested(peer, full)

    def _arm(self, now: int, alarm: int) -> None:
        if self._timer is not None:
            if self._timer_at <= alarm and self._timer_at > now:
                return
            self._timer.cancel()
        self._timer_at = alarm
        self._timer = self._loop.call_later(max(0, alarm - now) / 1e9 + _TIMER_S, self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_at = None, NEVER
        self._pump()

    # --- for operators ----------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        told = self.told(MULTICAST, self._multicast.reached(time.monotonic_ns()), NOT_HEARD)
        return {
            **told,
            "why": self._why or told["why"],
            "address": "{}:{}".format(*self._config.address),
            "ttl": self._config.ttl,
            "counts": dict(
                sorted({**self._multicast.counts, "unsent": self._socket.unsent}.items())
            ),
        }


def _drawn() -> int:
    return secrets.randbelow(LARGEST_NUMBER - 1) + 1
