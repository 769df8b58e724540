"""`star`: one root per domain, everyone else its child ([GS] §4: "one tree of depth 1").

The root is the site in most groups (GS-10 of docs/errata.md); it orders every group of its domain.
"""

from ordercast.forest.forest import Forest, forest_of
from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import GroupTable


def build_star(table: GroupTable) -> Forest:
    indexed = IndexedTable.of(table)
    parent = [-1] * len(indexed.sites)
    primary = [-1] * len(indexed.groups)
    for sites, groups in indexed.domains():
        root = min(sites, key=lambda site: (-len(indexed.groups_of[site]), site))
        for site in sites:
            if site != root:
                parent[site] = root
        for group in groups:
            primary[group] = root
    return forest_of("star", indexed, parent, primary)
