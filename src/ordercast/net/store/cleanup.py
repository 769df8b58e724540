"""Removing old rows. A row is removed when the core no longer needs it, the application and the
named readers have confirmed it (if it is in this site's log), and retention allows it. A reader is
waited for up to its limits.

Rows are removed strictly from the start, a few with each commit, about twice as fast as new ones
come. Freed pages are used again. If many are free, they are given back to the file system.
"""

import sqlite3
import time
from collections.abc import Mapping, Sequence

from ordercast.model.options import NEVER
from ordercast.net.cluster.config import ReaderLimits, Retention
from ordercast.net.store.box import StoreBox
from ordercast.net.store.file import PAGE_BYTES
from ordercast.net.store.ledger import Commit, Ledger
from ordercast.net.store.opening_rows import OpeningRows
from ordercast.net.store.reader_rows import ReaderHold
from ordercast.net.store.row_ages import RowAges
from ordercast.net.store.rows import AGES, MINE, PUT_STATE, state_row

PIECE = 256  # rows that are removed with a commit, at least
IDLE_PIECE = 2_048  # the same, if there is nothing else to write
SLACK_PAGES = 512  # free pages that are kept for use, at least
LOOK_S = 0.5  # between looks at how much is held for readers
GIVE_BACK_PAGES = 512  # pages that are given back at a time
EVENTS_S = 1.0  # pause between looks for old events

_FIRST_POSITION = "SELECT position FROM batches ORDER BY n LIMIT 1"
_FIRST_KEPT = (
    "SELECT n FROM batches WHERE n >= ? AND n < ?"
    f" AND ((kind & {MINE} AND position + count > ?) OR n >= ?) ORDER BY n LIMIT 1"
)


