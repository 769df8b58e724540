"""A store's file: who may open it, what is wrong with it, and what a start finds in it.

Beside `SITE.db` lies `SITE.db.lock`, locked for as long as a process writes the store (the lock
goes with the process); readers need no lock. SQLite finds the torn end of its log by itself.
"""

import os
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from ordercast.core.outbox import Accepted, Checkpoint, Passed, Record
from ordercast.model.errors import ConfigError, StoreCorrupt
from ordercast.model.messages import Placed
from ordercast.net.rows import (
    ACCEPTED,
    APPLICATION,
    FIRST_AND_LAST,
    MINE,
    PUT_STATE,
    SCHEMA,
    SCHEMA_VERSION,
    SELECT_BATCH,
    CheckpointRow,
    Row,
    Value,
    checkpoint_checksum,
    damaged,
    record_of,
    state_of,
    state_row,
)

PAGE_BYTES = 8_192
NO_MARK = CheckpointRow(0, 1, 1, 0, 0, b"")
_decode_state = msgspec.msgpack.Decoder(dict[str, Any]).decode
_REASONS = {
    sqlite3.SQLITE_NOTADB: "is not a store, or its first page is damaged",
    sqlite3.SQLITE_CORRUPT: "is damaged",
}


@dataclass(slots=True)
class Found:
    """What a start finds: the state table, the checkpoint, and the records still needed."""

    state: dict[str, Value]
    checkpoint: Checkpoint | None = None
    mark: CheckpointRow = NO_MARK
    records: list[Record] = field(default_factory=list)  # after the checkpoint
    accepted: list[int] = field(default_factory=list)  # rows that the core needs
    passed: list[int] = field(default_factory=list)
    own: dict[tuple[str, int], int] = field(default_factory=dict)  # accepted, not passed here
    first: int = 1  # row
    last: int = 0
    logged: int = 0


def lock(path: Path) -> IO[bytes]:
    """The exclusive right to write the store; held until the file is closed or the process ends."""
    beside = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = beside.open("ab")
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
    """To write. Others may not read what sites send each other, unless the owner lets them."""
    path.touch(mode=0o600)
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Beside a writer or without one; never changes the store."""
    db = _connect_uri(path, "mode=ro")
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        db.close()
        # Where nothing may be written, SQLite cannot make its index of a log; without a log it
        # needs none.
        blocked = error.sqlite_errorcode & 0xFF in (
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_CANTOPEN,
        )
        beside = path.with_name(f"{path.name}-wal")
        if not blocked or not path.is_file() or (beside.exists() and beside.stat().st_size):
            raise
        db = _connect_uri(path, "immutable=1")
    except BaseException:
        db.close()
        raise
    return db


def _connect_uri(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None, timeout=10,
        check_same_thread=False,
    )  # fmt: skip


def prepare(db: sqlite3.Connection, path: Path, state: dict[str, Value], durability: str) -> None:
    """Make the tables if there are none, check whose they are, and set how commits are done."""
    db.execute(f"PRAGMA page_size={PAGE_BYTES}")
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        _write_ahead(db, path)
        db.execute("PRAGMA synchronous=FULL")
        db.executescript(
            f"BEGIN;{SCHEMA}PRAGMA application_id={APPLICATION};"
            f"PRAGMA user_version={SCHEMA_VERSION};"
        )
        db.executemany(PUT_STATE, [state_row(*item) for item in state.items()])
        db.execute("COMMIT")
        _sync_folder(path.parent)
    require_ours(db, path)
    _write_ahead(db, path)
    # NORMAL: nothing waits for the disk at a commit, yet the file stays whole after a power cut.
    db.execute(f"PRAGMA synchronous={'FULL' if durability == 'sync' else 'NORMAL'}")
    db.execute("PRAGMA fullfsync=1")  # macOS: fsync alone does not reach the platter
    db.execute("PRAGMA checkpoint_fullfsync=1")
    db.execute("PRAGMA secure_delete=OFF")
    db.execute("PRAGMA cache_size=-8192")  # kB: a large group stays in memory until it commits
    db.execute("PRAGMA wal_autocheckpoint=0")  # the writer does it, after it has answered
    db.execute("PRAGMA journal_size_limit=67108864")


def require_ours(db: sqlite3.Connection, path: Path) -> None:
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise ConfigError(f"{path}: is a database, but not a store of ordercast; move it away")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{path}: is a store of schema version {version}; this program reads"
            f" {SCHEMA_VERSION}: run the version of ordercast that wrote it"
        )


def require_same(state: dict[str, Value], path: Path, cluster: str, site: str) -> None:
    for key, wanted in (("cluster", cluster), ("site", site)):
        if state.get(key) != wanted:
            raise ConfigError(
                f"{path}: belongs to {key} {state.get(key)!r}, not {wanted!r}; give the folder of"
                f" this {key} with --dir, or move the file away"
            )


def _write_ahead(db: sqlite3.Connection, path: Path) -> None:
    mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise ConfigError(f"{path}: the file system allows no write-ahead log; use a local disk")


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def machine_start() -> str:
    """Names the present start of this machine, where the system tells."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def told(path: Path, error: sqlite3.Error | OSError) -> ConfigError | StoreCorrupt:
    """One line for what SQLite or the system says about the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _REASONS:
        return StoreCorrupt(
            f"{path}: {_REASONS[code]}: {error}; keep it, and put back an intact copy of it or let"
            " the site return as a new one (docs/store.md)"
        )
    if isinstance(error, sqlite3.OperationalError) and code in (0, sqlite3.SQLITE_ERROR):
        return StoreCorrupt(f"{path}: is not a store of this version: {error}")
    return ConfigError(f"{path}: cannot be opened: {error}")


def read_state(db: sqlite3.Connection, path: Path) -> dict[str, Value]:
    return state_of(db.execute("SELECT key, value, crc FROM state"), path)


def read_mark(db: sqlite3.Connection, path: Path) -> CheckpointRow | None:
    row = db.execute(
        "SELECT upto, accepted_from, passed_from, position, crc, state FROM checkpoint"
    ).fetchone()
    if row is None:
        return None
    mark = CheckpointRow(*row)
    if checkpoint_checksum(*mark[:4], mark.state) != mark.crc:
        raise damaged(path, "the checkpoint")
    return mark


def state_in(mark: CheckpointRow) -> dict[str, Any]:
    return _decode_state(mark.state)


def find(db: sqlite3.Connection, path: Path) -> Found:
    """Everything that a start needs, each row's checksum verified."""
    found = Found(read_state(db, path))
    mark = read_mark(db, path)
    if mark is not None:
        found.mark = mark
        found.logged = mark.position
    first, last = db.execute(FIRST_AND_LAST).fetchone()
    upto = found.mark.upto
    found.first, found.last = (upto + 1, upto) if last is None else (first, last)
    needed = min(found.mark.accepted_from, found.mark.passed_from)
    early: tuple[list[Record], list[Record]] = ([], [])
    expected = needed
    for values in db.execute(f"{SELECT_BATCH} WHERE n >= ? ORDER BY n", (needed,)):
        row = Row(*values)
        if row.n != expected:
            raise _lacks(path, expected)
        expected += 1
        for record in records_of(db, row, path):
            _note(found, row, record, early)
    if expected <= upto:
        raise _lacks(path, expected)
    if mark is not None:
        found.checkpoint = Checkpoint(state_in(mark), (*early[0], *early[1]))
    return found


