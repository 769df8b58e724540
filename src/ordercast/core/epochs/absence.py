"""How a flush changes the layout ([GS] §5.2.1; the argument is in docs/epochs.md).

`Flush` names the sites that go and those that return. The past of the epochs that it closes is then
the union of the logs of the sites that are left. A later `Flush` replaces it. `Open` ends it:
absent sites, frozen groups and the past of each closed epoch become part of the layout.
"""

from collections.abc import Mapping
from dataclasses import replace
from operator import eq

from ordercast.core.epochs.forests import FromRecord
from ordercast.core.epochs.layout import (
    ALL,
    Build,
    Domain,
    Flushing,
    Layout,
    in_force,
    living,
    manner,
    opened,
)
from ordercast.core.epochs.streams.ends import told_in, with_streams
from ordercast.core.producers import opening_marks
from ordercast.model.epochs import (
    AddGroup,
    Counts,
    Edit,
    EndPart,
    Flush,
    Included,
    Lapse,
    LeaveGroup,
    Open,
    RemoveGroup,
    RemoveProducer,
    RemoveVoter,
    RetireSite,
)
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, Site


def require_present(layout: Layout, edits: tuple[Edit, ...]) -> None:
    """Raise ConfigError if a change names an absent site, or removes its group. An absent site may
    only be retired, or cease to be a voter."""
    for edit in edits:
        if isinstance(edit, (RemoveVoter, RemoveProducer)):
            continue  # a majority of the other voters decides this, and it closes nothing
        if isinstance(edit, RetireSite):
            groups = [g for g, members in layout.groups.items() if edit.site in members]
            if edit.site not in layout.absent:
                _require_nobody_waits(layout, edit.site, groups)
            continue
        group = getattr(edit, "group", "")
        if isinstance(edit, LeaveGroup) and edit.site not in layout.absent:
            _require_nobody_waits(layout, edit.site, [group])
        if not isinstance(edit, RemoveGroup) and group in layout.frozen:
            raise ConfigError(f"group {group!r}: all its members are absent")
        if isinstance(edit, RemoveGroup) and edit.group not in layout.frozen:
            away = [s for s in layout.groups.get(edit.group, ()) if s in layout.absent]
            if away:
                raise ConfigError(f"group {edit.group!r}: its member {away[0]!r} is absent")
        site = getattr(edit, "site", "")
        named = edit.members if isinstance(edit, AddGroup) else (site,)
        away = [name for name in named if name in layout.absent]
        if away:
            raise ConfigError(f"site {away[0]!r} is absent")


def _require_nobody_waits(layout: Layout, site: Site, groups: list[Group]) -> None:
    """A present member keeps messages for absent members of its groups: it must stay."""
    for group in groups:
        for away in layout.groups.get(group, ()):
            if away in layout.absent and away not in layout.lapsed:
                raise ConfigError(f"site {site!r} has what {away!r}, absent, missed of {group!r}")


# --- beginning a flush ----------------------------------------------------------------------------


def fold_flush(layout: Layout, record: Flush) -> Layout:
    before = layout.flushing
    absent = dict(layout.absent if before is None else before.absent)
    fresh = {} if before is None else dict(before.fresh)
    touched: dict[Site, None] = {}
    for site in record.out:
        if site in layout.roster and site not in absent:
            home = layout.home(site)
            absent[site] = layout.absent.get(site, home.epoch if home is not None else 0)
            fresh.pop(site, None)
            touched[site] = None
    for site, incarnation, store in record.back:
        known = layout.roster.get(site, incarnation)
        if incarnation > known:
            if site not in layout.absent or site not in absent or incarnation > known + 1:
                # A site without its store cannot take part in closing: first it must be excluded.
                continue
            fresh[site] = (incarnation, store)
        if site in layout.roster:
            absent.pop(site, None)
            touched[site] = None
    if not touched:
        return layout
    _send_away(layout, absent, fresh)
    epochs = _with_changes(layout, _closed(layout, before, absent, touched))
    if fresh:  # the lost store had the numbers of links, and their other ends may be in any domain
        epochs = tuple(layout.domains)
    members = {site: None for epoch in epochs for site in layout.domains[epoch].sites}
    members |= dict.fromkeys(layout.absent)
    flushing = Flushing(
        layout.count, epochs, tuple(sorted(s for s in members if s not in absent)), absent, fresh
    )
    closing = {  # the other changes are dropped, and their askers ask again
        change: closing
        for change, closing in layout.closing.items()
        if not any(epoch in epochs for epoch in closing.epochs)
        and not any(isinstance(edit, RetireSite) and edit.site in touched for edit in closing.edits)
    }
    return replace(layout, flushing=flushing, closing=closing)


