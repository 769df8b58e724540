"""`greedy`: [GS]'s propagation graph generator (§3.1 and `new_subtree` of Appendix I).

The site in most groups becomes the root and orders all its groups; the groups left over fall into
parts that share no site; each part that a member of a root group reaches gets, as a child of the
root, that member which is in most groups of the part, and so on below. GS-5 of
docs/errata.md is mended.

Executed literally this is cubic. Here
- a site's count of groups without a primary is kept up to date as groups get theirs;
- the parts are found by searching from all members of the groups just taken, a step each in turn.
  Searches that meet are joined, and when a single one is still under way, what it has not seen is
  its own: the largest part is never walked through, so work is spent on the small ones only;
- there is no recursion: paths can be thousands long.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from ordercast.forest.forest import Forest, forest_of
from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable, Site
from ordercast.model.names import nearest


def build_greedy(table: GroupTable, *, tie: Sequence[Site] = ()) -> Forest:
    """`tie`: among sites in equally many groups, those listed first win; then the first name."""
    indexed = IndexedTable.of(table)
    generator = _Generator(indexed, _preference(indexed, tie))
    generator.run()
    return forest_of("greedy", indexed, generator.parent, generator.primary)


def _preference(table: IndexedTable, tie: Sequence[Site]) -> list[int]:
    number = {site: i for i, site in enumerate(table.sites)}
    preference = [len(tie)] * len(table.sites)
    for place, site in enumerate(tie):
        if site not in number:
            raise ConfigError(f"tie: there is no site {site!r}{nearest(site, table.sites)}")
        if preference[number[site]] < len(tie):
            raise ConfigError(f"tie: site {site!r} is listed twice")
        preference[number[site]] = place
    return preference


class _Generator:
    def __init__(self, table: IndexedTable, preference: Sequence[int]) -> None:
        self.table = table
        self.preference = preference
        self.parent = [-1] * len(table.sites)
        self.primary = [-1] * len(table.groups)
        self.open_groups = [len(groups) for groups in table.groups_of]  # without a primary yet
        self.placed = [False] * len(table.sites)

    def run(self) -> None:
        for sites, _ in self.table.domains():
            subroots = deque([self._most_frequent(sites)])
            while subroots:
                subroots.extend(self._new_subtree(subroots.popleft()))

    def _most_frequent(self, sites: Iterable[int]) -> int:
        return min(sites, key=lambda s: (-self.open_groups[s], self.preference[s], s))

    def _new_subtree(self, subroot: int) -> Iterator[int]:
        """Take `subroot`'s groups, hang its leaves below it; the children that need a subtree."""
        self.placed[subroot] = True
        intersecters = self._take_groups(subroot)
        reaching: list[int] = []
        for site in intersecters:
            if self.open_groups[site]:
                reaching.append(site)
            else:
                self.placed[site] = True
                self.parent[site] = subroot
        for part in self._parts(reaching):
            child = self._most_frequent(part)
            self.parent[child] = subroot
            yield child

    def _take_groups(self, subroot: int) -> list[int]:
        intersecters: dict[int, None] = {}
        for group in self.table.groups_of[subroot]:
            if self.primary[group] >= 0:
                continue
            self.primary[group] = subroot
            for site in self.table.members[group]:
                self.open_groups[site] -= 1
                if not self.placed[site]:
                    intersecters[site] = None
        return sorted(intersecters)

    def _parts(self, seeds: Sequence[int]) -> list[list[int]]:
        """Split the seeds by the connected part of open groups that they are in."""
        if len(seeds) <= 1:
            return [[seed] for seed in seeds]
        owner = {seed: search for search, seed in enumerate(seeds)}
        frontier = [deque([seed]) for seed in seeds]
        joined = list(range(len(seeds)))  # union-find over the searches
        seen: set[int] = set()

        def find(search: int) -> int:
            while joined[search] != search:
                joined[search] = joined[joined[search]]
                search = joined[search]
            return search

        turns = deque(range(len(seeds)))
        under_way = len(seeds)
        while under_way > 1:
            turn = search = turns.popleft()
            if joined[turn] != turn:
                continue  # it was joined to one that has its own turn
            if not frontier[search]:  # it has seen all of its part
                under_way -= 1
                continue
            for group in self.table.groups_of[frontier[search].popleft()]:
                if self.primary[group] >= 0 or group in seen:
                    continue
                seen.add(group)
                for site in self.table.members[group]:
                    if site not in owner:
                        owner[site] = search
                        frontier[search].append(site)
                    elif (other := find(owner[site])) != search:
                        if len(frontier[other]) > len(frontier[search]):
                            search, other = other, search
                        joined[other] = search
                        frontier[search].extend(frontier[other])
                        under_way -= 1
            if joined[turn] == turn:
                turns.append(turn)
        parts: dict[int, list[int]] = {}
        for search, seed in enumerate(seeds):
            parts.setdefault(find(search), []).append(seed)
        return list(parts.values())
