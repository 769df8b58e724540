"""The formats of a store: how a new store is made, and how an older one becomes the newest.

`STEPS` has a function for each format that this program can begin with. A new store is made in the
first format and taken through all steps, so what a step does is written once. An older store is
copied first. All its steps are one transaction: whenever the process is killed, the store is of the
old format or of the new one.
"""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from ordercast.model.errors import ConfigError
from ordercast.model.version import told_range
from ordercast.net.store.file import PAGE_BYTES, write_ahead
from ordercast.net.store.rows import APPLICATION, FIRST_FORMAT, PUT_STATE, SCHEMA, Value, state_row
from ordercast.whole_files import OURS, drafted, sync

log = logging.getLogger("ordercast.net.store")

CACHE_BYTES = 1 << 20  # of pages that the writer keeps between commits
COMMIT_BYTES = 8 << 20  # of pages that a commit may hold in memory


def _with_readers(db: sqlite3.Connection) -> None:
    """Named readers have a table."""
    db.execute(
        "CREATE TABLE readers(name TEXT PRIMARY KEY, groups TEXT NOT NULL, number INTEGER NOT NULL,"
        " confirmed INTEGER NOT NULL, passed INTEGER NOT NULL, attempt INTEGER NOT NULL,"
        " created_ns INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID"
    )


def _with_envelopes(_: sqlite3.Connection) -> None:
    """Bodies may be envelopes, records may be of grants, and batches of the log may have no
    positions (copies of producers' messages): rows keep their form, and older programs must not
    read them."""


def _with_ids(_: sqlite3.Connection) -> None:
    """Copies of messages with ids of their senders' own have no positions, and checkpoints have the
    ids that are remembered: rows keep their form, and older programs must not read them."""


def _with_clients(_: sqlite3.Connection) -> None:
    """The same for requests of clients that groups remember."""


STEPS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {
    3: _with_readers,
    4: _with_envelopes,
    5: _with_ids,
    6: _with_clients,
}
"""By format: the step from it to the next. A step calls `db.execute` only, because `executescript`
commits, and it uses nothing of this program that may change later."""


def newest_format() -> int:
    return FIRST_FORMAT + len(STEPS)


def prepare(db: sqlite3.Connection, path: Path, state: dict[str, Value], durability: str) -> bool:
    """Make the tables if there are none, check whose they are, and set how commits are done.
    Returns whether the store must be migrated."""
    db.execute(f"PRAGMA page_size={PAGE_BYTES}")
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        write_ahead(db, path)
        db.execute("PRAGMA synchronous=FULL")
        db.executescript(f"BEGIN;{SCHEMA}PRAGMA application_id={APPLICATION};")
        _take_steps(db, FIRST_FORMAT)
        db.executemany(PUT_STATE, [state_row(*item) for item in state.items()])
        db.execute("COMMIT")
        sync(path.parent)
    found = require_ours(db, path)
    write_ahead(db, path)
    # NORMAL: nothing waits for the disk at a commit, yet the file stays whole after a power cut.
    db.execute(f"PRAGMA synchronous={'FULL' if durability == 'sync' else 'NORMAL'}")
    db.execute("PRAGMA fullfsync=1")  # macOS: fsync alone does not reach the platter
    db.execute("PRAGMA checkpoint_fullfsync=1")
    db.execute("PRAGMA secure_delete=OFF")
    # What is read again is near the end of the file: more pages would only make the process larger,
    # over hours. A large commit stays in memory until it is done.
    db.execute(f"PRAGMA cache_size=-{CACHE_BYTES >> 10}")
    db.execute(f"PRAGMA cache_spill={COMMIT_BYTES // PAGE_BYTES}")
    db.execute("PRAGMA wal_autocheckpoint=0")  # the writer does it, when nobody waits for it
    db.execute("PRAGMA journal_size_limit=67108864")
    return found < newest_format()


def require_ours(db: sqlite3.Connection, path: Path) -> int:
    """The format of a store. Raises ConfigError if it is no store, or of a format that this program
    does not know."""
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise ConfigError(f"{path}: is a database, but not a store of ordercast; move it away")
    found, newest = int(db.execute("PRAGMA user_version").fetchone()[0]), newest_format()
    if not FIRST_FORMAT <= found <= newest:
        newer = "it was written by a newer release, run that one"
        older = "run the releases between them first, one after the other"
        raise ConfigError(
            f"{path}: is a store of format {found}, this program knows"
            f" {told_range(FIRST_FORMAT, newest)}; {newer if found > newest else older}"
        )
    return found


def require_newest(db: sqlite3.Connection, path: Path) -> None:
    """Check, as `require_ours` does, a store that is read and must not be changed. Raises
    ConfigError also for an older format."""
    found = require_ours(db, path)
    if found < newest_format():
        raise ConfigError(
            f"{path}: is a store of format {found}, and format {newest_format()} is read here:"
            " start its site with this program, which migrates it, or use the one that wrote it"
        )


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the store to the newest format, after a copy of it was made."""
    found = require_ours(db, path)
    copy = _copied(db, path, found)
    db.execute("BEGIN IMMEDIATE")
    try:
        _take_steps(db, found)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    log.warning(
        "%s: migrated from format %d to %d; the store as it was is in %s",
        path, found, newest_format(), copy.name,
    )  # fmt: skip


def _take_steps(db: sqlite3.Connection, found: int) -> None:
    """Inside a transaction."""
    for version in range(found, newest_format()):
        STEPS[version](db)
        if not db.in_transaction:
            raise RuntimeError(f"the step from format {version} has committed")
    db.execute(f"PRAGMA user_version={newest_format()}")


def _copied(db: sqlite3.Connection, path: Path, version: int) -> Path:
    """Copy the store to a file beside it, durably. A copy that is there was made by a start that
    ended before its migration, and is made again."""
    copy = path.with_name(f"{path.name}.format{version}")
    part = copy.with_name(f"{copy.name}.part")
    with (
        drafted(copy, draft=part, mode=OURS, durable=True),
        closing(sqlite3.connect(part)) as target,
    ):
        db.backup(target)
    return copy
