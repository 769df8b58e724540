"""What a site does for a direct protocol: a structure without primaries, items handed up.

There are no primaries, but somebody must gather reports of stability and tell origins outside the
group: one of its members, which sees its messages. The forest is kept for what it says of domains.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ordercast.core.order.interface import DirectOrdering
from ordercast.core.structure import Structure
from ordercast.model.groups import Site as SiteName
from ordercast.wire.frames import UP, Item

if TYPE_CHECKING:
    from ordercast.core.site import Site


@dataclass(frozen=True)
class Tellers(Structure):
    """The same groups; the primary of a group is the member that tells its origins."""

    def _lowest_above(self, members: tuple[SiteName, ...]) -> SiteName:
        super()._lowest_above(members)  # refuses what no one domain has
        return members[0]

    @cached_property
    def root_of(self) -> Mapping[SiteName, SiteName]:
        """Of each site, the root of its tree."""
        found: dict[SiteName, SiteName] = {}
        parent = self.forest.parent
        for site in parent:
            path, at = [], site
            while at not in found:
                path.append(at)
                above = parent[at]
                if above is None:
                    found[at] = at
                    break
                at = above
            for passed in path:
                found[passed] = found[at]
        return found

    @cached_property
    def domains(self) -> Mapping[SiteName, tuple[SiteName, ...]]:
        """By root: all sites of the tree, which are those that may send within the domain."""
        trees: dict[SiteName, list[SiteName]] = {}
        for site in sorted(self.forest.parent):
            trees.setdefault(self.root_of[site], []).append(site)
        return {root: tuple(sites) for root, sites in trees.items()}


def take_direct(
    site: "Site", ordering: DirectOrdering, peer: SiteName, lane: int, item: Item
) -> bool:
    """Hand up an item of a direct protocol. It is never left to wait."""
    if lane == UP:
        site.links[peer].incoming[UP].done += 1
    ordering.receive(peer, item)
    return True


def with_tellers(structure: Structure) -> Tellers:
    """The forest's primary if it is a member, otherwise the first member."""
    if isinstance(structure, Tellers):
        return structure
    forest = structure.forest
    primary = {
        group: forest.primary[group] if forest.primary[group] in members else members[0]
        for group, members in structure.groups.items()
    }
    return Tellers(structure.epoch, structure.table, replace(forest, primary=primary))
