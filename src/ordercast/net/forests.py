"""The forest of a cluster: the planner's advice, the same at every site that reads the same file.

The planner uses METIS where it is installed; two sites of a cluster may differ in that, so here
the built-in partitioner is used everywhere. With `open`, all trees hang under one root.
"""

from collections.abc import Sequence

from ordercast.forest.forest import Forest
from ordercast.forest.joined import under_one_root as joined
from ordercast.model.groups import GroupTable, Site
from ordercast.plan.advice import advise


def choose_forest(
    table: GroupTable, builder: str, tie: Sequence[Site], under_one_root: bool
) -> Forest:
    """The builder's forest; `auto`: the best for delay, as `ordercast plan` chooses it."""
    best = advise(table, builder, tie=tie, partitioner="builtin").forest
    return joined(best) if under_one_root else best
