"""A store's file: opening and locking it, naming what is wrong with it, reading its rows.

Beside `SITE.db` lies `SITE.db.lock`. It is locked while a process writes the store; the lock ends
with the process. Readers need no lock. SQLite finds the torn end of its log by itself.
"""

import os
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from ordercast.core.epochs.records import Filled, Kept, MemberRecord
from ordercast.core.outbox import Accepted, Passed
from ordercast.model.errors import ConfigError, StoreCorrupt
from ordercast.model.messages import Placed
from ordercast.net.cluster.directory import append_own
from ordercast.net.store.log_end import Cut
from ordercast.net.store.rows import (
    ACCEPTED,
    COPY,
    FIRST_AND_LAST,
    LATE,
    MINE,
    REPEATED,
    SELECT_BATCH,
    BatchRow,
    Value,
    checksum,
    record_of,
    state_of,
)

PAGE_BYTES = 8_192
_REASONS = {
    sqlite3.SQLITE_NOTADB: "is not a store, or its first page is damaged",
    sqlite3.SQLITE_CORRUPT: "is damaged",
}


def lock(path: Path) -> IO[bytes]:
    """Lock the store for writing. The lock is held until the file is closed or the process ends."""
    lock_file = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.fdopen(append_own(lock_file), "ab")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        _lock(handle)
    except OSError:
        handle.close()
        raise ConfigError(
            f"{path}: is in use by another process (a site runs once); stop that one first"
        ) from None
    return handle


