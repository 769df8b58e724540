"""Giving the free pages of a store back to the file system, while its site does not run.

Rows are added at the end and removed at the start, so whole pages become free. They are given back
in pieces, each a transaction of its own: nothing is lost if the command is stopped. (A running site
does the same when more than a quarter of its file is free.)
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from ordercast.model.errors import ConfigError
from ordercast.net.store.file import PAGE_BYTES, connect, lock, store_error
from ordercast.net.store.formats import require_ours
from ordercast.net.store.wal import require_whole

PIECE: Final = 1_024  # pages


class Compacted(NamedTuple):
    """Bytes of the file and its log."""

    before: int
    after: int


def compact(store: Path, progress: Callable[[int], None] | None = None) -> Compacted:
    """`progress` is called with the bytes that are still free. ConfigError if there is no store, or
    if a process uses it; StoreCorrupt."""
    if not store.is_file():
        raise ConfigError(f"{store}: there is no such store")
    with closing(lock(store)):
        require_whole(store)
        before = _bytes(store)
        try:
            with closing(connect(store)) as db:
                require_ours(db, store)
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                while left := int(db.execute("PRAGMA freelist_count").fetchone()[0]):
                    if progress is not None:
                        progress(left * PAGE_BYTES)
                    # A script, because `execute` stops after the first page.
                    db.executescript(f"PRAGMA incremental_vacuum({PIECE})")
                    if int(db.execute("PRAGMA freelist_count").fetchone()[0]) == left:
                        break
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise store_error(store, error) from None
        return Compacted(before, _bytes(store))


def _bytes(store: Path) -> int:
    log = store.with_name(f"{store.name}-wal")
    return store.stat().st_size + (log.stat().st_size if log.exists() else 0)
