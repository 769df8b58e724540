"""A store as an export reads it, while a site writes it or not: two snapshots of the file.

Deliveries are read from the first snapshot of each store and sends from the second. The second ones
are taken after all first ones: so the origin of every message that some site has delivered has
accepted it by then.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ordercast.core.epochs.packing import floor_in, included_in
from ordercast.core.epochs.records import REFUSED, Anew, EpochOpened, MemberRecord
from ordercast.core.outbox import Accepted, Passed
from ordercast.history.rows import DUPLICATE, EXCLUDED, EXPIRED, FENCED, OPEN, RETURNED
from ordercast.model.errors import ConfigError, FrameError, StoreCorrupt
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, MessageId, Placed, ticket_in
from ordercast.net.export.contents import BatchContents, RequestParts, contents_of, parts_of
from ordercast.net.store.checkpoint import folded_state, read_checkpoint, released_by
from ordercast.net.store.events import ABSENT, parse_opening
from ordercast.net.store.file import (
    connect_to_read,
    logged_in,
    read_state,
    records_of,
    store_error,
    whole_from,
)
from ordercast.net.store.formats import require_newest
from ordercast.net.store.rows import (
    ACCEPTED,
    COPY,
    FIRST_AND_LAST,
    LATE,
    MINE,
    REPEATED,
    SELECT_BATCH,
    BatchRow,
    CheckpointRow,
    Value,
    record_of,
)


class LoggedBatch(NamedTuple):
    """A batch of the site's ordered log; its first message at `position`. `row`: its number in the
    store."""

    position: int
    epoch: int
    at_ns: int
    placed: Placed
    contents: BatchContents
    attempt: int
    parts: RequestParts
    row: int = 0


class CopiedBatch(NamedTuple):
    """A batch of the ordered log that no application gets: copies of messages, or messages that
    came too late. The next message of the log is at `position`. `outcome`: as in histories."""

    position: int
    epoch: int
    at_ns: int
    attempt: int
    first: MessageId
    messages: int
    row: int = 0
    outcome: str = ""


class AcceptedBatch(NamedTuple):
    """A batch that the site accepted when its application had read up to `after`, in `attempt`.
    `refused`: no epoch took it, because its group was removed, so it was never sent."""

    at_ns: int
    after: int
    attempt: int
    batch: Batch
    contents: BatchContents
    refused: bool
    parts: RequestParts
    row: int = 0


class StoreSnapshot:
    """One state of a store's file, for as long as it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.copies: list[CopiedBatch] = []
        self._db: sqlite3.Connection | None = None
        try:
            self._db = db = connect_to_read(path)
            db.execute("BEGIN")
            require_newest(db, path)
            self.state: dict[str, Value] = read_state(db, path)
            self.checkpoint: CheckpointRow | None = read_checkpoint(db, path)
            first, last = db.execute(FIRST_AND_LAST).fetchone()
            self.first, self.last = (1, 0) if last is None else (int(first), int(last))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise store_error(path, error) from None
        except Exception:
            self.close()
            raise
        self.anew: Anew | None = (
            None if self.checkpoint is None else folded_state(self.checkpoint, path).anew
        )

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def rows(self, columns: str, rest: str) -> list[tuple[Any, ...]]:
        assert self._db is not None
        return self._db.execute(f"SELECT {columns} FROM {rest}").fetchall()

    def first_position(self) -> int:
        """The first position of the log that is still here; the next one, if nothing is."""
        assert self._db is not None
        found = whole_from(self._db)
        if found is not None:
            return found
        return 1 if self.checkpoint is None else self.checkpoint.position + 1

    def last_row(self) -> int:
        """The number of the last row; it may have been removed, like all others."""
        return max(self.last, 0 if self.checkpoint is None else self.checkpoint.upto)

    def last_position(self) -> int:
        found = self.rows("position, count, kind", "batches ORDER BY n DESC LIMIT 1")
        if not found:
            return 0 if self.checkpoint is None else self.checkpoint.position
        position, count, kind = found[0]
        return int(position) + int(count) - 1 if kind & MINE else int(position) - 1

    def epoch_after(self, position: int) -> int:
        """The epoch of the first batch of the log after a position; 0: there is none."""
        wanted = f"batches WHERE kind & {MINE} AND position > {position} ORDER BY n LIMIT 1"
        found = self.rows("epoch", wanted)
        return int(found[0][0]) if found else 0

    def logged(self, after_row: int = 0) -> Iterator[LoggedBatch]:
        """The log, in order. What it reads on the way of copies is in `copies` then."""
        self.copies = []
        for row in self._rows(MINE | COPY, self.first_position(), after_row):
            if row.kind & COPY:
                self._note_copy(row)
            else:
                yield self._logged(row, row.position)

    def _note_copy(self, row: BatchRow) -> None:
        record = record_of(row, self.path)
        assert isinstance(record, Passed)
        batch = record.placed.batch
        first = MessageId(batch.origin, batch.incarnation, batch.group, batch.seq)
        copy = CopiedBatch(
            row.position, row.epoch, row.at_ns, row.attempt, first, batch.count, row.n,
            _outcome(row.kind, batch),
        )  # fmt: skip
        self.copies.append(copy)

    def annulled(self, after_row: int = 0) -> Iterator[LoggedBatch]:
        """Batches that were delivered, and rolled back, as far as they are still here, by position
        and attempt; one at a time in memory."""
        assert self._db is not None
        joined = f"annulled JOIN batches USING (n) WHERE n > {after_row}"
        order = f"{joined} ORDER BY annulled.position, attempt"
        for n, position in self.rows("n, annulled.position", order):
            values = self._db.execute(f"{SELECT_BATCH} WHERE n = ?", (n,)).fetchone()
            row = BatchRow(*values)
            if not row.ref or row.ref >= self.first:
                yield self._logged(row, position)

    def _logged(self, row: BatchRow, position: int) -> LoggedBatch:
        assert self._db is not None
        placed = logged_in(self._db, row, self.path)
        contents, parts = self._contents(row, placed.batch), self._parts(row, placed.batch)
        return LoggedBatch(
            position, row.epoch, row.at_ns, placed, contents, row.attempt, parts, row.n
        )

    def accepted(self, after_row: int = 0) -> Iterator[AcceptedBatch]:
        events = self.rows("detail", f"events WHERE kind = '{REFUSED}'")
        refused = {json.loads(detail).get("row") for (detail,) in events}
        for row, record in self._records(ACCEPTED, after_row):
            if isinstance(record, Accepted):
                batch = record.batch
                contents, parts = self._contents(row, batch), self._parts(row, batch)
                yield AcceptedBatch(
                    row.at_ns, row.after_position, row.attempt, batch, contents, row.n in refused,
                    parts, row.n,
                )  # fmt: skip

    def _records(self, kind: int, after_row: int) -> Iterator[tuple[BatchRow, MemberRecord]]:
        assert self._db is not None
        for row in self._rows(kind, 0, after_row):
            for record in records_of(self._db, row, self.path):
                yield row, record

    def _rows(self, kind: int, start: int, after_row: int) -> Iterator[BatchRow]:
        """The rows of a kind from a position on, after a row."""
        assert self._db is not None
        expected = max(self.first, after_row + 1)
        try:
            for values in self._db.execute(f"{SELECT_BATCH} WHERE n > {after_row} ORDER BY n"):
                row = BatchRow(*values)
                if row.n != expected:
                    raise StoreCorrupt(
                        f"{self.path}: row {expected} of table batches is missing, the file is"
                        " damaged; an export would be wrong"
                    )
                expected += 1
                if row.kind & kind and row.position >= start:
                    yield row
        except sqlite3.Error as error:
            raise store_error(self.path, error) from None

    def _contents(self, row: BatchRow, batch: Batch) -> BatchContents:
        try:
            return contents_of(batch)
        except FrameError as error:
            raise StoreCorrupt(f"{self.path}: row {row.n} of table batches: {error}") from None

    def _parts(self, row: BatchRow, batch: Batch) -> RequestParts:
        try:
            if batch.requests is not None:
                batch.requests.check_against(batch.count)  # a store has whole batches
            return parts_of(batch)
        except FrameError as error:
            raise StoreCorrupt(f"{self.path}: row {row.n} of table batches: {error}") from None


