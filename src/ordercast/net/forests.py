"""The forest of a cluster: the planner's advice, the same at every site that reads the same file.

The planner uses METIS where it is installed; two sites of a cluster may differ in that, so here
the built-in partitioner is used everywhere. With `open`, all trees hang under one root, and then
one order covers sends to any sites ([GS] §3.1 allows any tree whose primaries are above members).
"""

from collections.abc import Sequence
from dataclasses import replace

from ordercast.forest.forest import Forest
from ordercast.model.groups import GroupTable, Site
from ordercast.plan.advice import advise


def choose_forest(
    table: GroupTable, builder: str, tie: Sequence[Site], under_one_root: bool
) -> Forest:
    """The builder's forest; `auto`: the best for delay, as `ordercast plan` chooses it."""
    best = advise(table, builder, tie=tie, partitioner="builtin").forest
    return _joined(best) if under_one_root else best


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
