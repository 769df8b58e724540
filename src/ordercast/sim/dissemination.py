"""Dissemination in the simulated world: the ways of `core.dissemination` below the sites.

Datagrams, and packets along trees, meet every fault that frames meet, at each receiver by itself.
Keys and answers travel as connections carry them: in order, and never lost while both sites are up.
The others notice a crash when the site starts again; until then it is only silent.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from ordercast.core.dissemination.along_tree import AlongTree
from ordercast.core.dissemination.by_streams import ByStreams
from ordercast.core.dissemination.registry import TREE, UNICAST
from ordercast.core.dissemination.settings import StreamLimits, StreamTimes
from ordercast.core.dissemination.ways import Way
from ordercast.core.epochs.layout import Domain
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberBox
from ordercast.model.groups import Site
from ordercast.model.options import NEVER
from ordercast.sim.chance import Chance
from ordercast.sim.place import Place
from ordercast.wire.datagrams import Datagram, Piece
from ordercast.wire.dissemination import KEY_BYTES, TreePacket
from ordercast.wire.epochs import InEpoch

WAY, DATAGRAM, RING = 11, 12, 13
LIMITS, TIMES = StreamLimits(), StreamTimes()
_KEY = bytes(KEY_BYTES)


class Medium(Protocol):
    """The world below the ways: it carries what they send, with its delays and faults."""

    frames: int
    data: int

    @property
    def places(self) -> Mapping[Site, Place]: ...

    def arrivals(self, now: int, source: Site, sends: Any, /) -> Sequence[int]:
        """When each of these sends arrives, if no fault hits it."""

    def fates(self, now: int, source: Site, peer: Site, at: int) -> Sequence[int]:
        """When something that is due at `at` arrives: perhaps never, or more than once."""

    def push(self, at: int, code: int, place: Place, peer: Any, what: Any) -> None:
        """Call `happens` with these arguments, at the time `at`."""

    def hand(self, now: int, place: Place, peer: Site, frame: Any) -> None: ...
    def perform(self, now: int, place: Place, box: MemberBox) -> None: ...


class SimulatedWays:
    """The ways of all sites: how each sends to many."""

    def __init__(self, network: Medium, dissemination: str, seed: int) -> None:
        self._network = network
        self._tree = dissemination == TREE
        self._drawn = Chance(seed, "streams").bits
        self._ways: dict[Site, Way] = {}
        self._seen: dict[Site, Any] = {}  # the layout that the site's way knows
        self._rings: dict[Site, int] = {}  # when the heap next calls the site's way
        # The peers that a site's engine waits with, because the site's stream is full.
        self._full: dict[Site, tuple[Site, ...]] = {}
        self.waits = 0  # how often an engine was told to wait
        self._gone: Counter[str] = Counter()  # counts of ways whose sites have crashed

    @property
    def counts(self) -> Counter[str]:
        total = Counter(self._gone, **({"waits": self.waits} if self.waits else {}))
        for way in self._ways.values():
            total.update(way.counts)
        return total

    # --- sites that come and go -------------------------------------------------------------------

    def started(self, now: int, place: Place) -> None:
        name = place.name
        if name in self._ways:  # it had crashed
            self._gone.update(self._ways.pop(name).counts)
        self._ways[name] = (
            AlongTree(name) if self._tree else ByStreams(name, self._drawn(48) + 1, LIMITS, TIMES)
        )
        self._seen[name] = None
        self._rings[name] = NEVER
        self._full[name] = ()
        self._look(now, place)
        for other, way in self._ways.items():
            if other != name:
                way.lost(name)
                way.connected(name)
                self._ways[name].connected(other)
                at = self._network.places[other]
                if at.running is not None:
                    self._pump(now, at)
        self._pump(now, place)

    def _look(self, now: int, place: Place) -> None:
        """Tell the site's way of a new epoch, if the site has heard of one."""
        member = cast(Member, place.site)
        layout = member.layout
        if layout is self._seen[place.name]:
            return
        self._seen[place.name] = layout
        epoch, sites = 0, tuple[Site, ...]()
        if (home := layout.home(place.name)) is not None:
            epoch, sites = home.epoch, _tree_of(place.name, home)
        way = self._ways[place.name]
        if way.differs(epoch, sites):
            stream = self._drawn(48) + 1
            way.laid_out(now + place.clock, epoch, sites, list(member.engines), stream, _KEY)

    # --- frames -----------------------------------------------------------------------------------

    def share(self, now: int, source: Site, sends: Sequence[tuple[Site, Any]]) -> list[Any]:
        """Hand the sends to the site's way. Returns those that must go frame by frame."""
        place = self._network.places[source]
        self._look(now, place)
        rest = self._ways[source].share(now + place.clock, sends)
        self._pump(now, place)
        return list(rest)

    def happens(self, now: int, code: int, place: Place, peer: Any, what: Any) -> None:
        if place.site is None:
            return
        if place.paused:
            place.held.append((code, place, peer, what))
            return
        way = self._ways[place.name]
        if code == WAY:
            way.receive(now + place.clock, peer, what)
        elif code == DATAGRAM:
            way.take(now + place.clock, what)
        elif what != self._rings[place.name]:
            return  # an old call: the alarm has moved since
        else:
            self._rings[place.name] = NEVER
        self._look(now, place)
        self._pump(now, place)
        self._watch(now, place)

    def _watch(self, now: int, place: Place) -> None:
        """Tell the engine to wait while the stream has more than it can send soon."""
        way, told = self._ways[place.name], self._full[place.name]
        full = way.full(bool(told))
        if full == bool(told):
            return
        self._full[place.name] = way.sites if full else ()
        member = cast(Member, place.site)
        for peer in told or way.sites:
            if peer != place.name:
                member.congest(now + place.clock, peer, congested=full)
        self.waits += full
        self._network.perform(now, place, member.drain())

    def _pump(self, now: int, place: Place) -> None:
        box = self._ways[place.name].drain(now + place.clock)
        for peer, frame in box.frames:
            self._send(now, place.name, peer, WAY, frame, faulty=type(frame) is TreePacket)
        for datagram in box.datagrams:
            self._multicast(now, place, datagram)
        for origin, frames in box.packets:
            self._hand_up(now, place, origin, frames)
        at = max(now, box.alarm - place.clock)
        if at < self._rings[place.name] and box.alarm < NEVER:
            self._rings[place.name] = at
            self._network.push(at, RING, place, None, at)

    def _send(
        self, now: int, source: Site, peer: Site, code: int, what: Any, *, faulty: bool
    ) -> None:
        network = self._network
        (at,) = network.arrivals(now, source, [(peer, what)])
        network.frames += 1
        network.data += type(what) is TreePacket and what.packet != b""
        for arrival in network.fates(now, source, peer, at) if faulty else (at,):
            network.push(arrival, code, network.places[peer], source, what)

    def _multicast(self, now: int, place: Place, datagram: Datagram) -> None:
        """One transmission, which may be lost, doubled and late at each receiver by itself."""
        network = self._network
        sites = self._ways[place.name].sites
        peers: Any = [(site, datagram) for site in sites if site != place.name]
        times = network.arrivals(now, place.name, peers)
        network.frames += 1
        network.data += type(datagram) is Piece
        for (peer, _), at in zip(peers, times, strict=True):
            for arrival in network.fates(now, place.name, peer, at):
                network.push(arrival, DATAGRAM, network.places[peer], place.name, datagram)

    def _hand_up(self, now: int, place: Place, origin: Site, frames: Sequence[InEpoch]) -> None:
        network = self._network
        for frame in frames:
            network.hand(now, place, origin, frame)


def disseminated(network: Medium, dissemination: str, seed: int) -> SimulatedWays | None:
    return None if dissemination == UNICAST else SimulatedWays(network, dissemination, seed)


def _tree_of(site: Site, domain: Domain) -> tuple[Site, ...]:
    """The sites of the domain that are in one tree with this one."""
    root = domain.structure.root
    return tuple(sorted(other for other in domain.sites if root(other) == root(site)))