def _lock(handle: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def connect(path: Path) -> sqlite3.Connection:
    """Open the store to write it. Other users may not read a new store unless its owner allows
    it."""
    if path.is_symlink():
        raise ConfigError(f"{path}: is a link; give the folder where the store is with --dir")
    os.close(append_own(path))
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open the store to read it, beside a writer or without one. This never changes the store."""
    db = _connect_uri(path, "mode=ro")
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        db.close()
        # SQLite makes an index for its log, and cannot where nothing may be written. Without a log
        # it needs none.
        blocked = error.sqlite_errorcode & 0xFF in (
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_CANTOPEN,
        )
        wal = path.with_name(f"{path.name}-wal")
        if not blocked or not path.is_file() or (wal.exists() and wal.stat().st_size):
            raise
        db = _connect_uri(path, "immutable=1")
    except BaseException:
        db.close()
        raise
    return db


def connect_as_it_is(path: Path) -> sqlite3.Connection:
    """Open a file that nobody writes, and that has no log: no file is made beside it."""
    return _connect_uri(path, "immutable=1")


def _connect_uri(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None, timeout=10,
        check_same_thread=False,
    )  # fmt: skip


def require_same(state: dict[str, Value], path: Path, cluster: str, site: str) -> None:
    for key, wanted in (("cluster", cluster), ("site", site)):
        if state.get(key) != wanted:
            raise ConfigError(
                f"{path}: belongs to {key} {state.get(key)!r}, not {wanted!r}; give the folder of"
                f" this {key} with --dir, or move the file away"
            )


def write_ahead(db: sqlite3.Connection, path: Path) -> None:
    mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise ConfigError(f"{path}: the file system allows no write-ahead log; use a local disk")


def machine_start() -> str:
    """A name of the machine's present start, if the system has one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def store_error(path: Path, error: sqlite3.Error | OSError) -> ConfigError | StoreCorrupt:
    """The error of SQLite or of the system, as one line about the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _REASONS:
        return StoreCorrupt(
            f"{path}: {_REASONS[code]}: {error}; keep it, and put back an intact copy of it or let"
            " the site return as a new one ('ordercast docs store')"
        )
    if isinstance(error, sqlite3.OperationalError) and code in (0, sqlite3.SQLITE_ERROR):
        return StoreCorrupt(f"{path}: is not a store of this version: {error}")
    return ConfigError(f"{path}: cannot be opened: {error}")


def read_state(db: sqlite3.Connection, path: Path) -> dict[str, Value]:
    return state_of(db.execute("SELECT key, value, crc FROM state"), path)


def records_of(db: sqlite3.Connection, row: BatchRow, path: Path) -> Sequence[MemberRecord]:
    """The one or two records of a row, with their payloads."""
    record = record_of(row, path)
    if not isinstance(record, Passed):
        return (record,)
    if row.ref:
        record = _with_payloads(db, record, row.ref, path)
    mine, copy, known = (bool(row.kind & one) for one in (MINE, COPY, REPEATED))
    kept = Kept(row.epoch, record, mine, copy, known)
    return (Accepted(record.placed.batch), kept) if row.kind & ACCEPTED else (kept,)


def logged_in(db: sqlite3.Connection, row: BatchRow, path: Path) -> Placed:
    """The batch of a row that is, or was, in the log."""
    record = records_of(db, row, path)[-1]
    if isinstance(record, Filled):
        return record.placed
    assert isinstance(record, Kept)
    return record.passed.placed


def cut_log(db: sqlite3.Connection, cut: Cut) -> None:
    """Inside a transaction: remove from the log the rows up to `cut.n` after the position.
    Positions still never fall along `n`. Rows that were delivered are entered in the table
    `annulled`."""
    low, high = db.execute(FIRST_AND_LAST).fetchone()
    if low is None:
        return
    high += 1
    while low < high:  # find the first row after the position
        middle = (low + high) // 2
        at = db.execute("SELECT position FROM batches WHERE n = ?", (middle,)).fetchone()[0]
        low, high = (low, middle) if at > cut.position else (middle + 1, high)
    for n in range(low, cut.n + 1):
        row = BatchRow(*db.execute(f"{SELECT_BATCH} WHERE n = ?", (n,)).fetchone())
        if row.kind & MINE and row.position <= cut.annulled:
            db.execute("INSERT INTO annulled VALUES (?,?)", (n, row.position))
        row = row._replace(
            kind=row.kind & ~(MINE | COPY | REPEATED | LATE), position=cut.position + 1
        )
        crc = checksum(*row[:10], row.body)
        db.execute(
            "UPDATE batches SET kind = ?, position = ?, crc = ? WHERE n = ?",
            (row.kind, row.position, crc, n),
        )


def _with_payloads(db: sqlite3.Connection, record: Passed, ref: int, path: Path) -> Passed:
    values = db.execute(f"{SELECT_BATCH} WHERE n = ?", (ref,)).fetchone()
    referred = None if values is None else record_of(BatchRow(*values), path)
    if not isinstance(referred, Accepted):
        raise missing_row(path, ref)
    placed = record.placed
    batch = replace(placed.batch, body=referred.batch.body)
    return Passed(Placed(placed.key, placed.number, batch), record.source, record.from_parent)


def whole_from(db: sqlite3.Connection) -> int | None:
    """The first position from which on every batch of the log has its payloads. None: there are no
    rows. Old rows are removed up to the first one that a needed row refers to. Rows after that one
    may refer to removed rows: nobody needs them any more, and they count as removed."""
    first, last = db.execute(FIRST_AND_LAST).fetchone()
    if last is None:
        return None
    # The first row whose `low` was not removed, or the one after the last.
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        if db.execute("SELECT low FROM batches WHERE n = ?", (middle,)).fetchone()[0] >= first:
            high = middle
        else:
            low = middle + 1
    (after,) = db.execute(
        f"SELECT max(position + count) FROM batches WHERE n < ? AND kind & {MINE}"
        " AND ref > 0 AND ref < ?",
        (low, first),
    ).fetchone()
    if after is None:
        (after,) = db.execute("SELECT position FROM batches WHERE n = ?", (first,)).fetchone()
    return int(after)


def missing_row(path: Path, n: int) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path}: row {n} of table batches is missing, the file is damaged; keep it, and put back"
        " an intact copy of it or let the site return as a new one ('ordercast docs store')"
    )
