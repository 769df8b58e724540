"""Tending: carry a forest over to a changed group table without building it anew.

A join, a leave, a new or removed group touches few sites; moving only those keeps the next epoch's
difference small. Domains that no changed group touches keep their trees as they are. In a touched
domain

1. every site keeps its nearest old ancestor that is still in its domain (so a split domain falls
   into trees of its own, and a site that left is bridged);
2. new sites, and leaves that have just joined a group, are trees of one site; the trees of the
   domain are joined, largest first, each hung where the groups that link it come out shallowest;
3. a group's primary is the lowest common ancestor of its members.

Any such tree is correct (DESIGN §5). It is kept while its depth, mean and highest, is at most
twice that of a forest built anew. No group of two or more members has depth below 1, so a mean of
at most twice their share and a highest depth of at most 2 need no proof; otherwise the domain is
built on trial and compared. Above `LARGE` memberships a trial takes seconds, so there one is made
only when the mean is in doubt or the change made the domain's highest depth larger.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ordercast.forest.forest import Forest, roots_of
from ordercast.forest.indexed import IndexedTable
from ordercast.forest.tree import Tree
from ordercast.model.groups import Group, GroupTable, Site

LARGE = 20_000  # memberships of one domain
_CANDIDATES = 8  # places tried for a tree that is to be hung below another


@dataclass(frozen=True, slots=True)
class Tended:
    forest: Forest
    moved: tuple[Site, ...]  # sites whose parent changed, by name
    rebuilt: bool  # a touched domain was built anew after all


def tend(
    forest: Forest,
    before: GroupTable,
    after: GroupTable,
    build: Callable[[GroupTable], Forest],
) -> Tended:
    """Adapt `forest`, correct for `before`, to `after`; `build` is the builder to compare with."""
    table = IndexedTable.of(after)
    parent: dict[Site, Site | None] = dict.fromkeys(table.sites)
    primary: dict[Group, Site] = {}
    touched = _touched(before, after)
    rebuilt = False
    for sites, groups in table.domains():
        names = [table.sites[i] for i in sites]
        if touched.isdisjoint(names):
            parent.update((site, forest.parent[site]) for site in names)
            primary.update((table.groups[g], forest.primary[table.groups[g]]) for g in groups)
            continue
        members = {table.groups[g]: after.groups[table.groups[g]] for g in groups}
        local = _adapt(forest, before, members, names)
        depths = _depths(local, members)
        if _in_doubt(depths, forest, before, members):
            rates = {g: after.rates[g] for g in members if g in after.rates}
            anew = build(GroupTable(tuple(names), members, rates))
            if _too_deep(depths, _depths(anew, members)):
                local, rebuilt = anew, True
        parent.update(local.parent)
        primary.update(local.primary)
    moved = tuple(s for s in table.sites if s not in forest.parent or parent[s] != forest.parent[s])
    in_order = {group: primary[group] for group in table.groups}
    return Tended(Forest(forest.builder, parent, in_order, forest.detail), moved, rebuilt)


def _touched(before: GroupTable, after: GroupTable) -> set[Site]:
    touched = set(before.sites) ^ set(after.sites)
    for group in {**before.groups, **after.groups}:
        old, new = before.groups.get(group, ()), after.groups.get(group, ())
        if set(old) != set(new):
            touched.update(old, new)
    return touched


# --- is the adapted forest good enough? -------------------------------------------------------


def _depths(forest: Forest, members: Mapping[Group, Sequence[Site]]) -> list[int]:
    above = _Above(forest.parent)
    return [
        max(above.depth(site) for site in its_members) - above.depth(forest.primary[group])
        for group, its_members in members.items()
    ]


def _in_doubt(
    depths: Sequence[int], old: Forest, before: GroupTable, members: Mapping[Group, Sequence[Site]]
) -> bool:
    least = sum(len(its_members) > 1 for its_members in members.values())
    if sum(depths) > 2 * least:
        return True
    if max(depths) <= 2:
        return False
    if sum(map(len, members.values())) <= LARGE:
        return True
    known = {group: before.groups[group] for group in members if group in before.groups}
    return max(depths) > max(_depths(old, known), default=0)


def _too_deep(local: Sequence[int], anew: Sequence[int]) -> bool:
    return sum(local) > 2 * sum(anew) or max(local) > 2 * max(anew)


# --- adapting one domain ----------------------------------------------------------------------


class _Above:
    """Parents by name, with remembered depths (a site's own is 0 at a root)."""

    def __init__(self, parent: Mapping[Site, Site | None]) -> None:
        self.parent = parent
        self._depth: dict[Site, int] = {}

    def depth(self, site: Site) -> int:
        path = []
        at: Site | None = site
        while at is not None and at not in self._depth:
            path.append(at)
            at = self.parent[at]
        depth = -1 if at is None else self._depth[at]
        for passed in reversed(path):
            depth += 1
            self._depth[passed] = depth
        return self._depth[site]

    def forget(self) -> None:
        self._depth.clear()

    def common(self, a: Site, b: Site) -> Site:
        while a != b:
            if self.depth(a) < self.depth(b):
                a, b = b, a
            higher = self.parent[a]
            if higher is None:
                raise ValueError(f"{a!r} and {b!r} are in different trees")
            a = higher
        return a


def _adapt(
    forest: Forest, before: GroupTable, members: Mapping[Group, Sequence[Site]], names: list[Site]
) -> Forest:
    parent = _inherited(forest, before, members, names)
    if forest.builder == "star":
        parent = _one_star(parent)
        top = next(site for site, above in parent.items() if above is None)
        return Forest("star", parent, dict.fromkeys(members, top))
    _join_trees(parent, members)
    return Forest(forest.builder, parent, _lowest_primaries(parent, members))


def _inherited(
    forest: Forest, before: GroupTable, members: Mapping[Group, Sequence[Site]], names: list[Site]
) -> dict[Site, Site | None]:
    inside = set(names)
    in_use = {site for its_members in before.groups.values() for site in its_members}
    inner = {above for above in forest.parent.values() if above is not None}
    joined = {
        site
        for group, its_members in members.items()
        for site in set(its_members).difference(before.groups.get(group, ()))
    }
    parent: dict[Site, Site | None] = {}
    for site in names:
        parent[site] = None
        if site not in in_use or (site in joined and site not in inner):
            continue  # has no place yet, or a leaf that may take a better one
        above = forest.parent[site]
        while above is not None and above not in inside:
            above = forest.parent[above]
        parent[site] = above
    return parent


def _one_star(parent: dict[Site, Site | None]) -> dict[Site, Site | None]:
    below = dict.fromkeys(parent, 0)
    for above in parent.values():
        if above is not None:
            below[above] += 1
    top = min(parent, key=lambda site: (-below[site], site))
    return {site: None if site == top else top for site in parent}


def _lowest_primaries(
    parent: Mapping[Site, Site | None], members: Mapping[Group, Sequence[Site]]
) -> dict[Group, Site]:
    sites = sorted(parent)
    number = {site: i for i, site in enumerate(sites)}
    tree = Tree.of([-1 if (p := parent[s]) is None else number[p] for s in sites])
    primary = {}
    for group, its_members in members.items():
        lowest = number[its_members[0]]
        for site in its_members[1:]:
            lowest = tree.common_ancestor(lowest, number[site])
        primary[group] = sites[lowest]
    return primary


def _join_trees(parent: dict[Site, Site | None], members: Mapping[Group, Sequence[Site]]) -> None:
    """Hang all trees of the domain below the largest, those linked to it by a group first."""
    above = _Above(parent)
    root_of = roots_of(parent)
    if root_of is None:
        raise ValueError("the forest to be tended has a cycle")
    size: dict[Site, int] = {}
    for root in root_of.values():
        size[root] = size.get(root, 0) + 1
    links: dict[Site, list[Group]] = {root: [] for root in size}
    for group, its_members in members.items():
        roots = dict.fromkeys(root_of[site] for site in its_members)
        if len(roots) > 1:
            for root in roots:
                links[root].append(group)
    waiting = [min((-count, root) for root, count in size.items())]
    joined: set[Site] = set()
    while waiting:
        _, root = heapq.heappop(waiting)
        if root in joined:
            continue
        if joined:
            parent[root] = _best_place(root, links[root], members, root_of, joined, above)
            above.forget()
        joined.add(root)
        for group in links[root]:
            for site in members[group]:
                if root_of[site] not in joined:
                    heapq.heappush(waiting, (-size[root_of[site]], root_of[site]))


def _best_place(
    root: Site,
    links: Sequence[Group],
    members: Mapping[Group, Sequence[Site]],
    root_of: Mapping[Site, Site],
    joined: set[Site],
    above: _Above,
) -> Site:
    """Where in the joined tree to hang `root`: the place at which its groups are shallowest."""
    tops: list[tuple[Site, int, int]] = []  # of each link: its top, depths of both sides
    for group in links:
        theirs = [site for site in members[group] if root_of[site] in joined]
        ours = [site for site in members[group] if root_of[site] == root]
        if not theirs:
            continue
        top = theirs[0]
        for site in theirs[1:]:
            top = above.common(top, site)
        tops.append((top, max(map(above.depth, theirs)), max(map(above.depth, ours))))
    highest = tops[0][0]
    for top, _, _ in tops[1:]:
        highest = above.common(highest, top)
    candidates = list(dict.fromkeys([highest, *(top for top, _, _ in tops)]))[:_CANDIDATES]

    def total_depth(place: Site) -> int:
        ours_from = above.depth(place) + 1
        return sum(
            max(theirs, ours_from + ours) - above.depth(above.common(place, top))
            for top, theirs, ours in tops
        )

    return min(candidates, key=lambda place: (total_depth(place), above.depth(place), place))
