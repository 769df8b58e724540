"""What a message costs by each ordering protocol: messages, load of every site, delay.

The members of a group send in turn, in an otherwise idle domain; the work of the origin counts,
too. Each function takes a table on a forest and gives exact counts (a test runs every protocol and
compares), and the time until the last member has the message: L for each hop, and a site's handling
time for each message that it receives or sends before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.metrics import Metrics, measure_indexed
from ordercast.forest.tree import Tree
from ordercast.plan.objectives import arrival_times

Arrive = Callable[[Sequence[float], float], list[float]]
"""Makes of each site's handling time, and of L, the delay of every group: the mean over its members
as origins."""


@dataclass(frozen=True)
class Ground:
    """A table on a forest."""

    table: IndexedTable
    parent: Sequence[int]
    primary: Sequence[int]

    @cached_property
    def metrics(self) -> Metrics:
        return measure_indexed(self.table, self.parent, self.primary)

    @cached_property
    def tree(self) -> Tree:
        return Tree.of(self.parent)

    @cached_property
    def domains(self) -> Sequence[tuple[Sequence[int], Sequence[int]]]:
        """(sites, groups) of each domain."""
        return self.table.domains()

    def edge_load(self, flow: Sequence[float]) -> list[float]:
        """The frames that each site sends and receives, when `flow[site]` of them pass the edge
        above the site."""
        load = list(flow)
        for site, above in enumerate(self.parent):
            if above >= 0:
                load[above] += flow[site]
        return load

    def flow_up(self, entering: Sequence[float]) -> list[float]:
        """Frames over the edge above a site, when `entering[site]` begin there (below 0: end)."""
        flow = list(entering)
        for site in reversed(self.tree.preorder):
            if self.parent[site] >= 0:
                flow[self.parent[site]] += flow[site]
        return [0.0 if self.parent[site] < 0 else each for site, each in enumerate(flow)]


@dataclass(frozen=True, slots=True)
class Costs:
    messages: Sequence[float]  # of each group
    load: Sequence[float]  # of each site: sends and receives, groups counted by their weights
    arrive: Arrive


def on_a_tree(ground: Ground) -> Costs:
    """`propagation`, `centralized`, `metagroup`: to the primary, and down. A primary that sends
    needs no first step."""
    table, primary = ground.table, ground.primary
    load = list(ground.metrics.weighted_load)
    messages = [float(count) for count in ground.metrics.messages]
    for group, members in enumerate(table.members):
        share = table.weights[group] / len(members)
        top = primary[group]
        for site in members:
            load[site] += -share if site == top else share
        messages[group] -= (top in members) / len(members)

    def arrive(handling: Sequence[float], latency: float) -> list[float]:
        found = []
        down = arrival_times(table, ground.parent, primary, handling, latency)
        for group, members in enumerate(table.members):
            top = primary[group]
            first = sum(latency + handling[site] + handling[top] for site in members if site != top)
            below = down[group] - latency - handling[top]
            found.append(max(0.0, below + first / len(members)))  # rounding may leave a little less
        return found

    return Costs(messages, load, arrive)


def two_phase(ground: Ground) -> Costs:
    """An offer, a proposal and a final number for each other member."""
    table = ground.table
    load = [0.0] * len(table.sites)
    for group, members in enumerate(table.members):
        others = len(members) - 1
        for site in members:  # as the origin 3 for each other member, as one of those 3
            load[site] += table.weights[group] * 6 * others / len(members)

    def arrive(handling: Sequence[float], latency: float) -> list[float]:
        return [_two_phase_delay(members, handling, latency) for members in table.members]

    return Costs([3.0 * (len(members) - 1) for members in table.members], load, arrive)


def _two_phase_delay(members: Sequence[int], handling: Sequence[float], latency: float) -> float:
    others = len(members) - 1
    if not others:
        return 0.0
    slowest = max(handling[site] for site in members)
    origins = sum((2 * others + 1) * handling[site] for site in members) / len(members)
    return 3 * latency + origins + 3 * slowest


def symmetric(ground: Ground) -> Costs:
    """The batch to each other member; each member asks every site of the domain that it has not
    heard past it, all but itself and the origin, and each of them answers."""
    table = ground.table
    load, messages = [0.0] * len(table.sites), [0.0] * len(table.groups)
    for sites, groups in ground.domains:
        whole, asked = len(sites), 0.0
        for group in groups:
            members, weight = table.members[group], table.weights[group]
            n = len(members)
            as_origin = n - 1 + 2 * (whole - 1)
            as_other = 1 + 2 * (whole - 2) + 2 * (n - 1)
            asked += weight * 2 * n
            for site in members:
                load[site] += weight * ((as_origin + (n - 1) * as_other) / n - 2 * n)
            messages[group] = n - 1 + 2.0 * ((n - 1) * (whole - 2) + whole - 1)
        for site in sites:
            load[site] += asked

    def arrive(handling: Sequence[float], latency: float) -> list[float]:
        found = [0.0] * len(table.groups)
        for sites, groups in ground.domains:
            slowest = max(handling[site] for site in sites)
            for group in groups:
                found[group] = _symmetric_delay(
                    table.members[group], len(sites), slowest, handling, latency
                )
        return found

    return Costs(messages, load, arrive)


def _symmetric_delay(
    members: Sequence[int], whole: int, asked: float, handling: Sequence[float], latency: float
) -> float:
    """`asked`: the handling time of the slowest site of the domain."""
    n = len(members)
    if whole == 1:
        return 0.0
    asker = max(handling[site] for site in members)
    told = n > 1 and whole > 2  # others than the origin have somebody to ask
    asks = (whole - 1) * asker + latency + 2 * n * asked + latency + asker
    first = (n - 1) * sum(handling[site] for site in members) / n + latency + asker
    return asks + (first if told else 0.0)


def tom(ground: Ground) -> Costs:
    """The body to every receiver and the ordering node, a bid up the path, headers down."""
    table, primary, tree = ground.table, ground.primary, ground.tree
    count = len(table.sites)
    load, bids, messages = [0.0] * count, [0.0] * count, []
    headers = list(ground.metrics.weighted_load)
    for group, members in enumerate(table.members):
        n, top, weight = len(members), primary[group], table.weights[group]
        headers[top] -= weight  # nobody hands it a batch to relay
        reached = n + (top not in members)
        for site in members:  # as the origin it sends to all others, as one of those it receives
            load[site] += weight * ((reached - 1) + (n - 1)) / n
            bids[site] += weight / n
            bids[top] -= weight / n
        if top not in members:
            load[top] += weight
        up = sum(tree.depth[site] - tree.depth[top] for site in members) / n
        messages.append(reached - 1 + up + ground.metrics.messages[group] - 1)
    flow = ground.edge_load(ground.flow_up(bids))
    load = [a + b + c for a, b, c in zip(load, headers, flow, strict=True)]

    def arrive(handling: Sequence[float], latency: float) -> list[float]:
        down = arrival_times(table, ground.parent, primary, handling, latency)
        return [
            _tom_delay(ground, group, down[group], handling, latency)
            for group in range(len(table.groups))
        ]

    return Costs(messages, load, arrive)


def _tom_delay(
    ground: Ground, group: int, down: float, handling: Sequence[float], latency: float
) -> float:
    """A header waits for its body at the ordering node, and again where it is delivered."""
    members, top, depth = ground.table.members[group], ground.primary[group], ground.tree.depth
    below = down - latency - handling[top]
    reached = len(members) + (top not in members)
    slowest = max(handling[site] for site in members)
    total = 0.0
    for origin in members:
        bodies = (reached - 1) * handling[origin] + latency + slowest if reached > 1 else 0.0
        path = depth[origin] - depth[top]
        placed = 0.0
        if path:
            bid = path * (latency + 2 * handling[origin])
            placed = max(bodies - slowest + handling[top], bid)
        total += max(bodies, placed + below)
    return total / len(members)
