"""Objectives over a structure: less is better, and rates count.

`delay` is [GS] §4.1's model of a point-to-point network (P to handle a message, L on the way) with
queueing added: a site that is busy for the fraction rho of its time takes P / (1 - rho) for each
message it receives or sends. `load` is the busiest site, `messages` is [GS] n + ε. `mixed` lies
between them, for users who want no extreme.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.metrics import Cost, Metrics, measure_indexed
from ordercast.forest.tree import Tree
from ordercast.model.groups import GroupTable

OBJECTIVES = ("delay", "load", "messages")  # each of one thing
MIXED = "mixed"
EVERY_OBJECTIVE = (*OBJECTIVES, MIXED)
TIMED = ("delay", MIXED)  # an overloaded structure has none of these

ASSUMED_RATE = 1000.0  # messages per second in all, spread evenly, when the file gives no rates

# The delay of an overloaded structure is this many seconds times its rho, and no other structure's
# delay is allowed to reach it, so overloaded ones rank last and among themselves by rho.
OVERLOADED_S = 1e12

_LOAD_WORTH = 2.0  # `mixed`: halving the highest load is worth 1.4 hops or messages


@dataclass(frozen=True, slots=True)
class NetworkModel:
    """[GS] §4.1's constants; the defaults are those of a LAN and of this runtime's order."""

    latency_s: float = 200e-6  # L: on the way from one site to the next
    handling_s: float = 20e-6  # P: a site's time for one receive or one send

    @property
    def hop_s(self) -> float:
        """A message sent, on the way and received."""
        return self.latency_s + 2 * self.handling_s or 1.0


LAN = NetworkModel()


@dataclass(frozen=True, slots=True)
class Values:
    """All objectives of one structure, and the site that limits it."""

    delay: float  # seconds; OVERLOADED_S or more when a site cannot keep up
    load: float
    messages: float
    mixed: float  # hops and messages of a send, against the logarithm of the load
    busiest: int  # the site with the highest weighted load
    utilisation: float  # its rho: the fraction of its time that it is busy

    @property
    def overloaded(self) -> bool:
        return self.utilisation >= 1.0

    def of(self, objective: str) -> float:
        by_name = {"delay": self.delay, "load": self.load, "messages": self.messages}
        return self.mixed if objective == MIXED else by_name[objective]


def total_rate(table: GroupTable) -> float:
    """Messages per second to all groups together."""
    if not table.rates:
        return ASSUMED_RATE
    return sum(table.rate(group) for group in table.groups)


def unit_rate(table: GroupTable) -> float:
    """Messages per second that a group of weight 1.0 gets: weights are 1.0 on average."""
    return total_rate(table) / max(1, len(table.groups))


def cost_of(objective: str, table: GroupTable, model: NetworkModel = LAN) -> Cost:
    """The objective as a cost function for builders that choose between structures.

    A builder may try structures on a part of the table, so the rate is that of a weight of 1.0, not
    of the whole table.
    """
    rate = unit_rate(table)

    def load(indexed: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> float:
        return max(measure_indexed(indexed, parent, primary).weighted_load, default=0.0)

    def messages(indexed: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> float:
        return _weighted_mean(measure_indexed(indexed, parent, primary).messages, indexed.weights)

    def delay(indexed: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> float:
        return values(indexed, parent, primary).delay

    def mixed(indexed: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> float:
        return values(indexed, parent, primary).mixed

    def values(indexed: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> Values:
        metrics = measure_indexed(indexed, parent, primary)
        return evaluate(indexed, parent, primary, metrics, rate, model)

    return {"delay": delay, "load": load, "messages": messages, MIXED: mixed}[objective]


def evaluate(
    table: IndexedTable,
    parent: Sequence[int],
    primary: Sequence[int],
    metrics: Metrics,
    rate: float,
    model: NetworkModel = LAN,
) -> Values:
    """All objectives of a structure already measured; `rate`: per second, of a weight of 1.0."""

    def arrive(handling: Sequence[float], latency: float) -> list[float]:
        return arrival_times(table, parent, primary, handling, latency)

    return values_of(table, metrics.messages, metrics.weighted_load, arrive, rate, model)


def values_of(
    table: IndexedTable,
    messages: Sequence[float],
    load: Sequence[float],
    arrive: Callable[[Sequence[float], float], list[float]],
    rate: float,
    model: NetworkModel = LAN,
) -> Values:
    """All objectives from the messages of each group, the load of each site, and the delays of the
    groups by the sites' handling times and L."""
    busiest = max(range(len(load)), key=lambda site: (load[site], -site), default=-1)
    busy_per_load = rate * model.handling_s
    utilisation = load[busiest] * busy_per_load if load else 0.0
    if utilisation >= 1.0:
        delay = OVERLOADED_S * utilisation
    else:
        handling = [model.handling_s / (1.0 - each * busy_per_load) for each in load]
        times = arrive(handling, model.latency_s)
        delay = min(_weighted_mean(times, table.weights), OVERLOADED_S)
    highest, sends = load[busiest] if load else 0.0, _weighted_mean(messages, table.weights)
    return Values(
        delay=delay,
        load=highest,
        messages=sends,
        mixed=delay / model.hop_s + sends + _LOAD_WORTH * log(max(1.0, highest)),
        busiest=busiest,
        utilisation=utilisation,
    )


def arrival_times(
    table: IndexedTable,
    parent: Sequence[int],
    primary: Sequence[int],
    handling: Sequence[float],
    latency: float,
) -> list[float]:
    """Per group, seconds from the origin's send until the last member has the message.

    Every hop costs `latency`, the one from the origin to the primary included; every site on the
    way `handling` for its receive and for each send of this message. Only members and forks are
    visited: between two of them each relay sends once, so prefix sums give its share.
    """
    tree = Tree.of(parent)
    depth, enter, common_ancestor = tree.depth, tree.enter, tree.common_ancestor
    to_root = list(handling)  # of each site: the sum of `handling` from its root down to itself
    for site in tree.preorder:
        if parent[site] >= 0:
            to_root[site] += to_root[parent[site]]

    times = []
    for group, members in enumerate(table.members):
        top = primary[group]
        visited = sorted({top, *members}, key=enter.__getitem__)
        # In preorder, when all forks are among them, the fork with the one before is the one above.
        above = [common_ancestor(a, b) for a, b in pairwise(visited)]
        if not set(above).issubset(visited):
            visited = sorted({*visited, *above}, key=enter.__getitem__)
            above = [common_ancestor(a, b) for a, b in pairwise(visited)]
        sends = dict.fromkeys(visited, 0)
        for upper in above:
            sends[upper] += 1
        time = {top: latency + (1 + sends[top]) * handling[top]}
        for site, upper in zip(visited[1:], above, strict=True):
            hops = (depth[site] - depth[upper]) * latency
            relays = 2 * (to_root[parent[site]] - to_root[upper])
            time[site] = time[upper] + hops + relays + (1 + sends[site]) * handling[site]
        times.append(max(time.values()))
    return times


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    total = sum(weights)
    if total <= 0:
        return 0.0
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total