def _send_away(layout: Layout, absent: dict[Site, int], fresh: dict[Site, tuple[int, int]]) -> None:
    """Keep a site absent if no present site can tell the past of one of its groups."""
    again = True
    while again:
        again = False
        for site in [site for site in layout.absent if site not in absent]:
            if not _may_return(layout, site, absent, fresh):
                absent[site] = layout.absent[site]
                fresh.pop(site, None)
                again = True


def _may_return(
    layout: Layout, site: Site, absent: Mapping[Site, int], fresh: Mapping[Site, tuple[int, int]]
) -> bool:
    for group in layout.frozen:
        if site in layout.groups.get(group, ()):
            settlers = [s for s in layout.frozen[group][1] if s not in fresh]
            if settlers and all(s in absent for s in settlers):
                return False
    for domain in layout.domains.values():
        if all(s not in absent for s in domain.sites):
            continue
        for group, members in domain.structure.groups.items():
            concerned = group not in layout.frozen and site in layout.groups.get(group, ())
            if concerned and all(s in absent for s in members):
                return False
    if site in fresh or site in layout.lapsed:
        return True
    for (epoch, group), (number, members) in layout.pasts.items():
        nominal = members or layout.groups.get(group, ())
        if number and site in nominal and epoch >= layout.absent[site]:
            holders = [s for s in layout.counted.get(epoch, ()) if s in nominal and s not in fresh]
            if holders and all(s in absent for s in holders):
                return False
            # The holders lost it with their stores. This site waits if no member that returns was
            # in that epoch, or if one that is away was there later and has fetched it. It lapses
            # when they are back.
            others = [s for s in nominal if s not in fresh]
            there = [s for s in others if s not in absent and layout.absent.get(s) == epoch]
            later = [s for s in others if absent.get(s, 0) >= max(epoch, layout.absent[site] + 1)]
            if not holders and (later or not there):
                return False
    return True


def _closed(
    layout: Layout, before: Flushing | None, absent: Mapping[Site, int], touched: dict[Site, None]
) -> tuple[int, ...]:
    live = living(layout.groups, absent)
    parts = set(layout.parts(live))

    def goes_on(domain: Domain) -> bool:
        groups = domain.structure.groups
        return (
            (before is None or domain.epoch not in before.epochs)
            and not any(site in touched for site in domain.sites)
            and tuple(groups) in parts
            and all(map(eq, map(live.__getitem__, groups), groups.values()))
        )

    return tuple(epoch for epoch, domain in layout.domains.items() if not goes_on(domain))


def _with_changes(layout: Layout, epochs: tuple[int, ...]) -> tuple[int, ...]:
    """These epochs, and those that close together with them for a change. The change is dropped,
    and its Close may have sealed them already."""
    found, before = dict.fromkeys(epochs), 0
    while len(found) > before:
        before = len(found)
        for closing in layout.closing.values():
            if any(epoch in found for epoch in closing.epochs):
                found.update(dict.fromkeys(closing.epochs))
    return tuple(epoch for epoch in layout.domains if epoch in found)


# --- ending it ------------------------------------------------------------------------------------


