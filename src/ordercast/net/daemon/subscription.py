"""A client's subscription to a site's deliveries. It sends as much as the client has
room for."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.errors import Error
from ordercast.model.groups import Group
from ordercast.net.admin.frames import (
    Failed,
    Opened,
    RangeEnd,
    Rolled,
    Shed,
    SubscribedBatches,
    Wire,
    Withheld,
    kind_of,
    reason_of,
)
from ordercast.net.site.stream import GapBatch, Stream, StreamBatch

CREDIT_BYTES = 16 * 1024 * 1024  # the most credit of a client: it may all wait to be read
UNREAD_BYTES = 16 * 1024 * 1024  # so much may wait for a client; then its reader waits. Credit
# alone is no bound: the frame of an empty batch has bytes, too
CROWDED_S = 0.05  # between looks, while so much waits


async def observed(
    stream: Stream, start: int | None, attempt: int | None = None
) -> AsyncIterator[StreamBatch]:
    """The deliveries for an observer, which is no reader. An operator may begin at position 1, or
    stop looking: that must neither hold the site up nor make it shed."""
    cursor = stream.watch(start, attempt)
    try:
        while True:
            for batch in await stream.after(cursor):
                if isinstance(batch, EpochOpened):
                    cursor.epoch = batch.epoch
                    yield batch
                    continue
                if isinstance(batch, Rollback):
                    cursor.roll_back(batch)
                    yield batch
                    continue
                yield batch.between(cursor.last + 1, batch.last)
                cursor.last = batch.last
    finally:
        stream.leave(cursor)


class Subscription:
    """`may_read`: whether messages of a group are for this client. `keep`: the site stores nothing,
    so keep what was sent until the client has read it. It is sent again on the client's next
    connection."""

    def __init__(
        self,
        number: int,
        batches: AsyncIterator[StreamBatch],
        wire: Wire,
        may_read: Callable[[Group], bool],
        *,
        keep: bool,
    ) -> None:
        self.number = number
        self._may_read = may_read
        self.keep = keep
        self._wire: Wire | None = wire
        self._batches = batches
        self._kept: deque[StreamBatch] = deque()
        # Credit that is not used; below 0 after a batch that was larger than the rest.
        self._messages = 0
        self._bytes = 0
        self._credited: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._run())

    def credit(self, messages: int, size: int, read: int) -> None:
        self._messages += messages
        self._bytes = min(self._bytes + size, CREDIT_BYTES)  # whatever the client says
        self._let_go(read)
        if self._credited is not None and not self._credited.done():
            self._credited.set_result(None)

    def _let_go(self, read: int) -> None:
        """Drop what the client has read, up to a position. The client may not have read an opening
        or a rollback at exactly this position: that stays until something after it was read."""
        kept = self._kept
        while kept and _last(kept[0]) <= read:
            if _takes_none(kept[0]) and (len(kept) < 2 or _last(kept[1]) > read):
                return
            kept.popleft()

    def close(self) -> None:
        self._task.cancel()

    def park(self) -> None:
        """The connection is lost. The client may be back soon."""
        self._wire = None

    def resume(self, wire: Wire, start: int | None, attempt: int = 0) -> bool:
        """Go on at `start` on a new connection. The client knows rollbacks up to `attempt`. False:
        this subscription cannot begin there."""
        # What comes before a rollback that the client knows is not needed.
        for batch in list(self._kept):
            if isinstance(batch, Rollback) and batch.attempt <= attempt:
                while self._kept.popleft() is not batch:
                    pass
        first = next((b.position for b in self._kept if not _takes_none(b)), None)
        if self._task.done() or (first is not None and start is not None and first > start):
            return False
        self._wire = wire
        self._messages = self._bytes = 0
        again, self._kept = self._kept, deque()
        for batch in again:
            if start is None or _last(batch) >= start - _takes_none(batch):
                self._write(batch)
        return True

    async def _run(self) -> None:
        try:
            await self._room()
            async for batch in self._batches:
                self._write(batch)
                await self._room()
            if self._wire is not None:
                self._wire.send(RangeEnd(self.number))
        except Error as error:
            if self._wire is not None:
                self._wire.send(Failed(self.number, kind_of(error), reason_of(error)))
        finally:
            close = getattr(self._batches, "aclose", None)
            if close is not None:
                await close()

    async def _room(self) -> None:
        while self._wire is not None and self._wire.unsent > UNREAD_BYTES:
            await asyncio.sleep(CROWDED_S)
        while self._messages <= 0 or self._bytes <= 0:
            self._credited = asyncio.get_running_loop().create_future()
            try:
                await self._credited
            finally:
                self._credited = None

    def _write(self, batch: StreamBatch) -> None:
        if self.keep:
            self._kept.append(batch)
        if not isinstance(batch, EpochOpened | Rollback):
            self._messages -= batch.count
            if not isinstance(batch, GapBatch):
                self._bytes -= len(batch.placed.batch.body)
        if self._wire is None:
            return
        if isinstance(batch, EpochOpened):
            self._wire.send(Opened(self.number, batch))
        elif isinstance(batch, Rollback):
            self._wire.send(Rolled(self.number, batch))
        elif not any(map(self._may_read, batch.audience)):
            self._wire.send(Withheld(self.number, batch.position, batch.count))
        elif isinstance(batch, GapBatch):
            self._wire.send(Shed(self.number, *msgspec.structs.astuple(batch)))
        else:
            item = (batch.position, batch.epoch, batch.placed, batch.attempt)
            self._wire.send(SubscribedBatches(self.number, (item,)))


def _takes_none(batch: StreamBatch) -> bool:
    """Whether the item stands between two positions and has none itself."""
    return isinstance(batch, EpochOpened | Rollback)


def _last(batch: StreamBatch) -> int:
    return batch.position if isinstance(batch, EpochOpened | Rollback) else batch.last
