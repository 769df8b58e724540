"""A judge of small histories by the letter of docs/checks.md: slow, and shares no code with check/.

Everything is a comprehension over rows, pairs of rows or pairs of messages. `judge` gives the
counts that `check_history` must give.
"""

import json
from collections.abc import Iterator
from typing import Any

from ordercast.history.rows import Delivered, Event, History, Row, Sent

Id = tuple[str, int, str, int]


def judge(history: History) -> dict[str, Any]:
    """The counts of a history, causal order included: what the runs give, added up."""
    runs = [Run(part) for part in runs_of(history).values()]
    checks = {name: sum(getattr(run, name)() for run in runs) for name in CHECKS}
    return {
        "rows": sum(len(run.rows) for run in runs),
        "sites": sum(len(run.sites) for run in runs),
        "messages": sum(len(run.messages) for run in runs),
        "runs": len(runs),
        "checks": checks,
        "informative": {
            "pending": sum(run.pending_pairs() + run.pending_messages() for run in runs),
            "unagreed": sum(len(run.rows) - len(run.agreed) for run in runs),
            "annulled": sum(len(run.history.deliveries) - len(run.rows) for run in runs),
        },
    }


CHECKS = (
    "integrity",
    "agreement",
    "lost",
    "fifo",
    "pairwise_order",
    "acyclic_order",
    "positions",
    "resent",
    "causal_order",
)


def runs_of(history: History) -> dict[str | None, History]:
    shared_groups = all(row.run is None for row in history.groups)
    shared_epochs = all(row.run is None for row in history.epochs)
    rows: list[Row] = [*history.sent, *history.deliveries, *history.events]
    rows += [] if shared_groups else history.groups
    rows += [] if shared_epochs else history.epochs
    names = {row.run for row in rows} or {None}
    return {
        name: History(
            groups=[r for r in history.groups if shared_groups or r.run == name],
            sent=[r for r in history.sent if r.run == name],
            deliveries=[r for r in history.deliveries if r.run == name],
            events=[r for r in history.events if r.run == name],
            epochs=[r for r in history.epochs if shared_epochs or r.run == name],
        )
        for name in sorted(names, key=lambda name: (name is not None, name or ""))
    }


def _row_order(row: Delivered) -> tuple[Any, ...]:
    digest = (row.digest is not None, row.digest or 0)
    return (row.position, row.attempt, row.epoch, *_by_group(row.id), row.delivered_ns, *digest)


def _by_group(message: Id) -> tuple[Any, ...]:
    origin, incarnation, group, seq = message
    return (group, origin, incarnation, seq)


