"""The contents of a store, its size, and the damage in it. Nothing is changed.

It works beside a running site, and on files that a site would refuse: what cannot be read is named
as damage, and the rest is told.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from ordercast.model.errors import ConfigError, Error, StoreCorrupt
from ordercast.net.store.checkpoint import folded_state, read_checkpoint, released_by
from ordercast.net.store.file import (
    connect_as_it_is,
    connect_to_read,
    missing_row,
    read_state,
    whole_from,
)
from ordercast.net.store.formats import require_newest
from ordercast.net.store.rows import (
    FIRST_AND_LAST,
    MINE,
    RESTORED,
    SELECT_BATCH,
    BatchRow,
    Value,
    points_of,
    record_of,
    starts_of,
)
from ordercast.net.store.wal import require_whole

MOST_DAMAGE: Final = 20  # lines; what follows is only counted
TABLES: Final = ("batches", "annulled", "checkpoint", "state", "events", "requests")
_LENGTHS: Final = {
    "batches": "count(*), sum(length(body))",
    "checkpoint": "count(*), sum(length(state))",
    "state": "count(*), sum(length(value))",
    "events": "count(*), sum(length(detail))",
    "requests": "count(*), sum(length(client) + length(group_name))",
}


@dataclass
class StoreReport:
    """What was found. Fields that could not be read keep their first values."""

    path: Path
    bytes: dict[str, int] = field(default_factory=dict)
    cluster: str = ""
    site: str = ""
    store: str = ""  # its number
    boot: int = 0
    incarnation: int | None = None  # None: there is no checkpoint yet
    founding: str = ""
    epoch: int = 0  # the last that opened
    rows: tuple[int, int] = (0, 0)  # the first and the last
    positions: dict[str, int] = field(default_factory=dict)
    oldest_ns: int | None = None  # of the rows that are kept
    closed: dict[str, Any] | None = None  # None: it runs, or was killed
    restored: dict[str, Any] | None = None
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    heard: dict[str, list[int]] = field(default_factory=dict)  # of others' stores: boot and row
    damage: list[str] = field(default_factory=list)
    damaged: int = 0  # how many places, told or not

    def harm(self, what: str) -> None:
        self.damaged += 1
        if len(self.damage) < MOST_DAMAGE:
            self.damage.append(what)

    def as_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path), "cluster": self.cluster, "site": self.site,
            "store": self.store, "boot": self.boot, "incarnation": self.incarnation,
            "founding": self.founding, "epoch": self.epoch, "rows": list(self.rows),
            "positions": self.positions, "oldest_ns": self.oldest_ns, "closed": self.closed,
            "restored": self.restored, "bytes": self.bytes, "tables": self.tables,
            "heard": self.heard, "damaged": self.damaged, "damage": self.damage,
        }  # fmt: skip


def inspect_store(path: Path, *, alone: bool = False) -> StoreReport:
    """Read all of it. `alone`: nobody writes the file, and it has no log beside it. ConfigError if
    there is no such file, or if it is a database of something else."""
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such store")
    log = path.with_name(f"{path.name}-wal")
    if alone or not log.exists():  # a copy, or a site that has stopped: no file is made beside it
        report = _inspect(path, alone=True)
        if alone or not log.exists():
            return report
    return _inspect(path, alone=False)  # a site runs, or was killed, or has just been started


def _inspect(path: Path, *, alone: bool) -> StoreReport:
    report = StoreReport(path)
    report.bytes = {"file": path.stat().st_size, "log": _size(path.with_name(f"{path.name}-wal"))}
    if not alone:
        _try(report, lambda: require_whole(path))
    try:
        with closing(connect_as_it_is(path) if alone else connect_to_read(path)) as db:
            require_newest(db, path)
            db.execute("BEGIN")
            for part in (_pages, _state, _checkpoint, _positions, _sizes, _epoch, _rows):
                _try(report, partial(part, db, report))
    except sqlite3.Error as error:
        report.harm(f"{path}: cannot be read: {error}")
    return report


def _try(report: StoreReport, part: Callable[[], None]) -> None:
    try:
        part()
    except (Error, sqlite3.Error, ValueError) as error:
        report.harm(_short(str(error)))


def _short(line: str) -> str:
    """The message without its advice: a report states facts only."""
    return line.partition("; keep it")[0]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _pages(db: sqlite3.Connection, report: StoreReport) -> None:
    page, free = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_size", "freelist_count")
    )
    report.bytes["free"] = page * free
    for (line,) in db.execute(f"PRAGMA integrity_check({MOST_DAMAGE})"):
        if line != "ok":
            report.harm(" ".join(str(line).split()))


def _state(db: sqlite3.Connection, report: StoreReport) -> None:
    state: dict[str, Value] = read_state(db, report.path)
    report.cluster, report.site = str(state.get("cluster", "")), str(state.get("site", ""))
    report.store = f"{int(state.get('store_number', 0)):016x}"
    report.boot = int(state.get("boot", 0))
    report.founding = str(state.get("founding", ""))
    for name in ("delivered", "confirmed", "attempt"):
        report.positions[name] = int(state.get(name, 0))
    closed, restored = state.get("closed"), state.get(RESTORED)
    report.closed = json.loads(str(closed)) if closed else None
    report.restored = json.loads(str(restored)) if restored else None
    report.heard = {site: [point.boot, point.row] for site, point in points_of(state).items()}
    starts_of(state)


def _checkpoint(db: sqlite3.Connection, report: StoreReport) -> None:
    checkpoint = read_checkpoint(db, report.path)
    if checkpoint is not None:
        anew = folded_state(checkpoint, report.path).anew
        report.incarnation = anew.incarnation
        report.positions["delivered"] = max(report.positions["delivered"], released_by(anew))


def _positions(db: sqlite3.Connection, report: StoreReport) -> None:
    first, last = db.execute(FIRST_AND_LAST).fetchone()
    (folded,) = db.execute("SELECT ifnull(max(position), 0) FROM checkpoint").fetchone()
    kept = whole_from(db)
    report.positions["first"] = folded + 1 if kept is None else kept
    report.positions["logged"] = folded
    if last is None:
        return
    report.rows = int(first), int(last)
    position, count, kind = db.execute(
        "SELECT position, count, kind FROM batches WHERE n = ?", (last,)
    ).fetchone()
    report.positions["logged"] = position + count - 1 if kind & MINE else position - 1
    (report.oldest_ns,) = db.execute("SELECT at_ns FROM batches WHERE n = ?", (first,)).fetchone()


def _sizes(db: sqlite3.Connection, report: StoreReport) -> None:
    for table in TABLES:
        wanted = _LENGTHS.get(table, "count(*), 0")
        rows, size = db.execute(f"SELECT {wanted} FROM {table}").fetchone()
        report.tables[table] = {"rows": int(rows), "bytes": int(size or 0)}


def _epoch(db: sqlite3.Connection, report: StoreReport) -> None:
    found = db.execute("SELECT detail FROM events WHERE kind = 'open' ORDER BY n DESC LIMIT 1")
    last = found.fetchone()
    report.epoch = int(json.loads(last[0])["epoch"]) if last else int(report.rows != (0, 0))


def _rows(db: sqlite3.Connection, report: StoreReport) -> None:
    """Every checksum, and that no row is missing."""
    before = None
    for values in db.execute(f"{SELECT_BATCH} ORDER BY n"):
        row = BatchRow(*values)
        if before is not None and row.n != before + 1:
            report.harm(_short(str(missing_row(report.path, before + 1))))
        before = row.n
        try:
            record_of(row, report.path)
        except StoreCorrupt as error:
            report.harm(_short(str(error)))
