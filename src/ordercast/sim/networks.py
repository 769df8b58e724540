"""How long frames take: the network models of a simulation.

A spec is plain data, read from the option `--network`; `build_network` makes the model of one run,
which knows when each frame of a burst arrives. Every link is FIFO by itself, as TCP would be: loss,
doubling and reordering are faults. Networks differ in the site that is charged for a frame:

- `lan` and `wan`: none; each frame takes a drawn time.
- `p2p` ([GS] §4.1): the sender is busy P for each frame; then it takes L. A multicast to k
  receivers leaves one after another.
- `broadcast` ([GS] §4.2): one frame on the network at a time, each takes T; the same items to
  several receivers in one burst are one transmission.
- `tree`: sites at the nodes of a b-ary tree of routers; each hop takes its time.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from ordercast.forest.given_tree import GIVEN
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable, Site
from ordercast.model.names import nearest
from ordercast.model.notation import count, duration, pairs, require_known, show_duration
from ordercast.model.options import MILLISECOND
from ordercast.sim.chance import Chance
from ordercast.sim.wan import BUILT_IN, Wan, parse_wan
from ordercast.wire.datagrams import Beat, Piece, PieceRequest
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import Data, Frame

Sends: TypeAlias = Sequence[tuple[Site, Frame]]
Delay: TypeAlias = Callable[[Site, Site], tuple[int, int]]
"""For two sites: the least delay, and how many nanoseconds above it to draw from."""


class Network(Protocol):
    """The model of one run."""

    def arrivals(self, now: int, source: Site, sends: Sends, /) -> list[int]:
        """When each of these frames arrives. `source` hands them over now, in this order."""
        ...


@dataclass(frozen=True, slots=True)
class LanSpec:
    least: int = 50_000
    most: int = 500_000

    def text(self) -> str:
        return "lan"


@dataclass(frozen=True, slots=True)
class PointToPointSpec:
    processing: int = MILLISECOND
    latency: int = 5 * MILLISECOND

    def text(self) -> str:
        return f"p2p:P={show_duration(self.processing)},L={show_duration(self.latency)}"


@dataclass(frozen=True, slots=True)
class BroadcastSpec:
    transmission: int = 2 * MILLISECOND

    def text(self) -> str:
        return f"broadcast:T={show_duration(self.transmission)}"


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """`levels` of routers with `branching` children each; sites fill them level by level."""

    branching: int = 3
    levels: int = 4
    hop: int = MILLISECOND

    def text(self) -> str:
        return f"tree:b={self.branching},p={self.levels},hop={show_duration(self.hop)}"

    def delays(self, sites: Sequence[Site]) -> Delay:
        """Delays by the hops between two sites' nodes. Sites share nodes if there are too few."""
        nodes = sum(self.branching**level for level in range(self.levels))
        node = {site: place % nodes for place, site in enumerate(sorted(sites))}
        return lambda a, b: (self.hop * max(1, self._hops(node[a], node[b])), 1)

    def tree(self, sites: Sequence[Site]) -> dict[Site, Site]:
        """The site above each: the first on the next node up. Of several on one node the first is
        above the others."""
        nodes = sum(self.branching**level for level in range(self.levels))
        order = sorted(sites)
        found = {}
        for place, site in enumerate(order[1:], start=1):
            node = place % nodes
            above = (node - 1) // self.branching if place < nodes else node
            found[site] = order[above]
        return found

    def _hops(self, a: int, b: int) -> int:
        hops = 0
        while a != b:  # nodes are numbered level by level: the larger number is not higher up
            a, b = max(a, b), min(a, b)
            a = (a - 1) // self.branching
            hops += 1
        return hops


@dataclass(frozen=True, slots=True)
class WanSpec:
    wan: Wan = BUILT_IN
    file: str = ""

    def text(self) -> str:
        return f"wan:{self.file}" if self.file else "wan"


NetworkSpec: TypeAlias = LanSpec | PointToPointSpec | BroadcastSpec | TreeSpec | WanSpec


def with_network_tree(table: GroupTable, builder: str, spec: NetworkSpec) -> GroupTable:
    """The table that a forest is built from: for the builder `given`, with the network's own tree
    unless the groups file has one."""
    if builder != GIVEN or table.tree or not isinstance(spec, TreeSpec):
        return table
    return replace(table, tree=spec.tree(table.sites))


NETWORKS = ("lan", "p2p", "broadcast", "wan", "tree")


def build_network(spec: NetworkSpec, sites: Sequence[Site], stream: Chance) -> Network:
    """The model for one run."""
    match spec:
        case LanSpec():
            return _Uniform(sites, stream, spec.least, spec.most)
        case PointToPointSpec():
            return _PointToPoint(sites, spec.processing, spec.latency)
        case BroadcastSpec():
            return _Broadcast(spec.transmission)
        case TreeSpec():
            return _Drawn(sites, stream, spec.delays(sites))
        case WanSpec():
            return _Drawn(sites, stream, spec.wan.delays(sites))


