"""Reading the ordered log of a store while it is written, from any thread.

The reader has its own connection. Rows are numbered without holes and their positions never fall,
so a position is found by binary search.
"""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.errors import Error, Forgotten
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch, Placed
from ordercast.net.store.events import (
    ENTERED,
    Openings,
    first_openings,
    needed_entries,
    parse_rollback,
)
from ordercast.net.store.file import connect_to_read, logged_in, store_error, whole_from
from ordercast.net.store.rows import FIRST_AND_LAST, MINE, SELECT_BATCH, BatchRow

READ_BYTES = 1024 * 1024  # of bodies that are read at once
_FROM = f"{SELECT_BATCH} WHERE n >= ? AND kind & {MINE} ORDER BY n"
_OPENED = "SELECT n, position, detail FROM events WHERE kind = 'open'"
_LAST_OPENED = f"{_OPENED} ORDER BY n DESC"
_OPENED_AT = f"{_OPENED} AND position BETWEEN ? AND ? ORDER BY n"
_ENTERED = f"SELECT n, position, detail FROM events WHERE kind = '{ENTERED}' ORDER BY n DESC"
_ROLLBACKS = "SELECT position, detail FROM events WHERE kind = 'rollback' ORDER BY n"


class LoggedTime(NamedTuple):
    """When a batch was logged: `messages` of it, the first at `position`."""

    position: int
    messages: int
    group: Group
    logged_ns: int


class LogReader:
    """After `close` it does not open the file again: the file may be another process's by then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._closed = False
        self._next = (0, 0)  # a position, and the row where the batch with it begins or follows

    def first(self) -> int:
        with self._lock:
            return _first(self._connection())

    def read(
        self, start: int, most_messages: int, most_bytes: int = READ_BYTES
    ) -> list[DeliveredBatch]:
        """Batches from position `start` on, until one of the limits is reached. At least one, if
        there is any."""
        return [
            DeliveredBatch(row.position, row.epoch, placed, row.attempt)
            for row, placed in self._rows(start, most_messages, most_bytes)
        ]

    def times(self, start: int, most_messages: int) -> list[LoggedTime]:
        """When the batches were logged that `read` gives."""
        return [
            LoggedTime(row.position, row.messages, placed.batch.group, row.at_ns)
            for row, placed in self._rows(start, most_messages, READ_BYTES)
        ]

    def _rows(
        self, start: int, most_messages: int, most_bytes: int
    ) -> list[tuple[BatchRow, Placed]]:
        try:
            with self._lock:
                return self._read(max(start, 1), most_messages, most_bytes)
        except sqlite3.Error as error:
            raise store_error(self._path, error) from None

    def opened(self) -> list[EpochOpened]:
        """The last epochs that opened, each once: a restart may have written an opening again. They
        have `OPENED_GROUPS` groups together, or it is one."""
        with self._lock:
            found, _ = first_openings(self._connection().execute(_LAST_OPENED))
        return found[::-1]

    def openings(self, start: int, end: int, after: int = 0) -> Openings:
        """The epochs later than `after` that opened at a position from `start` to `end`, as far as
        they are kept. Only the first ones, with `OPENED_GROUPS` groups together, or one; and
        whether these are all."""
        with self._lock:
            return first_openings(self._connection().execute(_OPENED_AT, (start, end)), after)

    def entered(self) -> list[EpochOpened]:
        """What is kept of openings for sites that ask for a group's state, as far as it is among
        the last of a group."""
        with self._lock:
            found = [entry for _, entry in needed_entries(self._connection().execute(_ENTERED))]
        return found[::-1]

    def rollbacks(self) -> list[Rollback]:
        with self._lock:
            rows = self._connection().execute(_ROLLBACKS).fetchall()
        return [parse_rollback(position, detail) for position, detail in rows]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._db is not None:
                self._db.close()
                self._db = None

    def _connection(self) -> sqlite3.Connection:
        if self._closed:
            raise Error(f"{self._path}: the store is closed")
        if self._db is None:
            self._db = connect_to_read(self._path)
        return self._db

    def _read(self, start: int, messages: int, size: int) -> list[tuple[BatchRow, Placed]]:
        db = self._connection()
        db.execute("BEGIN")  # so that all is read from one state of the file
        try:
            n = self._next[1] if self._next[0] == start else self._locate(db, start)
            found: list[tuple[BatchRow, Placed]] = []
            # A cursor that is left open keeps this connection at the present state of the file, for
            # as long as somebody has the error, and with it this frame.
            with closing(db.execute(_FROM, (n,))) as rows:
                for values in rows:
                    row = BatchRow(*values)
                    if row.position + row.messages <= start:
                        continue
                    if (not found and row.position > start) or self._refers_to_gone(db, row):
                        raise self._forgotten(start, _first(db))
                    placed = logged_in(db, row, self._path)
                    found.append((row, placed))
                    self._next = (row.position + row.messages, row.n + 1)
                    messages -= row.messages
                    size -= len(placed.batch.body)
                    if messages <= 0 or size <= 0:  # stop before the next row is read
                        break
            if not found and start < (first := _first(db)):
                raise self._forgotten(start, first)
            return found
        finally:
            db.execute("COMMIT")

    def _locate(self, db: sqlite3.Connection, start: int) -> int:
        """The last row whose position is at most `start`, or the first row."""
        low, high = db.execute(FIRST_AND_LAST).fetchone()
        if low is None:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            at = db.execute("SELECT position FROM batches WHERE n = ?", (middle,)).fetchone()[0]
            if at <= start:
                low = middle
            else:
                high = middle - 1
        return int(low)

    def _refers_to_gone(self, db: sqlite3.Connection, row: BatchRow) -> bool:
        if not row.ref:
            return False
        return row.ref < int(db.execute("SELECT min(n) FROM batches").fetchone()[0])

    def _forgotten(self, start: int, first: int) -> Forgotten:
        return Forgotten(
            f"{self._path}: position {start} is no longer kept; the first that is: {first}"
        )


def _first(db: sqlite3.Connection) -> int:
    """The first position in the file. If there are no rows, the next position."""
    first = whole_from(db)
    if first is None:
        (folded,) = db.execute("SELECT (SELECT position FROM checkpoint)").fetchone()
        first = 1 + (folded or 0)
    return first
