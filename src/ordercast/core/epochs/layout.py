"""The layout: everything that the records of the voters' log say, folded ([GS] §5.1).

Roster, voters, groups, the open epoch of each domain with its structure, changes under way. All
sites that have heard the same records have the same layout: `fold` is a pure function, and so is
the builder of forests that it is given.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ordercast.core.order.registry import protocol_named
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Admit,
    Begin,
    Edit,
    EpochRecord,
    Finish,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RetireSite,
    UseBuilder,
    UseProtocol,
    Voters,
)
from ordercast.model.errors import ConfigError, CrossDomain, UnknownGroup
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.names import is_name, nearest

Build: TypeAlias = Callable[[GroupTable, str, str], Forest]
"""(the groups of one domain, builder, protocol) -> its forest, the same at every site."""

Groups: TypeAlias = dict[Group, tuple[Site, ...]]
Stream: TypeAlias = tuple[Site, int, Group]

_OUTCOMES = 256  # remembered


class Busy(ConfigError):
    """Possible, but not before another change is done."""


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain in its open epoch; `sites` are those of its tree."""

    epoch: int
    builder: str
    protocol: str
    structure: Structure
    sites: tuple[Site, ...]
    after: tuple[int, ...] = ()  # the epochs that were closed for it

    @property
    def root(self) -> Site:
        return next(site for site in self.sites if self.structure.parent(site) is None)


@dataclass(frozen=True, slots=True)
class Closing:
    """A change under way: its edits, the epochs to be closed, and the sites it concerns."""

    edits: tuple[Edit, ...]
    epochs: tuple[int, ...]
    at: frozenset[Site]


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

    def domain_of(self, groups: Iterable[Group]) -> Domain | None:
        """The domain that has one of the groups."""
        wanted = frozenset(groups)
        for domain in self.domains.values():
            if not wanted.isdisjoint(domain.structure.groups):
                return domain
        return None

    def taking(self, site: Site, group: Group, members: Iterable[Site]) -> Domain:
        """The domain to which the site's message goes, to a group or to listed sites."""
        if site not in self.roster:
            raise ConfigError(f"site {site!r} is retired, or not admitted yet")
        listed = tuple(members)
        if not listed:
            named = self.domain_of([group])
            if named is None:
                raise UnknownGroup(f"there is no group {group!r}{nearest(group, self.groups)}")
            return named
        for domain in self.domains.values():
            if all(member in domain.sites for member in listed):
                return domain
        raise CrossDomain(f"{', '.join(listed)}: no one domain has all of these sites")

    def home(self, site: Site) -> Domain | None:
        """The domain whose tree has the site."""
        for domain in self.domains.values():
            if site in domain.sites:
                return domain
        return None


def first_layout(
    roster: Iterable[Site],
    voters: Iterable[Site],
    groups: Mapping[Group, tuple[Site, ...]],
    builder: str,
    protocol: str,
    build: Build,
) -> Layout:
    """What a cluster starts with: its domains open under the numbers 1, 2, …"""
    sites = tuple(sorted(roster))
    empty = Layout(0, dict.fromkeys(sites, 1), tuple(sorted(voters)), {}, {}, 0)
    sorted_groups = {group: tuple(sorted(groups[group])) for group in sorted(groups)}
    domains: dict[int, Domain] = {}
    for names in components(sorted_groups):
        epoch = len(domains) + 1
        domains[epoch] = reopened(epoch, names, sorted_groups, sites, builder, protocol, (), build)
    return replace(empty, groups=sorted_groups, domains=domains, last_epoch=len(domains))


def fold(layout: Layout, record: EpochRecord, build: Build) -> Layout:
    """The layout after one more record. A record that is impossible now has no other effect."""
    layout = replace(layout, count=layout.count + 1)
    if isinstance(record, Begin):
        return _begin(layout, record, build)
    if isinstance(record, Finish):
        return _finish(layout, record, build)
    if isinstance(record, Admit):
        if record.incarnation <= layout.roster.get(record.site, record.incarnation):
            return layout
        return replace(layout, roster={**layout.roster, record.site: record.incarnation})
    if isinstance(record, Voters):
        return replace(layout, voters=tuple(sorted(voter for voter, _ in record.voters)))
    return layout


# --- beginning a change ---------------------------------------------------------------------------