class Cleanup:
    """`first`: the first row in the file. `holds`: how much is held for each named reader. It is
    replaced, never changed: another thread reads it."""

    events_s = EVENTS_S

    def __init__(
        self,
        db: sqlite3.Connection,
        first: int,
        retention: Retention,
        readers: ReaderLimits,
        row_ages: RowAges,
    ) -> None:
        self.first = first
        self._db = db
        self._retention = retention
        self._readers = readers
        self._row_ages = row_ages
        self.holds: Mapping[str, ReaderHold] = {}
        self._named = False  # there are named readers
        self._readers_changed = -1
        self._too_old = 0  # rows before this one are beyond the limits of readers
        self._held_looked = float("-inf")
        self._worth = True  # something has changed since nothing could be removed
        self._reach = 0  # how many rows to look at, at least
        self._clear = first  # rows before this one may be removed
        self._confirmed = 0
        self._looked = 0.0
        self._events_looked = 0.0
        self.openings = OpeningRows(db)
        self._given_back = 0.0

    def due(self, boxes: Sequence[StoreBox]) -> bool:
        """Whether there is something to do although nothing is written."""
        return not boxes and (self._worth or self._is_time())

    def patience(self, every_s: float) -> float | None:
        """How many seconds the writer may sleep. None: until there is something to write."""
        if self._worth:
            return 0.01
        return every_s if self._ages else None

    def piece(self, ledger: Ledger, added: int, commit: Commit) -> int:
        """Remove some rows inside the transaction that is under way. Returns what `first` is when
        the transaction is durable."""
        if self._ages and (ages := self._row_ages.note(ledger.last + 1)):
            self._db.execute(PUT_STATE, state_row(AGES, ages))
        news = commit.checkpoint is not None or ledger.confirmed != self._confirmed
        if ledger.readers_changed != self._readers_changed:
            self._readers_changed = ledger.readers_changed
            self._clear = self.first  # a reader may have come for rows that were to go
            news = True
        if not (news or self._worth or self._is_time()):
            return self.first
        self._confirmed = ledger.confirmed
        self._looked = time.monotonic()
        most = max(PIECE, 2 * added) if commit else IDLE_PIECE
        cramped = False
        if self._clear <= self.first:
            self._clear, cramped = self._deletable(ledger, max(most, self._reach))
        upto = min(self._clear, self.first + most)
        if upto > self.first:
            self._db.execute("DELETE FROM batches WHERE n < ?", (upto,))
            self._db.execute("DELETE FROM annulled WHERE n < ?", (upto,))
            self._forget_events(ledger.logged + 1)
        self._worth = upto > self.first or cramped
        return max(upto, self.first)

    def _deletable(self, ledger: Ledger, most: int) -> tuple[int, bool]:
        """Look at `most` rows. Returns the row before which all may be removed; and whether that is
        none, although all these rows are done with, because a later row refers to the first one.
        Then the next look is longer."""
        enough = self._first_held(ledger)
        if self._retention.kind == "size":
            too_many = self._too_many(ledger.last + 1 - self.first)
            enough = min(enough, self.first + too_many)
        end = min(self.first + most, ledger.needed())
        if min(end, enough) <= self.first or self._low(ledger, ledger.needed()) <= self.first:
            return self.first, False
        confirmed = NEVER if self._named and not self._readers.unnamed else ledger.confirmed
        kept = self._db.execute(
            _FIRST_KEPT, (self.first, end, confirmed + 1, self._young())
        ).fetchone()
        upto = min(end if kept is None else int(kept[0]), enough)
        low = min(upto, self._low(ledger, upto))
        cramped = low <= self.first and upto == self.first + most
        self._reach = 2 * most if cramped else self._reach // 2
        return low, cramped

    def _first_held(self, ledger: Ledger) -> int:
        """The first row that a named reader needs and that is within its limits."""
        upto = ledger.read_upto()
        self._named = bool(upto)
        if not upto:
            self.holds = {}
            return NEVER
        if self._looked - self._held_looked > LOOK_S or upto.keys() != self.holds.keys():
            self._held_looked = self._looked
            self._measure(ledger, upto)
        return max(self._row_after(ledger, min(upto.values())), self._too_old)

    def _measure(self, ledger: Ledger, upto: Mapping[str, int]) -> None:
        """How much is held for each reader, and where the limits are."""
        rows, used = ledger.last + 1 - self.first, self._used()
        holds = {}
        for name, position in upto.items():
            n = self._row_after(ledger, position)
            size = (ledger.last + 1 - n) * used // max(rows, 1)
            holds[name] = ReaderHold(size, self._row_ages.age(n))
        self.holds = holds
        fitting = self._readers.bytes * rows // used
        self._too_old = max(ledger.last + 1 - fitting, self._row_ages.before(self._readers.age))

    def _row_after(self, ledger: Ledger, position: int) -> int:
        """The row with the message after a position, or the row after the last."""
        if position >= ledger.logged:
            return ledger.last + 1
        low, high = self.first, ledger.last + 1  # positions never fall along `n`
        while low < high:
            middle = (low + high) // 2
            found = self._db.execute(
                "SELECT position FROM batches WHERE n = ?", (middle,)
            ).fetchone()
            if found[0] >= position + 2:
                high = middle
            else:
                low = middle + 1
        return max(self.first, low - 1)

    def _low(self, ledger: Ledger, n: int) -> int:
        """No row from `n` on refers to a row before this one. The value never falls along `n`."""
        after = self._db.execute("SELECT low FROM batches WHERE n = ?", (n,)).fetchone()
        return ledger.low() if after is None else int(after[0])

    def _forget_events(self, following: int) -> None:
        """Delete the events of gaps and epochs whose batches were removed. At most once a second,
        because events have no index. `following`: the next position."""
        if self._looked - self._events_looked < self.events_s:
            return
        self._events_looked = self._looked
        row = self._db.execute(_FIRST_POSITION).fetchone()
        first = following if row is None else int(row[0])
        self._db.execute("DELETE FROM events WHERE kind = 'gap' AND position < ?", (first,))
        self.openings.forget(first)

    def give_back(self) -> int:
        """Shorten the file if much of it is free. Call this outside a transaction. Returns how many
        bytes."""
        if self._looked == self._given_back:
            return 0
        self._given_back = self._looked
        if self._pragma("freelist_count") <= max(SLACK_PAGES, self._pragma("page_count") // 4):
            return 0
        # A script, because `execute` stops after the first page.
        self._db.executescript(f"PRAGMA incremental_vacuum({GIVE_BACK_PAGES})")
        self._worth = True
        return GIVE_BACK_PAGES * PAGE_BYTES

    def _is_time(self) -> bool:
        return self._ages and time.monotonic() - self._looked > 1.0

    def _young(self) -> int:
        """The first row that is too young to go."""
        if self._retention.kind != "age":
            return NEVER
        return self._row_ages.before(self._retention.amount)

    def _too_many(self, rows: int) -> int:
        """About how many of these rows must go so that the file has its size."""
        used = self._used()
        return max(0, used - self._retention.amount) * rows // max(used, 1)

    def _used(self) -> int:
        pages = self._pragma("page_count") - self._pragma("freelist_count")
        return max(1, pages * PAGE_BYTES)

    @property
    def _ages(self) -> bool:
        """Whether rows may be removed although nothing is written."""
        return self._named or self._retention.kind != "stable"

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])
