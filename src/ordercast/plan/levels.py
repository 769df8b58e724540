"""A forest by level: what is shown of one too large to show site by site."""

from collections.abc import Sequence
from dataclasses import dataclass

from ordercast.forest.forest import Forest, numbers_of
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.tree import Tree
from ordercast.model.groups import GroupTable


@dataclass(frozen=True, slots=True)
class Level:
    """The sites at one distance from their roots; sites in no group are in no level."""

    load: Sequence[int]  # of its sites, in the sort order of their names
    ordered: int  # groups whose primary is here

    @property
    def load_mean(self) -> float:
        return sum(self.load) / len(self.load)


def by_level(forest: Forest, table: GroupTable, load: Sequence[int]) -> list[Level]:
    """`load` is by site, in the sort order of their names, as `measure` gives it."""
    indexed = IndexedTable.of(table)
    sites = indexed.sites
    parent, primary = numbers_of(forest, indexed)
    depth = Tree.of(parent).depth
    member = {site for members in table.groups.values() for site in members}
    loads: list[list[int]] = []
    for site in sorted(range(len(sites)), key=lambda s: (depth[s], s)):
        if sites[site] in member:
            if depth[site] == len(loads):
                loads.append([])
            loads[depth[site]].append(load[site])
    ordered = [0] * len(loads)
    for site in primary:
        ordered[depth[site]] += 1
    return [Level(loads[level], ordered[level]) for level in range(len(loads))]
