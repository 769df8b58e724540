"""Removing the events of epochs: an opening goes with what was delivered in its epoch.

docs/store.md says who needs an opening, and for how long.
"""

import sqlite3
from itertools import pairwise

from ordercast.model.groups import Group
from ordercast.net.store.events import (
    ABSENT,
    ENTERED,
    ENTRIES_KEPT,
    ENTRIES_MOST,
    enters,
    parse_opening,
)

LEAST = 64  # so few events of a kind are never looked through

_BEFORE = "SELECT n FROM events WHERE kind = 'open' AND position < ? ORDER BY n DESC LIMIT 2"
_ROWS = "SELECT n, position, detail FROM events WHERE kind = ? ORDER BY n"


class OpeningRows:
    """The events of epochs in the table `events`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.enough = dict.fromkeys(("open", ENTERED, ABSENT), LEAST)
        """How many events of a kind there may be before they are looked through."""

    def forget(self, first: int) -> None:
        """Remove what nobody needs any more, inside the transaction that is under way. `first`: the
        first position that is left of the log, or the next."""
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
        gone = []
        rows = self._db.execute(_ROWS, ("open",)).fetchall()
        for (n, position, detail), (_, next_position, next_detail) in pairwise(rows):
            if position == next_position:
                opened = parse_opening(position, detail)
                if not enters(opened) or opened.epoch == parse_opening(position, next_detail).epoch:
                    gone.append(n)
        return gone

    def _absences_between(self) -> list[int]:
        """The events of absences without an opening beside them. The last one stays."""
        opened = [n for (n,) in self._db.execute("SELECT n FROM events WHERE kind = 'open'")]
        rows = [n for n, *_ in self._db.execute(_ROWS, (ABSENT,))]
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
        return _unneeded(self._db.execute(_ROWS, (ENTERED,)).fetchall(), mine)

    def _count(self, kind: str) -> int:
        found = self._db.execute("SELECT count(*) FROM events WHERE kind = ?", (kind,))
        return int(found.fetchone()[0])


def _unneeded(rows: list[tuple[int, int, str]], mine: frozenset[Group]) -> list[int]:
    """Entries that are not among the last of any group of this site, nor among the last of all."""
    gone = []
    entered: dict[Group, int] = {}
    for age, (n, position, detail) in enumerate(reversed(rows)):
        needed = False
        for group in parse_opening(position, detail).groups:
            entered[group] = entered.get(group, 0) + 1
            needed |= entered[group] <= ENTRIES_KEPT and (group in mine or age < ENTRIES_MOST)
        if not needed:
            gone.append(n)
    return gone
