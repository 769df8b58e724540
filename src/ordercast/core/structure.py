"""One epoch's structure as the sites use it: groups, the forest, and who forwards to whom."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ordercast.core.stability.rounds import RoundPaths
from ordercast.forest.forest import Forest
from ordercast.forest.labels import Labels
from ordercast.forest.metagroups import BALANCED, METAGROUPS
from ordercast.model.errors import CrossDomain, UnknownGroup
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.implicit import implicit_group, listed_sites
from ordercast.model.names import nearest

_LONG = 64  # members; shorter lists are searched as fast as a set


@dataclass(frozen=True)
class Structure:
    """Shared by all sites of a domain; never changed within an epoch."""

    epoch: int
    table: GroupTable
    forest: Forest
    _depth: dict[Site, int] = field(default_factory=dict)
    _implicit: dict[tuple[Site, ...], Site] = field(default_factory=dict)
    round_paths: dict[tuple[Site, bool], RoundPaths[Site]] = field(
        default_factory=dict, compare=False
    )
    _list_names: dict[tuple[Site, ...], Group] = field(default_factory=dict, compare=False)
    _at: dict[Site, list[Group]] = field(default_factory=dict, compare=False)
    _inside: dict[Group, frozenset[Site]] = field(default_factory=dict, compare=False)
    _ordering_nodes: dict[Group, Site | None] = field(default_factory=dict, compare=False)

    @cached_property
    def groups(self) -> Mapping[Group, tuple[Site, ...]]:
        return self.table.groups

    @cached_property
    def children(self) -> dict[Site, list[Site]]:
        below: dict[Site, list[Site]] = {site: [] for site in self.forest.parent}
        for site in sorted(self.forest.parent):
            above = self.forest.parent[site]
            if above is not None:
                below[above].append(site)
        return below

    @cached_property
    def groups_of(self) -> dict[Site, list[Group]]:
        of: dict[Site, list[Group]] = {site: [] for site in self.table.sites}
        for group in sorted(self.groups):
            for site in self.groups[group]:
                of[site].append(group)
        return of

    def groups_at(self, site: Site) -> list[Group]:
        """The groups of one site, sorted. `groups_of` has those of all, which takes longer: it is
        used when a second site of this process asks."""
        found = self._at.get(site)
        if found is None and self._at:
            return self.groups_of.get(site, [])
        if found is None:
            has = {members: site in members for members in dict.fromkeys(self.groups.values())}
            found = sorted(group for group, members in self.groups.items() if has[members])
            self._at[site] = found
        return found

    def is_member(self, group: Group, site: Site) -> bool:
        """Whether the site is in the group; of a long list it is not searched for."""
        members = self.groups.get(group, ())
        if len(members) < _LONG:
            return site in members
        inside = self._inside.get(group)
        if inside is None:
            inside = self._inside[group] = frozenset(members)
        return site in inside

    def ordering_node(self, group: Group) -> Site | None:
        """The site whose label is the longest common prefix of the members' labels."""
        if group not in self._ordering_nodes:
            self._ordering_nodes[group] = self.labels.ordering_node(self.members(group))
        return self._ordering_nodes[group]

    def concerning(self, site: Site) -> list[Group]:
        """The groups of which the site is a member, then those of which it is only the primary."""
        placed = [group for group, primary in self.forest.primary.items() if primary == site]
        return list(dict.fromkeys([*self.groups_at(site), *sorted(placed)]))

    @cached_property
    def labels(self) -> Labels:
        return Labels.of(self.forest.parent)

    @cached_property
    def tellers(self) -> "Tellers":
        """The same for a direct protocol. A group's teller is its primary if that is a member, else
        the first member."""
        primary = {
            group: self.forest.primary[group]
            if self.forest.primary[group] in members
            else members[0]
            for group, members in self.groups.items()
        }
        return Tellers(self.epoch, self.table, replace(self.forest, primary=primary))

    def parent(self, site: Site) -> Site | None:
        return self.forest.parent[site]

    def root(self, site: Site) -> Site:
        """The root of the tree that the site is in."""
        while (above := self.forest.parent[site]) is not None:
            site = above
        return site

    def depth(self, site: Site) -> int:
        path = []
        at: Site | None = site
        while at is not None and at not in self._depth:
            path.append(at)
            at = self.forest.parent[at]
        depth = -1 if at is None else self._depth[at]
        for passed in reversed(path):
            depth += 1
            self._depth[passed] = depth
        return self._depth[site]

    @cached_property
    def flat(self) -> bool:
        """Whether every site is a root or the child of one."""
        return all(self.depth(site) <= 1 for site in self.forest.parent)

    def members(self, group: Group) -> tuple[Site, ...]:
        found = self.groups.get(group)
        if found is None:
            raise UnknownGroup(f"there is no group {group!r}{nearest(group, self.groups)}")
        return found

    def listed(self, sites: Iterable[Site]) -> tuple[Site, ...]:
        """The members of an implicit group, sorted, each once. Raises Error if they make none."""
        return listed_sites(sites, self.forest.parent)

    def list_name(self, members: tuple[Site, ...]) -> Group:
        """The implicit group of listed sites; "" if they are not listed in order, each once."""
        found = self._list_names.get(members)
        if found is None:
            if self.listed(members) != members:
                return ""
            found = self._list_names[members] = implicit_group(members)
        return found

    def primary(self, group: Group, members: tuple[Site, ...] = ()) -> Site:
        """The primary of a named group, or of listed members: the lowest site with all of them at
        or below it. On a star it is the centre, and with metagroups a delegate."""
        if not members:
            if group not in self.groups:
                self.members(group)  # raises UnknownGroup
            return self.forest.primary[group]
        found = self._implicit.get(members)
        if found is None:
            found = self._implicit[members] = self._lowest_above(self.listed(members))
        return found

    def _lowest_above(self, members: tuple[Site, ...]) -> Site:
        top = members[0]
        for site in members[1:]:
            top = self._common(top, site)
        while self.forest.builder == "star" and (above := self.forest.parent[top]) is not None:
            top = above
        return self.delegate(top) if self.forest.builder in (METAGROUPS, BALANCED) else top

    def delegate(self, site: Site) -> Site:
        """The delegate of the site's metagroup: the site's parent if that is in the same groups,
        else the site itself."""
        above = self.forest.parent[site]
        same = above is not None and self.groups_of[above] == self.groups_of[site]
        return above if above is not None and same else site

    def _common(self, a: Site, b: Site) -> Site:
        first, second = a, b
        while a != b:
            if self.depth(a) < self.depth(b):
                a, b = b, a
            above = self.forest.parent[a]
            if above is None:
                raise CrossDomain(
                    f"{first!r} and {second!r} are in different domains: no one order covers both"
                )
            a = above
        return a

    def routes(self, site: Site, members: Iterable[Site]) -> tuple[Site, ...]:
        """The children of `site` at or below which there are members (errata GS-3)."""
        if not self.children[site]:
            return ()
        found: dict[Site, None] = {}
        depth = self.depth(site)
        for member in members:
            at: Site | None = member
            while at is not None and self.depth(at) > depth + 1:
                at = self.forest.parent[at]
            if at is not None and self.forest.parent[at] == site:
                found[at] = None
        return tuple(sorted(found))


