"""One run of a history, prepared once for every check: which rows count, and in which order.

Sites and messages become small integers (sites in the order of their names). docs/checks.md gives
the exact meaning of live, annulled, unagreed, base and end.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from ordercast.check.condensed_rows import CondensedRows
from ordercast.check.tangles import Knot, MessageNumber, SiteNumber, find_tangles
from ordercast.history.rows import (
    BASE,
    DROPPED,
    END,
    EXCLUDED,
    GAP,
    RETURNED,
    ROLLBACK,
    Delivered,
    Event,
    GroupRow,
    History,
    Sent,
    dropped_outcome,
    gap_message,
    require_kind,
)
from ordercast.model.groups import Group
from ordercast.model.messages import MessageId

_NOWHERE = 1 << 63  # above every position
_POSITION = attrgetter("position")
event_order = attrgetter("n", "kind", "position", "attempt", "epoch")


class Base(NamedTuple):
    """Deliveries start above `position`; everything of epochs before `epoch` lies below it."""

    position: int
    epoch: int


@dataclass(slots=True)
class SiteView:
    """A site's live rows in order, and what its events say."""

    name: str
    rows: list[Delivered] = field(default_factory=list)
    numbers: list[MessageNumber] = field(default_factory=list)  # the message of each row
    order: list[MessageNumber] = field(default_factory=list)  # first agreed deliveries only
    order_rows: Sequence[int] = ()  # where in `rows` each of `order` is
    unagreed_epochs: frozenset[int] = frozenset()
    bases: list[Base] = field(default_factory=list)
    gaps: set[MessageId] = field(default_factory=set)  # messages that live gaps name
    gap_positions: list[int] = field(default_factory=list)
    dropped: dict[MessageId, str] = field(default_factory=dict)  # not delivered; the outcomes
    ended: bool = False


class View:
    """What the checks read. Lists are indexed by site number or message number."""

    def __init__(self, history: History, before: CondensedRows | None = None) -> None:
        """`before`: what was condensed before these rows; nothing, for a whole history."""
        self.before = CondensedRows() if before is None else before
        self.is_whole = before is None
        events = _events_by_site(history.events)
        rows = _rows_by_site(history.deliveries)
        names = {row.site for row in history.groups} | {row.origin for row in history.sent}
        names.update(events, rows, self.before.sites)
        self.sites = [SiteView(name) for name in sorted(names)]
        self.site_number = {site.name: number for number, site in enumerate(self.sites)}
        self.members = _members(history.groups, self.site_number)
        self.last_epoch = _last_epochs(history.groups)
        self.messages: list[MessageId] = []
        self.sent: list[Sent | None] = []
        self.sent_again: list[tuple[MessageNumber, Sent]] = []  # more rows of the same id
        self.other_digests: dict[MessageNumber, set[int | None]] = {}
        self.annulled = 0
        self.unagreed = 0
        numbers = self._number_sent(history.sent)
        agreed_epochs = {row.epoch for row in history.epochs if row.deliver == "agreed"}
        live_epochs = _live_epochs(history.groups)
        for site in self.sites:
            own_events = events.get(site.name, [])
            own_rows = rows.get(site.name, [])
            floor = _Floor(own_events)
            _read_events(site, own_events, floor)
            site.unagreed_epochs = _unagreed_epochs(
                own_events, agreed_epochs, live_epochs.get(site.name, [])
            )
            site.rows = _live(own_rows, floor)
            self.annulled += len(own_rows) - len(site.rows)
            self._number_rows(site, numbers)
        self.late = self._late()
        for site in self.sites:
            self._order(site)

    def _number_sent(self, sent: Iterable[Sent]) -> dict[MessageId, MessageNumber]:
        numbers: dict[MessageId, MessageNumber] = {}
        for row in sent:
            message = row.id
            number = numbers.setdefault(message, len(numbers))
            if number == len(self.messages):
                self.messages.append(message)
                self.sent.append(row)
            else:  # the same id twice: neither row is preferred by where it stands in the table
                self._merge_sent(number, row)
        return numbers

    def _merge_sent(self, number: MessageNumber, row: Sent) -> None:
        kept = self.sent[number]
        assert kept is not None
        self.other_digests.setdefault(number, {kept.digest}).add(row.digest)
        first = self.sent[number] = min(kept, row, key=send_key)
        self.sent_again.append((number, row if first is kept else kept))

    def _number_rows(self, site: SiteView, numbers: dict[MessageId, MessageNumber]) -> None:
        messages = self.messages
        found = site.numbers
        for row in site.rows:
            message = (row.origin, row.incarnation, row.group_name, row.seq)
            number = numbers.get(message)  # type: ignore[call-overload]  # equal as a plain tuple
            if number is None:
                number = len(messages)
                numbers[row.id] = number
                messages.append(row.id)
                self.sent.append(None)
            found.append(number)

    def _late(self) -> set[MessageNumber]:
        """Messages that were condensed before: nothing more of them was expected."""
        if not self.before.condensed:
            return set()
        epoch_of = self.before.epoch_of
        return {n for n, message in enumerate(self.messages) if epoch_of(message) is not None}

    def delivered_before(self, site: SiteView) -> set[MessageNumber]:
        """The late messages that the site delivered before these rows."""
        return {n for n in self.late if self.before.delivered(site.name, self.messages[n])}

    def _order(self, site: SiteView) -> None:
        if (
            not self.late
            and not site.unagreed_epochs
            and len(set(site.numbers)) == len(site.numbers)
        ):
            site.order = site.numbers
            site.order_rows = range(len(site.numbers))
            return
        seen = self.delivered_before(site)
        kept: list[int] = []
        for i, (row, number) in enumerate(zip(site.rows, site.numbers, strict=True)):
            if row.epoch in site.unagreed_epochs:
                self.unagreed += 1
            elif number not in seen:
                seen.add(number)
                kept.append(i)
        site.order = [site.numbers[i] for i in kept]
        site.order_rows = kept

    @cached_property
    def live_rows(self) -> int:
        return sum(len(site.rows) for site in self.sites)

    @cached_property
    def deliverers(self) -> list[list[SiteNumber]]:
        """Per message, the sites that have it in their order, by number."""
        found: list[list[SiteNumber]] = [[] for _ in self.messages]
        for number, site in enumerate(self.sites):
            for message in site.order:
                found[message].append(number)
        return found

    @cached_property
    def places(self) -> list[dict[MessageNumber, int]]:
        """Per site, where in its order each message is."""
        return [{message: i for i, message in enumerate(site.order)} for site in self.sites]

    @cached_property
    def knots(self) -> list[Knot]:
        """The tangles of the sites' orders, by their smallest message id."""
        orders = [site.order for site in self.sites]
        tangles = find_tangles(orders, self.deliverers)
        by_id = self.messages.__getitem__
        for tangle in tangles:
            tangle.sort(key=by_id)
        tangles.sort(key=lambda tangle: by_id(tangle[0]))
        return [Knot(tangle, orders, self.places, self.deliverers) for tangle in tangles]

    @cached_property
    def unagreed_rows(self) -> set[tuple[SiteNumber, MessageNumber]]:
        return {
            (number, message)
            for number, site in enumerate(self.sites)
            if site.unagreed_epochs
            for row, message in zip(site.rows, site.numbers, strict=True)
            if row.epoch in site.unagreed_epochs
        }

    def position(self, site: SiteNumber, message: MessageNumber) -> int:
        """The position of a message's first agreed delivery at a site."""
        one = self.sites[site]
        return one.rows[one.order_rows[self.places[site][message]]].position


