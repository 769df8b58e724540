"""`metagroups`: sites in exactly the same groups are one node of the tree (Jia, in [TOM] §4.2.2).

The quotient table, with one site (the delegate) for each metagroup, goes through a generator; then
every other member of a metagroup hangs below its delegate. So a delegate has its own members and
its child delegates below it, and a group's primary is the delegate of its primary metagroup, which
is above all its others. Through `greedy` the primary metagroup lies inside the group; that can cost
depth (all pairs of n sites force a path). Through `balanced` it is the lowest common ancestor,
often an extra metagroup whose delegate orders and forwards but does not deliver (OTHER-4 of
docs/errata.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.model.groups import GroupTable, Site

METAGROUPS = "metagroups"
BALANCED = "metagroups_balanced"


@dataclass(frozen=True, slots=True)
class Quotient:
    """`table` knows delegates only; `delegate` has the delegate of every site that is in a
    group."""

    table: GroupTable
    delegate: Mapping[Site, Site]

    def members(self) -> dict[Site, list[Site]]:
        """Each delegate's metagroup, itself included."""
        found: dict[Site, list[Site]] = {}
        for site in sorted(self.delegate):
            found.setdefault(self.delegate[site], []).append(site)
        return found


def quotient(table: GroupTable) -> Quotient:
    """One site for all sites in exactly the same groups: the first by name."""
    in_groups: dict[Site, list[str]] = {}
    for group in sorted(table.groups):
        for site in table.groups[group]:
            in_groups.setdefault(site, []).append(group)
    delegates: dict[tuple[str, ...], Site] = {}
    delegate = {
        site: delegates.setdefault(tuple(in_groups[site]), site) for site in sorted(in_groups)
    }
    groups = {
        group: tuple(site for site in members if delegate[site] == site)
        for group, members in table.groups.items()
    }
    return Quotient(GroupTable(tuple(delegates.values()), groups, table.rates), delegate)


def build_metagroups(
    table: GroupTable,
    builder: str = METAGROUPS,
    *,
    partitioner: str | None = None,
) -> Forest:
    """A forest of delegates with their members; sites in no group have no tree."""
    found = quotient(table)
    if builder == BALANCED:
        above = build_balanced(found.table, partitioner=partitioner)
    else:
        above = build_greedy(found.table)
    parent: dict[Site, Site | None] = {}
    for site in sorted(table.sites):
        delegate = found.delegate.get(site)
        parent[site] = above.parent[site] if delegate == site else delegate
    return Forest(builder, parent, dict(above.primary), above.detail)
