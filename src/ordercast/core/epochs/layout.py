"""The layout: everything that the records of the voters' log say, folded ([GS] §5.1).

It has the roster, the voters, the groups, the open epoch of each domain with its structure, and the
changes under way. All sites that have heard the same records have the same layout: folding is a
pure function, and forests come with the records.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

from ordercast.core.epochs.chain import START, UNKNOWN
from ordercast.core.order.registry import protocol_named, require_fit
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest, under_one_root
from ordercast.forest.star import build_star
from ordercast.model.epochs import Edit, EndPart, Included, UseBuilder, UseProtocol
from ordercast.model.errors import (
    ConfigError,
    CrossDomain,
    NotInMajority,
    UnknownGroup,
)
from ordercast.model.grants import Grants
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.implicit import listed_sites
from ordercast.model.names import nearest

Build: TypeAlias = Callable[[GroupTable, str, str], Forest]
"""(the groups of one domain, builder, protocol) -> its forest, or ConfigError."""

ALL = 1 << 62  # above the number of every message
STAR, STAND_IN = "star", "centralized"
NO_EDIT = "change: there is no edit in it"

Groups: TypeAlias = dict[Group, tuple[Site, ...]]
Stream: TypeAlias = tuple[Site, int, Group]


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain in its open epoch. `sites`: the sites of its tree, sorted."""

    epoch: int
    builder: str
    protocol: str
    structure: Structure
    sites: tuple[Site, ...]
    after: tuple[int, ...] = ()  # the epochs that were closed for it
    usual: str = ""  # the protocol that was asked for, if another one stands in for it
    # Why one site places all messages here, although something else was asked for.
    refused: str = ""

    @property
    def manner(self) -> tuple[str, str]:
        """Builder and protocol, as they were asked for."""
        return self.builder, self.usual or self.protocol

    def has(self, site: Site) -> bool:
        """Whether the site is in its tree."""
        place = bisect_left(self.sites, site)
        return place < len(self.sites) and self.sites[place] == site

    @property
    def root(self) -> Site:
        return next(site for site in self.sites if self.structure.parent(site) is None)


@dataclass(frozen=True, slots=True)
class Closing:
    """A change under way: its edits, the epochs that it closes, the sites that it concerns, and the
    number of the record that began it (a flush may end it, and then it may be begun again)."""

    edits: tuple[Edit, ...]
    epochs: tuple[int, ...]
    at: frozenset[Site]
    number: int
    parts: tuple[EndPart, ...] = ()  # of its end, so far


@dataclass(frozen=True, slots=True)
class Flushing:
    """A flush under way: the epochs that it closes, the sites whose logs are their past and which
    open the next epochs, the sites that are absent then, and the sites that return without their
    stores."""

    number: int  # of its record
    epochs: tuple[int, ...]
    members: tuple[Site, ...]
    absent: Mapping[Site, int]
    fresh: Mapping[Site, tuple[int, int]]  # incarnation, store
    parts: tuple[EndPart, ...] = ()  # of its end, so far


