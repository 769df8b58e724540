"""`balanced`: trees by recursive partitioning, the primary at the lowest common ancestor.

Groups that overlap are put near each other: each domain is cut into flat parts, the parts are
gathered level by level (`levels`), and each gets a head (`heads`). A group's primary is the lowest
common ancestor of its members ([TOM]'s label rule); depth is logarithmic for any table, and load
spreads where groups are local. How much load a head may carry decides about everything else: flat
parts and branching follow from it. It is chosen by trying caps from high to low and keeping what
costs least; on large tables that is tried on a part of the table.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import mean

from ordercast.forest.forest import Forest, forest_of
from ordercast.forest.heads import tree_of
from ordercast.forest.hypergraph import Hypergraph
from ordercast.forest.indexed import IndexedTable
from ordercast.forest.levels import Domain, Shape
from ordercast.forest.metrics import Cost, measure_indexed
from ordercast.forest.partition import PARTITIONERS, choose_partitioner
from ordercast.forest.sample import sample_of
from ordercast.forest.tree import Tree
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable

_LOWEST_CAP = 10.0
_SMALL = 32  # sites of a domain that may become a single flat part, whatever its load


def build_balanced(
    table: GroupTable,
    *,
    branching: int | None = None,
    leaf: int | None = None,
    cost: Cost | None = None,
    partitioner: str | None = None,
) -> Forest:
    """`branching`: children at the upper levels; `leaf`: sites of a flat part at the bottom.

    What is absent is chosen by trying, so that `cost` is lowest.
    """
    if branching is not None and branching < 2:
        raise ConfigError(f"branching: {branching!r} is too few, a site needs at least 2 children")
    if leaf is not None and leaf < 2:
        raise ConfigError(f"leaf: {leaf!r} is too few, a flat part has at least 2 sites")
    indexed = IndexedTable.of(table)
    grower = _Grower(indexed, choose_partitioner(partitioner))
    if branching is not None and leaf is not None:
        grown = grower.grow(Shape(leaf=leaf, branching=branching))
    else:
        sample = sample_of(indexed, grower.domains)
        trial = grower if sample is None else _Grower(sample, grower.partitioner)
        shape, grown = _cheapest(trial, cost or mixed_cost, Shape(leaf=leaf, branching=branching))
        if sample is not None:
            grown = grower.grow(shape)
    return forest_of("balanced", indexed, grown.parent, grown.primary, grown.detail)


def mixed_cost(table: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> float:
    """Hops plus relays of the mean message, against the logarithm of the highest load.

    Halving the highest load is worth 1.4 hops or relays.
    """
    metrics = measure_indexed(table, parent, primary)
    traffic = sum(table.weights) or 1.0
    spent = zip(table.weights, metrics.depth, metrics.extra, strict=True)
    steps = sum([weight * (depth + extra) for weight, depth, extra in spent]) / traffic
    return steps + 2 * log(max(1.0, max(metrics.weighted_load)))


def _cheapest(grower: "_Grower", cost: Cost, fixed: Shape) -> tuple[Shape, "_Grown"]:
    """Try caps from high to low, each half of the one before, then those in between."""
    highest = grower.highest_step()
    prices: dict[int, float] = {}
    best = highest
    kept: tuple[Shape, _Grown] | None = None

    def is_better(step: int) -> bool:
        nonlocal best, kept
        shape = replace(fixed, cap=_cap(step))
        grown = grower.grow(shape)
        prices[step] = cost(grower.table, grown.parent, grown.primary)
        if kept is not None and prices[step] >= prices[best]:
            return False
        best, kept = step, (shape, grown)
        return True

    step = highest
    while is_better(step) and step >= 2:
        step -= 2
    for between in (best + 1, best - 1):
        if 0 <= between <= highest and between not in prices:
            is_better(between)
    assert kept is not None
    return kept


def _cap(step: int) -> float:
    return _LOWEST_CAP * (1 << step // 2) * (2**0.5 if step % 2 else 1.0)


@dataclass(frozen=True, slots=True)
class _Grown:
    parent: list[int]
    primary: list[int]
    detail: str


class _Grower:
    """A table's domains with what is needed to grow trees on them, one shape after the other."""

    def __init__(self, table: IndexedTable, partitioner: str) -> None:
        self.table = table
        self.partitioner = partitioner
        self.domains = [
            Domain(sites, Hypergraph.of_domain(table, sites, groups), partitioner)
            for sites, groups in table.domains()
        ]

    def highest_step(self) -> int:
        """The first cap at which all is flat; but a large domain is parted at least once."""
        if not self.domains:
            return 0
        largest = max(self.domains, key=lambda domain: domain.graph.flat_load).graph
        parted = largest.nodes > _SMALL
        step = 0
        while _cap(step) < largest.flat_load / (2 if parted else 1):
            step += 1
        return max(0, step - parted)

    def grow(self, shape: Shape) -> _Grown:
        parent = [-1] * len(self.table.sites)
        sizes: list[int] = []  # of the flat parts of domains that have several
        children: list[int] = []  # of the upper heads
        for domain in self.domains:
            labels = domain.levels(shape)
            for node, above in enumerate(tree_of(domain.graph, labels)):
                if above >= 0:
                    parent[domain.sites[node]] = domain.sites[above]
            if len(labels) > 1:
                sizes += Counter(labels[0]).values()
                children += [n for level in labels[1:] for n in Counter(level).values() if n > 1]
        return _Grown(
            parent,
            lowest_common_ancestors(self.table, parent),
            self._detail(sizes, children, shape.branching),
        )

    def _detail(self, sizes: list[int], children: list[int], branching: int | None) -> str:
        if not sizes:
            return "flat, every domain a single part"
        fewest, most = min(children), max(children)
        spread = f"{fewest} to {most}" if fewest < most else f"{most}"
        return (
            f"branching {branching or spread}, flat parts of about {round(mean(sizes))},"
            f" partitioned by {PARTITIONERS[self.partitioner]}"
        )


def lowest_common_ancestors(table: IndexedTable, parent: Sequence[int]) -> list[int]:
    """Of each group's members: its primary."""
    tree = Tree.of(parent)
    primary = []
    for members in table.members:
        top = members[0]
        for site in members:
            if site != top and parent[site] != top:
                top = tree.common_ancestor(top, site)
        primary.append(top)
    return primary
