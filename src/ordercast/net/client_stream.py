"""A client's reading of deliveries: bounded by what it has granted, resumed where it was."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from ordercast.net.admin_frames import Grant, Request, Subscribe, Unsubscribe
from ordercast.net.stream import GapBatch, StreamBatch

AHEAD_MESSAGES = 16_384  # sent by the daemon and not yet read by the application
AHEAD_BYTES = 4 * 1024 * 1024


class Incoming:
    """One `batches()` of the application."""

    def __init__(self, number: int, start: int | None, send: Callable[[Request], None]) -> None:
        self.number = number
        self.next = start  # the position to go on with; None: where the daemon says
        self._send = send
        self._batches: deque[StreamBatch] = deque()
        self._used = [0, 0]  # messages and bytes read since the last grant
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    def subscribe(self) -> None:
        """On a new connection. What is here already counts against the grant."""
        held = sum(batch.count for batch in self._batches)
        size = sum(_size(batch) for batch in self._batches)
        self._used = [0, 0]
        self._send(Subscribe(self.number, self.next))
        self._send(Grant(self.number, max(1, AHEAD_MESSAGES - held), max(1, AHEAD_BYTES - size)))

    def arrived(self, batch: StreamBatch) -> None:
        if self.next is not None and batch.position != self.next:
            return  # of a connection that is gone
        self.next = batch.last + 1
        self._batches.append(batch)
        self._wake()

    def failed(self, error: Exception) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def batches(self) -> AsyncIterator[StreamBatch]:
        try:
            while True:
                while self._batches:
                    batch = self._batches.popleft()
                    self._read(batch)
                    yield batch
                if self._error is not None:
                    raise self._error
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
        finally:
            self._send(Unsubscribe(self.number))

    def _read(self, batch: StreamBatch) -> None:
        used = self._used
        used[0] += batch.count
        used[1] += _size(batch)
        if used[0] >= AHEAD_MESSAGES // 4 or used[1] >= AHEAD_BYTES // 4:
            self._send(Grant(self.number, used[0], used[1]))
            self._used = [0, 0]


def _size(batch: StreamBatch) -> int:
    return 0 if isinstance(batch, GapBatch) else len(batch.placed.batch.body)
