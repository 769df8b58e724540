"""What the applications saw, as the rows of a history, and the invariants that hold at each step.

After a restart a site may deliver again what it delivered before: at a position that its
application has seen, it must be the very same delivery.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ordercast.check.bounds import HighWater
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.history.digest import digest
from ordercast.history.order_key import order_key
from ordercast.history.rows import (
    BASE,
    CRASH,
    END,
    EXCLUDED,
    OPEN,
    RESTART,
    RETURNED,
    ROLLBACK,
    Delivered,
    EpochRow,
    Event,
    GroupRow,
    History,
    Meta,
    Sent,
    shown_headers,
)
from ordercast.model.groups import Group, Site
from ordercast.model.headers import HeaderItems
from ordercast.model.messages import DeliveredBatch, Delivery, Key, MessageId
from ordercast.sim.workload import Submission

_SHOWN = 5  # how many messages of a wrong rollback the witness shows


class Violation(NamedTuple):
    check: str
    witness: dict[str, Any]


class Taken(NamedTuple):
    """A batch that a site took at some time, when its application had seen `after` deliveries."""

    at: int
    site: Site
    after: int
    group: Group
    seq: int
    submission: Submission
    incarnation: int = 1
    attempt: int = 1


class Recorder:
    def __init__(self, sites: tuple[Site, ...], epoch: int) -> None:
        self.epoch = epoch
        self.seen: dict[Site, list[tuple[int, Delivery]]] = {site: [] for site in sites}
        self.taken: list[Taken] = []  # the accepted batches: durable at their origins
        self.events: list[Event] = []
        self.violations: list[Violation] = []
        self.bounds = HighWater()
        self.implicit: dict[Group, tuple[Site, ...]] = {}
        self._offered: dict[Site, dict[tuple[Group, int], Taken]] = {site: {} for site in sites}
        self._numbers: dict[Site, int] = {}
        self._opened: dict[Site, int] = {}  # the last epoch that the site has opened
        self.attempts: dict[Site, int] = {}  # the attempt of a site, if it is not 1
        self.annulled: dict[Site, list[tuple[int, Delivery]]] = {}
        self._rollbacks: dict[Site, list[Rollback]] = {}
        self._away: dict[Site, None] = {}
        self.fresh: dict[Site, None] = {}  # sites that lost their stores and are not let in yet
        self._ever: dict[MessageId, None] = {}  # seen by sites that lost their stores later
        self._unsure: list[Taken] = []  # relayed, perhaps, and not durable when the origin crashed
        self._replaced: dict[Site, int] = {}  # incarnations below this were lost with a store
        self._lost_at: dict[Site, int] = {}
        self._digests: dict[tuple[bytes, HeaderItems], int] = {}

    # --- sending ----------------------------------------------------------------------------------

    def offered(
        self, now: int, site: Site, group: Group, seq: int, submission: Submission,
        incarnation: int = 1,
    ) -> None:  # fmt: skip
        """The site took the batch; whether it is accepted is not known yet."""
        if submission.members:
            self.implicit[group] = submission.members
        taken = Taken(
            now, site, len(self.seen[site]), group, seq, submission, incarnation,
            self.attempts.get(site, 1),
        )  # fmt: skip
        self._offered[site][group, seq] = taken

    def accepted(self, site: Site, group: Group, seq: int) -> None:
        """The batch that begins with `seq` is durable at its origin."""
        taken = self._offered[site].pop((group, seq), None)
        if taken is not None:
            self.taken.append(taken)

    def refused(self, site: Site, group: Group, seq: int) -> None:
        """Nobody will order the batch: its group was removed while it waited for an epoch."""
        self.taken = [
            taken
            for taken in self.taken
            if (taken.site, taken.group, taken.seq) != (site, group, seq)
        ]

    def forget_offers(self, site: Site, *, relayed: bool = False) -> None:
        """The site has crashed: batches that were not durable were never accepted. `relayed`: it
        may have relayed them all the same. Then they count as sent if somebody delivers them."""
        if relayed:
            self._unsure += self._offered[site].values()
        self._offered[site].clear()

    # --- delivering -------------------------------------------------------------------------------

    def delivered(
        self, now: int, site: Site, items: Sequence[DeliveredBatch | EpochOpened | Rollback]
    ) -> None:
        """Record and check: positions have no hole, keys grow, a seen position never changes."""
        for item in items:
            if isinstance(item, DeliveredBatch):
                self.saw(now, site, item.deliveries())
            elif isinstance(item, Rollback):
                self._roll_back(now, site, item)
            elif item.epoch > self._opened.get(site, 0):  # else a restart repeats it
                self._opened[site] = item.epoch
                if site in self.fresh:
                    del self.fresh[site]
                    self._event(now, site, BASE)
                elif site in self._away and item.joined:  # it was away for too long
                    self._event(now, site, BASE)
                if site in self._away:
                    del self._away[site]
                    self._event(now, site, RETURNED)
                self._event(now, site, OPEN)

    def saw(self, now: int, site: Site, deliveries: Sequence[Delivery]) -> None:
        seen = self.seen[site]
        for delivery in deliveries:
            position = delivery.position
            known = len(seen)
            if delivery.attempt < self.attempts.get(site, 1) and self._is_annulled(site, delivery):
                continue
            if position == known + 1:
                if seen and not _follows(seen[-1][1], delivery):
                    self._violated("keys", now, site, delivery, seen[-1][1])
                seen.append((now, delivery))
            elif position > known:
                self._violated("positions", now, site, delivery, seen[-1][1] if seen else None)
            elif seen[position - 1][1] != delivery:
                self._violated("redelivery", now, site, delivery, seen[position - 1][1])

    def _roll_back(self, now: int, site: Site, rollback: Rollback) -> None:
        """Annul deliveries. The rollback must name all that were seen after its position."""
        if rollback.attempt <= self.attempts.get(site, 1):
            return  # repeated by a restart
        seen = self.seen[site]
        gone = seen[rollback.position :]
        named = [message for _, message in rollback.annulled]
        if named[: len(gone)] != [delivery.id for _, delivery in gone]:
            witness = {"site": site, "at_ns": now, "named": [list(one) for one in named[:_SHOWN]]}
            self.violations.append(Violation("rollback", witness))
        self.annulled.setdefault(site, []).extend(gone)
        del seen[rollback.position :]
        self.attempts[site] = rollback.attempt
        self._rollbacks.setdefault(site, []).append(rollback)
        self._event(now, site, ROLLBACK, annulled=len(gone))

    def _is_annulled(self, site: Site, delivery: Delivery) -> bool:
        return any(
            rollback.attempt > delivery.attempt and delivery.position > rollback.position
            for rollback in self._rollbacks.get(site, ())
        )

    def _violated(
        self, check: str, now: int, site: Site, delivery: Delivery, other: Delivery | None
    ) -> None:
        witness = {"site": site, "at_ns": now, "delivery": _shown(delivery)}
        if other is not None:
            witness["other"] = _shown(other)
        self.violations.append(Violation(check, witness))

    # --- what happens to sites --------------------------------------------------------------------

    def crashed(self, now: int, site: Site) -> None:
        self._event(now, site, CRASH)

    def restarted(self, now: int, site: Site, boot: int) -> None:
        self._event(now, site, RESTART, boot=boot)

    def excluded(self, now: int, site: Site, epoch: int) -> None:
        """The epoch was closed without the site."""
        if site not in self._away:
            self._away[site] = None
            self._event(now, site, EXCLUDED, in_epoch=epoch)

    def lost(self, now: int, site: Site, incarnation: int) -> None:
        """The site's store is gone, and with it what its application had seen."""
        for _, delivery in self.seen[site]:
            self._ever[delivery.id] = None
        self.seen[site] = []
        self.annulled.pop(site, None)
        self._rollbacks.pop(site, None)
        self.attempts.pop(site, None)
        self._opened.pop(site, None)
        self._offered[site].clear()
        self.events = [event for event in self.events if event.site != site]
        self.fresh[site] = None
        self._replaced[site] = incarnation + 1
        self._lost_at[site] = now
        self._event(now, site, CRASH, lost=1)

    def ended(self, now: int, site: Site) -> None:
        self._event(now, site, END)

    def _event(self, now: int, site: Site, kind: str, **detail: int) -> None:
        in_epoch = detail.pop("in_epoch", 0)
        number = self._numbers[site] = self._numbers.get(site, 0) + 1
        position = len(self.seen[site])
        told = json.dumps(detail, separators=(",", ":"))
        attempt = self.attempts.get(site, 1) if position or kind == ROLLBACK else 0
        epoch = in_epoch or self._opened.get(site, self.epoch)
        self.events.append(Event(site, number, kind, position, attempt, epoch, now, told))

    # --- the history ------------------------------------------------------------------------------

    def history(self, groups: list[GroupRow], epochs: list[EpochRow], meta: Meta) -> History:
        used = {(group, self.epoch) for group in self.implicit} if not self._opened else set()
        for rows_of_site in self.seen.values():
            used.update((d.group, d.epoch) for _, d in rows_of_site if d.group in self.implicit)
        implicit = [
            GroupRow(epoch, group, site)
            for group, epoch in sorted(used)
            for site in self.implicit[group]
        ]
        sent = self.sent()
        if self._lost_at:
            shown = {delivery.id for seen in self.seen.values() for _, delivery in seen}
            unagreed = any(epoch.deliver == "agreed" for epoch in epochs)
            sent = [
                row
                for row in sent
                if row.id in shown
                or not (self._died_out(row, groups) or (unagreed and self._forgot(row)))
            ]
        rows = (sent, self._deliveries(), self.events, epochs)
        return History([*groups, *implicit], *rows, meta)

    def _forgot(self, row: Sent) -> bool:
        """At `agreed`: the origin has lost its store, and perhaps nobody else had the message."""
        return row.incarnation < self._replaced.get(row.origin, 0)

    def _died_out(self, row: Sent, groups: list[GroupRow]) -> bool:
        """All sites that were present in some epoch of the group have lost their stores since. They
        may have been the only ones that had the message."""
        present: dict[int, set[Site]] = {0: set(self.implicit.get(row.group_name, ()))}
        for one in groups:
            if one.group_name == row.group_name and one.live:
                present.setdefault(one.epoch, set()).add(one.site)
        return any(
            sites
            and sites <= self._lost_at.keys()
            and row.sent_ns <= max(self._lost_at[site] for site in sorted(sites))
            for sites in present.values()
        )

    def sent(self) -> list[Sent]:
        """A row for each accepted message, and for each that is delivered although its origin has
        lost it in a crash."""
        delivered = set(self._ever)
        if self._replaced or self._unsure:
            delivered.update(d.id for rows in self.seen.values() for _, d in rows)
        taken = {(one.site, one.incarnation, one.group, one.seq): one for one in self._unsure}
        for one in self.taken:
            taken.pop((one.site, one.incarnation, one.group, one.seq), None)
        return [
            Sent(
                one.site, one.incarnation, one.group, seq, *self._after(one), one.at,
                len(payload), self._digest(payload, one.submission.headers),
                headers=shown_headers(one.submission.headers),
            )
            for one in (*self.taken, *taken.values())
            for seq, payload in enumerate(one.submission.payloads(), start=one.seq)
            if MessageId(one.site, one.incarnation, one.group, seq) in delivered
            or (
                one.incarnation >= self._replaced.get(one.site, 0)
                and (one.site, one.incarnation, one.group, one.seq) not in taken
            )
        ]  # fmt: skip

    def _after(self, one: Taken) -> tuple[int, int]:
        """The position and attempt of the origin when it sent; 0, 0 if its store was lost since."""
        shown = one.after and one.incarnation >= self._replaced.get(one.site, 0)
        return (one.after, one.attempt) if shown else (0, 0)

    def _deliveries(self) -> list[Delivered]:
        keys: dict[Key, bytes] = {}
        rows = []
        for site in sorted(self.seen):
            for at, delivery in (*self.seen[site], *self.annulled.get(site, ())):
                encoded = keys.get(delivery.key)
                if encoded is None:
                    encoded = keys[delivery.key] = order_key(delivery.key)
                rows.append(
                    Delivered(
                        site, delivery.position, delivery.attempt, delivery.epoch, delivery.group,
                        delivery.origin, delivery.incarnation, delivery.seq, at,
                        self._digest(delivery.payload, delivery.header_items), encoded,
                        sent_ns=delivery.sent_ns or None,
                        headers=shown_headers(delivery.header_items),
                    )
                )  # fmt: skip
        return rows

    def _digest(self, payload: bytes, headers: HeaderItems) -> int:
        known = self._digests.get((payload, headers))
        if known is None:
            known = self._digests[payload, headers] = digest(payload, headers)
        return known


def _follows(last: Delivery, delivery: Delivery) -> bool:
    """Within an epoch keys grow from batch to batch. Within a batch seqs grow by one."""
    if last.epoch != delivery.epoch:
        return last.epoch < delivery.epoch
    if last.key < delivery.key:
        return True
    return last.key == delivery.key and last.id._replace(seq=last.seq + 1) == delivery.id


def _shown(delivery: Delivery) -> dict[str, Any]:
    return {
        "position": delivery.position,
        "epoch": delivery.epoch,
        "message": list(delivery.id),
        "key": [list(delivery.key.path), delivery.key.site],
    }
