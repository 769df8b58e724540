"""Forests in records: the manager builds a forest once, and all sites take it from the record.

A record has what differs from the forests of the closed epochs (`ForestMoves`). Two versions of a
builder may build two forests of the same groups, so no site builds one for itself: it derives the
forest, and checks that it is legal. That is a pure function of layout and record, so all sites
accept or refuse a forest alike (docs/epochs.md, "Forests").
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from operator import ne
from typing import cast

from ordercast.core.epochs.layout import STAR, Build, Domain
from ordercast.core.order.registry import protocol_named
from ordercast.forest.forest import Forest, largest_root, under_one_root
from ordercast.forest.metagroups import BALANCED, METAGROUPS
from ordercast.model.epochs import ForestMoves
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, GroupTable, Pair, Site, pair
from ordercast.model.limits import DEEPEST, PLACES

MANY = 1_000  # memberships: a forest of fewer is built within some 50 ms
_METAGROUP = "metagroup"
_SHAPED = (_METAGROUP, "tom")  # they need the very forest that was built for them
OLD = 100  # changes that a forest is adapted to before it is built anew, if that is quick:
QUICK = 10_000  # memberships of which these builders make a forest within some 50 ms; others: MANY
_QUICK_BUILDERS = ("greedy", METAGROUPS, STAR)


@dataclass(frozen=True, slots=True)
class Edits:
    """How groups were made from those before: by editing the named ones. None: not known."""

    before: Mapping[Group, tuple[Site, ...]]
    groups: Mapping[Group, tuple[Site, ...]]
    names: Sequence[Group] | None


class Before:
    """The forests of the closed epochs, as one. A change leaves nearly all sites and groups as they
    are, so tables are shared, and only what differs is looked at. The caller that edits the groups
    tells the difference (`tell`). Otherwise tables are compared by reference, block by block."""

    def __init__(self, closed: Iterable[Domain] = ()) -> None:
        self.parent: Mapping[Site, Site | None] = {}
        self.primary: Mapping[Group, Site] = {}
        self.groups: Mapping[Group, tuple[Site, ...]] = {}
        domains = tuple(closed)
        self._trees = len(domains)
        if len(domains) == 1:  # nothing is copied
            (domain,) = domains
            forest = domain.structure.forest
            outside = len(forest.parent) > len(domain.sites)
            self.parent = _chosen(forest.parent, domain.sites) if outside else forest.parent
            self.primary, self.groups = forest.primary, domain.structure.groups
        elif domains:
            parent, primary, groups = dict(self.parent), dict(self.primary), dict(self.groups)
            for domain in domains:
                parent.update(_chosen(domain.structure.forest.parent, domain.sites))
                primary.update(domain.structure.forest.primary)
                groups.update(domain.structure.groups)
            self.parent, self.primary, self.groups = parent, primary, groups
        # Answers, and the very objects that they are about: each is asked for more than once.
        self._new: tuple[object, list[Site] | None] = (None, None)
        self._changed: tuple[object, list[Group]] = (None, [])
        self._moved: tuple[object, object, list[Group]] = (None, None, [])
        self._names: tuple[object, Sequence[Group]] = (None, ())

    def tell(self, edits: Edits, names: Sequence[Group]) -> None:
        """Take the edits that made the next group table, and all its names, sorted."""
        if edits.before is self.groups and edits.names is not None:
            groups = edits.groups
            told = [g for g in edits.names if g in groups and groups[g] != self.groups.get(g)]
            self._changed = (groups, told)
        self._names = (edits.groups, names)

    def names(self, table: GroupTable) -> Sequence[Group]:
        """The names of the table's groups, sorted."""
        return self._names[1] if self._names[0] is table.groups else sorted(table.groups)

    def has_names(self, table: GroupTable) -> bool:
        """Whether all its groups were there before, and no others."""
        if not len(table.groups) == len(self.groups) == len(self.primary):
            return False
        return all(group in self.primary for group in self.changed(table))

    def new_sites(self, table: GroupTable) -> list[Site] | None:
        """The sites of this table that are new. None: there was not one tree, or one of its sites
        is gone."""
        if self._trees != 1:
            return None
        if self._new[0] is not table.sites:
            self._new = (table.sites, self._find_new_sites(table))
        return self._new[1]

    def _find_new_sites(self, table: GroupTable) -> list[Site] | None:
        if list(self.parent.values()).count(None) != 1:
            return None
        if table.sites == tuple(self.parent):
            return []
        if not all(map(dict.fromkeys(table.sites).__contains__, self.parent)):
            return None
        return [site for site in table.sites if site not in self.parent]

    def changed(self, table: GroupTable) -> list[Group]:
        """The groups of this table that are new, or had other members."""
        if self._changed[0] is not table.groups:
            self._changed = (table.groups, _differing(table.groups, table.groups, self.groups))
        return self._changed[1]

    def moved(self, table: GroupTable, primary: Mapping[Group, Site]) -> list[Group]:
        """The groups of this table that had another primary, or none."""
        if primary is self.primary:
            return []
        if self._moved[0] is not table.groups or self._moved[1] is not primary:
            found = _differing(table.groups, primary, self.primary)
            self._moved = (table.groups, primary, found)
        return self._moved[2]

    def with_primaries(
        self, table: GroupTable, chosen: Mapping[Group, Site]
    ) -> Mapping[Group, Site]:
        """The primaries before, but for these. The table has the groups before."""
        others = [group for group, site in chosen.items() if self.primary[group] != site]
        if not others:
            return self.primary
        primary = {**self.primary, **chosen}
        self._moved = (table.groups, primary, others)
        return primary

    def is_grown(self, parent: Mapping[Site, Site | None], new: Sequence[Site]) -> bool:
        """Whether this is the tree before, with the new sites as leaves below the others."""
        if not new:
            return parent is self.parent or parent == self.parent
        old = dict(parent)
        tops = [old.pop(site, None) for site in new]
        return old == self.parent and all(top in old for top in tops)


