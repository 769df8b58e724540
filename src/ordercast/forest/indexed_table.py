"""The group table on small numbers: what the builders work on.

Sites and groups are numbered in the sort order of their names, so "the first name in sort order"
is the smallest number, and results do not depend on the order in a file or on hashing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ordercast.model.groups import Group, GroupTable, Site


@dataclass(frozen=True, slots=True)
class IndexedTable:
    sites: tuple[Site, ...]
    groups: tuple[Group, ...]
    members: Sequence[Sequence[int]]  # of each group, ascending
    groups_of: Sequence[Sequence[int]]  # of each site, ascending
    weights: Sequence[float]  # of each group: its share of the traffic, 1.0 on average

    @classmethod
    def of(cls, table: GroupTable) -> "IndexedTable":
        sites = tuple(sorted(table.sites))
        groups = tuple(sorted(table.groups))
        number = {site: i for i, site in enumerate(sites)}
        members = [sorted([number[s] for s in table.groups[g]]) for g in groups]
        return cls(sites, groups, members, _transpose(members, len(sites)), _weights(table, groups))

    def domains(self) -> list[tuple[list[int], list[int]]]:
        """Connected parts as (sites, groups), ascending; sites in no group are in none of them."""
        return connected_parts(range(len(self.groups)), self.members, self.groups_of)


def _transpose(members: Sequence[Sequence[int]], sites: int) -> list[list[int]]:
    groups_of: list[list[int]] = [[] for _ in range(sites)]
    for group, its_members in enumerate(members):
        for site in its_members:
            groups_of[site].append(group)
    return groups_of


def _weights(table: GroupTable, groups: Sequence[Group]) -> list[float]:
    rates = [table.rate(group) for group in groups]
    mean = sum(rates) / len(rates) if rates else 0.0
    return [rate / mean for rate in rates] if mean > 0 else [1.0] * len(rates)


def connected_parts(
    groups: Iterable[int], members: Sequence[Sequence[int]], groups_of: Sequence[Sequence[int]]
) -> list[tuple[list[int], list[int]]]:
    """The finest split of `groups` in which no two parts share a site ([GS]'s partition)."""
    waiting = dict.fromkeys(groups)
    seen_sites: set[int] = set()
    parts = []
    for first in list(waiting):
        if first not in waiting:
            continue
        del waiting[first]
        part_groups, part_sites = [first], []
        for group in part_groups:  # grows while it is read: a breadth-first search
            for site in members[group]:
                if site in seen_sites:
                    continue
                seen_sites.add(site)
                part_sites.append(site)
                for other in groups_of[site]:
                    if other in waiting:
                        del waiting[other]
                        part_groups.append(other)
        parts.append((sorted(part_sites), sorted(part_groups)))
    return parts
