"""The writer's books: which number, position and reference each record gets, which rows are needed.

Only the writer thread uses a ledger, so nothing here is locked. What it works out for a commit is
plain data that can be tried again when the disk is full.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ordercast.core.outbox import Accepted, Checkpoint, Passed, Record
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Placed
from ordercast.net.rows import (
    ACCEPTED,
    MINE,
    NOTE,
    PASSED,
    Value,
    checkpoint_checksum,
    checksum,
    encode,
    state_row,
)
from ordercast.net.store_file import Found
from ordercast.net.written import Written


@dataclass(slots=True)
class Commit:
    """The rows of one transaction."""

    batches: list[tuple[int | bytes, ...]] = field(default_factory=list)
    checkpoint: tuple[int | bytes, ...] | None = None
    state: list[tuple[str, Value, int]] = field(default_factory=list)
    requests: list[tuple[bytes, int, Group, int, int, int]] = field(default_factory=list)
    answered: list[tuple[bytes, int]] = field(default_factory=list)
    events: list[tuple[str, int, int, str]] = field(default_factory=list)
    size: int = 0  # bytes, roughly

    def __bool__(self) -> bool:
        return bool(
            self.batches
            or self.checkpoint
            or self.state
            or self.requests
            or self.answered
            or self.events
        )


class Ledger:
    """`logged`, `delivered`, `confirmed`: the last positions, durable once the commit is."""

    def __init__(self, site: Site, mine: Callable[[Batch], bool], found: Found) -> None:
        self._site = site
        self._mine = mine
        self.last = found.last  # row
        self.logged = found.logged
        self.delivered = self.delivered_on_disk = int(found.state["delivered"])
        self.confirmed = int(found.state["confirmed"])
        self._accepted = deque(found.accepted)  # rows that the core may still need
        self._passed = deque(found.passed)
        self._own: OrderedDict[tuple[Group, int], int] = OrderedDict(found.own)
        self.upto = found.mark.upto

    def take(self, boxes: Sequence[Written], commit: Commit) -> None:
        confirmed = self.confirmed
        for box in boxes:
            if box.records:
                self._records(box, commit)
            if box.forget is not None:
                self._forget(box.forget, commit)
            if box.delivered > self.delivered:
                self.delivered = box.delivered
            if box.confirmed is not None and box.confirmed > confirmed:
                confirmed = box.confirmed
            if box.requests:
                at = box.at_ns
                commit.requests.extend((*request, at) for request in box.requests)
            if box.answered:
                commit.answered.extend(box.answered)
            if box.events:
                at = box.at_ns
                commit.events.extend((kind, place, at, told) for kind, place, told in box.events)
        if confirmed > self.confirmed:
            self.confirmed = confirmed
            commit.state.append(state_row("confirmed", confirmed))
        if commit and self.delivered > self.delivered_on_disk:
            self.cursor(commit)

    def cursor(self, commit: Commit) -> None:
        """`delivered` goes with a commit that there is anyway, or when nothing else is to do."""
        self.delivered_on_disk = self.delivered
        commit.state.append(state_row("delivered", self.delivered))

    def low(self) -> int:
        """No row written from now on refers to one before this."""
        for n in self._own.values():
            return n
        return self.last + 1

    def needed(self) -> int:
        """The first row that the core may still need, or the next one."""
        first = self.upto + 1
        for rows in (self._accepted, self._passed):
            if rows and rows[0] < first:
                first = rows[0]
        return first

    def _records(self, box: Written, commit: Commit) -> None:
        own = self._own
        oldest = next(iter(own.values()), 0)  # row of the first own batch that may be referred to
        at, after, add = box.at_ns, box.after_position, commit.batches.append
        records = box.records
        n, logged = self.last, self.logged
        size = skip = 0
        for i, record in enumerate(records):
            if skip:
                skip = 0
                continue
            n += 1
            position, ref = logged + 1, 0
            low = oldest or n
            written: Record = record
            if type(record) is Accepted:
                batch = record.batch
                kind = ACCEPTED
                self._accepted.append(n)
                following = records[i + 1] if i + 1 < len(records) else None
                if type(following) is Passed and following.placed.batch is batch:
                    skip, kind, written = 1, ACCEPTED | PASSED, following
                    self._passed.append(n)
                elif self._mine(batch):  # it will come back
                    own[batch.group, batch.seq] = n
                    oldest = oldest or n
            elif type(record) is not Passed:
                body = encode(record)
                crc = checksum(n, NOTE, position, 0, at, after, low, 0, body)
                add((n, NOTE, position, 0, at, after, low, 0, crc, body))
                size += len(body)
                continue
            else:
                batch = record.placed.batch
                kind = PASSED
                self._passed.append(n)
                if batch.origin == self._site:
                    ref = own.pop((batch.group, batch.seq), 0)
                    if ref:
                        written = _without_payloads(record)
                        if ref == oldest:
                            oldest = next(iter(own.values()), 0)
            if kind & PASSED and self._mine(batch):
                kind |= MINE
                logged += batch.count
            body = encode(written)
            count = batch.count
            crc = checksum(n, kind, position, count, at, after, low, ref, body)
            add((n, kind, position, count, at, after, low, ref, crc, body))
            size += len(body)
        self.last, self.logged = n, logged
        commit.size += size

    def _forget(self, checkpoint: Checkpoint, commit: Commit) -> None:
        """The core needs only the last so many accepted and passed rows of those written so far."""
        accepted = sum(type(record) is Accepted for record in checkpoint.records)
        passed = len(checkpoint.records) - accepted
        _keep_last(self._accepted, accepted)
        _keep_last(self._passed, passed)
        upto = self.upto = self.last
        accepted_from = self._accepted[0] if accepted else upto + 1
        passed_from = self._passed[0] if passed else upto + 1
        own = self._own
        while own:  # what is stable everywhere comes no more; else its row would be held for ever
            key, n = next(iter(own.items()))
            if n >= accepted_from:
                break
            del own[key]
        state = encode(checkpoint.state)
        marks = (upto, accepted_from, passed_from, self.logged)
        commit.checkpoint = (*marks, checkpoint_checksum(*marks, state), state)
        commit.size += len(state)


def _keep_last(rows: deque[int], count: int) -> None:
    if len(rows) < count:
        raise AssertionError(f"a checkpoint keeps {count} records of {len(rows)}")
    while len(rows) > count:
        rows.popleft()


def _without_payloads(record: Passed) -> Passed:
    placed = record.placed
    batch = replace(placed.batch, body=b"")
    return Passed(Placed(placed.key, placed.number, batch), record.source, record.from_parent)
