"""The writer's books: the number, position and reference of each row, and which rows are needed.

A ledger turns boxes into a commit. A commit is plain data, so the writer can try it again when the
disk is full. Only the writer thread uses a ledger, so nothing here is locked.
"""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.packing import absences_in, absent_in
from ordercast.core.epochs.records import (
    REFUSED,
    Anew,
    EngineState,
    EpochOpened,
    Filled,
    Kept,
    MemberRecord,
)
from ordercast.core.outbox import Accepted, Checkpoint, Passed
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import is_implicit
from ordercast.model.messages import Batch, DeliveredBatch, Placed, Vector
from ordercast.net.store.box import StoreBox
from ordercast.net.store.checkpoint import EngineRows, FoldedState, fold_aside, steps
from ordercast.net.store.events import ABSENT
from ordercast.net.store.log_end import (
    Cut,
    DeliveryQueue,
    Floor,
    LogItem,
    not_rolled_back,
    place_of,
)
from ordercast.net.store.reader_rows import passed_by, reader_values
from ordercast.net.store.recovery import OwnBatch, RecoveredState
from ordercast.net.store.rows import (
    ACCEPTED,
    CAUGHT,
    COPY,
    LATE,
    MINE,
    OTHER,
    PASSED,
    REPEATED,
    Value,
    checkpoint_checksum,
    checksum,
    encode,
    point_row,
    state_row,
)

FEW = 1_000  # places: up to here nothing is searched for old ones
_ELSEWHERE = 4_096  # groups that are remembered as passing elsewhere

Rows: TypeAlias = dict[OwnBatch, tuple[int, Vector]]
"""The row of each own batch, and the causal past in the row."""


@dataclass(slots=True)
class Commit:
    """The rows of one transaction."""

    batches: list[tuple[int | bytes, ...]] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    checkpoint: tuple[int | bytes, ...] | None = None
    state: list[tuple[str, Value, int]] = field(default_factory=list)
    requests: list[tuple[bytes, int, Group, int, int, int]] = field(default_factory=list)
    # They are deleted before `requests` are written.
    gone: list[tuple[bytes, int, int]] = field(default_factory=list)
    events: list[tuple[str, int, int, str]] = field(default_factory=list)
    readers: dict[str, tuple[str | int, ...]] = field(default_factory=dict)
    # They are deleted before `readers` are written.
    readers_gone: list[str] = field(default_factory=list)
    size: int = 0  # bytes, roughly

    def __bool__(self) -> bool:
        return bool(
            self.batches
            or self.cuts
            or self.checkpoint
            or self.state
            or self.requests
            or self.gone
            or self.events
            or self.readers
            or self.readers_gone
        )

    def forget_requests(self, gone: Sequence[tuple[bytes, int, int]]) -> None:
        """Delete requests of a client: one number, or all up to a number (then the first is 0).
        Rows that this commit would add are dropped too."""
        if self.requests:
            alone = {(client, first) for client, first, last in gone if first == last}
            upto = {client: last for client, first, last in gone if first < last}
            self.requests = [
                row
                for row in self.requests
                if row[:2] not in alone and row[1] > upto.get(row[0], 0)
            ]
        self.gone.extend(gone)