def _begin(layout: Layout, record: Begin, build: Build) -> Layout:
    if record.change in layout.closing or record.change in layout.outcomes:
        return layout  # asked twice
    try:
        closing = plan_change(layout, record.edits)
        begun = replace(layout, closing={**layout.closing, record.change: closing})
        _finish(begun, Finish(record.change, ()), build)  # its end must not fail: try it now
    except Busy:
        return layout  # not now: the manager will propose it again
    except ConfigError as error:
        return _with_outcome(layout, record.change, str(error))
    return begun


def plan_change(layout: Layout, edits: tuple[Edit, ...]) -> Closing:
    """What must be closed for the edits; ConfigError, in one line, when they are impossible now."""
    _, groups = edited(layout, edits)
    kept = _kept(layout, groups, edits)
    epochs = tuple(epoch for epoch in layout.domains if epoch not in kept)
    concerned: dict[Site, None] = {}
    for epoch in epochs:
        concerned.update(dict.fromkeys(layout.domains[epoch].sites))
    for names in components(groups):
        if not any(names == tuple(layout.domains[epoch].structure.groups) for epoch in kept):
            for name in names:
                concerned.update(dict.fromkeys(groups[name]))
    for edit in edits:
        site = getattr(edit, "site", "")
        if site:
            concerned[site] = None
    for change, other in layout.closing.items():
        both = sorted(site for site in concerned if site in other.at)
        both += sorted(_named(edits) & _named(other.edits))  # of a group that neither has yet
        if both:
            raise Busy(f"another change ({change}) is under way at {', '.join(both)}")
    return Closing(edits, epochs, frozenset(concerned))


def _named(edits: Iterable[Edit]) -> set[Group]:
    return {edit.group for edit in edits if isinstance(edit, AddGroup)}


def edited(layout: Layout, edits: tuple[Edit, ...]) -> tuple[dict[Site, int], Groups]:
    """Roster and groups after the edits."""
    roster = dict(layout.roster)
    groups: Groups = dict(layout.groups)
    for edit in edits:
        if isinstance(edit, AddSite):
            if not is_name(edit.site) or edit.site in roster:
                raise ConfigError(f"site {edit.site!r} is there already, or is no name")
            roster[edit.site] = 1
        elif isinstance(edit, RetireSite):
            _require(edit.site, roster, "site")
            if edit.site in layout.voters:
                raise ConfigError(f"site {edit.site!r} is a voter: choose other voters first")
            del roster[edit.site]
            for group in [name for name, members in groups.items() if edit.site in members]:
                _leave(groups, group, edit.site)
        elif isinstance(edit, AddGroup):
            if not is_name(edit.group) or edit.group in groups:
                raise ConfigError(f"group {edit.group!r} is there already, or is no name")
            for site in edit.members:
                _require(site, roster, "site")
            if not edit.members:
                raise ConfigError(f"group {edit.group!r} would be empty")
            groups[edit.group] = tuple(sorted(dict.fromkeys(edit.members)))
        elif isinstance(edit, RemoveGroup):
            _require(edit.group, groups, "group")
            del groups[edit.group]
        elif isinstance(edit, JoinGroup):
            _require(edit.group, groups, "group")
            _require(edit.site, roster, "site")
            if edit.site in groups[edit.group]:
                raise ConfigError(f"site {edit.site!r} is in group {edit.group!r} already")
            groups[edit.group] = tuple(sorted((*groups[edit.group], edit.site)))
        elif isinstance(edit, LeaveGroup):
            _require(edit.group, groups, "group")
            if edit.site not in groups[edit.group]:
                raise ConfigError(f"site {edit.site!r} is not in group {edit.group!r}")
            _leave(groups, edit.group, edit.site)
        else:
            if isinstance(edit, UseProtocol):
                protocol_named(edit.protocol)
            if edit.site:
                _require(edit.site, roster, "site")
    return roster, {group: groups[group] for group in sorted(groups)}


def _leave(groups: Groups, group: Group, site: Site) -> None:
    left = tuple(member for member in groups[group] if member != site)
    if not left:
        raise ConfigError(f"site {site!r} is the last member of {group!r}: remove the group")
    groups[group] = left


def _require(name: str, known: Iterable[str], what: str) -> None:
    names = list(known)
    if name not in names:
        raise ConfigError(f"there is no {what} {name!r}{nearest(name, names)}")


def _kept(layout: Layout, groups: Groups, edits: tuple[Edit, ...]) -> tuple[int, ...]:
    """The epochs that go on: the same groups with the same members, and no other builder."""
    after = components(groups)
    return tuple(
        epoch
        for epoch, domain in layout.domains.items()
        if tuple(domain.structure.groups) in after
        and all(groups[name] == members for name, members in domain.structure.groups.items())
        and not any(
            isinstance(edit, (UseBuilder, UseProtocol))
            and (not edit.site or edit.site in domain.sites)
            for edit in edits
        )
    )


