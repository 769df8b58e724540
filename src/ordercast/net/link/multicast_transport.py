"""A transport that sends to many sites at once over UDP multicast, and everything else over TCP.

`share` takes out of a burst the frames that go to several peers. They are sent as packets of this
site's stream to the peers that say they hear it. The other peers get them over TCP
(docs/dissemination.md).
"""

import asyncio
import logging
import secrets
import time
from typing import Any, Final

from ordercast.core.dissemination.by_streams import ByStreams
from ordercast.core.dissemination.fanout import Sends
from ordercast.core.dissemination.registry import MULTICAST
from ordercast.core.dissemination.settings import StreamLimits
from ordercast.model.errors import FrameError
from ordercast.model.groups import Site
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.model.options import NEVER
from ordercast.net.cluster.addresses import why
from ordercast.net.cluster.multicast import MulticastConfig
from ordercast.net.link.combined_transport import (
    CombinedTransport,
    MakePlainTransport,
    TransportHost,
)
from ordercast.net.link.datagram import DatagramSocket
from ordercast.net.link.seals import (
    OVERHEAD_BYTES,
    Forged,
    MakeSeal,
    Seal,
    open_datagram,
    seal_datagram,
)
from ordercast.wire.codec import WireFrame
from ordercast.wire.dissemination import KEY_BYTES

log = logging.getLogger("ordercast.net.multicast")

NOT_HEARD: Final = "it does not say that it hears our datagrams"
_TIMER_S = 0.0005  # how finely the loop keeps time


class MulticastTransport(CombinedTransport):
    """Sends packets as sealed datagrams, as `ByStreams` decides, and everything else over TCP."""

    def __init__(
        self, host: TransportHost, config: MulticastConfig, seal: MakeSeal, make: MakePlainTransport
    ) -> None:
        super().__init__(host, make)
        self._config = config
        self._seal = seal
        size = config.datagram_bytes - OVERHEAD_BYTES
        self.way = ByStreams(host.site, _drawn(), StreamLimits(piece_bytes=size))
        self._seals: dict[int, Seal] = {}  # made from the keys of the way
        self._socket = DatagramSocket(self._took)
        self._why = "not started"  # why there are no datagrams; empty if there are
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._held_back: tuple[
            Site, ...
        ] = ()  # congested because of the stream, as the site was told
        self._congested: dict[Site, None] = {}  # over TCP

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
        self._host.on_layout.append(self._laid_out)
        self._laid_out()

    def part(self, site: Site) -> None:
        self.way.forget(site)
        super().part(site)

    async def close(self) -> None:
        self._why = self._why or "closed"
        if self._timer is not None:
            self._timer.cancel()
        self._socket.close()
        await super().close()

    # --- what the transport over TCP tells --------------------------------------------------------

    def frames(self, peer: Site, frames: list[WireFrame]) -> None:
        now = time.monotonic_ns()
        rest = [frame for frame in frames if not self.way.receive(now, peer, frame)]
        if len(rest) < len(frames):
            self._pump()
        if rest:
            super().frames(peer, rest)

    def connected(self, peer: Site) -> None:
        self.way.connected(peer)
        self._pump()
        super().connected(peer)

    def lost(self, peer: Site) -> None:
        self.way.lost(peer)
        super().lost(peer)

    def congested(self, peer: Site, congested: bool) -> None:
        if congested:
            self._congested[peer] = None
        else:
            self._congested.pop(peer, None)
        if peer not in self._held_back:
            self._host.congested(peer, congested)

    # --- keys -------------------------------------------------------------------------------------

    def _laid_out(self) -> None:
        epoch, sites = self._host.members()
        if self.way.differs(epoch, sites):
            key = secrets.token_bytes(KEY_BYTES)
            now = time.monotonic_ns()
            self.way.laid_out(now, epoch, sites, self._host.epochs(), _drawn(), key)
            self._pump()

    def _seal_of(self, stream: int) -> Seal | None:
        key = self.way.keys.get(stream)
        if key is None:
            return None
        seal = self._seals.get(stream)
        if seal is None:
            self._seals = {
                known: self._seals[known] for known in self.way.keys if known in self._seals
            }
            seal = self._seals[stream] = self._seal(key)
        return seal

    # --- to many ----------------------------------------------------------------------------------

    def share(self, sends: Sends) -> Sends:
        if self._why:
            return sends
        rest = self.way.share(time.monotonic_ns(), sends)
        if len(rest) < len(sends):
            self._pump()
        return rest

    def _took(self, datagrams: list[bytes]) -> None:
        now, counts, most = time.monotonic_ns(), self.way.counts, self._config.datagram_bytes
        for data in datagrams:
            if len(data) > most:
                counts["oversized"] += 1
                continue
            try:
                datagram = open_datagram(data, self._seal_of)
            except Forged:
                counts["forged"] += 1
            except FrameError:
                counts["garbage"] += 1
            else:
                if datagram is None:
                    counts["of_no_stream"] += 1
                else:
                    self.way.take(now, datagram)
        self._pump()

    def _pump(self) -> None:
        """Do what the streams ask for, and set the timer for their next call."""
        if self._why:
            return
        now = time.monotonic_ns()
        box = self.way.drain(now)
        for datagram in box.datagrams:
            seal = self._seal_of(datagram.stream)
            if seal is not None:
                self._socket.send(seal_datagram(datagram, seal))
        self._hand_out(box)
        self._hold_back()
        self._arm(now, box.alarm)

    def _hold_back(self) -> None:
        """Tell the site to hold back while the stream has more than it can send soon. Peers that
        have left the epoch meanwhile are told the end too."""
        before = self._held_back
        full = self.way.full(bool(before))
        if full == bool(before):
            return
        self._held_back = self.way.sites if full else ()
        for peer in before or self._held_back:
            if peer != self._host.site and peer not in self._congested:
                self._host.congested(peer, full)

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
        found = self.ways_status(MULTICAST, self.way.reached(time.monotonic_ns()), NOT_HEARD)
        return {
            **found,
            "why": self._why or found["why"],
            "address": "{}:{}".format(*self._config.address),
            "ttl": self._config.ttl,
            "counts": dict(sorted({**self.way.counts, "unsent": self._socket.unsent}.items())),
        }


def _drawn() -> int:
    return secrets.randbelow(LARGEST_NUMBER - 1) + 1
