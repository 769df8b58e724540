"""Condensing: which rows of a window are settled, so that only a summary of them need be kept.

A message is settled when every member has it, or never will, and nothing is wrong with it. What is
condensed is a beginning of every site's rows, of settled messages alone, and no message is on both
sides. docs/follow.md has the argument.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ordercast.check.agreement import ENDED, PassedPlaces, epochs_of, missing
from ordercast.check.bases import Bases
from ordercast.check.fifo import overtaken_rows
from ordercast.check.integrity import bad_rows, in_two_epochs
from ordercast.check.positions import find_faults
from ordercast.check.resent import asked_twice
from ordercast.check.spans import add
from ordercast.check.tangles import MessageNumber, SiteNumber
from ordercast.check.view import SiteView, View, event_order
from ordercast.history.rows import (
    BASE,
    DROPPED,
    EXCLUDED,
    GAP,
    RETURNED,
    ROLLBACK,
    Event,
    History,
    gap_message,
)
from ordercast.model.messages import MessageId

LASTING = (BASE, ROLLBACK, EXCLUDED, RETURNED)
"""Kinds of events that are compared with later rows."""


class Force(IntEnum):
    """The rows that are condensed besides rows that are right for ever."""

    NOTHING = 0
    VIOLATIONS = 1  # counted for ever, though a late row might mend one
    ABSENT = 2  # also messages that one site alone lacks: the one that lacks the most


@dataclass(slots=True)
class Holding:
    """A site that lacks messages, and so holds the window; `first` is the smallest of them."""

    site: str
    messages: int = 0
    first: MessageId | None = None


@dataclass(slots=True)
class Unsettled:
    """Messages of a window that cannot be condensed, by the reason."""

    lacking: dict[MessageNumber, list[SiteNumber]] = field(default_factory=dict)  # may still come
    passed: set[MessageNumber] = field(default_factory=set)  # a member has passed it
    wrong: set[MessageNumber] = field(default_factory=set)
    unagreed: set[MessageNumber] = field(default_factory=set)

    def holding(self, view: View) -> list[Holding]:
        """The sites that lack something, those that lack most first."""
        found: dict[SiteNumber, Holding] = {}
        for message, sites in self.lacking.items():
            for site in sites:
                one = found.setdefault(site, Holding(view.sites[site].name))
                one.messages += 1
                own = view.messages[message]
                one.first = own if one.first is None else min(one.first, own)
        return sorted(found.values(), key=lambda one: (-one.messages, one.site))

    def remaining(self, force: Force) -> set[MessageNumber]:
        """What must stay in the window."""
        if force == Force.NOTHING:
            return self.unagreed | self.wrong | self.passed | set(self.lacking)
        stays = self.unagreed | set(self.lacking)
        if force == Force.ABSENT:
            counts = Counter(site for sites in self.lacking.values() for site in sites)
            worst = min(counts, key=lambda site: (-counts[site], site), default=None)
            stays -= {message for message, sites in self.lacking.items() if sites == [worst]}
        return stays


def find_unsettled(view: View, knotted: Iterable[MessageNumber]) -> Unsettled:
    """`knotted`: messages in tangles."""
    found = Unsettled(wrong={*knotted, *view.late})
    passed, bases = PassedPlaces(view), Bases(view)
    for message, epoch, member in missing(view):
        site = view.sites[member]
        if view.messages[message] in site.gaps:
            continue
        if any(0 < epoch < base.epoch for base in site.bases):
            continue
        # Later rows may show that it is not below the base, unless the site has passed it.
        doubtful = bool(site.bases) and bases.cover(member, message, epoch)
        if doubtful and passed.any_later(member, message):
            continue
        if doubtful or passed.reason(member, message, epoch) in (None, ENDED):
            found.lacking.setdefault(message, []).append(member)
        else:
            found.passed.add(message)
    found.unagreed.update(message for _, message in view.unagreed_rows)
    found.wrong.update(in_two_epochs(view))
    for number, site in enumerate(view.sites):
        found.wrong.update(message for _, message, _ in bad_rows(view, number, site))
    twice = {message for own in asked_twice(view).values() for message in own}
    late = {row.id for site in view.sites for row, _ in overtaken_rows(view, site)}
    if twice or late:
        found.wrong.update(n for n, one in enumerate(view.messages) if one in twice or one in late)
    return found


def find_cut(view: View, stays: set[MessageNumber], force: Force) -> list[int]:
    """Per site, how many of its rows can be condensed: no message has rows on both sides."""
    cut = []
    for site in view.sites:
        until = len(site.rows)
        faults = find_faults(view, site) if force == Force.NOTHING else ()
        fault = min((int(fault["position"]) for fault in faults), default=None)
        if fault is not None:
            until = next((i for i, row in enumerate(site.rows) if row.position >= fault), until)
        numbers = site.numbers
        cut.append(next((i for i in range(until) if numbers[i] in stays), until))
    if all(end == len(site.rows) for end, site in zip(cut, view.sites, strict=True)):
        return cut
    where = _first_rows(view)
    beyond = [(number, cut[number], len(site.rows)) for number, site in enumerate(view.sites)]
    while beyond:
        number, start, end = beyond.pop()
        for message in view.sites[number].numbers[start:end]:
            for other, first in where[message]:
                if first < cut[other]:
                    beyond.append((other, first, cut[other]))
                    cut[other] = first
    return cut


def _first_rows(view: View) -> dict[MessageNumber, list[tuple[SiteNumber, int]]]:
    """Per message, the sites that have rows of it, and which is the first."""
    found: dict[MessageNumber, list[tuple[SiteNumber, int]]] = defaultdict(list)
    for number, site in enumerate(view.sites):
        last = len(site.numbers) - 1
        firsts = {message: last - i for i, message in enumerate(reversed(site.numbers))}
        for message, i in firsts.items():
            found[message].append((number, i))
    return found


def condense(view: View, window: History, cut: Sequence[int]) -> History:
    """Move the rows up to the cut, and annulled rows, from the window into `view.before`. Returns
    the rows that stay."""
    before = view.before
    before.annulled += view.annulled
    before.sites.update(site.name for site in view.sites)
    messages: set[MessageNumber] = set()
    for number, (site, end) in enumerate(zip(view.sites, cut, strict=True)):
        if end:
            messages.update(site.numbers[:end])
            _condense_rows(view, number, end)
    split = in_two_epochs(view)
    for message in sorted(messages & view.late):
        if message in split:
            before.split.add(view.messages[message])
        for number in view.deliverers[message]:  # not delivered there before
            before.foreign.add((view.sites[number].name, view.messages[message]))
    messages -= view.late
    _condense_messages(view, sorted(messages), split)
    dropped = _condense_dropped(view)
    gone = messages | dropped | view.late if view.late else messages | dropped
    numbers = {view.messages[n]: n for n in gone} if gone else {}
    return History(
        groups=window.groups,
        epochs=window.epochs,
        sent=[row for row in window.sent if row.id not in numbers],
        deliveries=[
            row for site, end in zip(view.sites, cut, strict=True) for row in site.rows[end:]
        ],
        events=_open_events(view, window.events),
        meta=window.meta,
    )


def _condense_rows(view: View, number: SiteNumber, end: int) -> None:
    site = view.sites[number]
    before, name = view.before, site.name
    rows = site.rows[:end]
    before.rows += end
    before.last[name] = (rows[-1].position, rows[-1].attempt)
    attempts = before.attempts.setdefault(name, {})
    epochs = before.epochs.setdefault(name, {})
    highest = before.highest.setdefault(name, {})
    for row in rows:
        if row.position > attempts.get(row.attempt, 0):
            attempts[row.attempt] = row.position
        epochs[row.epoch] = epochs.get(row.epoch, 0) + 1
        stream = (row.origin, row.group_name)
        known = highest.get(stream)
        if known is None or (row.incarnation, row.seq) >= known[:2]:
            highest[stream] = (row.incarnation, row.seq, row.position)
    firsts = before.first_epochs.setdefault(name, set())
    firsts.update(site.rows[i].epoch for i in site.order_rows if i < end)
    for base in site.bases:
        if base.position > 0:
            above = before.above.setdefault((name, base.position), set())
            lowest = before.lowest.setdefault((name, base.position), {})
            for i in (i for i in site.order_rows if i < end):  # repeats do not tell a place
                row, message = rows[i], site.numbers[i]
                if row.position > base.position:
                    above.add((row.epoch, name))
                    above.update((row.epoch, view.sites[n].name) for n in view.deliverers[message])
            for row in rows:
                if row.position > base.position:
                    stream, rank = (row.origin, row.group_name), (row.incarnation, row.seq)
                    lowest[stream] = min(rank, lowest.get(stream, rank))


def _condense_messages(
    view: View, messages: Sequence[MessageNumber], split: Collection[MessageNumber]
) -> None:
    before = view.before
    names = [site.name for site in view.sites]
    epochs = epochs_of(view)
    for message in messages:
        own = view.messages[message]
        sites = view.deliverers[message]
        epoch = epochs[message]
        if epoch is None:  # nobody that has it is a member
            epoch = _some_epoch(view, message)
        members = view.members.get((epoch, own.group), {})
        known = before.members.setdefault((epoch, own.group), [names[n] for n in members])
        before.messages += 1
        add(before.condensed.setdefault(own[:3], []), own.seq, epoch)
        if len(sites) != len(members) or any(n not in members for n in sites):
            there = {names[n] for n in sites}
            for name in known:
                if name not in there:
                    lacked = before.lacked.setdefault(name, {})
                    add(lacked.setdefault(own[:3], []), own.seq, epoch)
                    if _doubtful(view.sites[view.site_number[name]], own, epoch):
                        before.doubted[name] = max(epoch, before.doubted.get(name, 0))
            before.foreign.update((name, own) for name in sorted(there.difference(known)))
        if view.sent[message] is None:
            before.unsent.add(own)
        if message in split:
            before.split.add(own)
        key = tuple((names[n], epoch) for n in sites)
        before.deliverers[key] = before.deliverers.get(key, 0) + 1


def _doubtful(site: SiteView, message: MessageId, epoch: int) -> bool:
    """Whether only the benefit of the doubt puts a message that the site lacks below a base."""
    sure = message in site.gaps or any(0 < epoch < base.epoch for base in site.bases)
    return bool(site.bases) and not sure


def _some_epoch(view: View, message: MessageNumber) -> int:
    for site in view.sites:
        for row, number in zip(site.rows, site.numbers, strict=True):
            if number == message:
                return row.epoch
    return 0


def _condense_dropped(view: View) -> set[MessageNumber]:
    """Copies of a producer's message that no member will deliver: all have dropped them."""
    dropped = {message for site in view.sites for message in site.dropped}
    found: set[MessageNumber] = set()
    if not dropped:
        return found
    rows = {message for site in view.sites for message in site.numbers}
    for number, message in enumerate(view.messages):
        if message not in dropped or number in rows or number in view.late:
            continue
        members = view.members.get((view.last_epoch.get(message.group, 0), message.group), {})
        if members and all(message in view.sites[n].dropped for n in members):
            found.add(number)
            view.before.messages += 1
            add(view.before.condensed.setdefault(message[:3], []), message.seq, 0)
    return found


def _open_events(view: View, events: Sequence[Event]) -> list[Event]:
    """The events that may still matter. Left out are gaps and copies of condensed messages, and
    events that only people read, unless such an event is the last of its site."""
    before = view.before
    last: dict[str, Event] = {}
    for event in events:
        known = last.get(event.site)
        if known is None or event_order(event) > event_order(known):
            last[event.site] = event
    kept = []
    for event in events:
        if event.kind in (GAP, DROPPED):
            message = gap_message(event)
            condensed = before.epoch_of(message) is not None
            site = view.sites[view.site_number[event.site]]
            live = message in site.gaps and event.position in site.gap_positions
            if condensed and live:  # the summary relies on the gap
                attempts = before.attempts.setdefault(event.site, {})
                highest = max(event.position, attempts.get(event.attempt, 0))
                attempts[event.attempt] = highest
            passed = event.position <= before.last_position(event.site)
            if condensed and passed and last[event.site] is not event:
                continue
        elif event.kind not in LASTING and last[event.site] is not event:
            continue
        kept.append(event)
    return kept
