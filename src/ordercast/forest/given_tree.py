"""`given`: the tree of the groups file, as [TOM] §3 has it: it comes from the network, not from the
groups.

Each group's primary is its ordering node, the lowest site with all members at or below it
([TOM] §3.2). A domain has the sites of its groups only: a site of the tree that is not among them
is skipped, and what is below it goes to the next site above that is. Trees that fall apart so, or
were apart, are joined below the largest. With a group of all sites the tree is used as it is given.
"""

from ordercast.forest.forest import Forest, under_one_root
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.labels import Labels
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, GroupTable, Site

GIVEN = "given"


def build_given(table: GroupTable) -> Forest:
    if not table.tree:
        raise ConfigError(
            "builder: 'given' needs a tree: [tree] in the groups file, or '--network tree:…'"
        )
    placed = {*table.tree, *table.tree.values()}
    indexed = IndexedTable.of(table)
    parent: dict[Site, Site | None] = dict.fromkeys(table.sites)
    primary: dict[Group, Site] = {}
    for numbers, groups in indexed.domains():
        sites = {indexed.sites[number]: None for number in numbers}
        for site in sites:
            if site not in placed:
                raise ConfigError(f"tree: site {site!r} has no place in it")
            parent[site] = _above(table, site, sites)
        tree = under_one_root(Forest(GIVEN, {site: parent[site] for site in sites}, {})).parent
        parent |= tree
        labels = Labels.of(tree)
        for number in groups:
            group = indexed.groups[number]
            top = labels.ordering_node(table.groups[group])
            assert top is not None, "one tree has all members"
            primary[group] = top
    return Forest(GIVEN, parent, primary)


def _above(table: GroupTable, site: Site, sites: dict[Site, None]) -> Site | None:
    above = table.tree.get(site)
    while above is not None and above not in sites:
        above = table.tree.get(above)
    return above
