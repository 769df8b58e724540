"""When a link goes through a third site, and through which one.

A peer is looked for through other sites if it is wanted and has given no sign of life for half of
`suspect`. The other sites are asked one after another, in the order of their names. Sites that
refuse are asked again after a pause that grows. The direct connection, or the dial, goes on
meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.net.link.connection import Connection, LinkTimes
from ordercast.net.link.peers import Peer

RELAYS: Final = 8  # sites that are asked one after another before a pause
WANTED_RELAYS: Final = 3  # if fewer sites can be asked, others are dialled


@dataclass(slots=True)
class Detour:
    """The search for a way to one peer."""

    asked: Connection | None = None  # the connection that is being made
    asked_at: float = 0.0
    turn: int = 0  # how many sites were asked
    left: int = 0  # how many sites are asked before the next pause
    rounds: int = 0
    not_before: float = 0.0


class Detours:
    """State: the peers that are looked for, each with its search."""

    def __init__(
        self,
        us: Site,
        peers: Mapping[Site, Peer],
        times: LinkTimes,
        open_pipe: Callable[[Connection, Site], Connection],
        want: Callable[[Site], None],
    ) -> None:
        self._us = us
        self._peers = peers
        self._suspect = times.suspect / SECOND
        self._longest = times.handshake / SECOND
        self._pause_most = times.redial_most / SECOND
        self._open_pipe = open_pipe
        self._want = want
        self._detours: dict[Site, Detour] = {}

    def silent(self, peer: Peer, now: float) -> bool:
        """Whether the peer has been silent for longer than a working link is."""
        return peer.silence(now) > self._suspect / 2

    def look(self, peers: Iterable[Peer], now: float) -> None:
        """Start, continue or end the searches. This is called several times within half of
        `suspect`."""
        for peer in peers:
            # The site whose name sorts first begins, so both seldom ask at once.
            grace = self._suspect / 10 if self._us > peer.name else 0.0
            if not peer.wanted or peer.guest or not self.silent(peer, now - grace):
                self._rest(peer)
                continue
            detour = self._detours.setdefault(peer.name, Detour())
            if detour.asked is None:
                if now >= detour.not_before:
                    self._ask(peer, detour, now)
            elif now - detour.asked_at > self._patience(detour):
                detour.asked.abort()  # `ended` asks the next site

    def _patience(self, detour: Detour) -> float:
        """How long to wait for a site that was asked. With TLS an answer takes several round
        trips."""
        return min(self._suspect / 2 * 2.0 ** min(detour.rounds, 8), self._longest)

    def _ask(self, peer: Peer, detour: Detour, now: float) -> None:
        near = self._relays(peer, now)
        if len(near) < WANTED_RELAYS:
            away = sorted(each.name for each in self._peers.values() if each.current is None)
            for site in islice((s for s in away if s != peer.name), WANTED_RELAYS - len(near)):
                self._want(site)
        if detour.left == 0:
            detour.left = min(len(near), RELAYS)
        if not near:
            self._pause(detour, now)
            return
        relay = near[detour.turn % len(near)]
        detour.turn += 1
        detour.left -= 1
        detour.asked_at = now
        detour.asked = self._open_pipe(relay, peer.name)

    def _relays(self, peer: Peer, now: float) -> list[Connection]:
        """The connections to sites that can be asked, in the order of the sites' names."""
        others = (each for _, each in sorted(self._peers.items()) if each is not peer)
        return [
            each.direct
            for each in others
            if each.direct is not None and not each.guest and not self.silent(each, now)
        ]

    def _pause(self, detour: Detour, now: float) -> None:
        pause = self._suspect / 12 * 2.0 ** min(detour.rounds, 8)
        detour.not_before = now + min(pause, self._pause_most)
        detour.rounds += 1
        detour.left = 0

    def failed(self, peer: Peer, connection: Connection, now: float) -> None:
        """The connection through another site was not made: ask the next site, or pause."""
        detour = self._detours.get(peer.name)
        if detour is None or detour.asked is not connection:
            return
        detour.asked = None
        if detour.left > 0 and self.silent(peer, now):
            self._ask(peer, detour, now)
        else:
            self._pause(detour, now)

    def again(self, peer: Peer, now: float) -> None:
        """A pipe to the peer has ended: look for another one at once."""
        peer.lost_at = min(peer.lost_at, now - self._suspect)
        self.look([peer], now)

    def found(self, peer: Peer) -> None:
        """There is a good connection. If it does not last, the next site is asked."""
        detour = self._detours.get(peer.name)
        if detour is not None:
            self._detours[peer.name] = Detour(turn=detour.turn)

    def _rest(self, peer: Peer) -> None:
        """The peer is heard: stop looking for it."""
        detour = self._detours.get(peer.name)
        if detour is not None:
            asked, detour.asked = detour.asked, None
            if asked is not None:
                asked.abort()
            if peer.direct is not None:
                del self._detours[peer.name]

    def part(self, site: Site) -> None:
        self._detours.pop(site, None)
