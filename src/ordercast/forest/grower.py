"""Balanced trees grown on the domains of a table, of one shape after the other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from ordercast.forest.heads import tree_of
from ordercast.forest.hypergraph import Hypergraph
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.levels import DomainGraph, Shape
from ordercast.forest.partition import PARTITIONERS
from ordercast.forest.tree import Tree


@dataclass(frozen=True, slots=True)
class Grown:
    """A forest on numbers, as in `forest_of`."""

    parent: list[int]
    primary: list[int]
    detail: str
    within_cap: bool  # False: so many groups cross that some heads got more than the cap


class Grower:
    """The work that does not depend on the shape is done once: the domains, and the preparation of
    their cutters."""

    def __init__(self, table: IndexedTable, partitioner: str) -> None:
        self.table = table
        self.partitioner = partitioner
        self.domains = [
            DomainGraph(sites, Hypergraph.of_domain(table, sites, groups), partitioner)
            for sites, groups in table.domains()
        ]

    def grow(self, shape: Shape) -> Grown:
        parent = [-1] * len(self.table.sites)
        within_cap = True
        sizes: list[int] = []  # of the flat parts of domains that have several
        children: list[int] = []  # of the upper heads
        for domain in self.domains:
            levels = domain.levels(shape)
            within_cap = within_cap and levels.within_cap
            for node, above in enumerate(tree_of(domain.graph, levels.labels)):
                if above >= 0:
                    parent[domain.sites[node]] = domain.sites[above]
            bottom, *upper = levels.labels
            if upper:
                sizes += Counter(bottom).values()
                children += [n for level in upper for n in Counter(level).values() if n > 1]
        primary = lowest_common_ancestors(self.table, parent)
        return Grown(parent, primary, self._detail(sizes, children, shape.branching), within_cap)

    def _detail(self, sizes: list[int], children: list[int], branching: int | None) -> str:
        if not sizes:
            return "flat, every domain a single part"
        fewest, most = min(children), max(children)
        spread = f"{fewest} to {most}" if fewest < most else f"{most}"
        return (
            f"branching {branching or spread}, flat parts of about {round(mean(sizes)):,},"
            f" partitioned by {PARTITIONERS[self.partitioner]}"
        )


def lowest_common_ancestors(table: IndexedTable, parent: Sequence[int]) -> list[int]:
    """The lowest common ancestor of each group's members: its primary."""
    tree = Tree.of(parent)
    primary = []
    for members in table.members:
        top = members[0]
        for site in members:
            if site != top and parent[site] != top:
                top = tree.common_ancestor(top, site)
        primary.append(top)
    return primary
