"""Pipes that go through this site, and pipes that end here (docs/transport.md).

A pipe joins two sites that do not reach each other directly. It goes through a third site that both
reach. Its ends are ordinary connections, with their own hello and TLS. The relay sees only bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ordercast.model.groups import Site
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import WRONG_FRAME, Connection, LinkLimits
from ordercast.net.link.peers import Peer
from ordercast.net.link.pipe_carrier import PipeCarrier, PipeWriter
from ordercast.net.link.pipe_channel import PipeChannel
from ordercast.wire.pipes import (
    PipeData,
    PipeEnd,
    PipeFrame,
    PipeOffered,
    PipeRoom,
    PipeWanted,
)

NOT_JOINED: Final = "it is not connected here"
UNKNOWN: Final = "no site of this cluster"
TOO_MANY_PIPES: Final = "too many pipes here"

LEAST_PIPES: Final = 64
LEAST_OF_PEER: Final = 32
MOST_PIPES: Final = 1_024  # 512 MiB, if all of them stand still with full windows, both ways


def most_pipes(peers: int) -> int:
    """The most pipes that a site with this many peers relays: two for each pair of peers, since
    both may ask at once."""
    return min(max(LEAST_PIPES, peers * (peers - 1)), MOST_PIPES)


def most_pipes_of_peer(peers: int) -> int:
    """The most pipes for one peer: two to each other peer."""
    return min(max(LEAST_OF_PEER, 2 * (peers - 1)), MOST_PIPES)


@dataclass(slots=True)
class RelayCounts:
    """What this site relays for others, for operators."""

    pipes: int = 0  # how many there are now
    opened: int = 0  # since the start
    refused: int = 0
    bytes: int = 0


class RelaySide:
    """One side of a pipe through this site: bytes that come here leave at the other side."""

    def __init__(self, writer: PipeWriter, counts: RelayCounts) -> None:
        self.writer = writer
        self._counts = counts
        self.other: RelaySide | None = None

    def took(self, data: bytes) -> None:
        if self.other is None:
            return
        if not self.other.writer.fits(len(data)):
            raise LinkTrouble(WRONG_FRAME, "more bytes of a pipe than there is room for")
        self._counts.bytes += len(data)
        self.other.writer.write(data)

    def given_room(self, count: int) -> None:
        self.writer.allow(count)
        if self.other is not None:
            self.other.writer.carrier.make_room(self.other.writer.number, count)

    def wrote(self) -> None:
        pass

    def ended(self, why: str) -> None:
        """End the other side too, after the bytes that came before."""
        other, self.other = self.other, None
        if other is not None:
            other.other = None
            self._counts.pipes -= 1
            other.writer.finish(why)


class Pipes:
    """State: the connections that carry pipes, and the counts."""

    def __init__(
        self,
        us: Site,
        peers: Mapping[Site, Peer],
        limits: LinkLimits,
        make: Callable[[Site | None, Site], Connection],
        silent: Callable[[Peer], bool],
        want: Callable[[Site], None],
    ) -> None:
        self._us = us
        self._peers = peers
        self._limits = limits
        self._make = make
        self._silent = silent
        self._want = want
        self._carriers: dict[Connection, PipeCarrier] = {}
        self.counts = RelayCounts()

    def _carrier(self, connection: Connection) -> PipeCarrier:
        found = self._carriers.get(connection)
        if found is None:
            assert connection.peer is not None
            found = PipeCarrier(connection, self._us, connection.peer)
            self._carriers[connection] = found
        return found

    # --- ends of pipes ----------------------------------------------------------------------------

    def open(self, carrier: Connection, site: Site) -> Connection:
        """Make a connection to the site through the peer of `carrier`."""
        there = self._carrier(carrier)
        number = there.number()
        there.say(PipeWanted(number, site))
        return self._end(there, number, site)

    def _end(self, carrier: PipeCarrier, number: int, dialled: Site | None) -> Connection:
        connection = self._make(dialled, carrier.peer)
        channel = PipeChannel(connection, PipeWriter(carrier, number), carrier.peer)
        carrier.sides[number] = channel
        connection.connection_made(channel)
        return connection

    def _offered(self, carrier: PipeCarrier, frame: PipeOffered) -> None:
        carrier.opened(frame.number)
        peer = self._peers.get(frame.site)
        if peer is None or peer.guest or frame.site == carrier.peer:
            carrier.say(PipeEnd(frame.number, UNKNOWN))
        elif self._ends() >= self._most():
            carrier.say(PipeEnd(frame.number, TOO_MANY_PIPES))
        else:
            self._end(carrier, frame.number, None)

    def _most(self) -> int:
        return most_pipes(self._known()) if self._limits.pipes is None else self._limits.pipes

    def _most_of_peer(self) -> int:
        limit = self._limits.pipes_of_peer
        return most_pipes_of_peer(self._known()) if limit is None else limit

    def _known(self) -> int:
        return sum(not peer.guest for peer in self._peers.values())

    def _ends(self) -> int:
        return sum(
            isinstance(side, PipeChannel)
            for carrier in self._carriers.values()
            for side in carrier.sides.values()
        )

    # --- pipes through this site ------------------------------------------------------------------

    def _wanted(self, carrier: PipeCarrier, frame: PipeWanted) -> None:
        carrier.opened(frame.number)
        why, to = self._target(carrier, frame.site)
        if to is None:
            self.counts.refused += 1
            carrier.say(PipeEnd(frame.number, why))
            return
        self.counts.opened += 1
        self.counts.pipes += 1
        far = self._carrier(to)
        sides = [
            RelaySide(PipeWriter(each, number), self.counts)
            for each, number in ((carrier, frame.number), (far, far.number()))
        ]
        for side, other in (sides, reversed(sides)):
            side.other = other
            side.writer.carrier.sides[side.writer.number] = side
        far.say(PipeOffered(sides[1].writer.number, carrier.peer))

    def _target(self, carrier: PipeCarrier, site: Site) -> tuple[str, Connection | None]:
        """The connection that leads to the site; or why there is none."""
        peer = self._peers.get(site)
        if peer is None or peer.guest or site == carrier.peer:
            return UNKNOWN, None
        direct = peer.direct
        if direct is None:
            self._want(site)  # for the next time
        if direct is None or self._silent(peer):
            return NOT_JOINED, None
        if self.counts.pipes >= self._most() or (
            max(self._of(carrier.peer), self._of(site)) >= self._most_of_peer()
        ):
            return TOO_MANY_PIPES, None
        return "", direct

    def _of(self, site: Site) -> int:
        """How many pipes of the site are relayed here."""
        return sum(
            isinstance(side, RelaySide)
            for carrier in self._carriers.values()
            if carrier.peer == site
            for side in carrier.sides.values()
        )

    # --- what connections tell --------------------------------------------------------------------

    def received(self, connection: Connection, frame: PipeFrame) -> None:
        """Take a frame of a pipe. Raises LinkTrouble if the peer breaks a rule."""
        if connection.guest:
            return
        if connection.through:
            raise LinkTrouble(WRONG_FRAME, "a pipe within a pipe")
        carrier = self._carrier(connection)
        if isinstance(frame, PipeWanted):
            self._wanted(carrier, frame)
            return
        if isinstance(frame, PipeOffered):
            self._offered(carrier, frame)
            return
        side = carrier.side(frame.number)
        if side is None:
            return
        if isinstance(frame, PipeData):
            side.took(frame.data)
        elif isinstance(frame, PipeRoom):
            side.given_room(frame.count)
        else:
            del carrier.sides[frame.number]
            side.ended(frame.why)

    def lost(self, connection: Connection) -> None:
        """The connection has ended, and with it all its pipes."""
        carrier = self._carriers.pop(connection, None)
        if carrier is not None:
            carrier.lost(f"the connection to {carrier.peer} has ended")
