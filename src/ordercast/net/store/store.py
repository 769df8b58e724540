"""A site's store: SQLite in WAL mode, one row per batch, group commit by one thread
(docs/store.md).

The driver hands over what an outbox asks to persist (`write`) and is called back, in order, when it
is durable. After a crash `restored` gives the core its records, and `read` gives the part of the
ordered log that the application has not confirmed.
"""

import asyncio
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import REFUSED, EpochOpened, MemberRecord
from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Group, Site
from ordercast.model.histogram import Histogram
from ordercast.model.messages import DeliveredBatch
from ordercast.net.cluster.config import ReaderLimits, Retention
from ordercast.net.store.box import StoreBox
from ordercast.net.store.checkpoint import released_by
from ordercast.net.store.events import Openings
from ordercast.net.store.file import (
    connect,
    lock,
    machine_start,
    read_state,
    require_same,
    store_error,
)
from ordercast.net.store.formats import migrate, prepare
from ordercast.net.store.ledger import Ledger
from ordercast.net.store.reader import READ_BYTES, LoggedTime, LogReader
from ordercast.net.store.reader_rows import ReaderHold, ReaderRow
from ordercast.net.store.recovery import RecoveredState, recover
from ordercast.net.store.requests import RequestTable
from ordercast.net.store.row_ages import RowAges
from ordercast.net.store.rows import (
    DISPUTED,
    GAPS,
    INSERT_EVENT,
    PUT_STATE,
    RESTORED,
    SELECT_REQUESTS,
    STARTS,
    Value,
    ages_of,
    disputed_of,
    encode,
    point_row,
    points_of,
    starts_of,
    state_row,
)
from ordercast.net.store.wal import require_whole
from ordercast.net.store.writer import Then, Writer
from ordercast.wire.lineage import StorePoint, StoreStart, kept_starts

log = logging.getLogger("ordercast.net.store")

DURABILITIES = ("sync", "os")
_EVENTS = 10_000  # how many events of crashes and restarts are kept
_DISPUTED = 8  # boots of points where the store has not been