def build_voters_network(spec: NetworkSpec, sites: Sequence[Site], stream: Chance) -> Network:
    """The same for voters' frames: they are charged to no P and no T, and delay nobody."""
    match spec:
        case PointToPointSpec():
            return _Drawn(sites, stream, lambda _a, _b: (spec.latency, 1))
        case BroadcastSpec():
            return _Drawn(sites, stream, lambda _a, _b: (spec.transmission, 1))
        case _:
            return build_network(spec, sites, stream)


def check_network(spec: NetworkSpec, sites: Sequence[Site]) -> None:
    """Refuse a file of delays that does not cover the sites."""
    if isinstance(spec, WanSpec):
        spec.wan.check(sites)


def parse_network(text: str, read: Callable[[str], str], where: str = "network") -> NetworkSpec:
    """`lan`, `p2p:P=1ms,L=5ms`, `broadcast:T=2ms`, `wan[:FILE]`, `tree:b=3,p=4`."""
    name, colon, rest = text.partition(":")
    require_known(name, NETWORKS, where)
    if name == "lan":
        if colon:
            raise ConfigError(f"{where}: 'lan' takes no parameters, got {rest!r}")
        return LanSpec()
    if name == "wan":
        return WanSpec(parse_wan(read(rest), rest), rest) if colon else WanSpec()
    given = dict(pairs(rest, where)) if colon else {}
    if name == "p2p":
        _only(given, ("P", "L"), where, name)
        default = PointToPointSpec()
        return PointToPointSpec(
            _duration(given, "P", default.processing, where),
            _duration(given, "L", default.latency, where),
        )
    if name == "broadcast":
        _only(given, ("T",), where, name)
        return BroadcastSpec(_duration(given, "T", BroadcastSpec().transmission, where))
    _only(given, ("b", "p", "hop"), where, name)
    tree = TreeSpec()
    return TreeSpec(
        count(given.get("b", tree.branching), f"{where}: tree: b", least=1),
        count(given.get("p", tree.levels), f"{where}: tree: p", least=1),
        _duration(given, "hop", tree.hop, where),
    )


def _only(given: dict[str, str], known: Sequence[str], where: str, network: str) -> None:
    for name in given:
        if name not in known:
            hint = nearest(name, known)
            raise ConfigError(f"{where}: {network!r} has no parameter {name!r}{hint}")


def _duration(given: dict[str, str], name: str, default: int, where: str) -> int:
    return duration(given[name], f"{where}: {name}") if name in given else default


class _Uniform:
    """Every frame's delay is drawn from the same range; nothing overtakes on a link."""

    def __init__(self, sites: Sequence[Site], stream: Chance, least: int, most: int) -> None:
        self._bits = stream.bits
        self._least = least
        self._span = most - least + 1
        self._last: dict[Site, dict[Site, int]] = {site: defaultdict(int) for site in sites}

    def arrivals(self, now: int, source: Site, sends: Sends) -> list[int]:
        last = self._last[source]
        times = []
        for peer, _ in sends:
            at = now + self._least + ((self._bits(32) * self._span) >> 32)
            if at < last[peer]:
                at = last[peer]
            last[peer] = at
            times.append(at)
        return times


class _Drawn:
    """Each pair of sites has a least delay, and a range above it to draw from."""

    def __init__(self, sites: Sequence[Site], stream: Chance, delay: Delay) -> None:
        self._bits = stream.bits
        self._delay = delay
        self._known: dict[tuple[Site, Site], tuple[int, int]] = {}
        self._last: dict[Site, dict[Site, int]] = {site: {} for site in sites}

    def arrivals(self, now: int, source: Site, sends: Sends) -> list[int]:
        last = self._last[source]
        times = []
        for peer, _ in sends:
            pair = (source, peer)
            drawn = self._known.get(pair)
            if drawn is None:
                drawn = self._known[pair] = self._delay(source, peer)
            at = now + drawn[0] + ((self._bits(32) * drawn[1]) >> 32)
            at = last[peer] = max(at, last.get(peer, 0))
            times.append(at)
        return times


class _PointToPoint:
    def __init__(self, sites: Sequence[Site], processing: int, latency: int) -> None:
        self._processing = processing
        self._latency = latency
        self._free = dict.fromkeys(sites, 0)  # when the sender's processor is free again

    def arrivals(self, now: int, source: Site, sends: Sends) -> list[int]:
        free = max(now, self._free[source])
        times = []
        for _ in sends:
            free += self._processing
            times.append(free + self._latency)
        self._free[source] = free
        return times


def _content(frame: object) -> object:
    """Frames with equal content are one transmission. None: the frame is one by itself."""
    if type(frame) is InEpoch:
        frame = frame.frame
    if type(frame) is Data:
        return (frame.lane, frame.items, frame.rider and frame.rider.items)
    return frame if isinstance(frame, (Piece, PieceRequest, Beat)) else None


class _Broadcast:
    def __init__(self, transmission: int) -> None:
        self._transmission = transmission
        self._free = 0  # when the medium is free again

    def arrivals(self, now: int, _source: Site, sends: Sends) -> list[int]:
        free = max(now, self._free)
        times = []
        under_way: dict[object, int] = {}  # when each content of this burst arrives
        for _, frame in sends:
            content = _content(frame)
            at = under_way.get(content) if content is not None else None
            if at is None:
                at = free = free + self._transmission
                if content is not None:
                    under_way[content] = at
            times.append(at)
        self._free = free
        return times
