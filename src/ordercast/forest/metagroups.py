"""`metagroups`: sites in exactly the same groups are one node of the tree (Jia, in [TOM] §4.2.2).

The quotient table, with one site (the manager) for each metagroup, goes through a generator; then
every other member of a metagroup hangs below its manager. So a manager has its own members and its
child managers below it, and a group's primary is the manager of its primary metagroup, which is
above all its others. Through `greedy` the primary metagroup lies inside the group; that can cost
depth (all pairs of n sites force a path). Through `balanced` it is the lowest common ancestor,
often an extra metagroup whose manager orders and forwards but does not deliver (OTHER-4 of
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
    """`table` knows managers only; `manager` names that of every site in some group."""

    table: GroupTable
    manager: Mapping[Site, Site]

    def members(self) -> dict[Site, list[Site]]:
        """Each manager's metagroup, itself included."""
        found: dict[Site, list[Site]] = {}
        for site in sorted(self.manager):
            found.setdefault(self.manager[site], []).append(site)
        return found


def quotient(table: GroupTable) -> Quotient:
    """One site for all those in exactly the same groups: the first of their names."""
    in_groups: dict[Site, list[str]] = {}
    for group in sorted(table.groups):
        for site in table.groups[group]:
            in_groups.setdefault(site, []).append(group)
    managers: dict[tuple[str, ...], Site] = {}
    manager = {
        site: managers.setdefault(tuple(in_groups[site]), site) for site in sorted(in_groups)
    }
    groups = {
        group: tuple(site for site in members if manager[site] == site)
        for group, members in table.groups.items()
    }
    return Quotient(GroupTable(tuple(managers.values()), groups, table.rates), manager)


def build_metagroups(
    table: GroupTable,
    builder: str = METAGROUPS,
    *,
    partitioner: str | None = None,
) -> Forest:
    """A forest of managers with their members; sites in no group have no tree."""
    found = quotient(table)
    if builder == BALANCED:
        above = build_balanced(found.table, partitioner=partitioner)
    else:
        above = build_greedy(found.table)
    parent: dict[Site, Site | None] = {}
    for site in sorted(table.sites):
        manager = found.manager.get(site)
        parent[site] = above.parent[site] if manager == site else manager
    return Forest(builder, parent, dict(above.primary), above.detail)
