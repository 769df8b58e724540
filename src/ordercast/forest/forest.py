"""A propagation forest: who forwards to whom, and which site orders each group ([GS] §3.1).

Any tree per domain in which a group's primary is an ancestor (or one) of its members is correct,
if each site forwards in one merged order (docs/core.md, "Order on a tree").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import Group, Site


@dataclass(frozen=True, slots=True)
class Forest:
    """`parent` has every site of the table (None: a root, or a site in no group)."""

    builder: str
    parent: Mapping[Site, Site | None]
    primary: Mapping[Group, Site]
    detail: str = ""  # what the builder chose by itself, for a person to read
    age: int = 0  # the changes that it was adapted to since it was built


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


def numbers_of(forest: Forest, table: IndexedTable) -> tuple[list[int], list[int]]:
    """Parents (-1: none) and primaries by the numbers of the table: the way back."""
    number = {site: i for i, site in enumerate(table.sites)}
    parent = [-1 if (p := forest.parent[site]) is None else number[p] for site in table.sites]
    return parent, [number[forest.primary[group]] for group in table.groups]


def under_one_root(forest: Forest) -> Forest:
    """All trees in one: then one order covers sends to any of its sites.

    Groups keep their primaries, so no message takes a longer way ([GS] §3.1 allows any tree whose
    primaries are above the members). All hang below the root of the tree with most sites. A star
    stays a star, so its primaries move to the root.
    """
    if list(forest.parent.values()).count(None) < 2:
        return forest
    top = largest_root(forest.parent)
    if forest.builder == "star":
        parent = {site: None if site == top else top for site in forest.parent}
        return replace(forest, parent=parent, primary=dict.fromkeys(forest.primary, top))
    parent = {
        site: top if above is None and site != top else above
        for site, above in forest.parent.items()
    }
    return replace(forest, parent=parent)


def largest_root(parent: Mapping[Site, Site | None]) -> Site:
    """The root that has most sites below it; the first by name, if there are several."""
    below: dict[Site, int] = {}
    root: dict[Site, Site] = {}  # of each site that was passed: trees may be deep
    for site in parent:
        path, at = [], site
        while at not in root and (above := parent[at]) is not None:
            path.append(at)
            at = above
        top = root.setdefault(at, at)
        for passed in path:
            root[passed] = top
        below[top] = below.get(top, 0) + 1
    return min(below, key=lambda root: (-below[root], root))