# --- finishing it ---------------------------------------------------------------------------------


def _finish(layout: Layout, record: Finish, build: Build) -> Layout:
    closing = layout.closing.get(record.change)
    if closing is None:
        return layout  # finished before
    roster, groups = edited(layout, closing.edits)
    old = [layout.domains[epoch] for epoch in closing.epochs]
    domains = {e: domain for e, domain in layout.domains.items() if e not in closing.epochs}
    there = {tuple(domain.structure.groups) for domain in domains.values()}
    sites = tuple(sorted(roster))
    epoch = layout.last_epoch
    for names in components(groups):
        if names in there:
            continue
        epoch += 1
        builder, protocol = _manner(layout, old, names, groups, closing.edits)
        domains[epoch] = reopened(
            epoch, names, groups, sites, builder, protocol, closing.epochs, build
        )
    done = replace(
        layout,
        roster=roster,
        groups=groups,
        domains=domains,
        last_epoch=epoch,
        closing={name: c for name, c in layout.closing.items() if name != record.change},
        lasts={**layout.lasts, **{(o, i, g): seq for o, i, g, seq in record.lasts}},
    )
    return _with_outcome(done, record.change, "")


def _manner(
    layout: Layout, old: list[Domain], names: tuple[Group, ...], groups: Groups,
    edits: tuple[Edit, ...],
) -> tuple[str, str]:  # fmt: skip
    """Builder and protocol: as asked for, else those of the domain it comes from, else any's."""
    near = {site for name in names for site in groups[name]}
    before = [d for d in old if not near.isdisjoint(d.sites)] or list(layout.domains.values())
    builder, protocol = (
        (before[0].builder, before[0].protocol) if before else ("greedy", "propagation")
    )
    for edit in edits:
        if isinstance(edit, UseBuilder) and (not edit.site or edit.site in near):
            builder = edit.builder
        elif isinstance(edit, UseProtocol) and (not edit.site or edit.site in near):
            protocol = edit.protocol
    return builder, protocol


def reopened(
    epoch: int, names: tuple[Group, ...], groups: Mapping[Group, tuple[Site, ...]],
    roster: tuple[Site, ...], builder: str, protocol: str, after: tuple[int, ...], build: Build,
) -> Domain:  # fmt: skip
    # Built without the others: the roster may be another when the layout is unpacked later.
    table = GroupTable.of({name: groups[name] for name in names})
    forest = build(table, builder, protocol)
    structure = widened(Structure(epoch, table, forest), roster)
    inside = dict.fromkeys(site for name in names for site in groups[name])
    for site in list(inside):  # relays that are no members
        at = forest.parent[site]
        while at is not None and at not in inside:
            inside[at] = None
            at = forest.parent[at]
    return Domain(epoch, builder, protocol, structure, tuple(sorted(inside)), after)


def widened(structure: Structure, sites: Iterable[Site]) -> Structure:
    """The same for sites outside, which send to it: also one that was added later."""
    table, forest = structure.table, structure.forest
    outside = [site for site in sites if site not in forest.parent]
    if not outside:
        return structure
    table = GroupTable.of(table.groups, sites=sorted((*table.sites, *outside)))
    parent = {**forest.parent, **dict.fromkeys(outside)}
    return Structure(structure.epoch, table, replace(forest, parent=parent))


# --- small things ---------------------------------------------------------------------------------


def components(groups: Mapping[Group, tuple[Site, ...]]) -> list[tuple[Group, ...]]:
    """Groups that share sites, transitively; each sorted, and all of them by their first name."""
    home: dict[Site, list[Group]] = {}
    for group in sorted(groups):
        for site in groups[group]:
            home.setdefault(site, []).append(group)
    found: list[tuple[Group, ...]] = []
    done: set[Group] = set()
    for start in sorted(groups):
        if start in done:
            continue
        names = [start]
        done.add(start)
        for group in names:  # grows while it is read
            for site in groups[group]:
                for other in home[site]:
                    if other not in done:
                        done.add(other)
                        names.append(other)
        found.append(tuple(sorted(names)))
    return found


def _with_outcome(layout: Layout, change: str, why_not: str) -> Layout:
    outcomes = {**layout.outcomes, change: why_not}
    while len(outcomes) > _OUTCOMES:
        del outcomes[next(iter(outcomes))]
    return replace(layout, outcomes=outcomes)