@dataclass(frozen=True, slots=True)
class Layout:
    count: int  # records folded
    roster: Mapping[Site, int]  # incarnation of each site
    voters: tuple[Site, ...]
    groups: Mapping[Group, tuple[Site, ...]]
    domains: Mapping[int, Domain]  # by epoch
    last_epoch: int
    closing: Mapping[str, Closing] = field(default_factory=dict)
    outcomes: Mapping[str, str] = field(default_factory=dict)  # "": done; else why not
    lasts: Mapping[Stream, int] = field(default_factory=dict)
    addresses: Mapping[Site, str] = field(default_factory=dict)  # of sites added later
    founding: str = ""  # identifies what the cluster was founded with
    whole: bool = False  # all groups are one domain
    open: bool = True  # if whole: an implicit group may have sites that no groups connect
    # Under `exclude` only. A frozen group has the epoch that it was in, and the sites that can tell
    # its past. A past has its last number, and its members if the group has others now.
    stores: Mapping[Site, int] = field(default_factory=dict)  # the store of each site
    absent: Mapping[Site, int] = field(default_factory=dict)  # the last epoch each was in
    frozen: Mapping[Group, tuple[int, tuple[Site, ...]]] = field(default_factory=dict)
    pasts: Mapping[tuple[int, Group], tuple[int, tuple[Site, ...]]] = field(default_factory=dict)
    # By closed epoch, the sites whose logs are its past.
    counted: Mapping[int, tuple[Site, ...]] = field(default_factory=dict)
    flushing: Flushing | None = None
    lapsed: tuple[Site, ...] = ()  # absent, and nothing is kept for them
    rejoining: Mapping[Site, int] = field(default_factory=dict)  # the open epoch each joined anew
    manners: Mapping[Group, tuple[str, str]] = field(default_factory=dict)  # of frozen groups
    causal: bool = False
    term: int = 0  # of the last record
    chain: bytes = UNKNOWN  # the hash of the records
    lost: tuple[tuple[Site, int], ...] = ()  # stores of voters that were declared lost
    # For the streams that `lasts` has forgotten: no seq of the origin there is higher than this.
    floors: Mapping[tuple[Site, int], int] = field(default_factory=dict)
    told_at: int = 0  # the number of the last record that told streams
    look_at: int = 0  # search `lasts` again when it has more entries than this
    features: tuple[str, ...] = ()  # adopted: every site has a program that knows them
    grants: Grants = field(default_factory=Grants)
    revoked: Mapping[str, str] = field(default_factory=dict)  # certificates, and whom they name
    # Grants to send that are gone (patterns of sites and groups), and the last epoch they count in.
    withdrawn: Mapping[tuple[str, str], int] = field(default_factory=dict)
    # By name and group, the ticket under which a producer sends; and the last ticket ever given.
    producers: Mapping[tuple[str, Group], int] = field(default_factory=dict)
    last_ticket: int = 0
    # By epoch that was closed without an absent site: the marks of producers that it began with.
    opening_marks: Mapping[int, Included] = field(default_factory=dict)
    # Of retired sites, also if they were added again, and of lost stores: what was known of
    # messages up to this seq, in streams without an entry, is forgotten.
    bygone: Mapping[tuple[Site, int], int] = field(default_factory=dict)

    def last_seq(self, site: Site, incarnation: int, group: Group) -> int:
        """The last seq of the stream that may be in a closed epoch."""
        found, origin = self.lasts.get((site, incarnation, group)), (site, incarnation)
        return max(
            self.floors.get(origin, 0) if found is None else found, self.bygone.get(origin, 0)
        )

    def forgets(self, site: Site, incarnation: int, group: Group, seq: int) -> bool:
        """Whether nobody knows any more if a closed epoch includes this message."""
        bygone = self.bygone.get((site, incarnation), 0)
        return seq <= bygone and (site, incarnation, group) not in self.lasts

    def domain_of(self, groups: Iterable[Group]) -> Domain | None:
        """The domain that has one of the groups."""
        wanted = tuple(groups)
        for domain in self.domains.values():
            if any(group in domain.structure.groups for group in wanted):
                return domain
        return None

    def taking(self, site: Site, group: Group, members: Iterable[Site]) -> Domain:
        """The domain of a site's message to a group or listed sites. Raises if there is none."""
        if site not in self.roster:
            raise UnknownGroup(f"site {site!r} is retired, or not admitted yet")
        listed = tuple(members)
        if not listed:
            for domain in self.domains.values():
                if group in domain.structure.table.groups:
                    return domain
            if group in self.groups:
                raise NotInMajority(f"group {group!r} waits: all its members are absent")
            raise UnknownGroup(f"there is no group {group!r}{nearest(group, self.groups)}")
        for domain in self.domains.values():
            if all(member in domain.sites for member in listed):
                if self.whole and not self.open and not self._connected(listed):
                    break
                return domain
        away = [site for site in listed if site in self.absent]
        if away:
            raise NotInMajority(f"{', '.join(away)}: absent; a list waits for all its sites")
        if self.absent and self._connected(listed):
            raise NotInMajority(
                f"{', '.join(listed)}: apart while {', '.join(sorted(self.absent))} is absent;"
                " a list waits until one domain has all its sites"
            )
        raise CrossDomain(f"{', '.join(listed)}: no one domain has all of these sites")

    def listed(self, sites: Iterable[Site]) -> tuple[Site, ...]:
        """The members of an implicit group, sorted, each once. Raises Error if they make none."""
        return listed_sites(sites, self.roster)

    def _connected(self, sites: tuple[Site, ...]) -> bool:
        for names in components(self.groups):
            inside = sites_of({name: self.groups[name] for name in names})
            if all(site in inside for site in sites):
                return True
        return False

    def parts(self, groups: Mapping[Group, tuple[Site, ...]]) -> list[tuple[Group, ...]]:
        """The groups of each domain."""
        if self.whole:
            return [tuple(sorted(groups))] if groups else []
        return components(groups)

    def home(self, site: Site) -> Domain | None:
        """The domain whose tree has the site."""
        for domain in self.domains.values():
            if domain.has(site):
                return domain
        return None


