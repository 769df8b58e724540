"""A copy of a store while its site runs, and a store made from a copy (docs/store.md says what a
copy is good for).

A copy is made through SQLite from one state of the file, so it is as a kill at that moment would
have left the store. It is written under another name, read back, and renamed.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from ordercast.model.errors import ConfigError, StoreCorrupt
from ordercast.model.groups import Site
from ordercast.net.store.file import (
    connect,
    connect_as_it_is,
    connect_to_read,
    lock,
    read_state,
    require_same,
    store_error,
)
from ordercast.net.store.formats import prepare, require_newest
from ordercast.net.store.inspection import StoreReport, inspect_store
from ordercast.net.store.rows import RESTORED, Value, is_point
from ordercast.net.store.store import new_state
from ordercast.net.store.wal import require_whole
from ordercast.whole_files import OURS, drafted

PIECE: Final = 1_024  # pages that are copied at a time
_KEPT: Final = ("founded", "founding", "address", "described")

Progress = Callable[[int, int], None]
"""Called with how many pages are left, and how many there are."""


def back_up(store: Path, file: Path, progress: Progress | None = None) -> StoreReport:
    """Copy a store, which may be written meanwhile. Returns what the copy holds. ConfigError if
    there is no store, or if the file is there already; StoreCorrupt if the copy is damaged, because
    the store is. Then there is no file."""
    if not store.is_file():
        raise ConfigError(f"{store}: there is no such store")
    require_whole(store)
    try:
        source = connect_to_read(store)
        require_newest(source, store)
    except sqlite3.Error as error:
        raise store_error(store, error) from None
    return write_copy(file, lambda draft: _copy(source, draft, progress))


def restore(
    file: Path, store: Path, *, cluster: str, site: Site, durability: str, exact: bool = False
) -> StoreReport:
    """Make the store of a site from a copy. `exact`: with all that is in the copy. Otherwise as the
    replacement of a lost store: the site returns as one that has lost it. Returns what the new
    store holds. ConfigError if the site has a store, or if the copy is of another site."""
    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file")
    with closing(lock(store)):
        if os.path.lexists(store) or os.path.lexists(store.with_name(f"{store.name}-wal")):
            raise ConfigError(
                f"{store}: is there: a store is restored where there is none; move {store.name}*"
                " away, and keep it"
            )
        try:
            state = _state_of(file, cluster, site)
            if exact:
                return write_copy(store, lambda draft: _copy(_open(file), draft))
            return write_copy(store, lambda draft: _replace(draft, state, durability))
        except sqlite3.Error as error:
            raise store_error(file, error) from None


def write_copy(file: Path, write: Callable[[Path], None]) -> StoreReport:
    """Write a draft, read all of it back, and give it its name, if that is free."""
    if os.path.lexists(file):
        raise ConfigError(f"{file}: is there already, and is not overwritten")
    draft = file.with_name(f"{file.name}.tmp")
    try:
        with drafted(file, draft=draft, mode=OURS, new=True, durable=True):
            write(draft)
            report = inspect_store(draft, alone=True)
            if report.damaged:
                damage = report.damage[0]
                raise StoreCorrupt(f"{file}: was not written, the store is damaged: {damage}")
        report.path = file
        return report
    except FileExistsError:
        raise ConfigError(f"{file}: is there already, and is not overwritten") from None
    except sqlite3.Error as error:
        raise store_error(file, error) from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror})") from None
    finally:
        for log in ("wal", "shm"):
            with suppress(OSError):
                draft.with_name(f"{draft.name}-{log}").unlink(missing_ok=True)


def _open(file: Path) -> sqlite3.Connection:
    """A copy, which nobody writes. A copy made by hand may have the log beside it."""
    log = file.with_name(f"{file.name}-wal")
    return connect_to_read(file) if log.exists() else connect_as_it_is(file)


def _copy(source: sqlite3.Connection, draft: Path, progress: Progress | None = None) -> None:
    """From one state of the file: the read that is begun first keeps it as it is."""
    with closing(source) as old, closing(sqlite3.connect(draft)) as new:
        old.execute("BEGIN")
        old.execute("SELECT count(*) FROM state").fetchone()

        def tell(_: int, left: int, pages: int) -> None:
            if progress is not None:
                progress(left, pages)

        old.backup(new, pages=PIECE, progress=tell)


def _state_of(file: Path, cluster: str, site: Site) -> dict[str, Value]:
    with closing(_open(file)) as db:
        require_newest(db, file)
        state = read_state(db, file)
        require_same(state, file, cluster, site)
        return state


def _replace(draft: Path, copied: dict[str, Value], durability: str) -> None:
    """A new store, under a new number, with only the facts that never change: the founding, the
    address where the site listens, and how far the stores of other sites had come."""
    state = new_state(str(copied["cluster"]), str(copied["site"]))
    state |= {key: copied[key] for key in _KEPT if key in copied}
    state |= {key: value for key, value in copied.items() if is_point(key)}
    was = {"store": int(copied["store_number"]), "boot": int(copied["boot"])}
    state[RESTORED] = json.dumps({"at_ns": time.time_ns(), **was}, sort_keys=True)
    with closing(connect(draft)) as db:
        prepare(db, draft, state, durability)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