def fold_open(layout: Layout, record: Open, build: Build) -> Layout:
    flush = layout.flushing
    if flush is None or flush.number != record.flush:
        return layout
    absent = flush.absent
    roster = {**layout.roster, **{site: new for site, (new, _) in flush.fresh.items()}}
    live = living(layout.groups, absent)
    old = [layout.domains[epoch] for epoch in flush.epochs]
    if record.forests is not None:
        build = FromRecord(record.forests, old)
    domains = {e: domain for e, domain in layout.domains.items() if e not in flush.epochs}
    there = {tuple(domain.structure.groups) for domain in domains.values()}
    sites = tuple(sorted(roster))
    epoch = layout.last_epoch
    for names in layout.parts(live):
        if names not in there:
            epoch += 1
            builder, wanted = manner(layout, old, names, live, ())
            protocol, usual = in_force(layout, absent, wanted)
            domains[epoch] = opened(
                epoch, names, live, sites, builder, protocol, flush.epochs, build, usual,
                somehow=True,
            )  # fmt: skip
    pasts = dict(layout.pasts)
    every: tuple[EndPart | Open, ...] = (*flush.parts, record)
    for part in every:
        pasts.update(counted_in(layout, part.counts))
    frozen = _frozen(layout, flush, old, pasts)
    manners = {g: domain.manner for domain in old for g in domain.structure.groups if g in frozen}
    anew = [s for s in flush.members if s in flush.fresh or s in layout.lapsed]
    joined = {s: e for e, domain in domains.items() for s in anew if s in domain.sites}
    done = replace(
        layout,
        roster=roster,
        domains=domains,
        last_epoch=epoch,
        stores={**layout.stores, **{site: store for site, (_, store) in flush.fresh.items()}},
        absent=absent,
        frozen=frozen,
        manners={**layout.manners, **manners},
        pasts=pasts,
        counted=_counted(layout, flush, old),
        flushing=None,
        rejoining={**layout.rejoining, **joined},
        opening_marks=_opening_marks(layout, absent, old),
    )
    # A site that was absent compares its messages with the entries when it has folded this.
    heard = {s: layout.roster.get(s, 0) for s in flush.members if s not in layout.absent}
    told, new = told_in(layout, every), range(layout.last_epoch + 1, epoch + 1)
    return pruned(with_streams(done, told, flush.number, heard, opened=new, flush=True))


def _opening_marks(
    layout: Layout, absent: Mapping[Site, int], old: list[Domain]
) -> dict[int, Included]:
    """The marks that the epochs of absent sites began with. The marks at a group change with the
    end of its epoch only, so until this end they are in `lasts`."""
    found = dict(layout.opening_marks)
    for domain in old:
        if domain.epoch in absent.values():
            marks = opening_marks(layout.lasts, domain.structure.groups)
            found |= {domain.epoch: marks} if marks else {}
    return found


def counted_in(
    layout: Layout, counts: Counts
) -> dict[tuple[int, Group], tuple[int, tuple[Site, ...]]]:
    """The counts of epochs that have existed. Counts of others would be kept for ever."""
    return {(e, g): (n, members) for e, g, n, members in counts if e <= layout.last_epoch}


def _frozen(
    layout: Layout, flush: Flushing, old: list[Domain], pasts: Mapping[tuple[int, Group], object]
) -> dict[Group, tuple[int, tuple[Site, ...]]]:
    """The groups whose past nobody has told, each with its epoch and the sites that can tell."""
    frozen = {}
    for group, (epoch, settlers) in layout.frozen.items():
        left = tuple(site for site in settlers if site not in flush.fresh)
        if left and (epoch, group) not in pasts:
            frozen[group] = (epoch, left)
    for domain in old:
        for group, members in domain.structure.groups.items():
            if all(site in flush.absent or site in flush.fresh for site in members):
                frozen[group] = (domain.epoch, members)
    return frozen


def _counted(layout: Layout, flush: Flushing, old: list[Domain]) -> dict[int, tuple[Site, ...]]:
    """The sites whose logs are the past of each closed epoch. A site that returns is added."""
    counted = dict(layout.counted)
    for domain in old:
        counted[domain.epoch] = tuple(s for s in domain.sites if s in flush.members)
    for site, epoch in layout.absent.items():
        apart = site in flush.fresh or site in layout.lapsed
        if site in flush.members and not apart and epoch in counted:
            counted[epoch] = (*counted[epoch], site)
    return {
        epoch: tuple(site for site in sites if site not in flush.fresh)
        for epoch, sites in counted.items()
    }


