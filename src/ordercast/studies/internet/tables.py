"""Group tables as the internet has them: a few groups are large and busy, most are small and quiet.

There are as many groups as sites. The group of rank k has 1/k of the members of the largest one,
which has a tenth of all sites, but at least two. Its messages are Zipf as well, by another ranking:
large groups are not the busy ones. Members are drawn in three ways:

- `near`: from sites that are next to each other, four times as many as the group has members;
- `uniform`: from all sites alike;
- `popular`: the site of rank k with the weight 1/k.

Only whole numbers are drawn, so a seed gives the same table on every machine.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import GroupTable
from ordercast.pipeline.sweeps.tables import site_names
from ordercast.sim.chance import Chance

NEAR, UNIFORM, POPULAR = "near", "uniform", "popular"
KINDS = (NEAR, UNIFORM, POPULAR)
RATE_OF_SITE = 0.1  # messages a second, for each site

_LARGEST = 10  # of this many sites, one is in the largest group
_WINDOW = 4  # times the members of a near group: the sites that they are drawn from
_WEIGHT = 1 << 32  # of the first rank


def sizes(sites: int) -> list[int]:
    """The members of each group, by rank."""
    return [max(2, sites // _LARGEST // rank) for rank in range(1, sites + 1)]


def zipf_table(sites: int, kind: str, seed: int) -> GroupTable:
    """`sites` groups among as many sites, with rates."""
    stream = Chance(seed, "internet")
    names = site_names(sites)
    members = _Members(sites, kind, stream)
    width = len(str(sites - 1))
    groups = {
        f"g{rank:0{width}d}": tuple(names[place] for place in sorted(members.draw(size)))
        for rank, size in enumerate(sizes(sites))
    }
    ranks = stream.shuffled(range(1, sites + 1))
    unit = RATE_OF_SITE * sites / sum(1 / rank for rank in range(1, sites + 1))
    rates = {group: unit / rank for group, rank in zip(groups, ranks, strict=True)}
    return GroupTable(names, groups, rates)


def domain_share(table: GroupTable) -> float:
    """The share of the sites that are in the largest domain."""
    return max(len(sites) for sites, _ in IndexedTable.of(table).domains()) / len(table.sites)


class _Members:
    """Draws the members of a group, as places among the sites."""

    def __init__(self, sites: int, kind: str, stream: Chance) -> None:
        self._sites = sites
        self._kind = kind
        self._stream = stream
        self._places = stream.shuffled(range(sites))  # by rank of popularity
        self._sums = list(accumulate(_WEIGHT // rank for rank in range(1, sites + 1)))

    def draw(self, size: int) -> list[int]:
        if self._kind == NEAR:
            window = min(self._sites, _WINDOW * size)
            first = self._stream.below(self._sites)
            near = self._distinct(size, lambda: self._stream.below(window))
            return [(first + place) % self._sites for place in near]
        if self._kind == UNIFORM:
            return self._distinct(size, lambda: self._stream.below(self._sites))
        return [self._places[rank] for rank in self._distinct(size, self._rank)]

    def _rank(self) -> int:
        drawn = (self._stream.bits(64) * self._sums[-1]) >> 64
        return bisect_right(self._sums, drawn)

    def _distinct(self, size: int, draw: Callable[[], int]) -> list[int]:
        found: dict[int, None] = {}
        while len(found) < size:
            found[draw()] = None
        return list(found)
