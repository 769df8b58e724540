"""What a start finds in a store: the last checkpoint with its records, and the records after it.

The checkpoint names the rows of the records that it holds. Other rows before it are kept for the
application; a start only verifies them.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ordercast.core.epochs.records import Anew, Filled, Kept, MemberRecord
from ordercast.core.outbox import Accepted
from ordercast.model.groups import Group
from ordercast.model.messages import Vector
from ordercast.net.store.checkpoint import Unfolding, folded_state, placed_in, read_checkpoint
from ordercast.net.store.file import missing_row, read_state, records_of
from ordercast.net.store.log_end import BatchPlace, Floor, place_of
from ordercast.net.store.reader_rows import SELECT_READERS, ReaderRow, readers_in
from ordercast.net.store.rows import (
    CAUGHT,
    FIRST_AND_LAST,
    MINE,
    PASSED,
    SELECT_BATCH,
    BatchRow,
    CheckpointRow,
    Value,
    verify,
)

_ROLLBACKS = "SELECT position, detail FROM events WHERE kind = 'rollback' ORDER BY n"
NO_CHECKPOINT = CheckpointRow(0, 1, 0, 0, b"")

OwnBatch: TypeAlias = tuple[Group, int]
"""A batch of this site: group and seq."""


@dataclass(slots=True)
class RecoveredState:
    """What a start needs: the records for the core, and the books for the writer."""

    state: dict[str, Value]
    anew: Anew | None = None
    checkpoint: CheckpointRow = NO_CHECKPOINT
    records: list[MemberRecord] = field(default_factory=list)  # those after the checkpoint
    # Rows that the core needs: (row, past) of own batches by group and seq, in the order of
    # rows; and the rows of the batches that passed, by epoch.
    accepted: dict[OwnBatch, tuple[int, Vector]] = field(default_factory=dict)
    passed: dict[int, list[int]] = field(default_factory=dict)
    own: dict[OwnBatch, int] = field(default_factory=dict)  # accepted, not passed here
    # Of batches that passed, were fetched or caught up with: the row, and the position in the
    places: dict[BatchPlace, tuple[int, int]] = field(default_factory=dict)
    aside: int = 1 << 62  # the first row of the batches beside the engines
    floors: list[Floor] = field(default_factory=list)
    readers: dict[str, ReaderRow] = field(default_factory=dict)
    first: int = 1  # the first and the last row
    last: int = 0
    logged: int = 0

    def restored(self) -> list[MemberRecord]:
        return self.records if self.anew is None else [self.anew, *self.records]


def recover(db: sqlite3.Connection, path: Path) -> RecoveredState:
    """Read the store. The checksum of every row is verified."""
    found = RecoveredState(read_state(db, path))
    checkpoint = read_checkpoint(db, path)
    folded: Unfolding | None = None
    if checkpoint is not None:
        found.checkpoint = checkpoint
        found.logged = checkpoint.position
        folded = Unfolding(folded_state(checkpoint, path))
    first, last = db.execute(FIRST_AND_LAST).fetchone()
    upto = found.checkpoint.upto
    found.first, found.last = (upto + 1, upto) if last is None else (first, last)
    expected = found.checkpoint.needed
    back: set[int] = set()  # rows whose batches have passed here
    for values in db.execute(f"{SELECT_BATCH} WHERE n >= ? ORDER BY n", (expected,)):
        row = BatchRow(*values)
        if row.n != expected:
            raise missing_row(path, expected)
        expected += 1
        if row.n > upto:
            records = records_of(db, row, path)
            if not row.kind & CAUGHT:
                found.records.extend(records)
            _note(found, row, records)
            _note_places(found, row, records)
        elif folded is not None and row.n in folded:
            records = records_of(db, row, path)
            _note(found, row, folded.take(row, records))
            _note_places(found, row, records)
        else:
            verify(row, path)
        if row.ref:
            back.add(row.ref)
    if expected <= upto:
        raise missing_row(path, expected)
    found.own = {key: n for key, n in found.own.items() if n not in back}
    if folded is not None:
        found.anew = folded.anew()
        found.aside = folded.first_aside(upto + 1)
    found.floors = [
        Floor(json.loads(detail)["attempt"], position)
        for position, detail in db.execute(_ROLLBACKS)
    ]
    found.readers = readers_in(db.execute(SELECT_READERS), path)
    return found


def _note(found: RecoveredState, row: BatchRow, records: Sequence[MemberRecord]) -> None:
    """Enter a row into the books of the writer."""
    for record in records:
        if isinstance(record, Accepted):
            batch = record.batch
            key = batch.group, batch.seq
            found.accepted.pop(key, None)  # an earlier batch with this seq was refused
            found.own.pop(key, None)
            found.accepted[key] = row.n, batch.past
            if not row.kind & PASSED:
                found.own[key] = row.n
        elif isinstance(record, Kept):
            found.passed.setdefault(record.epoch, []).append(row.n)
    if row.kind & MINE and row.n > found.checkpoint.upto:
        found.logged = row.position + row.messages - 1


def _note_places(found: RecoveredState, row: BatchRow, records: Sequence[MemberRecord]) -> None:
    for record in records:
        if isinstance(record, (Kept, Filled)):
            at = row.position if row.kind & MINE else 0
            found.places[place_of(record.epoch, placed_in(record))] = row.n, at
