"""What a start finds in a store: the last checkpoint, its records put back, and those after it.

The checkpoint names the rows of the records that it holds; what else lies before it is kept for the
application, and only looked at.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from ordercast.core.epochs.records import Anew, EngineState, Kept, MemberRecord
from ordercast.core.outbox import Accepted, Checkpoint, Passed, Record
from ordercast.model.groups import Group
from ordercast.model.messages import Vector
from ordercast.net.rows import (
    FIRST_AND_LAST,
    PASSED,
    SELECT_BATCH,
    CheckpointRow,
    Marked,
    Row,
    Value,
    verify,
)
from ordercast.net.store_file import lacks, marked_in, read_mark, read_state, records_of

NO_MARK = CheckpointRow(0, 1, 0, 0, b"")

Own: TypeAlias = tuple[Group, int]
"""A batch of this site: group and seq."""

_T = TypeVar("_T")


@dataclass(slots=True)
class Found:
    state: dict[str, Value]
    anew: Anew | None = None
    mark: CheckpointRow = NO_MARK
    records: list[MemberRecord] = field(default_factory=list)  # after the checkpoint
    # Rows that the core needs: (row, past) of own batches by group and seq, in the order of rows;
    # those that passed in each epoch.
    accepted: dict[Own, tuple[int, Vector]] = field(default_factory=dict)
    passed: dict[int, list[int]] = field(default_factory=dict)
    own: dict[Own, int] = field(default_factory=dict)  # accepted, not passed here
    first: int = 1  # row
    last: int = 0
    logged: int = 0

    def restored(self) -> list[MemberRecord]:
        return self.records if self.anew is None else [self.anew, *self.records]


def find(db: sqlite3.Connection, path: Path) -> Found:
    """Everything that a start needs, each row's checksum verified."""
    found = Found(read_state(db, path))
    mark = read_mark(db, path)
    wanted: _Wanted | None = None
    if mark is not None:
        found.mark = mark
        found.logged = mark.position
        wanted = _Wanted(marked_in(mark, path))
    first, last = db.execute(FIRST_AND_LAST).fetchone()
    upto = found.mark.upto
    found.first, found.last = (upto + 1, upto) if last is None else (first, last)
    expected = found.mark.needed
    back: set[int] = set()  # rows whose batches have passed here
    for values in db.execute(f"{SELECT_BATCH} WHERE n >= ? ORDER BY n", (expected,)):
        row = Row(*values)
        if row.n != expected:
            raise lacks(path, expected)
        expected += 1
        if row.n > upto:
            records = records_of(db, row, path)
            found.records.extend(records)
            _note(found, row, records)
        elif wanted is not None and row.n in wanted:
            _note(found, row, wanted.take(row, records_of(db, row, path)))
        else:
            verify(row, path)
        if row.ref:
            back.add(row.ref)
    if expected <= upto:
        raise lacks(path, expected)
    found.own = {key: n for key, n in found.own.items() if n not in back}
    if wanted is not None:
        found.anew = wanted.anew()
    return found


class _Wanted:
    """The rows that a checkpoint names, and what they say."""

    def __init__(self, marked: Marked) -> None:
        self._marked = marked
        self._accepted = [list(accumulate(rows.accepted)) for rows in marked.rows]
        self._passed = [list(accumulate(rows.passed)) for rows in marked.rows]
        self._own: dict[int, Accepted | None] = dict.fromkeys(_all(self._accepted))
        self._held: dict[int, Passed | None] = dict.fromkeys(_all(self._passed))

    def __contains__(self, n: int) -> bool:
        return n in self._own or n in self._held

    def take(self, row: Row, records: Sequence[MemberRecord]) -> list[MemberRecord]:
        """Those of a row's records that the checkpoint means, as the row has them."""
        taken: list[MemberRecord] = []
        for record in records:
            if isinstance(record, Accepted) and row.n in self._own:
                past = self._marked.pasts.get(row.n, record.batch.past)
                self._own[row.n] = Accepted(replace(record.batch, past=past))
                taken.append(record)
            elif isinstance(record, Kept) and row.n in self._held:
                self._held[row.n] = record.passed
                taken.append(record)
        return taken

    def anew(self) -> Anew:
        """The checkpoint with its records."""
        engines = []
        rows = zip(self._marked.anew.engines, self._accepted, self._passed, strict=True)
        for engine, accepted, passed in rows:
            records: list[Record] = [*_given(self._own, accepted)]
            records.extend(_given(self._held, passed))
            checkpoint = Checkpoint(engine.checkpoint.state, tuple(records))
            engines.append(EngineState(engine.epoch, checkpoint))
        return replace(self._marked.anew, engines=tuple(engines))


def _all(lists: Iterable[Iterable[int]]) -> Iterable[int]:
    return (n for rows in lists for n in rows)


def _given(found: Mapping[int, _T | None], rows: Iterable[int]) -> Iterable[_T]:
    for n in rows:
        record = found[n]
        assert record is not None  # the row is what it was when the checkpoint was written
        yield record


def _note(found: Found, row: Row, records: Sequence[MemberRecord]) -> None:
    """For the books of the writer."""
    for record in records:
        if isinstance(record, Accepted):
            batch = record.batch
            key = batch.group, batch.seq
            found.accepted.pop(key, None)  # a number that was refused, and was used again
            found.own.pop(key, None)
            found.accepted[key] = row.n, batch.past
            if not row.kind & PASSED:
                found.own[key] = row.n
        elif isinstance(record, Kept):
            found.passed.setdefault(record.epoch, []).append(row.n)
            if record.mine and row.n > found.mark.upto:
                found.logged = row.position + row.messages - 1