def pruned(layout: Layout) -> Layout:
    """The layout without the pasts that no absent site will be compared with."""
    away = [site for site in layout.absent if site in layout.roster]
    lapsed = _lapsed(layout, away)
    closed_without = {layout.absent[site] for site in lapsed}
    missing = [site for site in away if site not in lapsed]
    pasts = dict(layout.pasts)
    for group, (epoch, _) in layout.frozen.items():
        if group not in layout.groups:  # the group was removed: what its members have of it stands
            pasts[epoch, group] = (ALL, ())
    first = min((layout.absent[site] for site in missing), default=layout.last_epoch + 1)
    concerned = {
        group
        for group, members in (layout.groups.items() if away else ())
        if any(site in members for site in away)
    }
    frozen = {
        group: (epoch, left)
        for group, (epoch, settlers) in layout.frozen.items()
        if group in layout.groups
        and (left := tuple(site for site in settlers if site in layout.roster))
    }
    return replace(
        layout,
        absent={site: layout.absent[site] for site in away},
        frozen=frozen,
        manners={group: how for group, how in layout.manners.items() if group in frozen},
        pasts={
            (epoch, group): (number, members)
            for (epoch, group), (number, members) in pasts.items()
            if (epoch >= first or epoch in closed_without)
            and (
                group in concerned
                or any(site in members for site in away)
                or (not members and group not in layout.groups)  # removed since
            )
        },
        counted={
            epoch: tuple(site for site in sites if site in layout.roster)
            for epoch, sites in layout.counted.items()
            if epoch >= first or epoch in closed_without
        },
        lapsed=lapsed,
        rejoining={s: e for s, e in layout.rejoining.items() if e in layout.domains},
        opening_marks={
            epoch: marks
            for epoch, marks in layout.opening_marks.items()
            if any(layout.absent[site] == epoch for site in away)
        },
    )


def _lapsed(layout: Layout, away: list[Site]) -> tuple[Site, ...]:
    """The lapsed sites. A site also lapses if all sites that had what it missed have lost their
    stores or are retired. All sites that the same epoch left behind lapse with it
    (`longest_away`)."""
    known = [
        site
        for site in away  # a site that joined anew in this epoch may not have heard of it
        if site in layout.lapsed or layout.rejoining.get(site) == layout.absent[site]
    ]
    bereft = {
        layout.absent[site]
        for site in away
        if site not in known
        for (epoch, group), (number, members) in layout.pasts.items()
        if number
        and epoch >= layout.absent[site]
        and site in (nominal := members or layout.groups.get(group, ()))
        and not any(s in nominal and s in layout.roster for s in layout.counted.get(epoch, ()))
    }
    return (*known, *(s for s in away if layout.absent[s] in bereft and s not in known))


# --- absent for too long --------------------------------------------------------------------------


def fold_lapse(layout: Layout, record: Lapse) -> Layout:
    """Keep nothing for these sites any more, except for each the count of messages in the epoch
    that was closed without it."""
    if layout.flushing is not None:
        return layout
    lapsed = tuple(s for s in record.sites if s in layout.absent and s not in layout.lapsed)
    return pruned(replace(layout, lapsed=(*layout.lapsed, *lapsed)))


def longest_away(layout: Layout) -> tuple[Site, ...]:
    """The sites that lapse next if too much is kept: all that one epoch left behind, since an
    implicit group may be known to them alone. Frozen groups wait for their sites to tell the past:
    those sites do not lapse."""
    frozen = [epoch for epoch, _ in layout.frozen.values()]
    kept = {
        site: epoch
        for site, epoch in layout.absent.items()
        if site not in layout.lapsed and epoch and epoch not in frozen
    }
    first = min(kept.values(), default=0)
    return tuple(sorted(site for site, epoch in kept.items() if epoch == first))
