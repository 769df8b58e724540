"""What a forest costs: depth, extra sites, messages and load, as `ordercast plan` prints them.

For each group the sites that carry its messages form a subtree below the primary. Visiting the
members in preorder, each one adds the path from its lowest common ancestor with the one before, so
counting takes a few jumps per membership even where paths are thousands long (an explicit walk
would take as many steps as there are hops in all).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ordercast.forest.forest import Forest, numbers_of
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.tree import Tree
from ordercast.model.groups import Group, GroupTable, Site

# The cost of a structure on numbers (table, parent, primary) by an objective; less is better.
Cost: TypeAlias = Callable[[IndexedTable, Sequence[int], Sequence[int]], float]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Per group and per site, in the sort order of their names."""

    depth: Sequence[int]  # hops from the primary to its farthest member
    extra: Sequence[int]  # relays that are not members
    messages: Sequence[int]  # [GS] n + ε
    load: Sequence[int]  # per site: sends + receives, one message to each group
    weighted_load: Sequence[float]  # the same, each group counted by its share of the traffic

    @property
    def depth_mean(self) -> float:
        return sum(self.depth) / len(self.depth) if self.depth else 0.0

    @property
    def depth_max(self) -> int:
        return max(self.depth, default=0)

    @property
    def extra_mean(self) -> float:
        return sum(self.extra) / len(self.extra) if self.extra else 0.0

    @property
    def load_max(self) -> int:
        return max(self.load, default=0)


def measure(forest: Forest, table: GroupTable) -> Metrics:
    indexed = IndexedTable.of(table)
    return measure_indexed(indexed, *numbers_of(forest, indexed))


def measure_indexed(table: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> Metrics:
    tree = Tree.of(parent)
    count = len(parent)
    # uses[v]: messages over the edge into v; received[v]: from origins, v being the primary.
    uses, weighted_uses = [0] * count, [0.0] * count
    received, weighted_received = [0] * count, [0.0] * count
    depths, extras, messages = [], [], []
    for group, members in enumerate(table.members):
        top, weight = primary[group], table.weights[group]
        received[top] += 1
        weighted_received[top] += weight
        hops, deepest, last = 0, tree.depth[top], top
        for site in sorted(members, key=tree.enter.__getitem__):
            fork = tree.common_ancestor(last, site)
            hops += tree.depth[site] - tree.depth[fork]
            deepest = max(deepest, tree.depth[site])
            uses[site] += 1
            uses[fork] -= 1
            weighted_uses[site] += weight
            weighted_uses[fork] -= weight
            last = site
        depths.append(deepest - tree.depth[top])
        extras.append(hops + 1 - len(members))
        messages.append(hops + 1)
    for site in reversed(tree.preorder):
        above = parent[site]
        if above >= 0:
            uses[above] += uses[site]
            weighted_uses[above] += weighted_uses[site]
    load, weighted_load = [0] * count, [0.0] * count
    for site in range(count):
        load[site] += received[site] + uses[site]
        weighted_load[site] += weighted_received[site] + weighted_uses[site]
        above = parent[site]
        if above >= 0:
            load[above] += uses[site]
            weighted_load[above] += weighted_uses[site]
    return Metrics(depths, extras, messages, load, weighted_load)


def extra_sites(forest: Forest, table: GroupTable) -> dict[str, list[Site]]:
    """The names behind `Metrics.extra`: as many steps as there are hops in all."""
    found: dict[str, list[Site]] = {}
    for group, members in table.groups.items():
        top = forest.primary[group]
        passed = {top}
        for member in members:
            site: Site | None = member
            while site is not None and site not in passed:
                passed.add(site)
                site = forest.parent[site]
        found[group] = sorted(passed.difference(members))
    return found


def extra_groups(forest: Forest, table: GroupTable) -> dict[Site, list[Group]]:
    """The same by site: the groups that each passes on without being a member."""
    found: dict[Site, list[Group]] = {}
    for group, sites in sorted(extra_sites(forest, table).items()):
        for site in sites:
            found.setdefault(site, []).append(group)
    return found
