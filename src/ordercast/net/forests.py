"""The forest of a cluster: the planner's advice, the same at every site that reads the same file.

The planner uses METIS where it is installed; two sites of a cluster may differ in that, so here
the built-in partitioner is used everywhere. With `open`, all trees hang under one root, and then
one order covers sends to any sites ([GS] §3.1 allows any tree whose primaries are above members).
"""

from collections.abc import Sequence
from dataclasses import replace

from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.indexed import IndexedTable
from ordercast.forest.metrics import measure_indexed
from ordercast.forest.star import build_star
from ordercast.model.groups import GroupTable, Site
from ordercast.plan.advice import AUTO, rank
from ordercast.plan.candidates import BUILDERS, Candidate
from ordercast.plan.objectives import cost_of, evaluate, unit_rate

OBJECTIVE = "delay"


def choose_forest(
    table: GroupTable, builder: str, tie: Sequence[Site], under_one_root: bool
) -> Forest:
    """The builder's forest; `auto`: the best for delay, as `ordercast plan` ranks them."""
    names = BUILDERS if builder == AUTO else (builder,)
    indexed = IndexedTable.of(table)
    candidates = [_candidate(name, table, indexed, tie) for name in names]
    best = min(candidates, key=lambda candidate: rank(candidate, OBJECTIVE)).forest
    return _joined(best) if under_one_root else best


def _build(name: str, table: GroupTable, tie: Sequence[Site]) -> Forest:
    if name == "star":
        return build_star(table)
    if name == "greedy":
        return build_greedy(table, tie=tie)
    return build_balanced(table, cost=cost_of(OBJECTIVE, table), partitioner="builtin")


def _candidate(
    name: str, table: GroupTable, indexed: IndexedTable, tie: Sequence[Site]
) -> Candidate:
    forest = _build(name, table, tie)
    number = {site: i for i, site in enumerate(indexed.sites)}
    parent = [-1 if (p := forest.parent[site]) is None else number[p] for site in indexed.sites]
    primary = [number[forest.primary[group]] for group in indexed.groups]
    metrics = measure_indexed(indexed, parent, primary)
    values = evaluate(indexed, parent, primary, metrics, unit_rate(table))
    return Candidate(name, forest, metrics, values, indexed.sites[values.busiest])


def _joined(forest: Forest) -> Forest:
    """All trees under the root that has most sites below it; a star stays a star."""
    below: dict[str, int] = {}
    for site in forest.parent:
        at = site
        while (above := forest.parent[at]) is not None:
            at = above
        below[at] = below.get(at, 0) + 1
    top = min(below, key=lambda root: (-below[root], root))
    if forest.builder == "star":
        parent = {site: None if site == top else top for site in forest.parent}
        return replace(forest, parent=parent, primary=dict.fromkeys(forest.primary, top))
    parent = {
        site: top if above is None and site != top else above
        for site, above in forest.parent.items()
    }
    return replace(forest, parent=parent)