@dataclass(frozen=True)
class Tellers(Structure):
    """The structure as a direct protocol uses it. It has no primaries, but one member of each group
    gathers reports of stability and tells origins outside the group: its teller, which is called
    its primary here. The forest is kept because it says which sites are in one domain."""

    _nearest: dict[tuple[Site, int], frozenset[Site]] = field(default_factory=dict, compare=False)
    _tops: dict[tuple[Site, int, int], Mapping[Site, Site]] = field(
        default_factory=dict, compare=False
    )

    @cached_property
    def tellers(self) -> "Tellers":
        return self

    def _lowest_above(self, members: tuple[Site, ...]) -> Site:
        super()._lowest_above(members)  # raises if they are in several domains
        return members[0]

    @cached_property
    def root_of(self) -> Mapping[Site, Site]:
        """The root of each site's tree."""
        found: dict[Site, Site] = {}
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
    def domains(self) -> Mapping[Site, tuple[Site, ...]]:
        """By root: all sites of the tree. They may send within the domain."""
        trees: dict[Site, list[Site]] = {}
        for site in sorted(self.forest.parent):
            trees.setdefault(self.root_of[site], []).append(site)
        return {root: tuple(sites) for root, sites in trees.items()}

    def nearest_to_root(self, root: Site, count: int) -> frozenset[Site]:
        """The first `count` sites of the tree, by depth, then by name; all, if it has no more. A
        site comes after all that are above it, so they are a tree."""
        found = self._nearest.get((root, count))
        if found is None:
            order = sorted(self.domains[root], key=lambda site: (self.depth(site), site))
            found = self._nearest[root, count] = frozenset(order[:count])
        return found

    def tops_below(self, root: Site, core: int, size: int) -> Mapping[Site, Site]:
        """The sites that are not among the `core` ones nearest to the root, cut into connected
        groups of at most `size`: each with its group's top. By depth, then by name, a site joins
        its parent's group while there is room."""
        found = self._tops.get((root, core, size))
        if found is not None:
            return found
        inside = self.nearest_to_root(root, core)
        tops: dict[Site, Site] = {}
        counts: dict[Site, int] = {}
        for site in sorted(self.domains[root], key=lambda site: (self.depth(site), site)):
            if site in inside:
                continue
            top = tops.get(self.forest.parent[site] or site, site)
            if counts.get(top, 0) >= size:
                top = site
            tops[site] = top
            counts[top] = counts.get(top, 0) + 1
        self._tops[root, core, size] = tops
        return tops
