"""The forests that come into question for a table, each measured by all objectives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest, numbers_of
from ordercast.forest.given_tree import GIVEN, build_given
from ordercast.forest.greedy import build_greedy
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.metagroups import BALANCED as METAGROUPS_BALANCED
from ordercast.forest.metagroups import METAGROUPS, build_metagroups
from ordercast.forest.metrics import Cost, Metrics, measure_indexed
from ordercast.forest.rebalancing import rebalance
from ordercast.forest.star import build_star
from ordercast.model.groups import GroupTable, Site
from ordercast.plan.objectives import LAN, NetworkModel, Values, evaluate, unit_rate

BUILDERS = ("star", "greedy", "balanced")  # the simplest first: equal ones are chosen in this order
NAMED = (*BUILDERS, METAGROUPS, METAGROUPS_BALANCED)  # those that a cluster can be asked for


@dataclass(frozen=True, slots=True)
class Candidate:
    """One builder's forest with all that is known about it."""

    builder: str
    forest: Forest
    metrics: Metrics
    values: Values
    busiest: Site  # by rates; "" when there is no site
    before: Metrics | None = None  # what it was before it was rebalanced


def build_candidates(
    table: GroupTable,
    indexed: IndexedTable,
    builders: Sequence[str],
    *,
    cost: Cost,
    branching: int | None,
    tie: Sequence[Site],
    rebalanced: bool,
    partitioner: str | None = None,
    model: NetworkModel = LAN,
) -> tuple[Candidate, ...]:
    build: dict[str, Callable[[], Forest]] = {
        "star": lambda: build_star(table),
        "greedy": lambda: build_greedy(table, tie=tie),
        "balanced": lambda: build_balanced(
            table, branching=branching, cost=cost, partitioner=partitioner
        ),
        METAGROUPS: lambda: build_metagroups(table),
        GIVEN: lambda: build_given(table),
        METAGROUPS_BALANCED: lambda: build_metagroups(
            table, METAGROUPS_BALANCED, partitioner=partitioner
        ),
    }
    return tuple(
        _candidate(name, build[name](), table, indexed, rebalanced, model) for name in builders
    )


def _candidate(
    name: str,
    forest: Forest,
    table: GroupTable,
    indexed: IndexedTable,
    rebalanced: bool,
    model: NetworkModel,
) -> Candidate:
    before = None
    if rebalanced:
        before = measure_indexed(indexed, *numbers_of(forest, indexed))
        forest = rebalance(forest, table)
    parent, primary = numbers_of(forest, indexed)
    metrics = measure_indexed(indexed, parent, primary)
    values = evaluate(indexed, parent, primary, metrics, unit_rate(table), model)
    busiest = indexed.sites[values.busiest] if indexed.sites else ""
    return Candidate(name, forest, metrics, values, busiest, before)
