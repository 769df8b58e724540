"""Forests in records: the manager builds a forest once, and all sites take it from the record.

A record has what differs from the forests of the closed epochs (`ForestMoves`). Two versions of a
builder may build two forests of the same groups, so no site builds one for itself: it derives the
forest, and checks that it is legal. That is a pure function of layout and record, so all sites
accept or refuse a forest alike (docs/epochs.md, "Forests").
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from operator import ne
from typing import cast

from ordercast.core.epochs.layout import STAR, Build, Domain
from ordercast.core.order.registry import protocol_named
from ordercast.forest.forest import Forest, under_one_root
from ordercast.forest.metagroups import BALANCED, METAGROUPS
from ordercast.model.epochs import ForestMoves
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, GroupTable, Pair, Site, pair
from ordercast.model.limits import KEY_PATH, PLACES

_DEEPEST = KEY_PATH // 2  # deeper sites have keys that do not fit into a frame
MANY = 1_000  # memberships: a forest of fewer is built within some 50 ms
_SHAPED = ("metagroup", "tom")  # they need the very forest that was built for them
OLD = 100  # changes that a forest is adapted to before it is built anew


class Before:
    """The forests of the closed epochs, as one. Of very many sites and groups few are looked at
    where one change leaves the others as they are: they are found without a step for each."""

    def __init__(self, closed: Iterable[Domain] = ()) -> None:
        self.parent: dict[Site, Site | None] = {}
        self.primary: dict[Group, Site] = {}
        self.groups: dict[Group, tuple[Site, ...]] = {}
        self._trees = 0
        for domain in closed:
            forest = domain.structure.forest
            self.parent.update((site, forest.parent[site]) for site in domain.sites)
            self.primary.update(forest.primary)
            self.groups.update(domain.structure.groups)
            self._trees += 1

    def has_sites(self, table: GroupTable) -> bool:
        """Whether there was one tree, of the very sites of this table."""
        if self._trees != 1 or len(table.sites) != len(self.parent):
            return False
        one_root = list(self.parent.values()).count(None) == 1
        return one_root and all(map(self.parent.__contains__, table.sites))

    def changed(self, table: GroupTable) -> list[Group]:
        """The groups of this table that are new, or had other members."""
        groups = table.groups
        return list(compress(groups, map(ne, groups.values(), map(self.groups.get, groups))))

    def moved(self, table: GroupTable, primary: Mapping[Group, Site]) -> list[Group]:
        """The groups of this table that had another primary, or none."""
        groups = table.groups
        return list(
            compress(groups, map(ne, map(primary.get, groups), map(self.primary.get, groups)))
        )

    def lowest_above(self, members: Sequence[Site], primary: Site | None) -> Site:
        """The primary, if it is above all members; otherwise the lowest site that is."""
        path = self._path(members[0])
        for site in members[1:]:
            above = dict.fromkeys(self._path(site))
            path = [at for at in path if at in above]
        return primary if primary in path else path[0]

    def _path(self, site: Site) -> list[Site]:
        path = [site]
        while (above := self.parent[path[-1]]) is not None:
            path.append(above)
        return path


def moves_of(table: GroupTable, forest: Forest, before: Before) -> ForestMoves:
    """The moves that lead from the forests before to this one. `table` has the groups of its
    domain, and no other sites."""
    number = {site: place for place, site in enumerate(table.sites, start=1)}
    sites, parent, primary = table.sites, forest.parent, forest.primary
    others = map(ne, map(parent.__getitem__, sites), map(before.parent.get, sites))
    parents = tuple(
        (number[site], number[above] if (above := parent[site]) is not None else 0)
        for site in compress(sites, others)
    )
    groups = sorted(table.groups)
    if not before.primary:  # a whole forest, as it is packed at every checkpoint of an epoch
        now = map(primary.__getitem__, groups)
        primaries = tuple(enumerate(map(number.__getitem__, now), start=1))
    else:
        others = map(ne, map(primary.__getitem__, groups), map(before.primary.get, groups))
        primaries = tuple(
            (place, number[primary[group]])
            for place, group in compress(enumerate(groups, start=1), others)
        )
    return ForestMoves(forest.builder, parents, primaries, forest.age)


def moved(table: GroupTable, moves: ForestMoves, before: Before) -> Forest:
    """The forest that the moves lead to. Raises ConfigError, in one line, if it is not legal."""
    if not moves.builder:
        raise ConfigError("forest: none could be built")
    sites, groups = table.sites, sorted(table.groups)
    parent = {site: before.parent.get(site) for site in sites}
    for site, above in moves.parents:
        if site > len(sites) or above > len(sites):
            raise ConfigError(
                f"forest: of {len(sites):,} sites there is no number {max(site, above)}"
            )
        parent[sites[site - 1]] = sites[above - 1] if above else None
    # A group without a primary is not legal, unless the moves give it one.
    known = zip(groups, map(before.primary.get, groups), strict=True)
    primary = dict(cast("Iterable[tuple[Group, Site]]", known))
    for group, site in moves.primaries:
        if group > len(groups) or site > len(sites):
            raise ConfigError(f"forest: there is no group {group}, or no site {site}")
        primary[groups[group - 1]] = sites[site - 1]
    forest = Forest(moves.builder, parent, primary, age=moves.age)
    require_legal(table, forest, before)
    return forest


def require_legal(table: GroupTable, forest: Forest, before: Before) -> None:
    """Raise ConfigError unless the forest is one tree of the table's sites, in which every group
    has a primary with all members at or below it. The forests before are legal: if the tree is as
    it was, so is each group with the same members and primary."""
    if before.has_sites(table) and forest.parent == before.parent:
        news = dict.fromkeys((*before.changed(table), *before.moved(table, forest.primary)))
        chosen = ((table.groups[group], forest.primary.get(group)) for group in news)
        if all(top and before.lowest_above(members, top) == top for members, top in chosen):
            return  # else the look at all says what is wrong
    span = _spans(forest.parent)
    # Where there are very many groups, many have the same members and primary: each is seen once.
    tops = map(forest.primary.get, table.groups)
    seen = dict(zip(zip(table.groups.values(), tops, strict=True), table.groups, strict=True))
    for (members, top), group in seen.items():
        if top not in span:
            raise ConfigError(f"forest: group {group!r} has no primary among the sites")
        first, last = span[top]
        for site in members:
            if not first <= span[site][0] <= last:
                raise ConfigError(f"forest: primary {top!r} of {group!r} is not above {site!r}")


def _spans(parent: Mapping[Site, Site | None]) -> dict[Site, tuple[int, int]]:
    """By site, its number in a walk down the tree, and the last number below it."""
    below: dict[Site, list[Site]] = {site: [] for site in parent}
    roots = []
    for site, above in parent.items():
        if above is None:
            roots.append(site)
        elif above in below:
            below[above].append(site)
        else:
            raise ConfigError(f"forest: {above!r}, above {site!r}, is not in the domain")
    if len(roots) != 1:
        raise ConfigError(f"forest: {len(roots)} roots, not one")
    order, depth = list[Site](), {roots[0]: 0}
    ahead = [roots[0]]
    while ahead:
        site = ahead.pop()
        order.append(site)
        for child in below[site]:
            depth[child] = depth[site] + 1
            ahead.append(child)
    if len(order) < len(parent):
        lost = next(site for site in parent if site not in depth)
        raise ConfigError(f"forest: {lost!r} is its own ancestor, or below one that is")
    if max(depth.values()) > _DEEPEST:
        raise ConfigError(f"forest: deeper than {_DEEPEST}")
    last = {site: place for place, site in enumerate(order)}
    first = dict(last)
    for site in reversed(order):
        above = parent[site]
        if above is not None:
            last[above] = max(last[above], last[site])
    return {site: (first[site], last[site]) for site in order}


def _largest(parent: Mapping[Site, Site | None]) -> Site:
    """The root that has most sites below it."""
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


# --- in place of a builder ------------------------------------------------------------------------


def from_record(forests: Sequence[ForestMoves], closed: Sequence[Domain]) -> Build:
    """Gives the forests of a record, one after the other."""
    before, ahead = Before(closed), iter(forests)

    def told(table: GroupTable, _builder: str, _protocol: str) -> Forest:
        moves = next(ahead, None)
        if moves is None:
            raise ConfigError("forest: the record has none")
        return moved(table, moves, before)

    return told


def as_before(closed: Sequence[Domain]) -> Build:
    """Gives the forests of the closed epochs, where nothing has changed."""

    def same(table: GroupTable, _builder: str, _protocol: str) -> Forest:
        for domain in closed:
            if domain.structure.groups == table.groups:
                forest = domain.structure.forest
                parent = {site: forest.parent[site] for site in table.sites}
                return Forest(forest.builder, parent, forest.primary, age=forest.age)
        raise ConfigError("forest: there was none for these groups")

    return same


class Builds:
    """Builds forests, and notes them for a record. State: the forests so far. A forest of very many
    groups is adapted to a change, unless it was adapted often: to build one anew takes long. So is
    any forest of the swap family, whose trees grow by leaves ([SWAP] §6.2). `apart`: pairs of sites
    that reach each other only through a third one."""

    def __init__(
        self,
        build: Build,
        closed: Iterable[Domain],
        apart: Collection[Pair] = (),
        *,
        anew: bool = False,
    ) -> None:
        self._build = build
        self._closed = tuple(closed)
        self._before = Before(self._closed)
        self._apart = apart
        self._anew = anew
        self._moved = 0
        self.forests: list[ForestMoves] = []

    def __call__(self, table: GroupTable, builder: str, protocol: str) -> Forest:
        self.forests.append(ForestMoves(""))
        forest = self._adapted(table, builder, protocol)
        if forest is None:
            forest = under_one_root(self._build(table, builder, protocol))
        if self._apart and protocol not in _SHAPED:
            forest = around(table, forest, self._apart)
        require_legal(table, forest, self._before)
        moves = moves_of(table, forest, self._before)
        self._moved += len(moves.parents) + len(moves.primaries)
        if self._moved > PLACES:
            raise ConfigError(f"forest: more than {PLACES:,} sites and groups would be moved")
        self.forests[-1] = moves
        return forest

    def _adapted(self, table: GroupTable, builder: str, protocol: str) -> Forest | None:
        """The forest of the closed epochs, adapted to the table. None: build one anew."""
        few = table.memberships < MANY and not protocol_named(protocol).local
        if self._anew or not self._closed or few:
            return None
        kind = self._closed[0].structure.forest.builder
        for domain in self._closed:
            forest = domain.structure.forest
            same = (domain.builder, domain.protocol, forest.builder) == (builder, protocol, kind)
            if not same or domain.refused or forest.age >= OLD:
                return None
        if kind in (METAGROUPS, BALANCED):
            return None  # their trees depend on who is in the same groups
        age = 1 + max(domain.structure.forest.age for domain in self._closed)
        return adapted(table, self._before, kind, age, lowest=protocol == "tom")


# --- around broken links --------------------------------------------------------------------------


def around(table: GroupTable, forest: Forest, apart: Collection[Pair]) -> Forest:
    """The forest without edges between sites that are apart, as far as it is easily had.

    In a star another site becomes the centre. In any other tree a site goes below a sibling, with
    all that is below it. It keeps every site that was above it, so primaries stay above members.
    Only siblings whose own edges are good take a site, so no two go below each other.
    """
    edges = [(site, above) for site, above in forest.parent.items() if above is not None]
    broken = [(site, above) for site, above in edges if pair(site, above) in apart]
    if not broken:
        return forest
    if forest.builder == STAR:
        return _recentred(forest, apart)
    siblings: dict[Site, list[Site]] = {}
    for site, above in edges:
        if (site, above) not in broken:
            siblings.setdefault(above, []).append(site)
    parent = dict(forest.parent)
    for site, above in broken:
        near = (other for other in siblings.get(above, ()) if pair(other, site) not in apart)
        parent[site] = next(near, above)
    rehung = replace(forest, parent=parent)
    try:
        require_legal(table, rehung, Before())
    except ConfigError:  # too deep
        return forest
    return rehung


def _recentred(forest: Forest, apart: Collection[Pair]) -> Forest:
    sites = sorted(forest.parent)
    for top in sites:
        if not any(pair(top, site) in apart for site in sites):
            parent = {site: None if site == top else top for site in sites}
            return replace(forest, parent=parent, primary=dict.fromkeys(forest.primary, top))
    return forest


# --- adapting -------------------------------------------------------------------------------------


def adapted(
    table: GroupTable, before: Before, builder: str, age: int, *, lowest: bool
) -> Forest | None:
    """The forest before, as far as it is legal for the table. Sites below a site that is gone go to
    the next one above it, a new site goes below the primary of most of its groups, and a group gets
    the lowest site above its members if its primary is not above them (`lowest`: in any case)."""
    star = builder == "star"
    if not (star or lowest) and before.has_sites(table):  # the tree stays as it is
        changed = {
            group: before.lowest_above(table.groups[group], before.primary.get(group))
            for group in before.changed(table)
        }
        gone = [group for group in before.primary if group not in table.groups]
        primary_now = {**before.primary, **changed}
        for group in gone:
            del primary_now[group]
        return Forest(builder, dict(before.parent), primary_now, age=age)
    parent: dict[Site, Site | None] = {}
    known = dict.fromkeys(site for site in table.sites if site in before.parent)
    if not known:
        return None
    for site in known:
        at = before.parent[site]
        while at is not None and at not in known:
            at = before.parent.get(at)
        parent[site] = at
    top = _largest(parent)
    for site, above in parent.items():
        if site != top and (star or above is None):
            parent[site] = top
    pairs = list(zip(table.groups.values(), map(before.primary.get, table.groups), strict=True))
    seen = dict.fromkeys(pairs)
    for site in table.sites:
        if site not in known:
            tops = [p for members, p in seen if site in members and p in known]
            parent[site] = top if star or not tops else max(sorted(tops), key=tops.count)
    span = _spans(parent)
    chosen: dict[tuple[tuple[Site, ...], Site | None], Site] = {}
    for members, primary in seen:
        places = [span[site][0] for site in members]
        first, last = min(places), max(places)
        at = members[0] if star or lowest or primary is None else primary
        if at not in span or not span[at][0] <= first <= last <= span[at][1]:
            at = members[0]
        while not span[at][0] <= first <= last <= span[at][1]:
            at = parent[at] or top
        chosen[members, primary] = top if star else at
    primary_of = dict(zip(table.groups, map(chosen.__getitem__, pairs), strict=True))
    return Forest(builder, parent, primary_of, age=age)
