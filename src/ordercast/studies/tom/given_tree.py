"""[TOM] §3, §4.3 on a given tree: what a logical hop is in the network, and the way of a message.

The hosts of a session are the nodes of a complete tree with five children each. The tree is also
the network: a frame takes the time of one hop for each link between its ends, and a multicast uses
each link of the tree once. TOM runs on this tree; MP and MG compute trees of their own from the
groups.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import fmean
from typing import Any

from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable, Site
from ordercast.model.options import MILLISECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import UNIFORM, draw_table, drawing_of
from ordercast.plan.advice import advise
from ordercast.sim.chance import Chance
from ordercast.sim.message_costs import Overheard, PlannedSend, overhear
from ordercast.sim.networks import Sends
from ordercast.sim.simulate import EPOCH
from ordercast.wire.tom import Body

BUILDERS = {"propagation": "greedy", "metagroup": "metagroups", "tom": "given"}
LOCAL = "local"  # groups of hosts that are near each other, by name and so in the tree
SESSION = "session"  # a group of all hosts: every host takes part in TOM's tree
BRANCHING = 5
_HOP = MILLISECOND
_MESSAGES = 6  # of a run, one after the other
_APART = 1000 * MILLISECOND


def tree_of(sites: tuple[Site, ...]) -> dict[Site, Site]:
    """A complete tree; names follow it in preorder, so that neighbours by name are near."""
    count = len(sites)
    order: list[int] = []  # nodes, numbered level by level, in preorder
    waiting = [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        below = range(BRANCHING * node + 1, min(BRANCHING * node + BRANCHING, count - 1) + 1)
        waiting += reversed(below)
    name = {node: sites[place] for place, node in enumerate(order)}
    return {name[node]: name[(node - 1) // BRANCHING] for node in order if node}


class RoutedTree:
    """The network: hosts at the nodes of a tree, a hop's time for each link."""

    def __init__(self, tree: Mapping[Site, Site]) -> None:
        self._above = tree
        self._ways: dict[tuple[Site, Site], list[tuple[Site, Site]]] = {}

    def arrivals(self, now: int, source: Site, sends: Sends, /) -> list[int]:
        return [now + _HOP * len(self.links(source, peer)) for peer, _ in sends]

    def links(self, a: Site, b: Site) -> list[tuple[Site, Site]]:
        """The links on the way, each with its lower end first."""
        found = self._ways.get((a, b))
        if found is None:
            up, down = self._up(a), self._up(b)
            shared = set(up) & set(down)
            found = [
                link for path in (up, down) for link in pairwise(path) if link[0] not in shared
            ]
            self._ways[a, b] = found
        return found

    def _up(self, site: Site) -> list[Site]:
        path = [site]
        while (above := self._above.get(path[-1])) is not None:
            path.append(above)
        return path


def given_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure`, mean over some messages from members to random groups."""
    spread = max(1, config["sites"] // 20) if config["where"] == LOCAL else UNIFORM
    drawn = draw_table(drawing_of({**config, "spread": spread}), seed)
    tree = tree_of(drawn.sites)
    network = RoutedTree(tree)
    stream = Chance(seed, "sources")
    groups = [stream.choice(sorted(drawn.groups)) for _ in range(_MESSAGES)]
    sendings = [
        PlannedSend(_APART * place, stream.choice(drawn.groups[group]), group)
        for place, group in enumerate(groups)
    ]
    measures: dict[str, float] = {}
    for protocol, builder in BUILDERS.items():
        table = drawn
        if builder == "given":
            everybody = {**drawn.groups, SESSION: drawn.sites}
            table = GroupTable(drawn.sites, everybody, tree=tree)
        structure = Structure(EPOCH, table, advise(table, builder).forest)
        found = overhear(structure, protocol, sendings, by=network, seed=seed)
        measures |= {
            f"{protocol}/{name}": float(value)
            for name, value in _of_messages(found, network).items()
        }
    return Measured(measures)


def _of_messages(found: Overheard, network: RoutedTree) -> dict[str, float]:
    hops = [
        len(network.links(frame.source, frame.peer))
        for frame in found.heard
        if not all(isinstance(item, Body) for item in frame.items)
    ]
    delays = [[delay / _HOP for delay in found.delays(message)] for message in found.sent]
    count = len(found.sent)
    return {
        "stretch": fmean(hops),
        "stretch_max": max(hops),
        "transmissions": found.transmissions() / count,
        "links": _links(found, network) / count,
        "delay_mean_hops": fmean(fmean(each) for each in delays),
        "delay_last_hops": fmean(max(each) for each in delays),
        "direct_hops": fmean(
            fmean(len(network.links(message.origin, site)) for site in had)
            for message, had in found.had.items()
        ),
    }


def _links(found: Overheard, network: RoutedTree) -> int:
    """Crossings of links: what one site sends to several at one time crosses a link once."""
    sent: dict[Any, dict[tuple[Site, Site], None]] = {}
    for frame in found.heard:
        content = tuple(getattr(item, "batch", item) for item in frame.items)
        used = sent.setdefault((frame.at, frame.source, content), {})
        used |= _each(network.links(frame.source, frame.peer))
    return sum(len(used) for used in sent.values())


def _each(links: Iterable[tuple[Site, Site]]) -> dict[tuple[Site, Site], None]:
    return dict.fromkeys(links)
