"""Whether a forest is correct for a group table.

Any tree per domain will do in which every group's primary is an ancestor of its members, or one of
them."""

from collections.abc import Mapping

from ordercast.forest.forest import Forest
from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import GroupTable, Site


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
    root = _roots(forest.parent)
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


def _roots(parent: Mapping[Site, Site | None]) -> dict[Site, Site] | None:
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
