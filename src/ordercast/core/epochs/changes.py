"""How a record of the voters' log changes the layout ([GS] §5.1): beginning a change, finishing it.

A change that is impossible has no effect but its outcome, which says why. `fold` is pure, so all
sites that have heard the same records agree.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import eq
from typing import TypeVar

import msgspec

from ordercast.core.epochs.absence import (
    counted_in,
    fold_flush,
    fold_lapse,
    fold_open,
    pruned,
    require_present,
)
from ordercast.core.epochs.forests import Builds, Edits, FromRecord, as_before
from ordercast.core.epochs.grant_edits import about_grants, granted
from ordercast.core.epochs.layout import (
    NO_EDIT,
    Build,
    Closing,
    Domain,
    Groups,
    Layout,
    in_force,
    living,
    manner,
    opened,
    sites_of,
)
from ordercast.core.epochs.streams.ends import told_in, with_part, with_streams
from ordercast.core.epochs.streams.tickets import with_tickets
from ordercast.core.order.hybrid import sizes_in
from ordercast.core.order.registry import protocol_named
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    AddVoter,
    Admit,
    Adopt,
    Begin,
    Edit,
    EndPart,
    EpochRecord,
    Finish,
    Flush,
    Founded,
    JoinGroup,
    Lapse,
    LeaveGroup,
    Open,
    Recovered,
    RemoveGroup,
    RemoveVoter,
    RetireSite,
    Stored,
    UseBuilder,
    UseProtocol,
    Voters,
)
from ordercast.model.errors import ConfigError
from ordercast.model.features import CORES, MARKS, are_features
from ordercast.model.fields import plain_text
from ordercast.model.groups import Group, Pair, Site
from ordercast.model.names import is_name, nearest

_OUTCOMES = 256  # how many outcomes are remembered
_TAKEN_BACK = "taken back: the site was removed from the voters before it had become one"


FinishOrOpen = TypeVar("FinishOrOpen", Finish, Open)


class Busy(ConfigError):
    """The change is possible, but not before another one is done."""


def fold(layout: Layout, record: EpochRecord, build: Build) -> Layout:
    """The layout after one more record. A record that is impossible now has no other effect."""
    layout = replace(layout, count=layout.count + 1)
    if isinstance(record, Begin):
        return _begin(layout, record, build)
    if isinstance(record, Finish):
        return _finish(layout, record, build)
    if isinstance(record, EndPart):
        return with_part(layout, record)
    if isinstance(record, Admit):
        if record.incarnation != layout.roster.get(record.site, record.incarnation) + 1:
            return layout  # incarnations go up one by one, so that numbers do not run out
        return replace(layout, roster={**layout.roster, record.site: record.incarnation})
    if isinstance(record, Flush):
        return fold_flush(layout, record)
    if isinstance(record, Open):
        return fold_open(layout, record, build)
    if isinstance(record, Lapse):
        return fold_lapse(layout, record)
    if isinstance(record, Founded):
        if layout.stores:
            return layout  # founded before
        layout = _adopting(layout, record.features)
        return replace(layout, stores={v: s for v, s in record.voters if v in layout.roster})
    if isinstance(record, Adopt):
        return _adopting(layout, record.features)
    if isinstance(record, Stored):
        known = record.site in layout.stores or record.site not in layout.roster
        return layout if known else replace(layout, stores=_with_store(layout, record))
    if isinstance(record, (Voters, Recovered)):
        if not any(store for _, store in record.voters):
            return layout  # otherwise no voter would have a store (`voters_log`)
        layout = replace(layout, voters=tuple(sorted(dict(record.voters))))
    if isinstance(record, Recovered):
        layout = replace(layout, lost=tuple(dict.fromkeys((*layout.lost, *record.lost))))
    return layout


def _adopting(layout: Layout, features: tuple[str, ...]) -> Layout:
    """A feature that is adopted stays: messages that use it are in stores."""
    adopted = tuple(sorted(dict.fromkeys((*layout.features, *features))))
    return replace(layout, features=adopted) if are_features(adopted) else layout


def _with_store(layout: Layout, record: Stored) -> dict[Site, int]:
    return {**layout.stores, record.site: record.store}


# --- beginning a change ---------------------------------------------------------------------------


def _begin(layout: Layout, record: Begin, build: Build) -> Layout:
    if record.change in layout.closing or record.change in layout.outcomes:
        return layout  # it was asked for twice
    if about_grants(record.edits):
        return _grant(layout, record)
    try:
        closing = plan_change(layout, record.edits)
        begun = layout
        for change in _taken_back(layout, record.edits):
            others = {name: one for name, one in begun.closing.items() if name != change}
            begun = _with_outcome(replace(begun, closing=others), change, _TAKEN_BACK)
        begun = replace(begun, closing={**begun.closing, record.change: closing})
        if record.refused is None:  # written by an earlier version: each site tries the end itself
            _finished(begun, Finish(record.change, ()), closing, closing.edits, build)
    except Busy:
        return layout  # not now: the manager will propose it again
    except ConfigError as error:
        return _with_outcome(layout, record.change, str(error))
    if record.refused:
        return _with_outcome(layout, record.change, record.refused)
    return begun


def _grant(layout: Layout, record: Begin) -> Layout:
    """Grants and certificates: no epoch is closed, so the change is done at once."""
    try:
        done = layout if record.refused else granted(layout, record.edits)
    except ConfigError as error:
        return _with_outcome(layout, record.change, str(error))
    return _with_outcome(done, record.change, record.refused or "")


def plan_change(layout: Layout, edits: tuple[Edit, ...]) -> Closing:
    """What must be closed for the edits. Raises ConfigError, in one line, if that is impossible."""
    if not edits:
        raise ConfigError(NO_EDIT)
    if about_grants(edits):
        granted(layout, edits)
        return Closing(edits, (), frozenset(), layout.count)
    require_present(layout, edits)
    _, nominal = edited(layout, edits)
    with_tickets(layout, nominal, edits)
    groups = living(nominal, layout.absent)
    parts = layout.parts(groups)
    kept = _kept(layout, groups, parts, edits)
    epochs = tuple(epoch for epoch in layout.domains if epoch not in kept)
    concerned: dict[Site, None] = {}
    for epoch in epochs:
        concerned.update(dict.fromkeys(layout.domains[epoch].sites))
    there = {tuple(layout.domains[epoch].structure.groups) for epoch in kept}
    closed = [layout.domains[epoch] for epoch in epochs]
    for names in parts:
        if names not in there:
            whole = len(names) == len(groups)
            found = _inhabited(closed, layout.groups, groups, edits) if whole else None
            if found is None:
                found = sites_of({name: groups[name] for name in names})
            concerned.update(dict.fromkeys(found))
    for edit in edits:
        site = getattr(edit, "site", "")
        if site:
            concerned[site] = None
    flush = layout.flushing
    if flush is not None and (
        any(epoch in epochs for epoch in flush.epochs)
        or any(site in concerned for site in flush.members)
    ):
        raise Busy("a flush is under way there")
    for change, other in layout.closing.items():
        if change in _taken_back(layout, edits):
            continue
        sites = {site.lower() for site in other.at}  # a new name may differ by case alone
        both = sorted(site for site in concerned if site.lower() in sites)
        both += sorted(_touched(layout, edits) & _touched(layout, other.edits))
        both += layout.voters if _of_voters(edits) and _of_voters(other.edits) else ()
        if both:
            raise Busy(f"another change ({change}) is under way at {', '.join(both)}")
    return Closing(edits, epochs, frozenset(concerned), layout.count)


def _taken_back(layout: Layout, edits: tuple[Edit, ...]) -> list[str]:
    """The pending changes that would add a voter which the edits remove: it may never come."""
    gone = [(AddVoter(edit.site),) for edit in edits if isinstance(edit, RemoveVoter)]
    return [change for change, closing in layout.closing.items() if closing.edits in gone]


def _of_voters(edits: tuple[Edit, ...]) -> bool:
    return any(isinstance(edit, (AddVoter, RemoveVoter)) for edit in edits)


def _touched(layout: Layout, edits: Iterable[Edit]) -> set[Group]:
    """The groups whose members change, in lower case, because names differ by more than case. This
    finds conflicts where no present site is concerned: a new group, or one with absent members."""
    found: set[Group] = set()
    for edit in edits:
        if isinstance(edit, (AddGroup, RemoveGroup, JoinGroup, LeaveGroup)):
            found.add(edit.group.lower())
        elif isinstance(edit, RetireSite):
            found.update(g.lower() for g, members in layout.groups.items() if edit.site in members)
    return found


def edited(layout: Layout, edits: tuple[Edit, ...]) -> tuple[dict[Site, int], Groups]:
    """Roster and groups after the edits."""
    roster = dict(layout.roster)
    groups: Groups = dict(layout.groups)
    for edit in edits:
        if isinstance(edit, AddSite):
            _require_new(edit.site, roster, "site")
            roster[edit.site] = 1
        elif isinstance(edit, RetireSite):
            _require(edit.site, roster, "site")
            if edit.site in layout.voters:
                raise ConfigError(
                    f"site {edit.site!r} is a voter: first remove it from the voters"
                    f" ('ordercast voter remove CLUSTER {edit.site}')"
                )
            del roster[edit.site]
            for group in [name for name, members in groups.items() if edit.site in members]:
                _leave(groups, group, edit.site)
        elif isinstance(edit, AddGroup):
            _require_new(edit.group, groups, "group")
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
        elif isinstance(edit, (AddVoter, RemoveVoter)):
            _require(edit.site, roster, "site")
            _require_voting(layout, edits, edit)
        elif isinstance(edit, LeaveGroup):
            _require(edit.group, groups, "group")
            if edit.site not in groups[edit.group]:
                raise ConfigError(f"site {edit.site!r} is not in group {edit.group!r}")
            _leave(groups, edit.group, edit.site)
        elif isinstance(edit, (UseBuilder, UseProtocol)):
            if isinstance(edit, UseProtocol):
                _require_protocol(layout, edit.protocol)
            if edit.site:
                _require(edit.site, roster, "site")
    if any(isinstance(edit, AddGroup) for edit in edits):  # otherwise they are still sorted
        groups = {group: groups[group] for group in sorted(groups)}
    return roster, groups


def _require_protocol(layout: Layout, name: str) -> None:
    """An older program does not know the size of a core, or of the groups below it: it would refuse
    what newer ones take."""
    protocol_named(name)
    sizes = sizes_in(name) or ()
    if any(feature not in layout.features for feature in (CORES, MARKS)[: len(sizes)]):
        raise ConfigError(f"protocol {name!r}: some sites have a program that knows no size of it")


def _require_voting(layout: Layout, edits: tuple[Edit, ...], edit: AddVoter | RemoveVoter) -> None:
    """Voters change one at a time, and by themselves."""
    if len(edits) > 1:
        raise ConfigError(f"voter {edit.site!r}: one voter at a time, and nothing else with it")
    if isinstance(edit, RemoveVoter) and layout.voters == (edit.site,):
        raise ConfigError(f"site {edit.site!r} is the only voter")


def _leave(groups: Groups, group: Group, site: Site) -> None:
    left = tuple(member for member in groups[group] if member != site)
    if not left:
        raise ConfigError(f"site {site!r} is the last member of {group!r}: remove the group")
    groups[group] = left


def _require_new(name: str, known: Iterable[str], what: str) -> None:
    if not is_name(name):
        raise ConfigError(f"{what} {name!r} is no name (letters, digits, '.', '_', '-')")
    for other in known:  # names differ by more than case
        if other.lower() == name.lower():
            raise ConfigError(f"{what} {other!r} is there already")


def _require(name: str, known: Collection[str], what: str) -> None:
    if name not in known:
        raise ConfigError(f"there is no {what} {name!r}{nearest(name, list(known))}")


def _kept(
    layout: Layout,
    groups: Mapping[Group, tuple[Site, ...]],
    parts: list[tuple[Group, ...]],
    edits: tuple[Edit, ...],
) -> tuple[int, ...]:
    """The epochs that go on, with the same groups, members, builder and protocol."""
    after = set(parts)
    gone = [edit.site for edit in edits if isinstance(edit, RetireSite)]
    away = [site for site in layout.absent if site not in gone]
    return tuple(
        epoch
        for epoch, domain in layout.domains.items()
        if tuple(domain.structure.groups) in after
        and in_force(layout, away, domain.manner[1])[0] == domain.protocol
        and all(map(eq, map(groups.__getitem__, domain.structure.groups), _members(domain)))
        and not any(
            isinstance(edit, (UseBuilder, UseProtocol))
            and (not edit.site or edit.site in domain.sites)
            for edit in edits
        )
    )


def _members(domain: Domain) -> Iterable[tuple[Site, ...]]:
    return domain.structure.groups.values()


# --- finishing it ---------------------------------------------------------------------------------


def _finish(layout: Layout, record: Finish, build: Build) -> Layout:
    closing = layout.closing.get(record.change)
    if closing is None:
        return layout  # finished before
    again, old = build, [layout.domains[epoch] for epoch in closing.epochs]
    if record.forests is not None:
        build, again = FromRecord(record.forests, old), as_before(old)
    try:
        if record.refused:
            raise ConfigError(record.refused)
        done = _finished(layout, record, closing, closing.edits, build)
        _require_room(done, layout.last_epoch)
    except ConfigError as error:
        # Its epochs are closed already: they open again as they were.
        done = _finished(layout, record, closing, (), again, somehow=True)
        return _with_outcome(done, record.change, f"refused when all had closed: {error}")
    return _with_outcome(done, record.change, "")


def _require_room(layout: Layout, last: int) -> None:
    """Raise ConfigError unless the epochs that go on fit the groups, now and after a flush. They
    did when the change began, but another decision may have come in between. Those after `last`
    were opened for the groups as they are now."""
    flush = layout.flushing
    _require_parts(layout, layout.absent, [epoch for epoch in layout.domains if epoch <= last])
    if flush is not None:
        _require_parts(layout, flush.absent, [e for e in layout.domains if e not in flush.epochs])


def _require_parts(layout: Layout, absent: Mapping[Site, int], epochs: Sequence[int]) -> None:
    if not epochs:
        return
    groups = living(layout.groups, absent)
    parts = dict.fromkeys(layout.parts(groups))
    for epoch in epochs:
        open_now = layout.domains[epoch].structure.groups
        if tuple(open_now) not in parts or not all(
            map(eq, map(groups.__getitem__, open_now), open_now.values())
        ):
            first = next(iter(open_now))
            raise ConfigError(f"another decision was made meanwhile for the domain of {first!r}")


def _finished(
    layout: Layout, record: Finish, closing: Closing, edits: tuple[Edit, ...], build: Build,
    *, somehow: bool = False,
) -> Layout:  # fmt: skip
    roster, nominal = edited(layout, edits)
    groups = living(nominal, layout.absent)
    old = [layout.domains[epoch] for epoch in closing.epochs]
    domains = {e: domain for e, domain in layout.domains.items() if e not in closing.epochs}
    there = {tuple(domain.structure.groups) for domain in domains.values()}
    sites = tuple(sorted(roster))
    away = [site for site in layout.absent if site in roster]
    epoch = layout.last_epoch
    inhabited = None
    for names in layout.parts(groups):
        if names in there:
            continue
        if len(names) == len(groups) and isinstance(build, (Builds, FromRecord)):
            build.before.tell(Edits(layout.groups, groups, _edited_names(edits)), names)
            inhabited = _inhabited(old, layout.groups, groups, edits)
        epoch += 1
        builder, wanted = manner(layout, old, names, groups, edits)
        protocol, usual = in_force(layout, away, wanted)
        domains[epoch] = opened(
            epoch, names, groups, sites, builder, protocol, closing.epochs, build, usual,
            inhabited, somehow=somehow,
        )  # fmt: skip
    pasts = dict(layout.pasts)
    parts: tuple[EndPart | Finish, ...] = (*closing.parts, record)
    for part in parts:
        pasts.update(counted_in(layout, part.counts))
    for place, (number, members) in pasts.items():  # a site that joins has nothing of the past
        before = layout.groups.get(place[1], ())
        if not members and any(s not in before for s in nominal.get(place[1], ())):
            pasts[place] = (number, before)
    done = replace(
        layout,
        roster=roster,
        groups=nominal,
        domains=domains,
        last_epoch=epoch,
        addresses={site: at for site, at in _addresses(layout, edits) if site in roster},
        closing={name: c for name, c in layout.closing.items() if name != record.change},
        pasts=pasts,
        counted={**layout.counted, **{domain.epoch: domain.sites for domain in old}},
        **with_tickets(layout, nominal, edits),
    )
    heard = {site: layout.roster.get(site, 0) for domain in old for site in domain.sites}
    told, new = told_in(layout, parts), range(layout.last_epoch + 1, epoch + 1)
    gone = [site for site in layout.roster if site not in roster]
    return pruned(
        with_streams(done, told, closing.number, heard, opened=new, flush=False, retired=gone)
    )


def _edited_names(edits: tuple[Edit, ...]) -> list[Group] | None:
    """The groups that the edits name. None: they change others too."""
    if any(isinstance(edit, RetireSite) for edit in edits):
        return None
    kinds = (AddGroup, RemoveGroup, JoinGroup, LeaveGroup)
    return list(dict.fromkeys(edit.group for edit in edits if isinstance(edit, kinds)))


def _inhabited(
    old: Sequence[Domain],
    before: Mapping[Group, tuple[Site, ...]],
    groups: Mapping[Group, tuple[Site, ...]],
    edits: tuple[Edit, ...],
) -> tuple[Site, ...] | None:
    """The sites of all groups, where one domain had all of them and sites only come. None: a site
    may have gone, so the members of all groups must be looked at."""
    kinds = (AddGroup, JoinGroup, UseBuilder, UseProtocol, AddSite)
    if len(old) != 1 or old[0].structure.groups is not before:
        return None
    if not all(isinstance(edit, kinds) for edit in edits):
        return None
    names = _edited_names(edits) or ()
    new = dict.fromkeys(s for name in names for s in groups[name] if not old[0].has(s))
    return tuple(sorted((*old[0].sites, *new))) if new else old[0].sites


# --- what the manager proposes --------------------------------------------------------------------


def with_refusal(layout: Layout, record: Begin, build: Build) -> Begin:
    """The record, with the reason if the change could not end. To find out, the end is tried
    now."""
    try:
        begun = replace(layout, count=layout.count + 1)
        closing = plan_change(begun, record.edits)
        if about_grants(record.edits):
            return msgspec.structs.replace(record, refused="")
        begun = replace(begun, closing={**begun.closing, record.change: closing})
        builds = _builds(begun, closing, build)
        _finished(begun, Finish(record.change, ()), closing, closing.edits, builds)
    except ConfigError as error:
        return msgspec.structs.replace(record, refused=plain_text(str(error)))
    return msgspec.structs.replace(record, refused="")


def _builds(layout: Layout, closing: Closing, build: Build, apart: Collection[Pair] = ()) -> Builds:
    """The builds for a change. If it asks for a builder or a protocol, forests are built anew for
    it."""
    anew = any(isinstance(edit, (UseBuilder, UseProtocol)) for edit in closing.edits)
    closed = [layout.domains[epoch] for epoch in closing.epochs]
    return Builds(build, closed, apart, anew=anew)


def with_forests(
    layout: Layout, record: FinishOrOpen, build: Build, apart: Collection[Pair] = ()
) -> FinishOrOpen:
    """The record with the forests of the epochs that it opens."""
    if isinstance(record, Open):
        flush = layout.flushing
        closed = [layout.domains[epoch] for epoch in flush.epochs] if flush else ()
        builds = Builds(build, closed, apart)
        fold_open(layout, record, builds)
        return msgspec.structs.replace(record, forests=tuple(builds.forests))
    closing = layout.closing[record.change]
    builds = _builds(layout, closing, build, apart)
    try:
        done = _finished(layout, record, closing, closing.edits, builds)
        _require_room(done, layout.last_epoch)
    except ConfigError as error:
        return msgspec.structs.replace(record, forests=(), refused=plain_text(str(error)))
    return msgspec.structs.replace(record, forests=tuple(builds.forests))


def _addresses(layout: Layout, edits: tuple[Edit, ...]) -> list[tuple[Site, str]]:
    added = [(edit.site, edit.address) for edit in edits if isinstance(edit, AddSite)]
    return list({**layout.addresses, **dict(added)}.items())


def _with_outcome(layout: Layout, change: str, why_not: str) -> Layout:
    outcomes = {**layout.outcomes, change: why_not}
    while len(outcomes) > _OUTCOMES:
        del outcomes[next(iter(outcomes))]
    return replace(layout, outcomes=outcomes)
