"""The past of a flush, from the reports ([GS] §5.2.1): which messages it has, and which sites have
them.

For each group in a closed epoch, the past has as many messages as the longest log that is reported:
members agree on the messages of a group, and keys merge groups. The past of a frozen group is told
by its members that return now. A past that was chosen before stands. But if all sites that had all
of it have lost their stores, it ends where the longest log of the members ends that were absent
then.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ordercast.core.epochs.layout import ALL, Flushing, Layout
from ordercast.model.epochs import Counts, Included
from ordercast.model.groups import Group, Site
from ordercast.wire.epochs import LogReport, Need

Place: TypeAlias = tuple[int, Group]


@dataclass(frozen=True, slots=True)
class Chosen:
    needs: Mapping[Site, tuple[Need, ...]]
    counts: Counts
    lasts: Included


def choose(layout: Layout, reports: Mapping[Site, LogReport]) -> Chosen:
    flush = layout.flushing
    assert flush is not None
    found = _longest(layout, flush, reports)
    ever = {site: None for members in layout.groups.values() for site in members}
    reached = {site: {(e, g): n for e, g, n, _ in reports[site].counts} for site in reports}
    holds = {site: dict.fromkeys(reports[site].holds) for site in sorted(reports)}
    shorter: dict[Place, None] = {}
    for (epoch, group), (number, members) in layout.pasts.items():
        nominal = members or layout.groups.get(group, ())
        holders = [
            site
            for site, places in holds.items()
            if (epoch, group) in places and site in (nominal or ever)
        ]
        holders += [  # sites of a domain that goes on, which do not report
            site
            for site in layout.counted.get(epoch, ())
            if site in nominal and site not in flush.absent and site not in reports
        ]
        if not holders and number != ALL and _is_asked_for(layout, flush, reports, epoch, nominal):
            left, who = _left(layout, flush, reached, (epoch, group), nominal)
            if who and left < number and _is_lost(layout, flush, epoch, nominal):
                shorter[epoch, group] = None
                number = left
            holders = [who] if left >= number else []
        found[epoch, group] = (number, members, holders[0] if holders else "")
    # A lapsed site is compared with the past that was chosen then, and fetches nothing of it.
    lost = dict.fromkeys(layout.lapsed, layout.pasts)
    in_order = sorted(found.items())
    needs = {
        site: tuple(
            (*place, number, members, "" if place in lost.get(site, ()) else holder)
            for place, (number, members, holder) in in_order
            if _concerns(layout, flush, site, *place, members)
        )
        for site in flush.members
    }
    counts = tuple(
        (*place, number, members)
        for place, (number, members, _) in in_order
        if (place not in layout.pasts or place in shorter)
        and _will_be_missed(layout, flush, place[1], members)
    )
    return Chosen(needs, counts, _lasts(layout, flush, reports))


def _left(
    layout: Layout,
    flush: Flushing,
    reached: Mapping[Site, Mapping[Place, int]],
    place: Place,
    members: Iterable[Site],
) -> tuple[int, Site]:
    """The highest count that a member has of a past that was chosen without it, and that member.
    "": no member that returns was in that epoch."""
    having = [
        (reached[site].get(place, 0), site)
        for site in sorted(members)
        if site in reached and site not in flush.fresh and layout.absent.get(site) == place[0]
    ]
    return max(having, default=(0, ""), key=lambda one: one[0])


def _is_asked_for(
    layout: Layout,
    flush: Flushing,
    reports: Mapping[Site, LogReport],
    epoch: int,
    members: Iterable[Site],
) -> bool:
    """Whether a site that returns would fetch this past. A lapsed site does not."""
    back = [s for s in members if s in reports and s not in flush.fresh and s not in layout.lapsed]
    return any(layout.absent.get(site, epoch + 1) <= epoch for site in back)


def _is_lost(layout: Layout, flush: Flushing, epoch: int, members: Iterable[Site]) -> bool:
    """Whether no absent member has the past of the epoch. A member has it if its log was part of
    the past, or if it was present later and has fetched it."""
    counted = layout.counted.get(epoch, ())
    away = {site: flush.absent[site] for site in members if site in flush.absent}
    return not any(site in counted or since > epoch for site, since in away.items())


def misses_deliveries(layout: Layout, flush: Flushing, site: Site) -> bool:
    """Whether a site that returns in this flush would get less of a past than a present site may
    have delivered: all that had it whole have lost their stores, and a member is present that was
    not among them. It may have lapsed, and then it has delivered what it had of that past."""
    since = layout.absent.get(site)
    if since is None or site in flush.fresh or site in layout.lapsed:
        return False
    for (epoch, group), (number, members) in layout.pasts.items():
        nominal = members or layout.groups.get(group, ())
        if number and epoch >= since and site in nominal:
            left = [s for s in nominal if s not in flush.fresh]
            holders = [s for s in layout.counted.get(epoch, ()) if s in left]
            if not holders and any(s not in layout.absent for s in left):
                return True
    return False


Found: TypeAlias = dict[Place, tuple[int, tuple[Site, ...], Site]]


def _longest(layout: Layout, flush: Flushing, reports: Mapping[Site, LogReport]) -> Found:
    found: Found = {}
    for epoch in flush.epochs:
        for group, members in layout.domains[epoch].structure.groups.items():
            there = [site for site in members if site in reports and site not in flush.fresh]
            if there:
                found[epoch, group] = (0, (), there[0])
    for group, (epoch, settlers) in layout.frozen.items():
        there = [site for site in settlers if site in reports and site not in flush.fresh]
        if there:
            found[epoch, group] = (0, (), there[0])
    for site in sorted(reports):
        if site in flush.fresh:
            continue
        for epoch, group, number, members in reports[site].counts:
            if _tells(layout, flush, site, epoch, group, members):
                best = found.get((epoch, group))
                if best is None or number > best[0]:
                    found[epoch, group] = (number, members, site)
    return found


def _tells(
    layout: Layout, flush: Flushing, site: Site, epoch: int, group: Group, members: tuple[Site, ...]
) -> bool:
    """Whether the site's log says what the past of the group is."""
    if epoch in flush.epochs:
        domain = layout.domains[epoch]
        return site in domain.sites and site in (members or domain.structure.groups.get(group, ()))
    if (epoch, group) in layout.pasts:
        return False  # its past was chosen before
    if group in layout.frozen:
        return layout.frozen[group][0] == epoch and site in layout.frozen[group][1]
    # An implicit group whose members were all absent: no other site knows of it.
    return site in members and not any(s in layout.counted.get(epoch, ()) for s in members)