class Ledger:
    """`logged`, `delivered` and `confirmed` are last positions, durable when their commit is.
    `attempt` is that of the log, `confirmed_attempt` that of the last confirmation."""

    def __init__(self, site: Site, found: RecoveredState) -> None:
        self._site = site
        self.last = found.last  # row
        self.logged = found.logged
        self.delivered = self.delivered_on_disk = int(found.state["delivered"])
        self.confirmed = int(found.state["confirmed"])
        self.attempt = int(found.state["attempt"])
        self.confirmed_attempt = int(found.state["confirmed_attempt"])
        self._floors = found.floors
        self._readers = found.readers
        self.readers_changed = 0  # how often
        # Rows that the core may still need: those of accepted own batches, each with the past in
        # the row; and those of the batches that passed, by epoch.
        self._accepted = found.accepted
        self._passed = {epoch: deque(rows) for epoch, rows in found.passed.items()}
        # By place of a batch that passed, was fetched or caught up with: its row, and its position
        # in the log (0: it is not in the log). `_aside`: the first row of batches beside the
        # engines.
        self._places = found.places
        self._pruned = len(self._places)
        self._aside = found.aside
        self._open: tuple[int, deque[int]] = (0, deque())
        self._own = found.own  # rows of own batches that will pass here, the oldest first
        self._elsewhere: set[Group] = set()  # groups whose messages do not pass here
        self.upto = found.checkpoint.upto

    def take(self, boxes: Sequence[StoreBox], commit: Commit) -> None:
        before = self.confirmed_attempt, self.confirmed
        delivered, attempt = self.delivered, self.attempt
        for box in boxes:
            if box.records or box.logged is not None:
                self._records(box, commit)
            for key in box.refused:
                if key in self._accepted:
                    commit.events.append(self._refusal(self._accepted[key][0], key, box.at_ns))
            if box.forget is not None:
                self._forget(box.forget, commit)
                if box.logged is not None:
                    self._note_absences(box.forget, commit, box.at_ns)
            if box.delivered > self.delivered:
                seen = not_rolled_back(box.delivered, box.after_attempt, self._floors)
                self.delivered = max(seen, self.delivered)
            if box.confirmed is not None:
                self._confirm(box.confirmed, box.confirmed_attempt or box.after_attempt)
            if box.readers or box.readers_gone:
                self._note_readers(box, commit)
            if box.requests:
                commit.requests.extend((*request, box.heard) for request in box.requests)
            if box.gone:
                commit.forget_requests(box.gone)
            for site, point in box.points.items():
                commit.state.append(point_row(site, point))
            if box.events:
                at = box.at_ns
                commit.events.extend(
                    (kind, place, at, detail)
                    for kind, place, detail in box.events
                    if kind != "gap"
                    or not_rolled_back(place, box.after_attempt, self._floors) == place
                )
        if (self.confirmed_attempt, self.confirmed) != before:
            commit.state.append(state_row("confirmed", self.confirmed))
            commit.state.append(state_row("confirmed_attempt", self.confirmed_attempt))
        if self.attempt != attempt:
            commit.state.append(state_row("attempt", self.attempt))
        if self.delivered < delivered or (self.delivered > self.delivered_on_disk and commit):
            self.cursor(commit)

    def cursor(self, commit: Commit) -> None:
        """Write `delivered`, with another commit or when there is nothing else to do."""
        self.delivered_on_disk = self.delivered
        commit.state.append(state_row("delivered", self.delivered))

    def low(self, n: int | None = None) -> int:
        """No row from `n` on refers to a row before this one. Without `n`: no row that is written
        from now on."""
        for own in self._own.values():
            return own
        return self.last + 1 if n is None else n

    def needed(self) -> int:
        """The first row that the core may still need. If it needs none, the next row."""
        first = self.upto + 1
        for n, _ in self._accepted.values():
            if n < first:
                first = n
            break  # they are in the order of their rows
        for rows in self._passed.values():
            if rows and rows[0] < first:
                first = rows[0]
        return min(first, self._aside)

    def _confirm(self, position: int, attempt: int) -> None:
        """A rollback annuls confirmations. So a position is confirmed anew in the attempt after
        it."""
        position = not_rolled_back(position, attempt, self._floors)
        if attempt > self.confirmed_attempt:
            self.confirmed_attempt, self.confirmed = attempt, max(position, self.confirmed)
        elif position > self.confirmed:
            self.confirmed = position

    def _note_readers(self, box: StoreBox, commit: Commit) -> None:
        self.readers_changed += 1
        for name in box.readers_gone:
            self._readers.pop(name, None)
            commit.readers.pop(name, None)
            commit.readers_gone.append(name)
        for row in box.readers:
            self._readers[row.name] = row
            commit.readers[row.name] = reader_values(row)

    def read_upto(self) -> dict[str, int]:
        """For each named reader the position up to which it needs nothing."""
        return {name: passed_by(row, self._floors) for name, row in self._readers.items()}

    def _records(self, box: StoreBox, commit: Commit) -> None:
        """Write a row for each record. A batch that passes as soon as it is accepted has one row
        for both."""
        own, accepted, places = self._own, self._accepted, self._places
        replacing = None if box.logged is None else DeliveryQueue(box.caught)
        oldest = next(iter(own.values()), 0)  # row of the first own batch that may be referred to
        after = not_rolled_back(box.after_position, box.after_attempt, self._floors)
        records, at, add = box.records, box.at_ns, commit.batches.append
        n, logged = self.last, self.logged
        size = skip = 0
        epoch, rows = self._open  # the epoch of the last batch that passed, and its rows
        for i, record in enumerate(records):
            if skip:
                skip = 0
                continue
            passing: Kept | None = record if type(record) is Kept else _passing_with(records, i)
            if replacing is not None and passing is not None and replacing.opens(passing.epoch):
                self.last, self.logged = n, logged
                self._relog(replacing.upto(passing.epoch), box, commit)
                n, logged = self.last, self.logged
            n += 1
            position, ref = logged + 1, 0
            low = oldest or n
            kept: Kept | None = None
            written: object = record
            if type(record) is Kept:
                kept, kind, written = record, PASSED, record.passed
                batch = record.passed.placed.batch
                if batch.origin == self._site:
                    ref = self._come_back(batch)
                    if ref:
                        written = _without_payloads(record.passed)
                        if ref == oldest:
                            oldest = next(iter(own.values()), 0)
            elif type(record) is Accepted:
                batch, kind = record.batch, ACCEPTED
                key = batch.group, batch.seq
                if key in accepted:  # an earlier batch with this seq was refused
                    commit.events.append(self._refusal(accepted.pop(key)[0], key, at))
                accepted[key] = n, batch.past
                if passing is not None:
                    skip, kind, kept, written = 1, ACCEPTED | PASSED, passing, passing.passed
                elif self._may_come_back(batch):
                    if own.pop(key, 0) == oldest:
                        oldest = next(iter(own.values()), 0)
                    own[key] = n
                    oldest = oldest or n
            else:
                kind = OTHER
            if kept is None:
                of, count = 0, 0 if kind == OTHER else batch.count
            else:
                of, count = kept.epoch, batch.count
                if of != epoch:
                    epoch, rows = self._open = of, self._passed.setdefault(of, deque())
                rows.append(n)
                kind |= MINE * kept.mine | _copy_of(kept)
                logged += count * kept.mine
                if kept.mine or kept.copy:
                    places[of, batch.group, kept.passed.placed.number] = n, position * kept.mine
            if type(record) is Filled:
                places[place_of(record.epoch, record.placed)] = n, 0
            body = encode(written)
            crc = checksum(n, kind, of, position, count, at, after, low, ref, self.attempt, body)
            add((n, kind, of, position, count, at, after, low, ref, self.attempt, crc, body))
            size += len(body)
        self.last, self.logged = n, logged
        commit.size += size
        if replacing is not None:
            self._end_log(replacing, box, commit)

    def _come_back(self, batch: Batch) -> int:
        """The row in which an own batch was accepted, which passes now. 0: not known."""
        ref = self._own.pop((batch.group, batch.seq), 0)
        if not ref:
            self._elsewhere.discard(batch.group)
        return ref

    # --- a log that is replaced -------------------------------------------------------------------

    def _end_log(self, rest: DeliveryQueue, box: StoreBox, commit: Commit) -> None:
        """Enter what the box delivers after its records, up to the end of the member's log."""
        assert box.logged is not None
        self._relog(rest.rest(), box, commit)
        self._cut(box.logged, 0, commit)
        if self.logged != box.logged:
            raise AssertionError(f"the log ends at {self.logged}, not {box.logged}")

    def _relog(self, items: Iterable[LogItem], box: StoreBox, commit: Commit) -> None:
        """Enter deliveries that the log lacks, and replace those that it has in their place."""
        for item in items:
            if isinstance(item, Rollback):
                if item.attempt > self.attempt:
                    self._cut(item.position, item.annulled[-1][0], commit)
                    self.attempt = item.attempt
                    self._floors.append(Floor(item.attempt, item.position))
                    self.delivered = min(self.delivered, item.position)
                    self.confirmed = min(self.confirmed, item.position)
            elif isinstance(item, EpochOpened):
                self._cut(item.position, 0, commit)
            elif self._places.get(place_of(item.epoch, item.placed), (0, 0))[1] != item.position:
                self._cut(item.position - 1, 0, commit)
                self._append(item, box, commit)

    def _cut(self, position: int, annulled: int, commit: Commit) -> None:
        if position >= self.logged:
            return
        commit.cuts.append(Cut(self.last, len(commit.batches), position, annulled))
        self.logged = position
        for place, (n, at) in self._places.items():
            if at > position:
                self._places[place] = n, 0

    def _append(self, item: DeliveredBatch, box: StoreBox, commit: Commit) -> None:
        """Add a batch to the log that no engine of this site has passed. Its row has the payloads,
        even if the row of a fetched batch has them too."""
        if item.position != self.logged + 1:
            raise AssertionError(f"position {item.position} comes after {self.logged}")
        placed = item.placed
        self.last = n = self.last + 1
        body, count = encode(Filled(item.epoch, placed)), placed.batch.count
        header = (
            n, MINE | CAUGHT, item.epoch, item.position, count, box.at_ns, 0, self.low(n), 0,
            item.attempt,
        )  # fmt: skip
        commit.batches.append((*header, checksum(*header, body), body))
        commit.size += len(body)
        self.logged += count
        self._places[place_of(item.epoch, placed)] = n, item.position

    def _note_absences(self, anew: Anew, commit: Commit, at: int) -> None:
        """Add an event that says which sites are absent, since which epoch, and in which groups of
        the open epochs."""
        since = absent_in(anew.layout)
        if since:
            fields = {"since": since, "in": absences_in(anew.layout)}
            detail = json.dumps(fields, separators=(",", ":"))
            commit.events.append((ABSENT, self.logged, at, detail))

    # --- what the core needs ----------------------------------------------------------------------

    def _may_come_back(self, batch: Batch) -> bool:
        if batch.members:
            return self._site in batch.members
        return batch.group not in self._elsewhere

    def _forget(self, anew: Anew, commit: Commit) -> None:
        """Fold a checkpoint. From now on the core needs the rows that it names, and later rows."""
        accepted: Rows = {}
        passed: dict[int, deque[int]] = {}
        engines, rows = [], []
        pasts: dict[int, Vector] = {}
        for epoch, checkpoint in ((state.epoch, state.checkpoint) for state in anew.engines):
            taken = [
                self._needed_for(record.batch, accepted, pasts)
                for record in checkpoint.records
                if type(record) is Accepted
            ]
            held = passed[epoch] = self._passed.get(epoch) or deque()
            _keep_last(held, len(checkpoint.records) - len(taken))
            engines.append(EngineState(epoch, Checkpoint(checkpoint.state, ())))
            rows.append(EngineRows(steps(taken), steps(held)))
        aside, aside_rows = fold_aside(
            anew.aside,
            lambda batch: self._needed_for(batch, accepted, pasts),
            lambda place: self._places[place][0],
        )
        self._aside = aside_rows.first(self.last + 1)
        self._accepted = dict(sorted(accepted.items(), key=_row))
        self._passed, self._open = passed, (0, deque())
        self.upto = self.last
        self._expect_back()
        self._prune()
        anew = replace(anew, engines=tuple(engines), aside=aside)
        state = encode(FoldedState(anew, tuple(rows), pasts, aside_rows))
        marks = (self.upto, self.needed(), self.logged)
        commit.checkpoint = (*marks, checkpoint_checksum(*marks, state), state)
        commit.size += len(state)

    def _needed_for(self, batch: Batch, accepted: Rows, pasts: dict[int, Vector]) -> int:
        """The row of an own batch that the core still has. Note that the row is needed."""
        key = batch.group, batch.seq
        n, past = accepted[key] = self._accepted[key]
        if past != batch.past:
            pasts[n] = batch.past
        return n

    def _prune(self) -> None:
        """Forget the places of rows that the core no longer needs. This is done only now and
        then."""
        if len(self._places) > FEW + 2 * self._pruned:
            first = self.needed()
            self._places = {place: at for place, at in self._places.items() if at[0] >= first}
            self._pruned = len(self._places)

    def _refusal(self, n: int, own: OwnBatch, at: int) -> tuple[str, int, int, str]:
        fields = {"row": n, "group": own[0], "seq": own[1]}
        return REFUSED, self.logged, at, json.dumps(fields, separators=(",", ":"))

    def _expect_back(self) -> None:
        """A batch that is stable everywhere will not pass here any more: its row may be removed."""
        gone = [key for key in self._own if key not in self._accepted]
        for key in gone:
            del self._own[key]
            if not is_implicit(key[0]):
                if len(self._elsewhere) >= _ELSEWHERE:
                    self._elsewhere.clear()  # those that are still there are learnt again
                self._elsewhere.add(key[0])


def _row(item: tuple[OwnBatch, tuple[int, Vector]]) -> int:
    return item[1][0]


def _keep_last(rows: deque[int], count: int) -> None:
    """Keep the rows of the last `count` batches: an engine forgets the oldest first."""
    if len(rows) < count:
        raise AssertionError(f"a checkpoint keeps {count:,} records of {len(rows):,}")
    while len(rows) > count:
        rows.popleft()


def _passing_with(records: Sequence[MemberRecord], at: int) -> Kept | None:
    """The next record, if it says that the own batch which record `at` accepts has passed at
    once."""
    record, following = records[at], records[at + 1] if at + 1 < len(records) else None
    if type(record) is Accepted and type(following) is Kept:
        return following if following.passed.placed.batch is record.batch else None
    return None


def _without_payloads(record: Passed) -> Passed:
    placed = record.placed
    batch = replace(placed.batch, body=b"")
    return Passed(Placed(placed.key, placed.number, batch), record.source, record.from_parent)


def _copy_of(kept: Kept) -> int:
    """The part of a row's kind that says whether it is a copy."""
    if not kept.copy:
        return 0
    return COPY | (REPEATED if kept.known else LATE)
