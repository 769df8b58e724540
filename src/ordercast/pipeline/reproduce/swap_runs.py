"""[SWAP] by running the protocols: when predecessors are known, and which links carry requests.

All sites are members of one group, on a tree of the given shape; a frame between two sites takes a
millisecond for each link of the tree between them, as if it travelled there. Sites take what comes
at the same instant together, so requests that meet are combined (ERRATA SWAP-5: nothing waits for
another to come).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.groups import GroupTable, Site
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.pipeline.sweep_draw import site_names
from ordercast.pipeline.sweep_measure import Measured
from ordercast.pipeline.sweep_options import Config
from ordercast.sim.chance import Stream
from ordercast.sim.networks import Sends
from ordercast.sim.overheard import Heard, Overheard, Sending, overhear
from ordercast.sim.simulate import EPOCH
from ordercast.wire.swap import Count, Counted, Follows, Swap, Told

PROTOCOLS_OF_SWAP = ("arrow", "arrow_counting", "combining", "combining_counting", "hybrid")
BINARY, RANDOM, LIST = "binary", "random", "list"
TREES = (BINARY, RANDOM, LIST)
ONE, TURNS = "one sender", "two subtrees in turn"
ALL = "all"

_HOP = MILLISECOND
_TOGETHER = 1_000  # nanoseconds within which frames come at the same instant
_APART = SECOND // 2  # between two messages of which the first is everywhere by then
_REQUESTS = (Swap, Count, Told)
_HEADERS = (Follows, Counted)


def latencies(config: Config, seed: int, _run: str) -> Measured:
    """`requests` sites of a tree multicast at once. In hops, mean over the messages: until the
    predecessor (or number) is known somewhere, until the last member has delivered."""
    sites = site_names(config["sites"])
    structure = on_tree(config["tree"], sites, seed)
    senders = Stream(seed, "senders").sample(sites, config["requests"])
    measures: dict[str, float] = {"diameter": diameter(structure)}
    for protocol in _known():
        sendings = [Sending(0, site, ALL) for site in senders]
        found = overhear(
            structure, protocol, sendings, by=Links(structure), wake=_TOGETHER, seed=seed
        )
        known = first_known(found)
        hops = Counter(
            (item.batch.origin, item.batch.seq)
            for frame in found.heard
            for item in frame.items
            if isinstance(item, Swap)
        )
        measures |= {
            f"{protocol}/known_hops": fmean(known[m] / _HOP for m in found.sent),
            f"{protocol}/known_hops_max": max(known[m] / _HOP for m in found.sent),
            f"{protocol}/delivered_hops": fmean(max(found.delays(m)) / _HOP for m in found.sent),
            f"{protocol}/links_max": float(max(hops.values(), default=0)),
            f"{protocol}/requests_sent": sum(_is_request(f) for f in found.heard) / len(senders),
        }
    return Measured(measures)


def traffic(config: Config, seed: int, _run: str) -> Measured:
    """Messages one after the other: requests and answers per message over each link, the busiest
    first, and at the busiest site; headers and bodies are not counted."""
    sites = site_names(config["sites"])
    structure = on_tree(config["tree"], sites, seed)
    senders = _senders(structure, config["senders"], seed)
    count = config["messages"]
    sendings = [
        Sending(_APART * place, senders[place % len(senders)], ALL) for place in range(count)
    ]
    measures: dict[str, float] = {}
    for protocol in _known():
        found = overhear(
            structure, protocol, sendings, by=Links(structure), wake=_TOGETHER, seed=seed
        )
        requests = [frame for frame in found.heard if _is_request(frame)]
        links = Counter(tuple(sorted((frame.source, frame.peer))) for frame in requests)
        at = Counter(site for frame in requests for site in (frame.source, frame.peer))
        root = roots(structure)[0]
        passing = {_at_message(frame, sendings) for frame in requests if root in frame[1:3]}
        loads = [*sorted(links.values(), reverse=True), *([0] * len(sites))]
        measures |= {
            f"{protocol}/requests_sent": len(requests) / count,
            f"{protocol}/links_used": float(len(links)),
            f"{protocol}/busiest_site": max(at.values(), default=0) / count,
            f"{protocol}/through_root": len(passing) / count,
            **{f"{protocol}/link_{rank}": loads[rank - 1] / count for rank in range(1, len(sites))},
        }
    return Measured(measures)


def _known() -> list[str]:
    return [protocol for protocol in PROTOCOLS_OF_SWAP if protocol in PROTOCOLS]


def _is_request(frame: Heard) -> bool:
    return any(isinstance(item, _REQUESTS) for item in frame.items)


def _at_message(frame: Heard, sendings: Sequence[Sending]) -> int:
    """Which message is under way: they are far apart."""
    return frame.at // _APART if sendings else 0


def first_known(found: Overheard) -> dict[tuple[str, int, str, int], int]:
    """When the header of each message first left a site, from its sending on."""
    known: dict[tuple[str, int, str, int], int] = {}
    for frame in found.heard:
        for item in frame.items:
            if isinstance(item, _HEADERS):
                batch = item.batch
                name = (batch.origin, batch.incarnation, batch.group, batch.seq)
                known.setdefault(name, frame.at)
    return {message: known[tuple(message)] - at for message, at in found.sent.items()}


# --- trees ------------------------------------------------------------------------------------


def on_tree(shape: str, sites: Sequence[Site], seed: int) -> Structure:
    """One group of all sites. A random tree: each site hangs below any of those before it."""
    stream = Stream(seed, "tree")
    parent: dict[Site, Site | None] = {sites[0]: None}
    for place in range(1, len(sites)):
        above = {BINARY: (place - 1) // 2, LIST: place - 1}.get(shape)
        parent[sites[place]] = sites[stream.below(place) if above is None else above]
    table = GroupTable(tuple(sites), {ALL: tuple(sites)})
    return Structure(EPOCH, table, Forest(shape, parent, {ALL: sites[0]}))


def roots(structure: Structure) -> list[Site]:
    return [site for site, above in structure.forest.parent.items() if above is None]


def distance(structure: Structure, a: Site, b: Site) -> int:
    hops = 0
    while a != b:
        if structure.depth(a) < structure.depth(b):
            a, b = b, a
        above = structure.parent(a)
        assert above is not None
        a = above
        hops += 1
    return hops


def diameter(structure: Structure) -> int:
    sites = structure.table.sites
    far = max(sites, key=lambda site: distance(structure, sites[0], site))
    return max(distance(structure, far, site) for site in sites)


class Links:
    """The network of a tree: so many hops, so long."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._known: dict[tuple[Site, Site], int] = {}

    def arrivals(self, now: int, source: Site, sends: Sends, /) -> list[int]:
        return [now + _HOP * self._hops(source, peer) for peer, _ in sends]

    def _hops(self, a: Site, b: Site) -> int:
        found = self._known.get((a, b))
        if found is None:
            found = self._known[a, b] = self._known[b, a] = distance(self._structure, a, b)
        return found


def _senders(structure: Structure, which: str, seed: int) -> list[Site]:
    """A leaf; or one site of each of the two subtrees below the root, drawn."""
    stream = Stream(seed, "senders")
    (root,) = roots(structure)
    below = _below(structure)
    if which == ONE:
        leaves = [site for site in structure.table.sites if not structure.children[site]]
        return [stream.choice(leaves)]
    first, second = structure.children[root][:2]
    return [stream.choice(below[first]), stream.choice(below[second])]


def _below(structure: Structure) -> Mapping[Site, list[Site]]:
    """Each site and all those below it."""
    found: dict[Site, list[Site]] = {site: [] for site in structure.table.sites}
    for site in structure.table.sites:
        at: Site | None = site
        while at is not None:
            found[at].append(site)
            at = structure.parent(at)
    return found