def first_layout(
    roster: Iterable[Site],
    voters: Iterable[Site],
    groups: Mapping[Group, tuple[Site, ...]],
    builder: str,
    protocol: str,
    build: Build,
    *,
    founding: str = "",
    whole: bool = False,
    open_groups: bool = True,
    causal: bool = False,
) -> Layout:
    """The layout that a cluster begins with. Its domains open as epochs 1, 2, … `whole`: all groups
    are one domain. Causal order needs that: what happened before may be in any group."""
    sites = tuple(sorted(roster))
    empty = Layout(
        0, dict.fromkeys(sites, 1), tuple(sorted(voters)), {}, {}, 0,
        founding=founding, whole=whole, open=open_groups, causal=causal, chain=START,
    )  # fmt: skip
    sorted_groups = {group: tuple(sorted(groups[group])) for group in sorted(groups)}
    domains: dict[int, Domain] = {}
    for names in empty.parts(sorted_groups):
        epoch = len(domains) + 1
        domains[epoch] = reopened(epoch, names, sorted_groups, sites, builder, protocol, (), build)
    return replace(empty, groups=sorted_groups, domains=domains, last_epoch=len(domains))


def nowhere(sites: Iterable[Site], founding: str = "") -> Layout:
    """The layout of a site that is not in the cluster yet: it knows only whom to ask. It believes
    these sites as others believe the voters."""
    return Layout(-1, {}, tuple(sorted(sites)), {}, {}, 0, founding=founding)


def reopened(
    epoch: int, names: tuple[Group, ...], groups: Mapping[Group, tuple[Site, ...]],
    roster: tuple[Site, ...], builder: str, protocol: str, after: tuple[int, ...], build: Build,
    usual: str = "", inhabited: tuple[Site, ...] | None = None,
) -> Domain:  # fmt: skip
    """`inhabited`: the sites of all these groups, if they are known."""
    # Built without sites outside the domain: the roster may be another when the layout is
    # unpacked later. The table is not checked again: names were checked where they entered.
    whole = names == tuple(groups)
    inside = groups if whole else {name: groups[name] for name in names}
    table = GroupTable(sites_of(inside) if inhabited is None else inhabited, inside)
    forest = under_one_root(_built(table, builder, protocol, build))
    structure = widened(Structure(epoch, table, forest), roster)
    return Domain(epoch, builder, protocol, structure, table.sites, after, usual)


def _built(table: GroupTable, builder: str, protocol: str, build: Build) -> Forest:
    try:
        return build(table, builder, protocol)
    except ConfigError:
        if (builder, protocol) != (STAR, STAND_IN):
            raise
        return build_star(table)  # the last resort always works


def opened(
    epoch: int, names: tuple[Group, ...], groups: Mapping[Group, tuple[Site, ...]],
    roster: tuple[Site, ...], builder: str, protocol: str, after: tuple[int, ...], build: Build,
    usual: str = "", inhabited: tuple[Site, ...] | None = None, *, somehow: bool,
) -> Domain:  # fmt: skip
    """A domain that its sites can work in. Raises ConfigError if the protocol does not fit it.
    `somehow`: the epochs before it have ended, so it must open. If need be, one site places all."""
    try:
        domain = reopened(
            epoch, names, groups, roster, builder, protocol, after, build, usual, inhabited
        )
        require_fit(protocol, domain.structure, domain.sites)
    except ConfigError as error:
        if not somehow:
            raise
        domain = reopened(epoch, names, groups, roster, STAR, STAND_IN, after, _stand_in)
        return replace(domain, refused=str(error))
    return domain


def _stand_in(table: GroupTable, _builder: str, _protocol: str) -> Forest:
    """A star. No other builder is asked: two versions of it could build two forests."""
    return build_star(table)


