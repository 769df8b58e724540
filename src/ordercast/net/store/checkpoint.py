"""The checkpoint in a store: the core's state, with the numbers of rows in place of its batches.

All batches of a checkpoint were written as rows when they came, so the checkpoint only names the
rows. Writing folds the batches away; a start reads the rows that are named and puts them back.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from ordercast.core.epochs.records import (
    NOTHING_ASIDE,
    Anew,
    Aside,
    EngineState,
    Filled,
    Kept,
    MemberRecord,
)
from ordercast.core.outbox import Accepted, Checkpoint, Passed, Record
from ordercast.model.errors import StoreCorrupt
from ordercast.model.messages import Batch, Placed, Vector
from ordercast.net.store.log_end import BatchPlace, place_of
from ordercast.net.store.rows import BatchRow, CheckpointRow, checkpoint_checksum, damaged

_T = TypeVar("_T")


class EngineRows(msgspec.Struct, frozen=True, array_like=True):
    """The rows of the records in an engine's checkpoint: the number of the first row, then the
    distance of each row from the one before."""

    accepted: list[int]
    passed: list[int]


class AsideRows(msgspec.Struct, frozen=True, array_like=True):
    """In the same form, the rows of the batches that a member holds beside its engines: the own
    batches and the log of its tail, parked batches, fetched batches, and batches that absent sites
    miss.
    """

    kept: list[int] = []
    log: list[int] = []
    parked: list[int] = []
    fetched: list[int] = []
    history: list[int] = []

    def first(self, otherwise: int) -> int:
        """The first row that is named, own batches apart: their rows are needed anyway.
        `otherwise`: if no row is named."""
        named = (n for some in (self.log, self.fetched, self.history) for n in accumulate(some))
        return min(named, default=otherwise)


class FoldedState(msgspec.Struct, frozen=True, array_like=True):
    """The state in a checkpoint row: an `Anew` without its batches, and the rows of these batches.
    `pasts`: by the row of an accepted batch, the batch's past if the row has another one (a new
    epoch empties the past)."""

    anew: Anew
    rows: tuple[EngineRows, ...]
    pasts: dict[int, Vector]
    aside: AsideRows


_decode = msgspec.msgpack.Decoder(FoldedState).decode


def read_checkpoint(db: sqlite3.Connection, path: Path) -> CheckpointRow | None:
    row = db.execute("SELECT upto, needed, position, crc, state FROM checkpoint").fetchone()
    if row is None:
        return None
    checkpoint = CheckpointRow(*row)
    if checkpoint_checksum(*checkpoint[:3], checkpoint.state) != checkpoint.crc:
        raise damaged(path, "the checkpoint")
    return checkpoint


def folded_state(checkpoint: CheckpointRow, path: Path) -> FoldedState:
    try:
        return _decode(checkpoint.state)
    except msgspec.DecodeError as error:
        raise StoreCorrupt(f"{path}: the checkpoint is not one of this version: {error}") from None


def released_by(anew: Anew) -> int:
    """The last position that a restart does not deliver again. A tail may have later messages in
    its log."""
    tail = anew.aside.tail
    return anew.position if tail is None else min(anew.position, tail.delivered)


def steps(rows: Iterable[int]) -> list[int]:
    """Each row as its distance from the row before, so that the numbers are small."""
    before = 0
    found = []
    for n in rows:
        found.append(n - before)
        before = n
    return found


def fold_aside(
    aside: Aside, own: Callable[[Batch], int], row: Callable[[BatchPlace], int]
) -> tuple[Aside, AsideRows]:
    """The state beside the engines without its batches, and their rows. `own` finds the row of an
    own batch, `row` that of a place."""
    if aside == NOTHING_ASIDE:
        return aside, AsideRows()

    def filled(batches: Iterable[Filled]) -> list[int]:
        return steps(row(place_of(one.epoch, one.placed)) for one in batches)

    tail = aside.tail
    rows = AsideRows(
        steps(own(batch) for batch in tail.kept) if tail else [],
        steps(row(place_of(tail.epoch, one)) for one in tail.log) if tail else [],
        steps(own(batch) for batch in aside.parked),
        filled(aside.fetched),
        filled(aside.history),
    )
    tail = replace(tail, log=(), kept=()) if tail else None
    return replace(aside, tail=tail, fetched=(), history=(), parked=()), rows


class Unfolding:
    """A folded state that is put together again: it takes the rows that it names, one by one."""

    def __init__(self, folded: FoldedState) -> None:
        self._folded = folded
        self._accepted = [list(accumulate(rows.accepted)) for rows in folded.rows]
        self._passed = [list(accumulate(rows.passed)) for rows in folded.rows]
        aside = folded.aside
        self._kept, self._parked = list(accumulate(aside.kept)), list(accumulate(aside.parked))
        self._log = list(accumulate(aside.log))
        self._fetched = list(accumulate(aside.fetched))
        self._history = list(accumulate(aside.history))
        own = _all([*self._accepted, self._kept, self._parked])
        self._own: dict[int, Accepted | None] = dict.fromkeys(own)
        self._held: dict[int, Passed | None] = dict.fromkeys(_all(self._passed))
        beside = _all([self._log, self._fetched, self._history])
        self._beside: dict[int, Filled | None] = dict.fromkeys(beside)

    def __contains__(self, n: int) -> bool:
        return n in self._own or n in self._held or n in self._beside

    def first_aside(self, otherwise: int) -> int:
        return self._folded.aside.first(otherwise)

    def take(self, row: BatchRow, records: Sequence[MemberRecord]) -> list[MemberRecord]:
        """Take a row. Returns those of its records that an engine's checkpoint holds, as the row
        has them."""
        taken: list[MemberRecord] = []
        for record in records:
            if isinstance(record, Accepted) and row.n in self._own:
                past = self._folded.pasts.get(row.n, record.batch.past)
                self._own[row.n] = Accepted(replace(record.batch, past=past))
                taken.append(record)
            elif isinstance(record, Kept) and row.n in self._held:
                self._held[row.n] = record.passed
                taken.append(record)
            if row.n in self._beside and isinstance(record, (Kept, Filled)):
                self._beside[row.n] = Filled(record.epoch, placed_in(record))
        return taken

    def anew(self) -> Anew:
        """The checkpoint with its batches."""
        engines = []
        rows = zip(self._folded.anew.engines, self._accepted, self._passed, strict=True)
        for engine, accepted, passed in rows:
            records: list[Record] = [*_taken(self._own, accepted)]
            records.extend(_taken(self._held, passed))
            checkpoint = Checkpoint(engine.checkpoint.state, tuple(records))
            engines.append(EngineState(engine.epoch, checkpoint))
        return replace(self._folded.anew, engines=tuple(engines), aside=self._aside())

    def _aside(self) -> Aside:
        aside = self._folded.anew.aside
        tail = aside.tail
        if tail is not None:
            log = tuple(one.placed for one in _taken(self._beside, self._log))
            kept = tuple(one.batch for one in _taken(self._own, self._kept))
            tail = replace(tail, log=log, kept=kept)
        return replace(
            aside,
            tail=tail,
            fetched=tuple(_taken(self._beside, self._fetched)),
            history=tuple(_taken(self._beside, self._history)),
            parked=tuple(one.batch for one in _taken(self._own, self._parked)),
        )


def placed_in(record: Kept | Filled) -> Placed:
    return record.passed.placed if isinstance(record, Kept) else record.placed


def _all(lists: Iterable[Iterable[int]]) -> Iterable[int]:
    return (n for rows in lists for n in rows)


def _taken(found: Mapping[int, _T | None], rows: Iterable[int]) -> Iterable[_T]:
    for n in rows:
        record = found[n]
        assert record is not None  # the row has not changed since the checkpoint was written
        yield record
