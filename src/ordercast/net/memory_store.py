"""The store of durability `memory`: the same face, no file, nothing survives.

Boxes are done with at once. Of the ordered log it keeps what the application has not confirmed, up
to a number of bytes, so that an application that never confirms does not fill the memory.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ordercast.core.epochs.records import EpochOpened, Kept, MemberRecord
from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch
from ordercast.net.idempotency import Requests
from ordercast.net.openings import opened_told
from ordercast.net.store import drawn
from ordercast.net.written import Written

KEPT_BYTES = 64 << 20  # of bodies, and so many for each batch:
_PER_BATCH = 400


class MemoryStore:
    boot = 1
    founded = b""
    founding = ""
    address = ""
    path = None
    commits = 0
    failed: Exception | None = None
    on_failed: Callable[[Exception | None], None] | None = None

    def __init__(self, *, kept_bytes: int = KEPT_BYTES) -> None:
        self.store_number = drawn()  # a new one at each start: nothing of an earlier one is left
        self.confirmed = 0
        self.delivered = 0
        self.logged = 0
        self._kept: deque[DeliveredBatch] = deque()
        self._opened: dict[int, EpochOpened] = {}
        self._room = kept_bytes
        self.requests = Requests(())
        self._lock = threading.Lock()  # `read` may be called from any thread
        self._closed = False

    @property
    def first(self) -> int:
        kept = self._kept
        return kept[0].position if kept else self.logged + 1

    def restored(self) -> list[MemberRecord]:
        return []

    def opened(self) -> list[EpochOpened]:
        with self._lock:
            return list(self._opened.values())

    def gaps(self) -> list[tuple[int, str]]:
        return []

    def write(self, box: Written, then: Callable[[], None] | None = None) -> None:
        if self._closed:
            raise Error("the store is closed")
        self.requests.note(box)
        if box.records or box.events:
            with self._lock:
                self._log(box)
        if box.delivered > self.delivered:
            self.delivered = box.delivered
        if box.confirmed is not None and box.confirmed > self.confirmed:
            self.confirmed = box.confirmed
            with self._lock:
                self._drop_confirmed()
        if then is not None:
            then()

    def request(self, client: bytes, number: int) -> tuple[Group, int, int] | None:
        return self.requests.given(client, number)

    def found(self, founded: bytes, founding: str, address: str) -> None:
        self.founded, self.founding, self.address = founded, founding, address

    def describe(self, **facts: Any) -> None:
        """There is no export of a store without a file."""

    def bytes(self) -> int:
        return 0

    def read(self, start: int, most_messages: int) -> list[DeliveredBatch]:
        found: list[DeliveredBatch] = []
        room = most_messages
        with self._lock:
            if start < self.first:
                raise ConfigError(
                    f"position {start} is no longer kept; the first that is: {self.first}"
                )
            for batch in self._kept:
                if batch.last < start:
                    continue
                if room <= 0:
                    break
                found.append(batch)
                room -= batch.count
        return found

    async def close(self, *, quiet: bool = False) -> None:
        self.close_sync(quiet=quiet)

    def close_sync(self, *, quiet: bool = False) -> None:  # noqa: ARG002  # as `Store` has it
        self._closed = True

    def _log(self, box: Written) -> None:
        for record in box.records:
            if type(record) is Kept and record.mine:
                placed = record.passed.placed
                self._kept.append(DeliveredBatch(self.logged + 1, record.epoch, placed))
                self.logged += placed.batch.count
                self._room -= len(placed.batch.body) + _PER_BATCH
        for kind, position, detail in box.events:
            if kind == "open":
                opened = opened_told(position, detail)
                self._opened.setdefault(opened.epoch, opened)
        while self._room < 0:
            self._drop()

    def _drop_confirmed(self) -> None:
        kept = self._kept
        while kept and kept[0].last <= self.confirmed:
            self._drop()

    def _drop(self) -> None:
        gone = self._kept.popleft()
        self._room += len(gone.placed.batch.body) + _PER_BATCH
