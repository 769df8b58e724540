"""A propagation forest: who forwards to whom, and which site orders each group ([GS] §3.1).

Any tree per domain in which a group's primary is an ancestor (or one) of its members is correct,
if each site forwards in one merged order (docs/core.md, "Order on a tree").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ordercast.forest.indexed import IndexedTable
from ordercast.model.groups import Group, Site


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