class Store:
    """`boot` and `store_number` are for the core; `founded`, `founding` and `address` were given to
    `keep_founding`, and count if the store has `begun`: it has a row, or was restored. `starts`:
    the last starts on this store. `heard`: what other sites have said of their stores. Call
    `write` from one thread only."""

    def __init__(
        self,
        path: Path,
        held: IO[bytes],
        db: sqlite3.Connection,
        found: RecoveredState,
        ledger: Ledger,
        retention: Retention,
        readers: ReaderLimits,
        call: Callable[[Then], object] | None,
    ) -> None:
        self.path = path
        self.boot = int(found.state["boot"])
        self.store_number = int(found.state["store_number"])
        self.starts = starts_of(found.state)
        self._disputed = disputed_of(found.state)
        self.heard: Mapping[Site, StorePoint] = points_of(found.state)
        self.founded = bytes(found.state["founded"])  # type: ignore[arg-type]
        self.founding = str(found.state["founding"])
        self.address = str(found.state["address"])
        self.begun = found.last > 0 or RESTORED in found.state
        self.described: Mapping[str, Any] = json.loads(str(found.state.get("described", "{}")))
        self._held = held
        self._db = db
        self._restored = found.restored()
        self._named = dict(found.readers)
        self.requests = RequestTable(db.execute(SELECT_REQUESTS))
        self._gaps: list[tuple[int, str]] = db.execute(
            # The last gap that begins at or before the confirmed position may reach beyond it.
            f"SELECT position, detail FROM {GAPS} AND position >= ifnull("
            f" (SELECT max(position) FROM {GAPS} AND position <= ?), 0) ORDER BY n",
            (ledger.confirmed,),
        ).fetchall()
        self._call = call
        self._closed = False
        self._reader = LogReader(path)
        ages = [readers.age, *([retention.amount] if retention.kind == "age" else [])]
        row_ages = RowAges(ages_of(found.state), ledger.last + 1, min(ages))
        self._writer = Writer(
            path, db, ledger, found.first, retention, readers, row_ages, self._tell, self._stopped
        )
        self._on_stopped: Callable[[Exception], None] | None = None
        self._writer.start()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        cluster: str,
        site: Site,
        durability: str,
        retention: Retention | None = None,
        readers: ReaderLimits | None = None,
        call: Callable[[Then], object] | None = None,
    ) -> "Store":
        """Create or recover the store and count one more boot, durably.

        `call` hands a call to the thread that writes; by default, to its running event loop.
        """
        if durability not in DURABILITIES:
            raise ConfigError(f"durability: {durability!r}: a store on disk is 'sync' or 'os'")
        path = Path(path)
        held = lock(path)
        db: sqlite3.Connection | None = None
        try:
            require_whole(path)
            db = connect(path)
            found = _recover(db, path, cluster, site, durability)
            ledger = Ledger(site, found)
            limits = readers or ReaderLimits()
            return cls(path, held, db, found, ledger, retention or Retention(), limits, call)
        except (sqlite3.Error, OSError) as error:
            _close(db, held)
            raise store_error(path, error) from None
        except BaseException:
            _close(db, held)
            raise

    # --- what a start needs -----------------------------------------------------------------------

    def restored(self) -> list[MemberRecord]:
        """The records for the core: all that it asked to persist, or its last `Anew` and the
        records after it. They are given out once: the store does not keep them."""
        restored, self._restored = self._restored, []
        return restored

    def opened(self) -> list[EpochOpened]:
        """The last epochs that opened here, in order. Callable from any thread."""
        return self._reader.opened()

    def entered(self) -> list[EpochOpened]:
        """What is kept of openings for sites that ask for a group's state."""
        return self._reader.entered()

    def rollbacks(self) -> list[Rollback]:
        """The rollbacks of this site, in order. Callable from any thread."""
        return self._reader.rollbacks()

    def gaps(self) -> list[tuple[int, str]]:
        """(position, detail) of the unconfirmed batches that were shed before this start."""
        return self._gaps

    def readers(self) -> dict[str, ReaderRow]:
        """The named readers that this start found."""
        return self._named

    @property
    def holds(self) -> Mapping[str, ReaderHold]:
        """How much is held for each named reader, as the writer found when it last looked."""
        return self._writer.cleanup.holds

    @property
    def attempt(self) -> int:
        """The attempt of the log: one more after each rollback."""
        return self._writer.attempt

    @property
    def confirmed_attempt(self) -> int:
        """The attempt in which the application last confirmed something."""
        return self._writer.confirmed_attempt

    @property
    def confirmed(self) -> int:
        """The last position that the application has confirmed, durably."""
        return self._writer.confirmed

    @property
    def delivered(self) -> int:
        """The last position known to have been released to the application."""
        return self._writer.ledger.delivered

    @property
    def logged(self) -> int:
        """The last position in the durable ordered log."""
        return self._writer.logged

    @property
    def row(self) -> int:
        """The last row that is durable. It never falls."""
        return self._writer.row

    @property
    def failed(self) -> Exception | None:
        """Why nothing can be written now; None if it can. Meanwhile nothing is acknowledged."""
        return self._writer.failed

    @property
    def commit_times(self) -> Histogram:
        """How long each of them took."""
        return self._writer.commit_times

    @property
    def first(self) -> int:
        """The first position that `read` can give. Earlier ones are forgotten."""
        return self._reader.first()

    def when_stopped(self, call: Callable[[Exception], None]) -> None:
        """Call this, perhaps in another thread, when nothing can ever be written any more; perhaps
        twice."""
        self._on_stopped = call
        if self._writer.stopped is not None:
            call(self._writer.stopped)

    # --- writing ----------------------------------------------------------------------------------

    def write(self, box: StoreBox, then: Then | None = None) -> None:
        """Queue a box. `then` is called when this box and all boxes before it are durable. Calls
        come in the order of the boxes."""
        if self._closed:
            raise Error(f"{self.path}: the store is closed")
        if self._call is None:
            self._call = asyncio.get_running_loop().call_soon_threadsafe
        if box.requests or box.answered:
            self.requests.note(box)
        self._writer.queue.put((box, then))

    def request(self, client: bytes, number: int) -> tuple[Group, int, int] | None:
        """The batch that a request became, if the request was taken: (group, first seq, count).

        It may not be durable yet. To answer only when it is, write a box now, even an empty one,
        and answer in its `then`.
        """
        return self.requests.given(client, number)

    def keep_founding(self, founded: bytes, founding: str, address: str) -> None:
        """Keep the layout that the cluster was founded with, its digest, and where this site
        listens. They are durable with the next box, or before."""
        self.founded, self.founding, self.address = founded, founding, address
        self._writer.queue.put({"founded": founded, "founding": founding, "address": address})

    def keep_points(self, points: Mapping[Site, StorePoint]) -> None:
        """Keep what others said of their stores. It is durable when this store is closed."""
        rows = (point_row(site, point) for site, point in points.items())
        self._writer.queue.put({key: value for key, value, _ in rows})

    def keep_disputed(self, point: StorePoint) -> None:
        """Another site knows a point of this store where it has not been: it is an older copy, and
        will be one however often it starts. This is durable when this store is closed."""
        if point.boot not in self._disputed:
            self._disputed = (*self._disputed, point.boot)[-_DISPUTED:]
            self._writer.queue.put({DISPUTED: encode(self._disputed)})

    def describe(self, **facts: Any) -> None:
        """Keep facts of the cluster for an export: `deliver`, `on_failure`, `epochs`, and what else
        belongs in meta.json. `epochs` are the founding epochs; if they were given before, those
        stay."""
        if self.described.get("epochs"):
            facts["epochs"] = self.described["epochs"]
        self.described = facts
        self._writer.queue.put({"described": json.dumps(facts, sort_keys=True)})

    def bytes(self) -> int:
        """The size of the file and of its log."""
        total = 0
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            try:
                total += path.stat().st_size
            except OSError:
                continue
        return total

    # --- reading ----------------------------------------------------------------------------------

    def read(
        self, start: int, most_messages: int, most_bytes: int = READ_BYTES
    ) -> list[DeliveredBatch]:
        """Batches of the durable log, from the one that holds position `start`, until one of the
        limits is reached. At least one, if there is any. Callable from any thread."""
        return self._reader.read(start, most_messages, most_bytes)

    def times(self, start: int, most_messages: int) -> list[LoggedTime]:
        """When batches were logged, from the one that holds position `start`. Callable from any
        thread."""
        return self._reader.times(start, most_messages)

    def openings(self, start: int, end: int, after: int = 0) -> Openings:
        """The epochs later than `after` that opened at a position from `start` to `end`, as far as
        they are kept: the first ones, and whether these are all. Callable from any thread."""
        return self._reader.openings(start, end, after)

    # --- the end ----------------------------------------------------------------------------------

    async def close(self, *, quiet: bool = False) -> None:
        """Write what is queued and close. `quiet`: the site had nothing left to do."""
        await asyncio.to_thread(self.close_sync, quiet=quiet)

    def close_sync(self, *, quiet: bool = False) -> None:
        if self._closed:
            return
        self._closed = True
        self._writer.queue.put({"closed": json.dumps({"at_ns": time.time_ns(), "quiet": quiet})})
        self._writer.end()
        self._reader.close()
        _close(self._db, self._held)

    def _stopped(self, error: Exception) -> None:
        if self._on_stopped is not None:
            self._on_stopped(error)

    def _tell(self, thens: list[Then]) -> None:
        call = self._call
        assert call is not None
        try:
            call(partial(_run, thens))
        except RuntimeError:  # the loop is closed: nobody can be told
            log.debug("%s: the event loop is closed", self.path)


