"""One site's part in multicast: its own stream, other sites' streams, and the sites it reaches.

A driver calls `send` and `receive`, then `drain`, with integer nanoseconds. It sends the drained
datagrams to all sites, hands up the packets, tells the named origins that they are heard, and
drains again at the alarm. `receive` takes only authentic datagrams.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from ordercast.core.dissemination.received_stream import ReceivedStream
from ordercast.core.dissemination.sent_stream import SentStream
from ordercast.core.dissemination.settings import StreamLimits, StreamTimes
from ordercast.model.groups import Site
from ordercast.model.options import NEVER
from ordercast.wire.datagrams import Beat, Datagram, Piece, PieceRequest


class Drained(msgspec.Struct):
    datagrams: list[Datagram]
    packets: list[tuple[Site, bytes]]
    heard: list[tuple[Site, int]]  # (origin, stream): tell the origin that it is heard
    alarm: int


class Multicast:
    def __init__(
        self,
        site: Site,
        stream: int,
        limits: StreamLimits | None = None,
        times: StreamTimes | None = None,
    ) -> None:
        self.site = site
        self.limits = limits or StreamLimits()
        self.times = times or StreamTimes()
        self.counts: Counter[str] = Counter()
        self.own = SentStream(stream, self.limits, self.times, self.counts)
        self.streams: dict[int, ReceivedStream] = {}
        self._of: dict[Site, int] = {}  # the stream of each origin
        self._reached: dict[Site, int] = {}  # until when a site counts as reached
        self._packets: list[tuple[Site, bytes]] = []
        self._heard: list[tuple[Site, int]] = []

    # --- streams --------------------------------------------------------------------------------

    def renew(self, stream: int) -> None:
        """Begin a new stream for a new epoch: no site is reached by it so far."""
        self.own = SentStream(stream, self.limits, self.times, self.counts)
        self._reached = {}

    def learn(self, origin: Site, stream: int, number: int) -> None:
        """Take this stream of the origin, from piece `number` on; its stream before has ended."""
        if self._of.get(origin) == stream:
            return
        self.forget(origin)
        self._of[origin] = stream
        self.streams[stream] = ReceivedStream(
            self.site, origin, stream, number, self.limits, self.times, self.counts
        )

    def stream_of(self, origin: Site) -> int:
        """The origin's stream; 0: none is known."""
        return self._of.get(origin, 0)

    def forget(self, origin: Site) -> None:
        self.streams.pop(self._of.pop(origin, 0), None)
        self._reached.pop(origin, None)

    def answered(self, now: int, peer: Site, stream: int) -> None:
        """The peer says that it hears the stream."""
        if stream == self.own.stream:
            self._reached[peer] = now + self.times.reached_for

    def unreached(self, peer: Site) -> None:
        """The peer has no connection on which it could say that it hears this site."""
        self._reached.pop(peer, None)

    def reached(self, now: int) -> dict[Site, None]:
        """The sites that hear this site's stream."""
        return {peer: None for peer, until in self._reached.items() if until > now}

    # --- packets and datagrams --------------------------------------------------------------------

    def full(self, was: bool) -> bool:
        """Whether the engine should wait. Once it waits (`was`), it does so until the queue is half
        empty."""
        return self.own.waiting >= self.limits.queued_pieces // (2 if was else 1)

    def send(self, packet: bytes) -> None:
        self.own.push(packet)
        self.counts["packets_sent"] += 1

    def receive(self, now: int, datagram: Datagram) -> None:
        source = self.streams.get(datagram.stream)
        if source is None:
            self.counts["of_no_stream"] += 1
            return
        if type(datagram) is Piece:
            self._hand_up(source.origin, source.piece(now, datagram))
        elif not source.fresh(datagram.serial):  # type: ignore[union-attr]
            self.counts["replayed"] += 1
        elif type(datagram) is Beat:
            packets, tell = source.beat(now, datagram)
            self._hand_up(source.origin, packets)
            if tell:
                self._heard.append((source.origin, source.stream))
        elif type(datagram) is PieceRequest:
            if datagram.of == self.own.stream:
                self.own.asked(now, datagram.holes)
            elif (asked := self.streams.get(datagram.of)) is not None:
                asked.asked(now, datagram.holes)

    def _hand_up(self, origin: Site, packets: Iterable[bytes]) -> None:
        for packet in packets:
            self.counts["packets_taken"] += 1
            self._packets.append((origin, packet))

    def drain(self, now: int) -> Drained:
        datagrams: list[Datagram] = []
        own = self.own
        alarm = NEVER
        for source in self.streams.values():
            if source.deadline() <= now:
                holes, packets = source.flush(now, datagrams)
                self._hand_up(source.origin, packets)
                if holes:
                    datagrams.append(PieceRequest(own.stream, own.serial(), source.stream, holes))
            alarm = min(alarm, source.deadline())
        own.flush(now, datagrams)
        drained = Drained(datagrams, self._packets, self._heard, min(alarm, own.deadline()))
        self._packets, self._heard = [], []
        return drained
