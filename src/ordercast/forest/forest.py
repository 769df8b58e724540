"""A propagation forest: who forwards to whom, and which site orders each group ([GS] §3.1).

Any tree per domain in which a group's primary is an ancestor (or one) of its members is correct,
if each site forwards in one merged order: DESIGN §5. How good it is, `metrics` says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ordercast.forest.indexed import IndexedTable
from ordercast.model.groups import Group, GroupTable, Site


@dataclass(frozen=True, slots=True)
class Forest:
    """`parent` has every site of the table (None: a root, or a site in no group)."""

    builder: str
    parent: Mapping[Site, Site | None]
    primary: Mapping[Group, Site]
    detail: str = ""  # what the builder chose by itself, for a person to read


def forest_of(
    builder: str,
    table: IndexedTable,
    parent: Sequence[int],
    primary: Sequence[int],
    detail: str = "",
) -> Forest:
    """Name the sites and groups of a forest built on numbers (parent -1: none)."""
    sites = table.sites
    return Forest(
        builder,
        {sites[i]: None if p < 0 else sites[p] for i, p in enumerate(parent)},
        {group: sites[p] for group, p in zip(table.groups, primary, strict=True)},
        detail,
    )


def problems(forest: Forest, table: GroupTable) -> list[str]:
    """Everything that makes the forest incorrect for the table; empty for a correct one."""
    found = []
    if set(forest.parent) != set(table.sites):
        odd = sorted(set(forest.parent) ^ set(table.sites))
        found.append(f"sites of forest and table differ: {', '.join(odd)}")
        return found
    if set(forest.primary) != set(table.groups):
        odd = sorted(set(forest.primary) ^ set(table.groups))
        found.append(f"groups of forest and table differ: {', '.join(odd)}")
        return found
    root = roots_of(forest.parent)
    if root is None:
        return ["the parents form a cycle or name an unknown site"]
    indexed = IndexedTable.of(table)
    for group, members in table.groups.items():
        primary = forest.primary[group]
        found.extend(
            f"{site!r} of {group!r} is not below its primary {primary!r}"
            for site in members
            if not _is_ancestor(forest.parent, primary, site)
        )
    for sites, _ in indexed.domains():
        roots = {root[indexed.sites[i]] for i in sites}
        if len(roots) > 1:
            found.append(f"one domain has several trees, with roots {', '.join(sorted(roots))}")
    return found


def roots_of(parent: Mapping[Site, Site | None]) -> dict[Site, Site] | None:
    """The root of every site, or None when following parents does not end at one."""
    root: dict[Site, Site] = {}
    for start in parent:
        path: dict[Site, None] = {}
        site = start
        while site not in root:
            if site in path or site not in parent:
                return None
            path[site] = None
            above = parent[site]
            if above is None:
                root[site] = site
                break
            site = above
        for passed in path:
            root[passed] = root[site]
    return root


def _is_ancestor(parent: Mapping[Site, Site | None], ancestor: Site, site: Site | None) -> bool:
    while site is not None and site != ancestor:
        site = parent[site]
    return site is not None
