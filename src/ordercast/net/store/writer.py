"""The writer thread: it takes all that is queued, commits it in one transaction, and reports it.

It alone writes the file, and it alone waits for the disk. When a commit fails (a full disk), the
same rows are tried again every second. Nobody is told meanwhile, so nothing is acknowledged. Old
rows are removed a few at a time, inside the commits of new ones.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias

from ordercast.model.histogram import Histogram
from ordercast.net.cluster.config import ReaderLimits, Retention
from ordercast.net.store.box import StoreBox
from ordercast.net.store.cleanup import Cleanup
from ordercast.net.store.file import PAGE_BYTES, cut_log, store_error
from ordercast.net.store.ledger import Commit, Ledger
from ordercast.net.store.reader_rows import DELETE_READER, PUT_READER
from ordercast.net.store.row_ages import RowAges
from ordercast.net.store.rows import (
    DELETE_REQUESTS,
    INSERT_BATCH,
    INSERT_EVENT,
    PUT_CHECKPOINT,
    PUT_REQUEST,
    PUT_STATE,
    Value,
    state_row,
)
from ordercast.net.store.wal import lengthen

log = logging.getLogger("ordercast.net.store")

FULL = 2  # of the pragma synchronous: each commit waits for the disk

LINGER_S = 0.0008  # how long a box that may linger waits for the next one (docs/store.md)
TRY_AGAIN_S = 1.0
CURSOR_S = 0.1  # pause before `delivered` is written alone
CLEANUP_S = 1.0  # pause between looks for old rows
WAL_BYTES = 8 << 20  # size of the log at which it is carried over into the file
LENGTHEN_AFTER = 32  # commits, after which the file of the log gets the length that it will need:
LOG_BYTES = 5 << 20  # as long as the log of small commits is when it is carried over
LOG_PIECE = 512 << 10

Then: TypeAlias = Callable[[], None]
WriterJob: TypeAlias = tuple[StoreBox, Then | None] | dict[str, Value] | None
"""A box, and what to call when it is durable; or values for the table state; or None, the end."""


class Writer(threading.Thread):
    """`tell` is called in this thread with the calls that are due now, in order; `stopped` when
    nothing can ever be written any more."""

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        ledger: Ledger,
        first: int,
        retention: Retention,
        readers: ReaderLimits,
        row_ages: RowAges,
        tell: Callable[[list[Then]], None],
        stopped: Callable[[Exception], None],
    ) -> None:
        super().__init__(name=f"ordercast store {path.name}", daemon=True)
        self.queue: SimpleQueue[WriterJob] = SimpleQueue()
        self.ledger = ledger
        self.failed: Exception | None = None
        self.stopped: Exception | None = None  # it has failed for good
        self.logged, self.confirmed = ledger.logged, ledger.confirmed  # what is durable
        self.row = ledger.last  # durable
        self.attempt, self.confirmed_attempt = ledger.attempt, ledger.confirmed_attempt
        self.commits = 0
        self.commit_times = Histogram()
        self.cleanup = Cleanup(db, first, retention, readers, row_ages)
        self._path = path
        self._db = db
        self._tell = tell
        self._tell_stopped = stopped
        self._since_carry = 0
        self._is_long = db.execute("PRAGMA synchronous").fetchone() != (FULL,)  # or need not be
        self._hurry = threading.Event()  # set at the end: a full disk is not waited for

    def run(self) -> None:
        try:
            while self._turn():
                pass
        except sqlite3.Error as error:
            log.error("%s; nothing more is written", store_error(self._path, error))
            self._stopped(store_error(self._path, error))
        except Exception as error:
            log.exception("%s: the writer has stopped", self._path)
            self._stopped(error)

    def _stopped(self, error: Exception) -> None:
        """The writer has stopped for good: nothing is acknowledged any more."""
        self.failed = self.stopped = error
        self._tell_stopped(error)

    def end(self) -> None:
        """Write what is queued and stop. A full disk is tried only once more."""
        self.queue.put(None)
        self._hurry.set()
        self.join()

    def _turn(self) -> bool:
        boxes, thens, values, more = self._take()
        commit = Commit()
        self.ledger.take(boxes, commit)
        if values:
            commit.state.extend(state_row(*item) for item in values.items())
        if self.ledger.delivered > self.ledger.delivered_on_disk and (commit or not boxes):
            self.ledger.cursor(commit)
        if (commit or self.cleanup.due(boxes)) and not self._commit(commit):
            return False
        if thens:
            self._tell(thens)
        self._tidy()
        return more

    def _take(self) -> tuple[list[StoreBox], list[Then], dict[str, Value], bool]:
        boxes: list[StoreBox] = []
        thens: list[Then] = []
        values: dict[str, Value] = {}
        queue = self.queue
        try:
            item = queue.get(timeout=self._patience())
            while True:
                if item is None:
                    return boxes, thens, values, False
                if isinstance(item, dict):
                    values.update(item)
                else:
                    boxes.append(item[0])
                    if item[1] is not None:
                        thens.append(item[1])
                lingers = len(boxes) == 1 and boxes[0].may_linger and not values
                item = queue.get(timeout=LINGER_S) if lingers else queue.get_nowait()
        except Empty:
            return boxes, thens, values, True

    def _patience(self) -> float | None:
        if self.ledger.delivered > self.ledger.delivered_on_disk:
            return CURSOR_S
        return self.cleanup.patience(CLEANUP_S)

    def _commit(self, commit: Commit) -> bool:
        """Commit, and try again until it works. Returns False if the end came first."""
        while True:
            begun = time.perf_counter_ns()
            try:
                self._execute(commit)
                self.commit_times.add(time.perf_counter_ns() - begun)
                break
            except sqlite3.OperationalError as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                self._fail(error)
                if self._hurry.is_set():
                    return False
                self._hurry.wait(TRY_AGAIN_S)
        ledger = self.ledger
        self.logged, self.confirmed = ledger.logged, ledger.confirmed
        self.row = ledger.last
        self.attempt, self.confirmed_attempt = ledger.attempt, ledger.confirmed_attempt
        self.commits += 1
        self._since_carry += commit.size + 4 * PAGE_BYTES
        if self.failed is not None:
            self.failed = None
            log.warning("%s: can be written again", self._path)
            self._carry("TRUNCATE")  # nothing of the failed commits stays in the log
        return True

    def _fail(self, error: Exception) -> None:
        if self.failed is None:
            self.failed = error
            log.error(
                "%s: cannot be written: %s; nothing is acknowledged until it can", self._path, error
            )

    def _execute(self, commit: Commit) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        added = 0
        for cut in commit.cuts:
            db.executemany(INSERT_BATCH, commit.batches[added : cut.added])
            cut_log(db, cut)
            added = cut.added
        if commit.batches:
            db.executemany(INSERT_BATCH, commit.batches[added:] if added else commit.batches)
        if commit.checkpoint is not None:
            db.execute(PUT_CHECKPOINT, commit.checkpoint)
        if commit.state:
            db.executemany(PUT_STATE, commit.state)
        if commit.gone:
            db.executemany(DELETE_REQUESTS, commit.gone)
        if commit.requests:
            db.executemany(PUT_REQUEST, commit.requests)
        if commit.events:
            db.executemany(INSERT_EVENT, commit.events)
        if commit.readers_gone:
            db.executemany(DELETE_READER, [(name,) for name in commit.readers_gone])
        if commit.readers:
            db.executemany(PUT_READER, commit.readers.values())
        first = self.cleanup.piece(self.ledger, len(commit.batches), commit)
        db.execute("COMMIT")
        self.cleanup.first = first

    def _tidy(self) -> None:
        """Shorten the file and its log. Nobody waits for this."""
        try:
            self._since_carry += self.cleanup.give_back()
        except sqlite3.OperationalError as error:
            log.warning("%s: cannot be shortened yet: %s", self._path, error)
        if self._since_carry > WAL_BYTES:
            self._carry()
        elif self.commits >= LENGTHEN_AFTER and not self._is_long:
            self._is_long = lengthen(self._path, LOG_PIECE, LOG_BYTES)

    def _carry(self, how: str = "PASSIVE") -> None:
        """Move the log's contents into the file."""
        self._since_carry = 0
        try:
            self._db.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
        except sqlite3.OperationalError as error:
            log.warning("%s: the log cannot be carried over yet: %s", self._path, error)