_BLOCK = 512  # values compared at once


def _differing(
    groups: Iterable[Group], now: Mapping[Group, object], before: Mapping[Group, object]
) -> list[Group]:
    """The groups with one value now and another one before, or a value in one mapping only. Lists
    are compared by reference first: 20 ns for a group whose value is the very same object."""
    names = list(now)
    if names != list(before) or names != list(groups):
        return list(compress(groups, map(ne, map(now.get, groups), map(before.get, groups))))
    values, others = list(now.values()), list(before.values())
    found: list[Group] = []
    for start in range(0, len(names), _BLOCK):
        block = slice(start, start + _BLOCK)
        if values[block] != others[block]:
            found += compress(names[block], map(ne, values[block], others[block]))
    return found


def _chosen(parent: Mapping[Site, Site | None], sites: Sequence[Site]) -> dict[Site, Site | None]:
    return dict(zip(sites, map(parent.__getitem__, sites), strict=True))


def _path(parent: Mapping[Site, Site | None], site: Site) -> list[Site]:
    """From the site up to the root."""
    path = [site]
    while (above := parent[path[-1]]) is not None:
        path.append(above)
    return path


def _lowest_above(
    parent: Mapping[Site, Site | None], members: Sequence[Site], primary: Site | None
) -> Site:
    """The primary, if it is above all members; otherwise the lowest site that is."""
    path = _path(parent, members[0])
    for site in members[1:]:
        above = dict.fromkeys(_path(parent, site))
        path = [at for at in path if at in above]
    return primary if primary in path else path[0]


