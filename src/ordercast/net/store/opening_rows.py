"""Removing the events of epochs: an opening goes with what was delivered in its epoch.

docs/store.md says who needs an opening, and for how long. An opening may have very many groups, so
their details are read one at a time.
"""

import sqlite3
from itertools import pairwise

from ordercast.core.epochs.records import EpochOpened
from ordercast.model.groups import Group
from ordercast.net.store.events import (
    ABSENT,
    ENTERED,
    enters,
    needed_entries,
    parse_opening,
)

LEAST = 64  # so few events of a kind are never looked through

_BEFORE = "SELECT n FROM events WHERE kind = 'open' AND position < ? ORDER BY n DESC LIMIT 2"
_PLACES = "SELECT n, position FROM events WHERE kind = ? ORDER BY n"
_NEWEST_FIRST = "SELECT n, position, detail FROM events WHERE kind = ? ORDER BY n DESC"


class OpeningRows:
    """The events of epochs in the table `events`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.enough = dict.fromkeys(("open", ENTERED, ABSENT), LEAST)
        """How many events of a kind there may be before they are looked through."""

    def forget(self, first: int) -> None:
        """Remove the openings that no reader needs any more, inside the transaction that is under
        way. `first`: the first position that is left of the log, or the next."""
        self._forget_before(first)
        unneeded = {"open": self._idle, ABSENT: self._absences_between, ENTERED: self._late_entries}
        for kind, found in unneeded.items():
            if self._count(kind) > self.enough[kind]:
                gone = [(n,) for n in found()]
                self._db.executemany("DELETE FROM events WHERE n = ?", gone)
                self.enough[kind] = max(LEAST, 2 * self._count(kind))

    def _forget_before(self, first: int) -> None:
        """All batches before position `first` are gone. The last opening before them stays: its
        epoch may be that of the batch at `first`."""
        before = self._db.execute(_BEFORE, (first - 1,)).fetchall()
        if len(before) < 2:
            return
        gone = before[1][0]
        self._db.execute("DELETE FROM events WHERE kind = 'open' AND n <= ?", (gone,))
        # An absence, an exclusion or a return is written with the opening after it, on either side.
        self._db.execute(
            "DELETE FROM events WHERE kind IN ('absent', 'excluded', 'returned') AND n < ?", (gone,)
        )

    def _idle(self) -> list[int]:
        """Openings of epochs in which this site delivered nothing, and in which no site came into
        one of its groups; and openings that a restart wrote again. The last one stays."""
        return [
            n
            for (n, position), (after, next_position) in pairwise(self._places("open"))
            if position == next_position and self._is_idle(n, after)
        ]

    def _is_idle(self, n: int, after: int) -> bool:
        opened = self._opening(n)
        return not enters(opened) or opened.epoch == self._opening(after).epoch

    def _opening(self, n: int) -> EpochOpened:
        row = self._db.execute("SELECT position, detail FROM events WHERE n = ?", (n,))
        return parse_opening(*row.fetchone())

    def _places(self, kind: str) -> list[tuple[int, int]]:
        return self._db.execute(_PLACES, (kind,)).fetchall()

    def _absences_between(self) -> list[int]:
        """The events of absences without an opening beside them. The last one stays."""
        opened = [n for n, _ in self._places("open")]
        rows = [n for n, _ in self._places(ABSENT)]
        return [
            n
            for before, n, after in zip([0, *rows], rows, rows[1:], strict=False)
            if not any(before < at < after for at in opened)
        ]

    def _late_entries(self) -> list[int]:
        last = self._db.execute(
            "SELECT position, detail FROM events WHERE kind = 'open' ORDER BY n DESC LIMIT 1"
        ).fetchone()
        mine = frozenset[Group](() if last is None else parse_opening(*last).groups)
        rows = self._db.execute(_NEWEST_FIRST, (ENTERED,))
        needed = {n for n, _ in needed_entries(rows, mine)}
        return [n for n, _ in self._places(ENTERED) if n not in needed]

    def _count(self, kind: str) -> int:
        found = self._db.execute("SELECT count(*) FROM events WHERE kind = ?", (kind,))
        return int(found.fetchone()[0])