def send_key(row: Sent) -> tuple[int, int, int, int]:
    """Orders the sends of one origin: by incarnation, time, and its last delivery then."""
    return (row.incarnation, row.sent_ns, row.after_attempt, row.after_position)


class _Floor:
    """The rollbacks of a site: a row or gap is annulled when it lies above what they kept."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._rollbacks = [(e.attempt, e.position) for e in events if e.kind == ROLLBACK]
        self._known: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._rollbacks)

    def annuls(self, position: int, attempt: int) -> bool:
        kept = self._known.get(attempt)
        if kept is None:
            later = (p for a, p in self._rollbacks if a > attempt)
            kept = self._known[attempt] = min(later, default=_NOWHERE)
        return position > kept


def _events_by_site(events: Iterable[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        require_kind(event.kind, "events")
        found[event.site].append(event)
    for own in found.values():
        own.sort(key=event_order)
    return found


def _rows_by_site(deliveries: Iterable[Delivered]) -> dict[str, list[Delivered]]:
    found: dict[str, list[Delivered]] = defaultdict(list)
    for row in deliveries:
        found[row.site].append(row)
    for own in found.values():
        own.sort(key=_POSITION)
        if any(a.position == b.position for a, b in pairwise(own)):
            own.sort(key=_row_order)
    return found


def _row_order(row: Delivered) -> tuple[int | bool | str, ...]:
    """Position, then attempt; the rest only makes wrong histories come out the same each time."""
    message = (row.epoch, row.group_name, row.origin, row.incarnation, row.seq)
    digest = (row.digest is not None, row.digest or 0)
    return (row.position, row.attempt, *message, row.delivered_ns, *digest)


def _members(
    groups: Iterable[GroupRow], site_number: dict[str, SiteNumber]
) -> dict[tuple[int, Group], dict[SiteNumber, bool]]:
    """Nominal members of a group in an epoch, by number, and whether they are live."""
    found: dict[tuple[int, Group], dict[SiteNumber, bool]] = {}
    for row in groups:
        members = found.setdefault((row.epoch, row.group_name), {})
        number = site_number[row.site]
        members[number] = row.live or members.get(number, False)
    return {key: dict(sorted(members.items())) for key, members in found.items()}


def _last_epochs(groups: Iterable[GroupRow]) -> dict[Group, int]:
    found: dict[Group, int] = {}
    for row in groups:
        found[row.group_name] = max(row.epoch, found.get(row.group_name, row.epoch))
    return found


def _live_epochs(groups: Iterable[GroupRow]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in groups:
        if row.live:
            found[row.site].append(row.epoch)
    return found


def _read_events(site: SiteView, events: Sequence[Event], floor: _Floor) -> None:
    for event in events:
        if event.kind == BASE:
            site.bases.append(Base(event.position, event.epoch))
        elif event.kind == DROPPED:
            site.dropped[gap_message(event)] = dropped_outcome(event)
        elif event.kind == GAP and not floor.annuls(event.position, event.attempt):
            site.gaps.add(gap_message(event))
            site.gap_positions.append(event.position)
    site.ended = bool(events) and events[-1].kind == END


def _unagreed_epochs(
    events: Sequence[Event], agreed_epochs: set[int], live_epochs: Sequence[int]
) -> frozenset[int]:
    """The epochs of level `agreed` that were closed without a site that has not returned since."""
    found: set[int] = set()
    for event in events:
        if event.kind == RETURNED:
            found.clear()
        elif event.kind == EXCLUDED:
            # The event names the epoch that was closed or the one that opened without the site.
            closed = max((e for e in live_epochs if e <= event.epoch), default=event.epoch)
            if closed in agreed_epochs:
                found.add(closed)
    return frozenset(found)


def _live(rows: list[Delivered], floor: _Floor) -> list[Delivered]:
    if not floor:
        return rows
    return [row for row in rows if not floor.annuls(row.position, row.attempt)]