def moves_of(table: GroupTable, forest: Forest, before: Before) -> ForestMoves:
    """The moves that lead from the forests before to this one. `table` has the groups of its
    domain, and no other sites."""
    sites, parent, primary = table.sites, forest.parent, forest.primary
    other_sites: list[Site] = []
    if parent is not before.parent:
        others = map(ne, map(parent.__getitem__, sites), map(before.parent.get, sites))
        other_sites = list(compress(sites, others))
    # A whole forest is packed at every checkpoint of an epoch.
    other_groups = before.moved(table, primary) if before.primary else list(table.groups)
    if not other_sites and not other_groups:
        return ForestMoves(forest.builder, age=forest.age)
    number = dict(zip(sites, range(1, len(sites) + 1), strict=True))
    parents = tuple(
        (number[site], number[above] if (above := parent[site]) is not None else 0)
        for site in other_sites
    )
    groups = before.names(table) if other_groups else ()
    if len(other_groups) == len(groups):
        now = map(primary.__getitem__, groups)
        primaries = tuple(enumerate(map(number.__getitem__, now), start=1))
    else:
        primaries = tuple(
            (bisect_left(groups, group) + 1, number[primary[group]])
            for group in sorted(other_groups)
        )
    return ForestMoves(forest.builder, parents, primaries, forest.age)


def moved(table: GroupTable, moves: ForestMoves, before: Before) -> Forest:
    """The forest that the moves lead to. Raises ConfigError, in one line, if it is not legal."""
    if not moves.builder:
        raise ConfigError("forest: none could be built")
    parent = _moved_parents(table, moves, before)
    primary = _moved_primaries(table, moves, before)
    forest = Forest(moves.builder, parent, primary, age=moves.age)
    require_legal(table, forest, before)
    return forest


def _moved_parents(
    table: GroupTable, moves: ForestMoves, before: Before
) -> Mapping[Site, Site | None]:
    sites = table.sites
    if not moves.parents and tuple(before.parent) == sites:
        return before.parent
    parent = dict(zip(sites, map(before.parent.get, sites), strict=True))
    for site, above in moves.parents:
        if site > len(sites) or above > len(sites):
            raise ConfigError(
                f"forest: of {len(sites):,} sites there is no number {max(site, above)}"
            )
        parent[sites[site - 1]] = sites[above - 1] if above else None
    return parent


def _moved_primaries(table: GroupTable, moves: ForestMoves, before: Before) -> Mapping[Group, Site]:
    sites, size = table.sites, len(table.groups)
    for number, site in moves.primaries:
        if number > size or site > len(sites):
            raise ConfigError(f"forest: there is no group {number}, or no site {site}")
    names = before.names(table) if moves.primaries else ()
    chosen = {names[number - 1]: sites[site - 1] for number, site in moves.primaries}
    if before.has_names(table):
        return before.with_primaries(table, chosen)
    # A group without a primary is not legal, unless the moves give it one.
    known = zip(table.groups, map(before.primary.get, table.groups), strict=True)
    return dict(cast("Iterable[tuple[Group, Site]]", known)) | chosen


def require_legal(table: GroupTable, forest: Forest, before: Before) -> None:
    """Raise ConfigError unless the forest is one tree of the table's sites, in which every group
    has a primary with all members at or below it. The forests before are legal: if the tree is as
    it was, or has new leaves, so is each group with the same members and primary."""
    new, parent = before.new_sites(table), forest.parent
    if new is not None and before.is_grown(parent, new):
        news = dict.fromkeys((*before.changed(table), *before.moved(table, forest.primary)))
        chosen = ((table.groups[group], forest.primary.get(group)) for group in news)
        if all(len(_path(parent, site)) <= DEEPEST + 1 for site in new) and all(
            top and _lowest_above(parent, members, top) == top for members, top in chosen
        ):
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
    if max(depth.values()) > DEEPEST:
        raise ConfigError(f"forest: deeper than {DEEPEST:,}")
    last = {site: place for place, site in enumerate(order)}
    first = dict(last)
    for site in reversed(order):
        above = parent[site]
        if above is not None:
            last[above] = max(last[above], last[site])
    return {site: (first[site], last[site]) for site in order}


# --- in place of a builder ------------------------------------------------------------------------


