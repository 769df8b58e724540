"""What an application iterates over: a cursor into the stream, message by message or by the batch.

Not async generators: those end when an `anext` is cancelled (a timeout), or lose their place. Here
a cancelled `anext` has taken nothing, and the next one goes on with the item that was waited for.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec.structs import replace

from ordercast.core.epochs.records import EpochOpened
from ordercast.core.epochs.returning import Rollback
from ordercast.model.errors import Error
from ordercast.model.messages import DeliveredBatch, Delivery, pack_payloads
from ordercast.net.site.gaps import Gap, GapBatch

if TYPE_CHECKING:
    from ordercast.net.site.stream import Stream

I = TypeVar("I")  # noqa: E741 - of items
S = TypeVar("S", bound="Reading[object]")


class Cursor:
    """How far a reader has come: up to `last`, but for what is left of `items`. Worked out when
    somebody asks, because that is once per turn of the loop, and reading is once per message.
    `epoch`: the last whose opening it was told, or need not be; `attempt`: so of rollbacks."""

    __slots__ = ("_entered", "attempt", "epoch", "items", "last", "waiter")

    def __init__(self, read: int, epoch: int = 0, attempt: int = 1) -> None:
        self._entered = read
        self.last = read
        self.epoch = epoch
        self.attempt = attempt
        self.items: Iterator[Delivery | Gap] = iter(())
        self.waiter: asyncio.Future[None] | None = None

    @property
    def read(self) -> int:
        """The last position handed over, or the one before the first to be."""
        return self.last - length_hint(self.items)

    @property
    def handed(self) -> int:
        """The same, or 0 before anything was handed over."""
        read = self.read
        return read if read > self._entered else 0

    def roll_back(self, rolled: Rollback) -> None:
        """It has been told: positions behind this one are given again."""
        self.items = iter(())
        self.last = rolled.position
        self.attempt = rolled.attempt


class Reading(ABC, Generic[I]):
    """Holds the site up, if it lags, from its first `anext` until it is closed or dropped."""

    def __init__(self, stream: "Stream", start: int | None, attempt: int | None = None) -> None:
        self._stream = stream
        self._start = start
        self._attempt = attempt
        self._cursor: Cursor | None = None
        self._batches: Iterator[DeliveredBatch | GapBatch | EpochOpened | Rollback] = iter(())
        self._busy = False
        self._closed = False

    def __aiter__(self: S) -> S:
        return self

    @abstractmethod
    async def __anext__(self) -> I:
        """The next item."""

    async def _refill(self) -> Cursor:
        """More batches to go through; the stream's place is ours alone to move."""
        if self._closed:
            raise StopAsyncIteration
        if self._busy:
            raise Error("one reader is waited for twice at a time; open another one")
        stream = self._stream
        if self._cursor is None:
            self._cursor = stream.enter(self._start, self._attempt)
        else:
            stream.advanced()
        self._busy = True
        try:
            self._batches = iter(await stream.after(self._cursor))
        finally:
            self._busy = False
        return self._cursor

    async def _arrive(self, opened: EpochOpened) -> EpochOpened:
        """The application has everything before the epoch; its state may be given or taken here."""
        assert self._cursor is not None
        if self._stream.on_opened is not None:
            rest, self._batches = self._batches, iter(())  # a cancelled wait comes here again
            await self._stream.on_opened(opened)
            self._batches = rest
        self._cursor.epoch = opened.epoch
        return opened

    def _rolled(self, rolled: Rollback) -> Rollback:
        assert self._cursor is not None
        self._cursor.roll_back(rolled)
        return rolled

    async def aclose(self) -> None:
        self._closed = True
        self._batches = iter(())
        if self._cursor is not None:
            self._stream.leave(self._cursor)

    def __del__(self) -> None:
        if self._cursor is not None:
            self._stream.leave_soon(self._cursor)


class Deliveries(Reading[Delivery | Gap | EpochOpened | Rollback]):
    """One message at a time; who stops within a batch has had no more of it."""

    def __init__(self, stream: "Stream", start: int | None, attempt: int | None = None) -> None:
        super().__init__(stream, start, attempt)
        self._items: Iterator[Delivery | Gap] = iter(())

    async def __anext__(self) -> Delivery | Gap | EpochOpened | Rollback:
        for item in self._items:
            return item
        while True:
            for batch in self._batches:
                if isinstance(batch, EpochOpened):
                    return await self._arrive(batch)
                if isinstance(batch, Rollback):
                    return self._rolled(batch)
                return self._first(batch)
            await self._refill()

    def ready(self) -> Iterator[Delivery | Gap]:
        """The rest of the batch under way, for a reader that need not go through the event loop;
        what is taken from it is handed over."""
        return self._items

    def _first(self, batch: DeliveredBatch | GapBatch) -> Delivery | Gap:
        cursor = self._cursor
        assert cursor is not None
        items: Sequence[Delivery | Gap] = batch.deliveries()
        if batch.position <= cursor.last:  # all before it was handed over
            items = items[cursor.last + 1 - batch.position :]
        self._items = cursor.items = iter(items)
        cursor.last = batch.last
        return next(self._items)

    async def aclose(self) -> None:
        self._items = iter(())
        await super().aclose()


class Batches(Reading[DeliveredBatch | GapBatch | EpochOpened | Rollback]):
    async def __anext__(self) -> DeliveredBatch | GapBatch | EpochOpened | Rollback:
        cursor = self._cursor
        while True:
            for batch in self._batches:
                assert cursor is not None
                if isinstance(batch, EpochOpened):
                    return await self._arrive(batch)
                if isinstance(batch, Rollback):
                    return self._rolled(batch)
                handed = batch if batch.position > cursor.last else rest(batch, cursor.last + 1)
                cursor.last = batch.last
                return handed
            cursor = await self._refill()


def rest(batch: DeliveredBatch | GapBatch, position: int) -> DeliveredBatch | GapBatch:
    """The part of a batch from a position on: what was before is confirmed, or not asked for."""
    skipped = position - batch.position
    if isinstance(batch, GapBatch):
        return replace(
            batch, position=position, seq=batch.seq + skipped, count=batch.count - skipped
        )
    placed = batch.placed
    whole = placed.batch
    rest = replace(
        whole,
        seq=whole.seq + skipped,
        count=whole.count - skipped,
        body=pack_payloads(batch.payloads[skipped:]),
    )
    return DeliveredBatch(
        position,
        batch.epoch,
        replace(placed, number=placed.number + skipped, batch=rest),
        batch.attempt,
    )
