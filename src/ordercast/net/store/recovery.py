"""What a start finds in a store: the last checkpoint, its records put back, and those after it.

The checkpoint names the rows of the records that it holds; what else lies before it is kept for the
application, and only looked at.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from ordercast.core.epochs.records import Anew, Aside, EngineState, Filled, Kept, MemberRecord
from ordercast.core.outbox import Accepted, Checkpoint, Passed, Record
from ordercast.model.groups import Group
from ordercast.model.messages import Placed, Vector
from ordercast.net.store.file import lacks, marked_in, read_mark, read_state, records_of
from ordercast.net.store.log_end import Floor, Place, place_of
from ordercast.net.store.rows import (
    CAUGHT,
    FIRST_AND_LAST,
    MINE,
    PASSED,
    SELECT_BATCH,
    CheckpointRow,
    Marked,
    Row,
    Value,
    verify,
)

_ROLLBACKS = "SELECT position, detail FROM events WHERE kind = 'rollback' ORDER BY n"
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
    # Of batches that passed, were fetched or caught up with: row, and position in the log or 0.
    places: dict[Place, tuple[int, int]] = field(default_factory=dict)
    aside: int = 1 << 62  # the first row needed for what lies beside the engines
    floors: list[Floor] = field(default_factory=list)
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
            if not row.kind & CAUGHT:
                found.records.extend(records)
            _note(found, row, records)
            _note_places(found, row, records)
        elif wanted is not None and row.n in wanted:
            records = records_of(db, row, path)
            _note(found, row, wanted.take(row, records))
            _note_places(found, row, records)
        else:
            verify(row, path)
        if row.ref:
            back.add(row.ref)
    if expected <= upto:
        raise lacks(path, expected)
    found.own = {key: n for key, n in found.own.items() if n not in back}
    if wanted is not None:
        found.anew = wanted.anew()
        found.aside = wanted.first_aside(upto + 1)
    found.floors = [
        Floor(json.loads(detail)["attempt"], position)
        for position, detail in db.execute(_ROLLBACKS)
    ]
    return found


class _Wanted:
    """The rows that a checkpoint names, and what they say."""

    def __init__(self, marked: Marked) -> None:
        self._marked = marked
        self._accepted = [list(accumulate(rows.accepted)) for rows in marked.rows]
        self._passed = [list(accumulate(rows.passed)) for rows in marked.rows]
        aside = marked.aside
        self._kept, self._parked = list(accumulate(aside.kept)), list(accumulate(aside.parked))
        self._log = list(accumulate(aside.log))
        self._fetched, self._history = (
            list(accumulate(aside.fetched)), list(accumulate(aside.history)),
        )  # fmt: skip
        own = _all([*self._accepted, self._kept, self._parked])
        self._own: dict[int, Accepted | None] = dict.fromkeys(own)
        self._held: dict[int, Passed | None] = dict.fromkeys(_all(self._passed))
        beside = _all([self._log, self._fetched, self._history])
        self._beside: dict[int, Filled | None] = dict.fromkeys(beside)

    def __contains__(self, n: int) -> bool:
        return n in self._own or n in self._held or n in self._beside

    def first_aside(self, otherwise: int) -> int:
        return min(self._beside, default=otherwise)

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
            if row.n in self._beside and isinstance(record, (Kept, Filled)):
                self._beside[row.n] = Filled(record.epoch, _placed(record))
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
        return replace(self._marked.anew, engines=tuple(engines), aside=self._aside())

    def _aside(self) -> Aside:
        aside = self._marked.anew.aside
        tail = aside.tail
        if tail is not None:
            log = tuple(one.placed for one in _given(self._beside, self._log))
            kept = tuple(one.batch for one in _given(self._own, self._kept))
            tail = replace(tail, log=log, kept=kept)
        return replace(
            aside,
            tail=tail,
            fetched=tuple(_given(self._beside, self._fetched)),
            history=tuple(_given(self._beside, self._history)),
            parked=tuple(one.batch for one in _given(self._own, self._parked)),
        )


def _placed(record: Kept | Filled) -> Placed:
    return record.passed.placed if isinstance(record, Kept) else record.placed


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
    if row.kind & MINE and row.n > found.mark.upto:
        found.logged = row.position + row.messages - 1


def _note_places(found: Found, row: Row, records: Sequence[MemberRecord]) -> None:
    for record in records:
        if isinstance(record, (Kept, Filled)):
            at = row.position if row.kind & MINE else 0
            found.places[place_of(record.epoch, _placed(record))] = row.n, at