def widened(structure: Structure, sites: Iterable[Site]) -> Structure:
    """The structure with these sites added: they are outside, and may send to it."""
    table, forest = structure.table, structure.forest
    outside = [site for site in sites if site not in forest.parent]
    if not outside:
        return structure
    # Not checked again: the name of a retired site may differ from another one by case alone.
    table = replace(table, sites=tuple(sorted((*table.sites, *outside))))
    parent = {**forest.parent, **dict.fromkeys(outside)}
    return Structure(structure.epoch, table, replace(forest, parent=parent))


def living(
    groups: Mapping[Group, tuple[Site, ...]], absent: Mapping[Site, int]
) -> Mapping[Group, tuple[Site, ...]]:
    """The groups without their absent members. A group that has no others is left out."""
    if not absent:
        return groups  # the very same, so that epochs share them
    left = {
        members: tuple(site for site in members if site not in absent)
        for members in distinct(groups)
    }
    return {group: left[members] for group, members in groups.items() if left[members]}


def distinct(groups: Mapping[Group, tuple[Site, ...]]) -> dict[tuple[Site, ...], None]:
    """The lists of members, each once. Where there are very many groups, many have the same."""
    return dict.fromkeys(groups.values())


def sites_of(groups: Mapping[Group, tuple[Site, ...]]) -> tuple[Site, ...]:
    """All members, sorted."""
    return tuple(sorted(dict.fromkeys(chain.from_iterable(distinct(groups)))))


def manner(
    layout: Layout, old: list[Domain], names: tuple[Group, ...],
    groups: Mapping[Group, tuple[Site, ...]], edits: tuple[Edit, ...],
) -> tuple[str, str]:  # fmt: skip
    """Builder and protocol: as asked for, else those of the domain before, else of any domain."""

    def has_any(sites: Iterable[Site]) -> bool:
        """Whether one of these sites is in one of the groups. The first look often finds one."""
        inside = dict.fromkeys(sites)
        members = chain.from_iterable(map(groups.__getitem__, names))
        return any(map(inside.__contains__, members))

    before = [d.manner for d in old if has_any(d.sites)]
    if layout.manners:
        before += [layout.manners[name] for name in names if name in layout.manners]
    before += [domain.manner for domain in layout.domains.values()]
    builder, protocol = before[0] if before else ("greedy", "propagation")
    for edit in edits:
        if isinstance(edit, UseBuilder) and (not edit.site or has_any((edit.site,))):
            builder = edit.builder
        elif isinstance(edit, UseProtocol) and (not edit.site or has_any((edit.site,))):
            protocol = edit.protocol
    return builder, protocol


def in_force(layout: Layout, absent: Iterable[Site], protocol: str) -> tuple[str, str]:
    """The protocol of the next epoch, and the one that it stands in for, if any. Several primaries
    keep causal order only for the sites that are there. While absent sites will ask for the
    messages, one site places all (docs/epochs.md)."""
    awaited = [site for site in absent if layout.causal and site not in layout.lapsed]
    in_groups = any(site in members for site in awaited for members in layout.groups.values())
    if in_groups and protocol != STAND_IN and not protocol_named(protocol).direct:
        return STAND_IN, protocol
    return protocol, ""


def components(groups: Mapping[Group, tuple[Site, ...]]) -> list[tuple[Group, ...]]:
    """The groups that share sites, directly or through others: sorted lists, by first name."""
    top: dict[Site, Site] = {}  # a site of the same part; itself, for one site of each part

    def first(site: Site) -> Site:
        at = site
        while top[at] != at:
            at = top[at]
        while top[site] != at:  # shorten the path for the next time
            top[site], site = at, top[site]
        return at

    lists = distinct(groups)
    for members in lists:
        known = [site for site in members if site in top]
        at = first(known[0]) if known else members[0]
        for site in known[1:]:
            top[first(site)] = at
        for site in members:
            top.setdefault(site, at)
    roots = {members: first(members[0]) for members in lists}
    if len(dict.fromkeys(roots.values())) == 1:
        return [tuple(sorted(groups))]
    parts: dict[Site, list[Group]] = {}
    for group in sorted(groups):
        parts.setdefault(roots[groups[group]], []).append(group)
    return [tuple(names) for names in parts.values()]
