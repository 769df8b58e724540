"""`balanced`: trees by recursive partitioning, the primary at the lowest common ancestor.

Groups that overlap are put near each other: each domain is cut into flat parts, the parts are
gathered level by level, and each gets a head. A group's primary is the lowest common ancestor of
its members ([TOM]'s label rule). Depth is logarithmic for any table, and load spreads where groups
are local. The cap of a head's load decides everything else: flat parts and branching follow from
it. Where it is not given, the cap that costs least is looked for.
"""

from collections.abc import Sequence
from math import log

from ordercast.forest.caps import grow_cheapest
from ordercast.forest.forest import Forest, forest_of
from ordercast.forest.grower import Grower
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.levels import Shape
from ordercast.forest.metrics import Cost, measure_indexed
from ordercast.forest.partition import choose_partitioner
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable


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
    grower = Grower(indexed, choose_partitioner(partitioner))
    shape = Shape(leaf=leaf, branching=branching)
    if leaf is not None and branching is not None:
        grown = grower.grow(shape)
    else:
        grown = grow_cheapest(grower, cost or _usual_cost, shape)
    return forest_of("balanced", indexed, grown.parent, grown.primary, grown.detail)


def _usual_cost(table: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> float:
    """Hops plus relays of the mean message, against the logarithm of the highest load.

    Halving the highest load is worth 1.4 hops or relays.
    """
    metrics = measure_indexed(table, parent, primary)
    traffic = sum(table.weights, 0.0) or 1.0
    spent = zip(table.weights, metrics.depth, metrics.extra, strict=True)
    steps = sum([weight * (depth + extra) for weight, depth, extra in spent], 0.0) / traffic
    return steps + 2 * log(max(1.0, max(metrics.weighted_load, default=1.0)))