def _concerns(
    layout: Layout, flush: Flushing, site: Site, epoch: int, group: Group, members: Iterable[Site]
) -> bool:
    if site in flush.fresh:
        return False
    away_since = layout.absent.get(site)
    if site in layout.lapsed and epoch != away_since:
        return False  # it begins anew, and is compared only with the epoch that it was in
    if away_since is not None:
        if epoch == away_since and not members and group not in layout.groups:
            return True  # the group was removed since: what the site has of it stands
        return epoch >= away_since and site in (tuple(members) or layout.groups.get(group, ()))
    if epoch not in flush.epochs:
        return False
    return site in (tuple(members) or layout.domains[epoch].structure.groups.get(group, ()))


def _will_be_missed(
    layout: Layout, flush: Flushing, group: Group, members: tuple[Site, ...]
) -> bool:
    """Whether an absent site will be compared with this past, or a frozen group waits for it."""
    if group in layout.frozen:
        return True
    return any(site in flush.absent for site in members or layout.groups.get(group, ()))


def _lasts(layout: Layout, flush: Flushing, reports: Mapping[Site, LogReport]) -> Included:
    lasts: dict[tuple[Site, int, Group], int] = {}
    for site in sorted(reports):
        told = {
            group
            for epoch, group, _, members in reports[site].counts
            if site not in flush.fresh and _tells(layout, flush, site, epoch, group, members)
        }
        for origin, incarnation, group, seq in reports[site].lasts:
            if group not in told:
                continue  # this site has no say in the past of this group
            stream = (origin, incarnation, group)
            lasts[stream] = max(seq, lasts.get(stream, 0))
    return tuple((*stream, lasts[stream]) for stream in sorted(lasts))
