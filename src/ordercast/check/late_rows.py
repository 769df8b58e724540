"""Rows that come too late for a window: which checks they make inexact.

Of a condensed message nothing more is expected. If something comes all the same, what it would have
to be compared with is gone. Repeats are counted as ever; the rest is said.
"""

from collections.abc import Iterator

from ordercast.check.condensed_rows import CondensedRows
from ordercast.check.view import SiteView, View
from ordercast.history.rows import ROLLBACK, Event, History

ORDER = ("pairwise_order", "acyclic_order")
ALL = ("integrity", "agreement", "lost", "fifo", *ORDER, "positions", "resent")


def contradicted(view: View, window: History) -> set[str]:
    """The checks that a late row of the small tables makes inexact. If it is known from the
    beginning, they are exact: reading the history again helps."""
    if not view.before.condensed:
        return set()
    found: set[str] = set()
    for site in view.sites:
        last = view.before.last_position(site.name)
        for base in site.bases:
            if 0 < base.position < last and (site.name, base.position) not in view.before.above:
                found.update(("agreement", "lost"))
    if any(_annuls_condensed(view.before, event) for event in window.events):
        found.update(ALL)
    names = [site.name for site in view.sites]
    for key, members in view.before.members.items():
        if [names[n] for n in view.members.get(key, ())] != members:
            found.update(("integrity", "agreement", "lost"))
    return found


def reopened(view: View, window: History, forced: bool) -> set[str]:
    """The checks that late deliveries or sends make inexact. `forced`: more is condensed than what
    is right for ever."""
    if not view.before.condensed:
        return set()
    found: set[str] = set()
    for site in view.sites:
        found.update(*_of_site(view, site, forced))
    unsent = view.before.unsent
    if unsent and any(row.id in unsent for row in window.sent):
        found.update(("integrity", "lost"))
    if forced and any(view.sent[message] is not None for message in view.late):
        found.add("integrity")  # the digest may be one that was delivered
    return found


def behind_the_window(before: CondensedRows, rows: History) -> set[str]:
    """The checks that fresh rows of the small tables may make inexact, if rows are condensed that
    are not right for ever. Such a row may excuse a violation that is counted, or turn rows that
    were right into one."""
    latest = max((epoch for own in before.epochs.values() for epoch in own), default=0)
    late = any(row.epoch <= latest for row in rows.groups)
    late = late or any(row.epoch <= latest for row in rows.epochs)
    last = before.last_position
    late = late or any(0 < event.position <= last(event.site) for event in rows.events)
    found = {"integrity", "agreement", "lost", "positions"} if late else set()
    if before.resent and any(event.kind == ROLLBACK for event in rows.events):
        found.add("resent")  # it may take back one of two messages that are counted
    return found


def _of_site(view: View, site: SiteView, forced: bool) -> Iterator[tuple[str, ...]]:
    before = view.before
    last = before.last.get(site.name, (0, 0))
    if site.rows and (site.rows[0].position, site.rows[0].attempt) <= last:
        yield ("integrity", "fifo", *ORDER, "positions")
        if forced:
            yield ("agreement",)  # it may show that what is missing is no longer due, or still is
    if view.late and any(message in view.late for message in site.order):
        yield ("integrity", "agreement", *ORDER)  # delivered there for the first time
    if forced and any(gap <= last[0] for gap in site.gap_positions):
        yield ("positions",)  # the rows around the gap may be gone
    if forced and site.unagreed_epochs & before.epochs.get(site.name, {}).keys():
        yield ("integrity", "agreement", *ORDER)
    doubted = before.doubted.get(site.name, 0)
    lowest = min((base.position for base in site.bases), default=0)
    above = (site.rows[i] for i in site.order_rows if site.rows[i].position > lowest)
    if doubted and any(row.epoch < doubted for row in above):
        yield ("agreement",)


def _annuls_condensed(before: CondensedRows, event: Event) -> bool:
    return event.kind == ROLLBACK and any(
        attempt < event.attempt and position > event.position
        for attempt, position in before.attempts.get(event.site, {}).items()
    )
