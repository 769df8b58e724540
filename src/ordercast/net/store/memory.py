"""The store for durability `memory`: it has the same methods and no file. Nothing survives a
restart.

A box is durable at once. Of the ordered log the store keeps what the application has not confirmed,
up to a number of bytes, so that an application that never confirms does not fill the memory.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened, Kept, MemberRecord
from ordercast.model.errors import Error, Forgotten
from ordercast.model.groups import Group, Site
from ordercast.model.histogram import Histogram
from ordercast.model.messages import DeliveredBatch
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import Openings
from ordercast.net.store.log_end import DeliveryQueue, Floor, LogItem, not_rolled_back
from ordercast.net.store.reader import READ_BYTES, LoggedTime
from ordercast.net.store.reader_rows import ReaderHold, ReaderRow
from ordercast.net.store.requests import RequestTable
from ordercast.net.store.store import drawn
from ordercast.wire.lineage import StorePoint, StoreStart

KEPT_BYTES = 64 << 20  # of bodies, and so many for each batch:
_PER_BATCH = 400


class MemoryStore:
    boot = 1
    starts: tuple[StoreStart, ...] = ()
    row = 0
    heard: Mapping[Site, StorePoint] = MappingProxyType({})
    founded = b""
    begun = True
    founding = ""
    address = ""
    described: Mapping[str, Any] = MappingProxyType({})
    path = None
    commit_times = Histogram()  # it commits nothing
    failed: Exception | None = None
    holds: Mapping[str, ReaderHold] = MappingProxyType({})

    def __init__(self) -> None:
        # A new one at each start, because nothing is left of an earlier one.
        self.store_number = drawn()
        self.confirmed = 0
        self.delivered = 0
        self.logged = 0
        self.attempt = self.confirmed_attempt = 1
        self._rollbacks: list[Rollback] = []
        self._floors: list[Floor] = []
        self._kept: deque[DeliveredBatch] = deque()
        self._room = KEPT_BYTES
        self.requests = RequestTable(())
        self._lock = threading.Lock()  # `read` may be called from any thread
        self._closed = False

    @property
    def first(self) -> int:
        kept = self._kept
        return kept[0].position if kept else self.logged + 1

    def restored(self) -> list[MemberRecord]:
        return []

    def readers(self) -> dict[str, ReaderRow]:
        """None: named readers need a store that outlives a restart."""
        return {}

    def opened(self) -> list[EpochOpened]:
        """None. Only a start asks for them, and for those below; a stream without a file keeps its
        own."""
        return []

    def entered(self) -> list[EpochOpened]:
        return []

    def openings(self, start: int, end: int, after: int = 0) -> Openings:  # noqa: ARG002  # as `Store`
        return [], True

    def rollbacks(self) -> list[Rollback]:
        with self._lock:
            return list(self._rollbacks)

    def gaps(self) -> list[tuple[int, str]]:
        return []

    def write(self, box: StoreBox, then: Callable[[], None] | None = None) -> None:
        if self._closed:
            raise Error("the store is closed")
        if box.requests or box.answered:
            self.requests.note(box)
        if box.records or box.logged is not None:
            with self._lock:
                self._log(box)
        self.delivered = max(
            self.delivered, not_rolled_back(box.delivered, box.after_attempt, self._floors)
        )
        if box.confirmed is not None:
            attempt = box.confirmed_attempt or box.after_attempt
            confirmed = not_rolled_back(box.confirmed, attempt, self._floors)
            self.confirmed = max(confirmed, self.confirmed)
            self.confirmed_attempt = max(attempt, self.confirmed_attempt)
            with self._lock:
                self._drop_confirmed()
        if then is not None:
            then()

    def request(self, client: bytes, number: int) -> tuple[Group, int, int] | None:
        return self.requests.given(client, number)

    def keep_founding(self, founded: bytes, founding: str, address: str) -> None:
        self.founded, self.founding, self.address = founded, founding, address

    def keep_points(self, points: Mapping[Site, StorePoint]) -> None:
        """Nothing to do: a restart finds nothing."""

    def when_stopped(self, call: Callable[[Exception], None]) -> None:
        """Nothing to do: it writes nothing."""

    def keep_disputed(self, point: StorePoint) -> None:
        """Nothing to do: no copy of this store can be put back."""

    def describe(self, **facts: Any) -> None:
        """Nothing to do: a store without a file is not exported."""

    def bytes(self) -> int:
        return 0

    def times(self, start: int, most_messages: int) -> list[LoggedTime]:  # noqa: ARG002  # as `Store`
        """None: no times are kept without a file."""
        return []

    def read(
        self, start: int, most_messages: int, most_bytes: int = READ_BYTES
    ) -> list[DeliveredBatch]:
        found: list[DeliveredBatch] = []
        messages, size = most_messages, most_bytes
        with self._lock:
            if start < self.first:
                raise Forgotten(
                    f"position {start} is no longer kept; the first that is: {self.first}"
                )
            for batch in self._kept:
                if batch.last < start:
                    continue
                if messages <= 0 or size <= 0:
                    break
                found.append(batch)
                messages -= batch.count
                size -= len(batch.placed.batch.body)
        return found

    async def close(self, *, quiet: bool = False) -> None:
        self.close_sync(quiet=quiet)

    def close_sync(self, *, quiet: bool = False) -> None:  # noqa: ARG002  # as `Store` has it
        self._closed = True

    def _log(self, box: StoreBox) -> None:
        replacing = DeliveryQueue(box.caught)
        for record in box.records:
            if type(record) is Kept and record.mine:
                if replacing.opens(record.epoch):
                    self._relog(replacing.upto(record.epoch))
                placed = record.passed.placed
                at = self.logged + 1
                self._append(DeliveredBatch(at, record.epoch, placed, self.attempt))
        if box.logged is not None:
            self._relog(replacing.rest())
            self._cut(box.logged)
        while self._room < 0:
            self._drop()

    def _append(self, batch: DeliveredBatch) -> None:
        self._kept.append(batch)
        self.logged += batch.count
        self._room -= len(batch.placed.batch.body) + _PER_BATCH

    def _relog(self, items: Iterable[LogItem]) -> None:
        """Replace the end of the log, as the store on disk does."""
        for item in items:
            if isinstance(item, Rollback):
                if item.attempt > self.attempt:
                    self._cut(item.position)
                    self.attempt = item.attempt
                    self._rollbacks.append(item)
                    self._floors.append(Floor(item.attempt, item.position))
                    self.delivered = min(self.delivered, item.position)
                    self.confirmed = min(self.confirmed, item.position)
            elif isinstance(item, EpochOpened):
                self._cut(item.position)
            elif not self._has(item):
                self._cut(item.position - 1)
                self._append(item)

    def _has(self, item: DeliveredBatch) -> bool:
        for batch in reversed(self._kept):
            if batch.position <= item.position:
                return (batch.position, batch.epoch, batch.placed.key) == (
                    item.position, item.epoch, item.placed.key,
                )  # fmt: skip
        return item.position <= self.logged  # it was dropped

    def _cut(self, position: int) -> None:
        kept = self._kept
        while kept and kept[-1].position > position:
            self._room += len(kept.pop().placed.batch.body) + _PER_BATCH
        self.logged = min(self.logged, position)

    def _drop_confirmed(self) -> None:
        kept = self._kept
        while kept and kept[0].last <= self.confirmed:
            self._drop()

    def _drop(self) -> None:
        gone = self._kept.popleft()
        self._room += len(gone.placed.batch.body) + _PER_BATCH