def _note(found: Found, row: Row, record: Record, early: tuple[list[Record], list[Record]]) -> None:
    mark = found.mark
    if isinstance(record, Accepted):
        if row.n < mark.accepted_from and row.n <= mark.upto:
            return
        found.accepted.append(row.n)
        found.own[record.batch.group, record.batch.seq] = row.n
        kept = early[0]
    elif not isinstance(record, Passed):
        if row.n > mark.upto:
            found.records.append(record)
        return
    else:
        if row.n < mark.passed_from and row.n <= mark.upto:
            return
        found.passed.append(row.n)
        batch = record.placed.batch
        if batch.origin == found.state.get("site"):
            found.own.pop((batch.group, batch.seq), None)
        kept = early[1]
    if row.n <= mark.upto:
        kept.append(record)
    else:
        found.records.append(record)
        if row.kind & MINE:
            found.logged = row.position + row.messages - 1


def records_of(db: sqlite3.Connection, row: Row, path: Path) -> Sequence[Record]:
    """The one or two records that a row stands for, with their payloads."""
    record = record_of(row, path)
    if row.ref:
        return (_with_payloads(db, record, row.ref, path),)
    if row.kind & ACCEPTED and isinstance(record, Passed):
        return Accepted(record.placed.batch), record
    return (record,)


def _with_payloads(db: sqlite3.Connection, record: Record, ref: int, path: Path) -> Passed:
    values = db.execute(f"{SELECT_BATCH} WHERE n = ?", (ref,)).fetchone()
    if values is None or not isinstance(record, Passed):
        raise _lacks(path, ref)
    referred = record_of(Row(*values), path)
    if not isinstance(referred, (Accepted, Passed)):
        raise _lacks(path, ref)
    body = (referred.placed.batch if isinstance(referred, Passed) else referred.batch).body
    placed = record.placed
    batch = msgspec.structs.replace(placed.batch, body=body)
    return Passed(Placed(placed.key, placed.number, batch), record.source, record.from_parent)


def whole_from(db: sqlite3.Connection) -> int | None:
    """The first position from which on every batch of the log has its payloads; None: no rows.

    Rows go up to the first to which one that must stay refers. Those between the two may refer to
    what is gone: nobody needs them any more, and they count as gone.
    """
    first, last = db.execute(FIRST_AND_LAST).fetchone()
    if last is None:
        return None
    low, high = first, last + 1  # the first row whose `low` is there, or the one after the last
    while low < high:
        middle = (low + high) // 2
        if db.execute("SELECT low FROM batches WHERE n = ?", (middle,)).fetchone()[0] >= first:
            high = middle
        else:
            low = middle + 1
    (after,) = db.execute(
        f"SELECT max(position + count) FROM batches WHERE n < ? AND kind >= {MINE}"
        " AND ref > 0 AND ref < ?",
        (low, first),
    ).fetchone()
    if after is None:
        (after,) = db.execute("SELECT position FROM batches WHERE n = ?", (first,)).fetchone()
    return int(after)


def _lacks(path: Path, n: int) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path}: row {n} of table batches is missing, the file is damaged; keep it, and put back"
        " an intact copy of it or let the site return as a new one (docs/store.md)"
    )