class FromRecord:
    """Gives the forests of a record, one after the other."""

    def __init__(self, forests: Sequence[ForestMoves], closed: Sequence[Domain]) -> None:
        self.before = Before(closed)
        self._ahead = iter(forests)

    def __call__(self, table: GroupTable, _builder: str, _protocol: str) -> Forest:
        moves = next(self._ahead, None)
        if moves is None:
            raise ConfigError("forest: the record has none")
        return moved(table, moves, self.before)


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
    """Builds forests, and notes them for a record. State: the forests so far. A forest of many
    groups is adapted to a change: to build one anew takes long. One that is quickly built is built
    anew when it was adapted often. So is
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
        self.before = Before(self._closed)
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
        require_legal(table, forest, self.before)
        moves = moves_of(table, forest, self.before)
        self._moved += len(moves.parents) + len(moves.primaries)
        if self._moved > PLACES:
            raise ConfigError(f"forest: more than {PLACES:,} sites and groups would be moved")
        self.forests[-1] = moves
        return forest

    def _adapted(self, table: GroupTable, builder: str, protocol: str) -> Forest | None:
        """The forest of the closed epochs, adapted to the table. None: build one anew."""
        if self._anew or not self._closed:
            return None
        if not _has_memberships(table, MANY) and not protocol_named(protocol).local:
            return None
        kind = self._closed[0].structure.forest.builder
        quick = not _has_memberships(table, QUICK if kind in _QUICK_BUILDERS else MANY)
        for domain in self._closed:
            forest = domain.structure.forest
            same = (domain.builder, domain.protocol, forest.builder) == (builder, protocol, kind)
            if not same or domain.refused or (quick and forest.age >= OLD):
                return None
        if kind in (METAGROUPS, BALANCED) and (quick or protocol == _METAGROUP):
            return None  # their trees depend on who is in the same groups
        age = 1 + max(domain.structure.forest.age for domain in self._closed)
        return adapted(table, self.before, kind, age, lowest=protocol == "tom")


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


def _grown(
    table: GroupTable, before: Before, new: Sequence[Site], builder: str, age: int
) -> Forest | None:
    """As `adapted`, where no site is gone: only groups that have changed, and new sites, are looked
    at. None: the tree would be too deep."""
    changed, parent = before.changed(table), before.parent
    if new:
        parent = dict(parent)
        top = next(site for site, above in parent.items() if above is None)
        seen = dict.fromkeys((table.groups[group], before.primary.get(group)) for group in changed)
        for site in new:  # no group that stays as it was has it
            tops = [p for members, p in seen if p is not None and site in members]
            parent[site] = max(sorted(tops), key=tops.count) if tops else top
            if len(_path(parent, site)) > DEEPEST + 1:
                return None
    chosen = {
        group: _lowest_above(parent, table.groups[group], before.primary.get(group))
        for group in changed
    }
    if before.has_names(table):
        primary = before.with_primaries(table, chosen)
    else:
        primary = {
            group: site for group, site in before.primary.items() if group in table.groups
        } | chosen
    return Forest(builder, parent, primary, age=age)


def _has_memberships(table: GroupTable, least: int) -> bool:
    """Whether the sizes of all groups together reach a limit; counting stops there."""
    return any(total >= least for total in accumulate(map(len, table.groups.values()), initial=0))


def adapted(
    table: GroupTable, before: Before, builder: str, age: int, *, lowest: bool
) -> Forest | None:
    """The forest before, as far as it is legal for the table. Sites below a site that is gone go to
    the next one above it, a new site goes below the primary of most of its groups, and a group gets
    the lowest site above its members if its primary is not above them (`lowest`: in any case)."""
    star = builder == "star"
    new = None if star or lowest else before.new_sites(table)
    if new is not None:
        forest = _grown(table, before, new, builder, age)
        if forest is not None:
            return forest
    parent: dict[Site, Site | None] = {}
    known = dict.fromkeys(site for site in table.sites if site in before.parent)
    if not known:
        return None
    for site in known:
        at = before.parent[site]
        while at is not None and at not in known:
            at = before.parent.get(at)
        parent[site] = at
    top = largest_root(parent)
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
