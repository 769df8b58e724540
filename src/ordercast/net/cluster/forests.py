"""The forest of a domain: the planner's advice, the same at every site that has the same groups.

The planner uses METIS where it is installed; two sites of a cluster may differ in that, so here
the built-in partitioner is used everywhere.
"""

from collections.abc import Sequence

from ordercast.forest.forest import Forest
from ordercast.model.groups import GroupTable, Site
from ordercast.plan.advice import AUTO, advise


def choose_forest(table: GroupTable, builder: str, tie: Sequence[Site]) -> Forest:
    """The builder's forest; `auto`: the best for delay, as `ordercast plan` chooses it."""
    settles = builder in ("greedy", AUTO)
    known = [site for site in tie if settles and site in table.sites]
    return advise(table, builder, tie=known, partitioner="builtin").forest
