"""Dialling the peers that are wanted: one dial at a time for each, with growing pauses."""

import asyncio
from collections.abc import Callable, Mapping

from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.net.cluster.addresses import why
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import Connection, LinkTimes
from ordercast.net.link.peers import Peer

UNREACHABLE = "cannot be reached"


class Dialler:
    """Makes connections with `make`. A failed dial is complained of, and repeated after a pause."""

    def __init__(
        self,
        addresses: Mapping[Site, tuple[str, int]],
        times: LinkTimes,
        make: Callable[[Site], Connection],
        forget: Callable[[Connection], None],
        complain: Callable[[Peer, LinkTrouble], None],
    ) -> None:
        self._addresses = addresses
        self._times = times
        self._make = make
        self._forget = forget
        self._complain = complain
        self._loop = asyncio.get_running_loop()
        self._dials: dict[Site, asyncio.Task[None]] = {}
        self._timers: dict[Site, asyncio.TimerHandle] = {}
        self._closed = False

    def want(self, peer: Peer) -> None:
        """Dial now, unless a dial or its pause is under way."""
        if not peer.wanted:
            peer.wanted, peer.lost_at = True, self._loop.time()
        if peer.barred or peer.dialling or peer.name in self._timers or self._closed:
            return
        peer.dialling = True
        if peer.current is None:
            peer.since = self._loop.time()
        self._dials[peer.name] = self._loop.create_task(self._dial(peer))

    def failed(self, peer: Peer) -> None:
        """The dial made no connection that is used."""
        peer.dialling = False
        peer.failures += 1
        if peer.direct is None:
            self.again(peer)

    def again(self, peer: Peer) -> None:
        """Dial after a pause."""
        if self._closed or not peer.wanted or peer.dialling or peer.name in self._timers:
            return
        if peer.barred:
            return
        if peer.current is None:
            peer.since = self._loop.time()
        self._timers[peer.name] = self._loop.call_later(peer.pause(), self._now, peer)

    def unneeded(self, peer: Peer) -> None:
        """There is a direct connection: end the pause without a dial."""
        if (timer := self._timers.pop(peer.name, None)) is not None:
            timer.cancel()

    def moved(self, peer: Peer) -> None:
        """The peer has a new address: dial it there without the pauses of the old one."""
        self.unneeded(peer)
        if peer.direct is None:
            peer.since, peer.failures = self._loop.time(), 0
            self.again(peer)

    def part(self, peer: Peer) -> None:
        """The site is no peer any more."""
        self.unneeded(peer)
        if (dial := self._dials.pop(peer.name, None)) is not None:
            dial.cancel()

    async def close(self) -> None:
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        dials = list(self._dials.values())
        for task in dials:
            task.cancel()
        await asyncio.gather(*dials, return_exceptions=True)

    def _now(self, peer: Peer) -> None:
        self._timers.pop(peer.name, None)
        if peer.direct is None:
            self.want(peer)

    async def _dial(self, peer: Peer) -> None:
        host, port = self._addresses[peer.name]
        made: list[Connection] = []

        def make() -> Connection:
            made.append(self._make(peer.name))
            return made[-1]

        try:
            async with asyncio.timeout(self._times.handshake / SECOND):
                await self._loop.create_connection(make, host, port)
        except asyncio.CancelledError:
            self._abandon(made)
            raise
        except OSError as error:  # a timeout is one
            self._abandon(made)
            # Sites do not all start at once: a site that was never connected may yet come.
            detail, new = f"{host}:{port} ({why(error)})", peer.connections == 0
            self._complain(peer, LinkTrouble(UNREACHABLE, detail, usual=new))
            self.failed(peer)
        finally:
            if self._dials.get(peer.name) is asyncio.current_task():  # no other dial has begun
                del self._dials[peer.name]

    def _abandon(self, made: list[Connection]) -> None:
        """End connections whose dial was cancelled: uvloop does not tell them."""
        for connection in made:
            connection.over = True
            self._forget(connection)