class StoreSource:
    """A site's store. `sends` is its second snapshot, taken by `pin_sends`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = StoreSnapshot(path)
        self.sends = self.log
        state = self.log.state
        self.site: Site = str(state["site"])
        self.number = int(state["store_number"])
        self.cluster = str(state["cluster"])
        self.facts: dict[str, Any] | None = (
            json.loads(str(state["described"])) if "described" in state else None
        )
        self.founding: list[dict[str, Any]] = (self.facts or {}).get("epochs", [])
        closed = json.loads(str(state["closed"])) if state["closed"] else {}
        self.ended = bool(closed.get("quiet"))
        self.ended_ns = int(closed.get("at_ns", 0))

    def pin_sends(self) -> None:
        self.sends = StoreSnapshot(self.path)

    def close(self) -> None:
        self.sends.close()
        self.log.close()

    @property
    def incarnation(self) -> int:
        anew = self.sends.anew
        return 1 if anew is None else anew.incarnation

    def opened(self) -> list[tuple[EpochOpened, int]]:
        """Each epoch that the site opened, and when; the first event of an epoch counts."""
        found: dict[int, tuple[EpochOpened, int]] = {}
        for position, at_ns, detail in self.log.rows(
            "position, at_ns, detail", f"events WHERE kind = '{OPEN}' ORDER BY n"
        ):
            opened = parse_opening(position, detail)
            found.setdefault(opened.epoch, (opened, at_ns))
        return list(found.values())

    def last_delivered(self, level: str) -> int:
        """The last position that has reached the application."""
        if level == "agreed" or (self.ended and not self._was_left()):
            return self.log.last_position()
        state, anew = self.log.state, self.log.anew
        folded = 0 if anew is None else released_by(anew)
        return max(int(state["delivered"]), int(state["confirmed"]), folded)

    def _was_left(self) -> bool:
        """Whether it was retired while it was excluded: it never delivers the rest of its log."""
        last = list(
            self.log.rows(
                "kind", f"events WHERE kind IN ('{EXCLUDED}', '{RETURNED}') ORDER BY n DESC LIMIT 1"
            )
        )
        return last == [(EXCLUDED,)]

    def absent(self) -> Iterator[dict[str, Any]]:
        """The events that say which sites were absent, the oldest first."""
        for (detail,) in self.log.rows("detail", f"events WHERE kind = '{ABSENT}' ORDER BY n"):
            yield json.loads(detail)

    def forgotten(self) -> dict[Group, int]:
        """Per group the last own seq that was stable and may have been forgotten; "": of groups
        that are not named."""
        anew = self.sends.anew
        if anew is None:
            return {}
        last: dict[Group, int] = {"": floor_in(anew.layout, self.site, anew.incarnation)}
        for engine in anew.engines:
            _raise_to(last, engine.checkpoint.state.own_seqs)
        for origin, incarnation, group, seq in included_in(anew.layout):
            if (origin, incarnation) == (self.site, anew.incarnation):
                _raise_to(last, {group: seq})
        return last


def _raise_to(last: dict[Group, int], seqs: dict[Group, int]) -> None:
    for group, seq in seqs.items():
        last[group] = max(seq, last.get(group, 0))


def sources(folder: Path) -> list[StoreSource]:
    """All stores of a folder, with two snapshots of each."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder of stores")
    paths = sorted(path for path in folder.glob("*.db") if path.is_file())
    if not paths:
        raise ConfigError(f"{folder}: holds no store (SITE.db)")
    found: list[StoreSource] = []
    try:
        found.extend(map(StoreSource, paths))  # those before a bad one are in it, and are closed
        for source in found:
            source.pin_sends()
        _require_one_cluster(found)
    except Exception:
        for source in found:
            source.close()
        raise
    return found


def _require_one_cluster(found: list[StoreSource]) -> None:
    first = found[0]
    sites: dict[Site, Path] = {}
    for source in found:
        if source.cluster != first.cluster:
            raise ConfigError(
                f"{source.path}: is of cluster {source.cluster!r}, but {first.path} of"
                f" {first.cluster!r}"
            )
        if source.site in sites:
            raise ConfigError(
                f"{source.path}: is a store of site {source.site!r}, and so is {sites[source.site]}"
            )
        sites[source.site] = source.path


def _outcome(kind: int, batch: Batch) -> str:
    """What became of a copy; "": its store is of before that was kept."""
    if kind & REPEATED:
        return DUPLICATE
    if not kind & LATE or batch.requests is None:
        return ""
    return FENCED if ticket_in(batch.requests.client) else EXPIRED