class Run:
    """One run, and each check as a method that counts."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.events = sorted(
            history.events, key=lambda e: (e.n, e.kind, e.position, e.attempt, e.epoch)
        )
        self.rows = sorted(
            (row for row in history.deliveries if not self.is_annulled(row)), key=_row_order
        )
        self.agreed = [row for row in self.rows if not self.is_unagreed(row)]
        self.sent: dict[Id, list[Sent]] = {}
        for sent in history.sent:
            self.sent.setdefault(sent.id, []).append(sent)
        self.messages = set(self.sent) | {row.id for row in self.rows}
        self.sites = (
            {row.site for row in history.groups}
            | {row.origin for row in history.sent}
            | {row.site for row in history.deliveries}
            | {event.site for event in history.events}
        )
        self.orders = {site: self.order(site) for site in self.sites}
        self.places = {
            site: {row.id: i for i, row in enumerate(order)} for site, order in self.orders.items()
        }
        self.past = {message: self.direct_past(message) for message in self.messages}
        grown = True
        while grown:
            grown = False
            for message, past in self.past.items():
                more = past.union(*(self.past[other] for other in past))
                grown = grown or more != past
                self.past[message] = more

    # Which rows count

    def events_of(self, site: str, kind: str) -> list[Event]:
        return [event for event in self.events if event.site == site and event.kind == kind]

    def is_annulled(self, row: Delivered | Event) -> bool:
        return any(
            row.attempt < rollback.attempt and row.position > rollback.position
            for rollback in self.events_of(row.site, "rollback")
        )

    def is_unagreed(self, row: Delivered) -> bool:
        agreed = {epoch.epoch for epoch in self.history.epochs if epoch.deliver == "agreed"}
        for excluded in self.events_of(row.site, "excluded"):
            live = [
                group.epoch
                for group in self.history.groups
                if group.site == row.site and group.live and group.epoch <= excluded.epoch
            ]
            closed = max(live) if live else excluded.epoch
            later = self.events[self.events.index(excluded) + 1 :]
            back = any(e.site == row.site and e.kind == "returned" for e in later)
            if row.epoch == closed and closed in agreed and not back:
                return True
        return False

    def order(self, site: str) -> list[Delivered]:
        """The first agreed delivery of each message at a site."""
        own = [row for row in self.agreed if row.site == site]
        return [row for i, row in enumerate(own) if row.id not in [r.id for r in own[:i]]]

    def is_ended(self, site: str) -> bool:
        own = [event for event in self.events if event.site == site]
        return bool(own) and own[-1].kind == "end"

    def members(self, epoch: int, group: str) -> set[str]:
        return {
            row.site
            for row in self.history.groups
            if row.epoch == epoch and row.group_name == group
        }

    def gaps(self, site: str) -> list[tuple[Id, int]]:
        return [
            (as_id(json.loads(event.detail)["message"]), event.position)
            for event in self.events_of(site, "gap")
            if not self.is_annulled(event)
        ]

    def place(self, site: str, message: Id) -> int | None:
        return self.places[site].get(message)  # type: ignore[call-overload,no-any-return]

    # The checks

    def integrity(self) -> int:
        bad = [row for row in self.rows if self.row_faults(row)]
        return len(bad) + sum(len(self.epochs_of(message)) > 1 for message in self.messages)

    def row_faults(self, row: Delivered) -> list[str]:
        own = [other for other in self.rows if other.site == row.site]
        at = next(i for i, other in enumerate(own) if other is row)
        digests = {sent.digest for sent in self.sent.get(row.id, [])}
        faults = {
            "repeated": row.id in [other.id for other in own[:at]],
            "never sent": row.id not in self.sent,
            "not a member": row.site not in self.members(row.epoch, row.group_name),
            "another digest": bool(digests)
            and row.digest is not None
            and None not in digests
            and row.digest not in digests,
        }
        return [fault for fault, holds in faults.items() if holds]

    def epochs_of(self, message: Id) -> set[int]:
        return {row.epoch for row in self.agreed if row.id == message}

    def missing_pairs(self) -> Iterator[tuple[Id, int, str]]:
        for message in self.messages:
            epochs = [
                row.epoch
                for order in self.orders.values()
                for row in order
                if row.id == message and row.site in self.members(row.epoch, row.group_name)
            ]
            for member in self.members(min(epochs), message[2]) if epochs else ():
                if not any(row.site == member and row.id == message for row in self.rows):
                    yield message, min(epochs), member

    def excused(self, message: Id, epoch: int, member: str) -> bool:
        gap = any(named == message for named, _ in self.gaps(member))
        return gap or any(
            self.is_below(message, epoch, member, base) for base in self.events_of(member, "base")
        )

    def is_below(self, message: Id, epoch: int, member: str, base: Event) -> bool:
        if base.epoch > 0 and epoch != base.epoch:
            return epoch < base.epoch
        above = [row for row in self.orders[member] if row.position > base.position]
        if base.position == 0 or any(row.epoch < epoch for row in above):
            return False
        return not any(
            self.is_before(row.id, message, site) for row in above for site in self.sites
        )

    def is_before(self, one: Id, other: Id, site: str) -> bool:
        first, second = self.place(site, one), self.place(site, other)
        return first is not None and second is not None and first < second

    def has_passed(self, message: Id, epoch: int, member: str) -> bool:
        return (
            self.is_ended(member)
            or any(row.epoch > epoch for row in self.orders[member])
            or any(
                row.group_name == message[2] and self.is_before(message, row.id, other)
                for row in self.orders[member]
                for other in self.members(epoch, message[2])
            )
        )

    def agreement(self) -> int:
        return sum(
            not self.excused(*pair) and self.has_passed(*pair) for pair in self.missing_pairs()
        )

    def pending_pairs(self) -> int:
        return sum(
            not self.excused(*pair) and not self.has_passed(*pair) for pair in self.missing_pairs()
        )

    def ended_members(self, group: str) -> list[str]:
        epochs = [row.epoch for row in self.history.groups if row.group_name == group]
        return [
            row.site
            for row in self.history.groups
            if row.group_name == group
            and row.epoch == max(epochs)
            and row.live
            and self.is_ended(row.site)
        ]

    def may_be_below(self, member: str, message: Id) -> bool:
        """A message that nobody delivered, by FIFO alone."""
        return any(
            base.position > 0
            and not any(
                row.site == member
                and row.position > base.position
                and (row.origin, row.group_name) == (message[0], message[2])
                and (row.incarnation, row.seq) < (message[1], message[3])
                for row in self.rows
            )
            for base in self.events_of(member, "base")
        )

    def owes(self, member: str, message: Id) -> bool:
        epochs = {row.epoch for row in self.history.groups if row.group_name == message[2]}
        members = {row.site for row in self.history.groups if row.group_name == message[2]}
        always = all(member in self.members(epoch, message[2]) for epoch in epochs)
        return not self.may_lack(member, message) and (
            always or not any(self.may_lack(other, message) for other in members)
        )

    def may_lack(self, member: str, message: Id) -> bool:
        told = any(named == message for named, _ in self.gaps(member))
        return told or self.may_be_below(member, message)

    def outcomes(self, message: Id) -> set[str]:
        """What the events that say the message was dropped tell of it."""
        dropped = [json.loads(e.detail) for e in self.events if e.kind == "dropped"]
        return {one.get("outcome", "") for one in dropped if tuple(one["message"]) == message}

    def is_copy_of_nothing(self, message: Id) -> bool:
        requests = {(row.client, row.request, row.part) for row in self.rows}
        return self.outcomes(message) == {"duplicate"} and any(
            (sent.client or "").startswith(("producer/", "once/"))
            and (sent.client, sent.request, sent.part) not in requests
            for sent in self.sent.get(message, ())
        )

    def is_looked_at(self, message: Id) -> bool:
        return (
            not self.outcomes(message)
            or message in {row.id for row in self.rows}
            or self.is_copy_of_nothing(message)
        )

    def hides(self, site: str) -> bool:
        return any(
            e.site == site
            and (
                (e.kind == "base" and e.position > 0)
                or (e.kind == "gap" and not self.is_annulled(e))
            )
            for e in self.events
        )

    def is_lost(self, message: Id) -> bool:
        if not self.is_looked_at(message):
            return False
        if self.outcomes(message) and any(
            self.hides(row.site) for row in self.history.groups if row.group_name == message[2]
        ):
            return False
        return (
            message not in {row.id for row in self.rows}
            and self.is_ended(message[0])
            and any(self.owes(member, message) for member in self.ended_members(message[2]))
        )

    def lost(self) -> int:
        return sum(self.is_lost(message) for message in self.sent)

    def pending_messages(self) -> int:
        agreed = {row.id for row in self.agreed}
        return sum(
            self.is_looked_at(message) and not self.is_lost(message)
            for message in set(self.sent) - agreed
        )

    def fifo(self) -> int:
        return sum(self.overtaken(row) for row in self.rows)

    def overtaken(self, row: Delivered) -> bool:
        own = [other for other in self.rows if other.site == row.site]
        at = next(i for i, other in enumerate(own) if other is row)
        return any(
            (before.origin, before.group_name) == (row.origin, row.group_name)
            and (before.incarnation, before.seq) > (row.incarnation, row.seq)
            for before in own[:at]
        )

    def disagree(self, one: str, other: str) -> bool:
        return any(
            self.is_before(x.id, y.id, one) and self.is_before(y.id, x.id, other)
            for x in self.orders[one]
            for y in self.orders[one]
        )

    def pairwise_order(self) -> int:
        return sum(
            self.disagree(one, other) for one in self.sites for other in self.sites if one < other
        )

    def cycle_length(self, start: Id) -> int | None:
        """The number of messages on a shortest cycle through one, by the sites' full orders."""
        reached = {start}
        ring = [start]
        for length in range(1, len(self.messages) + 1):
            following = {
                after.id
                for order in self.orders.values()
                for i, row in enumerate(order)
                if row.id in ring
                for after in order[i + 1 :]
            }
            if start in following:
                return length
            ring = [message for message in following if message not in reached]
            reached.update(ring)
        return None

    def acyclic_order(self) -> int:
        return sum(self.cycle_length(message) is not None for message in self.messages)

    def positions(self) -> int:
        return sum(self.misnumbered(site) for site in self.sites)

    def misnumbered(self, site: str) -> bool:
        delivered = [row.position for row in self.rows if row.site == site]
        gaps = {position for _, position in self.gaps(site)}
        starts = {0, *(base.position for base in self.events_of(site, "base"))}

        def follows(position: int) -> bool:
            before = position - 1
            return before in {*delivered, *starts} or (before in gaps and follows(before))

        return (
            len(set(delivered)) < len(delivered)
            or not all(follows(position) for position in delivered)
            or not all(follows(gap) for gap in gaps if gap > max(starts))
        )

    def asked_twice(self) -> dict[tuple[str, int, int], set[Id]]:
        """The messages of each part of a request that has several."""
        again = ("producer/", "id/", "once/")
        sent = [row for row in self.history.sent if not (row.client or "").startswith(again)]
        rows: list[Sent | Delivered] = [*sent, *self.rows]
        asked = {(row.client, row.request, row.part) for row in rows if row.client is not None}
        messages = {
            one: {row.id for row in rows if (row.client, row.request, row.part) == one}
            for one in asked
        }
        return {one: own for one, own in messages.items() if len(own) > 1}  # type: ignore[misc]

    def resent(self) -> int:
        return len(self.asked_twice())

    def direct_past(self, message: Id) -> set[Id]:
        if message not in self.sent:
            return set()
        sent = min(self.sent[message], key=_send_key)
        past = {
            other
            for other in self.sent
            if other[0] == message[0] and other != message and self.sent_before(other, message)
        }
        for row in self.orders[sent.origin]:
            if row.position > sent.after_position or row.attempt > sent.after_attempt:
                break
            past.add(row.id)
        return past

    def sent_before(self, one: Id, other: Id) -> bool:
        if one[2] == other[2]:
            return (one[1], one[3]) < (other[1], other[3])
        return self.send_time(one) < self.send_time(other)

    def send_time(self, message: Id) -> tuple[int, ...]:
        """No earlier than that of any before it in its group."""
        return max(
            _send_key(min(rows, key=_send_key))
            for other, rows in self.sent.items()
            if (other[0], other[2]) == (message[0], message[2])
            and (other[1], other[3]) <= (message[1], message[3])
        )

    def causal_order(self) -> int:
        return sum(
            any(later.id in self.past[row.id] for later in order[i + 1 :])
            for order in self.orders.values()
            for i, row in enumerate(order)
        )


def _send_key(row: Sent) -> tuple[int, int, int, int]:
    return (row.incarnation, row.sent_ns, row.after_attempt, row.after_position)


def as_id(value: Any) -> Id:
    origin, incarnation, group, seq = value
    return (origin, incarnation, group, seq)
