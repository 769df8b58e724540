"""The writer's books: which number, position and reference each record gets, which rows are needed.

Only the writer thread uses a ledger, so nothing here is locked. What it works out for a commit is
plain data that can be tried again when the disk is full.
"""

import json
from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ordercast.core.epochs.packing import included_in
from ordercast.core.epochs.records import REFUSED, Anew, EngineState, Kept
from ordercast.core.outbox import Accepted, Checkpoint, Passed
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import is_implicit
from ordercast.model.messages import Batch, Placed, Vector
from ordercast.net.found import Found, Own
from ordercast.net.rows import (
    ACCEPTED,
    MINE,
    OTHER,
    PASSED,
    EngineRows,
    Marked,
    Value,
    checkpoint_checksum,
    checksum,
    encode,
    state_row,
)
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

    def __init__(self, site: Site, found: Found) -> None:
        self._site = site
        self.last = found.last  # row
        self.logged = found.logged
        self.delivered = self.delivered_on_disk = int(found.state["delivered"])
        self.confirmed = int(found.state["confirmed"])
        # Rows that the core may still need: of each own batch that was accepted, with the past that
        # the row says; of the batches that passed in each epoch.
        self._accepted = found.accepted
        self._passed = {epoch: deque(rows) for epoch, rows in found.passed.items()}
        self._open: tuple[int, deque[int]] = (0, deque())
        self._own = found.own  # rows of own batches that are expected back, the oldest first
        self._elsewhere: set[Group] = set()  # groups whose messages do not come back here
        self.upto = found.mark.upto

    def take(self, boxes: Sequence[Written], commit: Commit) -> None:
        confirmed = self.confirmed
        for box in boxes:
            if box.records:
                self._records(box, commit)
            if box.forget is not None:
                self._forget(box.forget, commit, box.at_ns)
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
        for n, _ in self._accepted.values():
            if n < first:
                first = n
            break  # they are in the order of their rows
        for rows in self._passed.values():
            if rows and rows[0] < first:
                first = rows[0]
        return first

    def _records(self, box: Written, commit: Commit) -> None:
        own, accepted = self._own, self._accepted
        oldest = next(iter(own.values()), 0)  # row of the first own batch that may be referred to
        at, after, add = box.at_ns, box.after_position, commit.batches.append
        records = box.records
        n, logged = self.last, self.logged
        size = skip = 0
        epoch, rows = self._open  # the epoch of the last batch that passed, and its rows
        for i, record in enumerate(records):
            if skip:
                skip = 0
                continue
            n += 1
            position, ref = logged + 1, 0
            low = oldest or n
            kept: Kept | None = None
            if type(record) is Kept:
                kept, kind = record, PASSED
                batch = record.passed.placed.batch
                written: object = record.passed
                if batch.origin == self._site:
                    ref = own.pop((batch.group, batch.seq), 0)
                    if ref:
                        written = _without_payloads(record.passed)
                        if ref == oldest:
                            oldest = next(iter(own.values()), 0)
                    elif batch.group in self._elsewhere:
                        self._elsewhere.remove(batch.group)
            elif type(record) is Accepted:
                batch, kind, written = record.batch, ACCEPTED, record
                key = batch.group, batch.seq
                if key in accepted:  # else it would not be used again
                    commit.events.append(self._refused(accepted.pop(key)[0], key, at))
                accepted[key] = n, batch.past
                following = records[i + 1] if i + 1 < len(records) else None
                if type(following) is Kept and following.passed.placed.batch is batch:
                    skip, kind, kept, written = 1, ACCEPTED | PASSED, following, following.passed
                elif self._may_come_back(batch):
                    if own.pop(key, 0) == oldest:
                        oldest = next(iter(own.values()), 0)
                    own[key] = n
                    oldest = oldest or n
            else:
                kind, written = OTHER, record
            if kept is None:
                of, count = 0, 0 if kind == OTHER else batch.count
            else:
                of, count = kept.epoch, batch.count
                if of != epoch:
                    epoch, rows = self._open = of, self._passed.setdefault(of, deque())
                rows.append(n)
                if kept.mine:
                    kind |= MINE
                    logged += count
            body = encode(written)
            crc = checksum(n, kind, of, position, count, at, after, low, ref, body)
            add((n, kind, of, position, count, at, after, low, ref, crc, body))
            size += len(body)
        self.last, self.logged = n, logged
        commit.size += size

    def _may_come_back(self, batch: Batch) -> bool:
        if batch.members:
            return self._site in batch.members
        return batch.group not in self._elsewhere

    def _forget(self, anew: Anew, commit: Commit, at: int) -> None:
        """The core needs the rows of the records that its engines hold, and what comes later."""
        accepted: dict[Own, tuple[int, Vector]] = {}
        passed: dict[int, deque[int]] = {}
        engines, rows = [], []
        pasts: dict[int, Vector] = {}
        for epoch, checkpoint in ((state.epoch, state.checkpoint) for state in anew.engines):
            taken = []
            for record in checkpoint.records:
                if type(record) is Accepted:
                    batch = record.batch
                    key = batch.group, batch.seq
                    n, past = accepted[key] = self._accepted[key]
                    taken.append(n)
                    if past != batch.past:
                        pasts[n] = batch.past
            held = passed[epoch] = self._passed.get(epoch) or deque()
            _keep_last(held, len(checkpoint.records) - len(taken))
            engines.append(EngineState(epoch, Checkpoint(checkpoint.state, ())))
            rows.append(EngineRows(_steps(taken), _steps(held)))
        for key in self._lost(anew, accepted):
            commit.events.append(self._refused(self._accepted[key][0], key, at))
        self._accepted = dict(sorted(accepted.items(), key=_row))
        self._passed, self._open = passed, (0, deque())
        self.upto = self.last
        self._expect_back()
        state = encode(Marked(replace(anew, engines=tuple(engines)), tuple(rows), pasts))
        marks = (self.upto, self.needed(), self.logged)
        commit.checkpoint = (*marks, checkpoint_checksum(*marks, state), state)
        commit.size += len(state)

    def _lost(self, anew: Anew, kept: Container[Own]) -> list[Own]:
        """Own batches that no epoch has taken and none will: their groups are gone."""
        stable: dict[Group, int] = {}
        for engine in anew.engines:
            seqs: dict[Group, int] = engine.checkpoint.state["own_seqs"]  # type: ignore[assignment]
            for group, seq in seqs.items():
                stable[group] = max(seq, stable.get(group, 0))
        gone = [key for key in self._accepted if key not in kept]
        lost = [(group, seq) for group, seq in gone if seq > stable.get(group, 0)]
        if not lost:
            return []
        included = {
            group: seq
            for origin, incarnation, group, seq in included_in(anew.layout)
            if (origin, incarnation) == (self._site, anew.incarnation)
        }
        return [(group, seq) for group, seq in lost if seq > included.get(group, 0)]

    def _refused(self, n: int, own: Own, at: int) -> tuple[str, int, int, str]:
        told = {"row": n, "group": own[0], "seq": own[1]}
        return REFUSED, self.logged, at, json.dumps(told, separators=(",", ":"))

    def _expect_back(self) -> None:
        """What is stable everywhere comes no more; else its row would be held for ever."""
        gone = [key for key in self._own if key not in self._accepted]
        for key in gone:
            del self._own[key]
            if not is_implicit(key[0]):
                self._elsewhere.add(key[0])


def _row(item: tuple[Own, tuple[int, Vector]]) -> int:
    return item[1][0]


def _keep_last(rows: deque[int], count: int) -> None:
    """An engine forgets what passed in its epoch from the start."""
    if len(rows) < count:
        raise AssertionError(f"a checkpoint keeps {count} records of {len(rows)}")
    while len(rows) > count:
        rows.popleft()


def _steps(rows: Iterable[int]) -> list[int]:
    before = 0
    steps = []
    for n in rows:
        steps.append(n - before)
        before = n
    return steps


def _without_payloads(record: Passed) -> Passed:
    placed = record.placed
    batch = replace(placed.batch, body=b"")
    return Passed(Placed(placed.key, placed.number, batch), record.source, record.from_parent)
