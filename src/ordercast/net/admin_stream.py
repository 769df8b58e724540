"""A client's subscription to a daemon's deliveries: as much as the client has granted, no more."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from ordercast.model.errors import Error
from ordercast.net.admin_frames import Batches, Failed, Shed, Wire, kind_of, reason_of
from ordercast.net.reading import Cursor, rest
from ordercast.net.stream import GapBatch, Stream, StreamBatch

_LOOK_S = 0.02  # between looks of those whom nobody wakes


async def observed(stream: Stream, start: int | None) -> AsyncIterator[StreamBatch]:
    """What is delivered, without being a reader of it: an operator who looks on from position 1, or
    who stops looking, must neither hold the site up nor make it shed."""
    cursor = Cursor(stream.confirmed if start is None else start - 1)
    while True:
        while cursor.read >= stream.delivered:
            await asyncio.sleep(_LOOK_S)
        for batch in await stream.after(cursor):
            yield batch if batch.position > cursor.last else rest(batch, cursor.last + 1)
            cursor.last = batch.last


class Subscription:
    def __init__(self, number: int, batches: AsyncIterator[StreamBatch], wire: Wire) -> None:
        self.number = number
        self.wire = wire
        self._batches = batches
        self._messages = 0  # granted and not used; below 0 after a batch larger than the rest
        self._bytes = 0
        self._granted: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._run())

    def grant(self, messages: int, size: int) -> None:
        self._messages += messages
        self._bytes += size
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)

    def close(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._room()
            async for batch in self._batches:
                self._write(batch)
                await self._room()
        except Error as error:
            self.wire.send(Failed(self.number, kind_of(error), reason_of(error)))
        finally:
            close = getattr(self._batches, "aclose", None)
            if close is not None:
                await close()

    async def _room(self) -> None:
        while self._messages <= 0 or self._bytes <= 0:
            self._granted = asyncio.get_running_loop().create_future()
            try:
                await self._granted
            finally:
                self._granted = None

    def _write(self, batch: StreamBatch) -> None:
        self._messages -= batch.count
        if isinstance(batch, GapBatch):
            self.wire.send(Shed(self.number, *msgspec.structs.astuple(batch)))
        else:
            self._bytes -= len(batch.placed.batch.body)
            self.wire.send(Batches(self.number, ((batch.position, batch.epoch, batch.placed),)))
