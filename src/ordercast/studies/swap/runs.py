"""[SWAP] by running the protocols: when predecessors are known, and which links carry requests.

All sites are members of one group, on a tree of the given shape; a frame between two sites takes a
millisecond for each link of the tree between them, as if it travelled there. Sites take what comes
at the same instant together, so requests that meet are combined (errata SWAP-5: nothing waits for
another to come).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.groups import GroupTable, Site
from ordercast.model.messages import MessageId
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import site_names
from ordercast.sim.chance import Chance
from ordercast.sim.message_costs import Overheard, OverheardFrame, PlannedSend, overhear
from ordercast.sim.networks import Sends
from ordercast.sim.simulate import EPOCH
from ordercast.wire.swap import ChainMark, Count, Counted, CountValue, Follows, MarkValue, Swap

GROUPS_BELOW = "hybrid:3:3"
"""A core of three sites, which is that of `hybrid` on a binary tree, and arrow groups of three."""
PROTOCOLS_OF_SWAP = (
    "arrow", "arrow_counting", "combining", "combining_counting", "hybrid", GROUPS_BELOW,
)  # fmt: skip
BINARY, RANDOM, LIST = "binary", "random", "list"
SHAPES = (BINARY, RANDOM, LIST)
ONE, TURNS = "one sender", "two subtrees in turn"
ALL = "all"

_HOP = MILLISECOND
_TOGETHER = 1_000  # nanoseconds within which frames come at the same instant
_APART = SECOND // 2  # between two messages: the first is everywhere by then
_REQUESTS = (Swap, Count, CountValue, ChainMark, MarkValue)
_HEADERS = (Follows, Counted)


def latencies(config: Config, seed: int, _run: str) -> Measured:
    """`requests` sites of a tree multicast at once. The mean over the messages, in hops, until some
    site knows the predecessor (or the number), and until the last member has delivered."""
    sites = site_names(config["sites"])
    structure = on_tree(config["shape"], sites, seed)
    senders = Chance(seed, "senders").sample(sites, config["requests"])
    measures: dict[str, float] = {"diameter": diameter(structure)}
    for protocol in PROTOCOLS_OF_SWAP:
        sendings = [PlannedSend(0, site, ALL) for site in senders]
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
            f"{protocol}/beyond_diameter": float(
                max(hops.values(), default=0) > measures["diameter"]
            ),
            f"{protocol}/requests_sent": sum(_is_request(f) for f in found.heard) / len(senders),
        }
    return Measured(measures)


def traffic(config: Config, seed: int, _run: str) -> Measured:
    """Messages are sent one after the other. Counts the requests and answers per message over each
    link, the busiest first, and at the busiest site; `requests_later`: those of all messages but
    the first. Headers and bodies are not counted."""
    sites = site_names(config["sites"])
    structure = on_tree(config["shape"], sites, seed)
    senders = _senders(structure, config["senders"], seed)
    count = config["messages"]
    sendings = [
        PlannedSend(_APART * place, senders[place % len(senders)], ALL) for place in range(count)
    ]
    measures: dict[str, float] = {}
    for protocol in PROTOCOLS_OF_SWAP:
        found = overhear(
            structure, protocol, sendings, by=Links(structure), wake=_TOGETHER, seed=seed
        )
        requests = [frame for frame in found.heard if _is_request(frame)]
        paths = [path(structure, frame.source, frame.peer) for frame in requests]
        links = Counter(tuple(sorted(link)) for way in paths for link in pairwise(way))
        at = Counter(site for way in paths for link in pairwise(way) for site in link)
        (root,) = roots(structure)
        passing = {f.at // _APART for f, way in zip(requests, paths, strict=True) if root in way}
        loads = [*sorted(links.values(), reverse=True), *([0] * len(sites))]
        measures |= {
            f"{protocol}/requests_sent": len(requests) / count,
            f"{protocol}/requests_later": sum(f.at >= _APART for f in requests) / max(1, count - 1),
            f"{protocol}/links_used": float(len(links)),
            f"{protocol}/busiest_site": max(at.values(), default=0) / count,
            f"{protocol}/through_root": len(passing) / count,
            **{f"{protocol}/link_{rank}": loads[rank - 1] / count for rank in range(1, len(sites))},
        }
    return Measured(measures)


def _is_request(frame: OverheardFrame) -> bool:
    return any(isinstance(item, _REQUESTS) for item in frame.items)


def first_known(found: Overheard) -> dict[MessageId, int]:
    """When the header of each message first left a site, from its sending on."""
    known: dict[MessageId, int] = {}
    for frame in found.heard:
        for item in frame.items:
            if isinstance(item, _HEADERS):
                batch = item.batch
                name = MessageId(batch.origin, batch.incarnation, batch.group, batch.seq)
                known.setdefault(name, frame.at)
    return {message: known[message] - at for message, at in found.sent.items()}


# --- trees ------------------------------------------------------------------------------------


def on_tree(shape: str, sites: Sequence[Site], seed: int) -> Structure:
    """One group of all sites on a tree. In a random tree each site hangs below a random earlier
    one."""
    stream = Chance(seed, "tree")
    parent: dict[Site, Site | None] = {sites[0]: None}
    for place in range(1, len(sites)):
        above = {BINARY: (place - 1) // 2, LIST: place - 1}.get(shape)
        parent[sites[place]] = sites[stream.below(place) if above is None else above]
    table = GroupTable(tuple(sites), {ALL: tuple(sites)})
    return Structure(EPOCH, table, Forest(shape, parent, {ALL: sites[0]}))


def roots(structure: Structure) -> list[Site]:
    return [site for site, above in structure.forest.parent.items() if above is None]


def path(structure: Structure, a: Site, b: Site) -> list[Site]:
    """The sites on the way through the tree, both ends included."""
    left, right = [a], [b]
    while left[-1] != right[-1]:
        lower = left if structure.depth(left[-1]) >= structure.depth(right[-1]) else right
        above = structure.parent(lower[-1])
        assert above is not None
        lower.append(above)
    return [*left, *reversed(right[:-1])]


def diameter(structure: Structure) -> int:
    sites = structure.table.sites
    far = max(sites, key=lambda site: len(path(structure, sites[0], site)))
    return max(len(path(structure, far, site)) for site in sites) - 1


class Links:
    """The network of a tree: a frame takes a fixed time for each hop."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._known: dict[tuple[Site, Site], int] = {}

    def arrivals(self, now: int, source: Site, sends: Sends, /) -> list[int]:
        return [now + _HOP * self._hops(source, peer) for peer, _ in sends]

    def _hops(self, a: Site, b: Site) -> int:
        found = self._known.get((a, b))
        if found is None:
            found = self._known[a, b] = self._known[b, a] = len(path(self._structure, a, b)) - 1
        return found


def _senders(structure: Structure, which: str, seed: int) -> list[Site]:
    """A leaf; or one site of each of the two subtrees below the root, drawn."""
    stream = Chance(seed, "senders")
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