def drawn() -> int:
    """A random number for a store. No other store has it."""
    return int.from_bytes(os.urandom(8), "big") >> 1 or 1


def new_state(cluster: str, site: Site) -> dict[str, Value]:
    """The table `state` of a store that begins now."""
    return {
        "cluster": cluster, "site": site, "store_number": drawn(), "boot": 0,
        "created_ns": time.time_ns(), "confirmed": 0, "delivered": 0, "attempt": 1,
        "confirmed_attempt": 1, "closed": "", "founded": b"", "founding": "", "address": "",
    }  # fmt: skip


def _run(thens: list[Then]) -> None:
    for then in thens:
        try:
            then()
        except Exception:
            log.exception("a call after a commit failed")


def _recover(
    db: sqlite3.Connection, path: Path, cluster: str, site: Site, durability: str
) -> RecoveredState:
    now = time.time_ns()
    older = prepare(db, path, new_state(cluster, site), durability)
    require_same(read_state(db, path), path, cluster, site)
    if older:
        migrate(db, path)
    found = recover(db, path)
    state = found.state
    if found.anew is not None:
        # Batches that are folded were released before: the core will not deliver them again.
        state["delivered"] = max(int(state["delivered"]), released_by(found.anew))
    machine = machine_start()
    boot = state["boot"] = int(state["boot"]) + 1
    events = []
    if boot > 1:
        at = max(int(state["delivered"]), int(state["confirmed"]))
        clean = bool(state["closed"])
        if not clean:
            events.append(("crash", at, now, "{}"))
        detail = json.dumps({"boot": boot, "store": "intact"}, separators=(",", ":"))
        events.append(("restart", at, now, detail))
        if not clean and durability == "os" and state.get("machine") != machine:
            log.warning(
                "%s: the machine was restarted while the site ran, with durability 'os': the last"
                " of what the site acknowledged may be missing",
                path,
            )
    state["closed"], state["machine"] = "", machine
    starts = (*starts_of(state), StoreStart(boot, drawn(), found.last))
    state[STARTS] = encode(kept_starts(starts, disputed_of(state)))
    db.execute("BEGIN IMMEDIATE")
    changed = ("boot", "delivered", "closed", "machine", STARTS)
    db.executemany(PUT_STATE, [state_row(key, state[key]) for key in changed])
    db.executemany(INSERT_EVENT, events)
    db.execute(
        "DELETE FROM events WHERE kind IN ('crash', 'restart')"
        " AND n <= (SELECT max(n) FROM events) - ?",
        (_EVENTS,),
    )
    db.executemany("DELETE FROM events WHERE n = ?", _refusals_of_removed_rows(db, found.first))
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return found


def _refusals_of_removed_rows(db: sqlite3.Connection, first: int) -> list[tuple[int]]:
    """The events of refused batches whose rows were removed."""
    events = db.execute("SELECT n, detail FROM events WHERE kind = ?", (REFUSED,))
    return [(n,) for n, detail in events if json.loads(detail)["row"] < first]


def _close(db: sqlite3.Connection | None, held: IO[bytes]) -> None:
    try:
        if db is not None:
            db.close()
    except sqlite3.Error as error:
        log.warning("closing the store: %s", error)
    finally:
        held.close()
