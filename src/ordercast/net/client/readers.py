"""A client's readers of deliveries: bounded by their credit, resumed where they were."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Self, TypeAlias, TypeVar

import msgspec

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.arguments import require_number
from ordercast.model.errors import Error
from ordercast.model.messages import DeliveredBatch
from ordercast.net.admin.frames import (
    ClientFrame,
    Credit,
    Opened,
    Rolled,
    Shed,
    Subscribe,
    SubscribedBatches,
    Unsubscribe,
    Withheld,
)
from ordercast.net.site.gaps import GapBatch
from ordercast.net.site.stream import StreamBatch, StreamItem

ReadFrame: TypeAlias = SubscribedBatches | Shed | Opened | Rolled | Withheld

AHEAD_MESSAGES = 16_384  # sent by the daemon and not yet read by the application
AHEAD_BYTES = 4 * 1024 * 1024


class ClientSubscription:
    """What one reader of the application has asked its daemon for, and has not read yet."""

    def __init__(
        self,
        number: int,
        start: int | None,
        observe: bool,
        send: Callable[[ClientFrame], None],
        attempt: int | None = None,
    ) -> None:
        for what, value, least in (("start", start, 1), ("attempt", attempt, 0)):
            if value is not None:
                require_number(value, what, least)
        self.number = number
        self.observe = observe
        self.next = start  # the position to go on with; None: where the daemon says
        self.until: int | None = None  # reading ends behind this position
        self._send = send
        self._batches: deque[StreamBatch | Withheld] = deque()
        self._used = [0, 0]  # messages and bytes read since the last credit
        self._position = 0  # of the last batch that was read
        self._epoch = 0  # the last epoch that was seen to open
        self._attempt = attempt or 0  # the last attempt that was heard of; 0: none
        self.attempt = 0  # of the last batch that was read
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    def subscribe(self) -> None:
        """Ask on a new connection. Batches that are here already count against the credit."""
        held = sum(_count(batch) for batch in self._batches)
        size = sum(_size(batch) for batch in self._batches)
        self._used = [0, 0]
        self._send(self._question())
        room = max(1, AHEAD_MESSAGES - held), max(1, AHEAD_BYTES - size)
        self._send(Credit(self.number, *room, self._position))

    def _question(self) -> ClientFrame:
        return Subscribe(self.number, self.next, self.observe, self._attempt)

    def lost(self) -> None:
        """The connection broke. Batches that are here stay: no other client reads for this
        application."""

    def _follows(self, position: int) -> bool:
        """Whether a batch at this position comes next."""
        return self.next is None or position == self.next

    def of_earlier(self, frame: ReadFrame) -> ReadFrame:
        """A frame of a daemon of an earlier release, as this one understands it."""
        return frame

    def take(self, frame: ReadFrame) -> None:
        for batch in _batches_in(frame):
            self.arrived(batch)

    def arrived(self, batch: StreamBatch | Withheld) -> None:
        if isinstance(batch, EpochOpened):
            self._opened(batch)
            return
        if isinstance(batch, Rollback):
            self._rolled(batch)
            return
        if not self._follows(batch.position):
            return  # of a connection that is gone
        self.next = batch.last + 1
        if isinstance(batch, DeliveredBatch):
            self._attempt = max(self._attempt, batch.attempt)
        self._batches.append(batch)
        self._wake()

    def _opened(self, opened: EpochOpened) -> None:
        """An opening stands between two positions, and is sent again on a new connection. The
        epochs that a site opens grow, so the number says whether it is news."""
        if opened.epoch <= self._epoch or not self._follows(opened.position + 1):
            return
        self._epoch = opened.epoch
        self.next = opened.position + 1
        self._batches.append(opened)
        self._wake()

    def _rolled(self, rolled: Rollback) -> None:
        if rolled.attempt <= self._attempt or (
            self.next is not None and rolled.position >= self.next
        ):
            return
        self._attempt = rolled.attempt
        self.next = rolled.position + 1
        self._batches.append(rolled)
        self._wake()

    def failed(self, error: Exception) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def following(self) -> StreamBatch:
        """The next batch. Cancelled, it has taken nothing."""
        while True:
            while self._batches:
                if self._is_through():
                    raise StopAsyncIteration
                batch = self._batches.popleft()
                self._read(batch)
                if not isinstance(batch, Withheld):
                    return batch
            if self._is_through():
                raise StopAsyncIteration
            if self._error is not None:
                raise self._error
            await self._news()

    def _is_through(self) -> bool:
        return self.until is not None and self._position >= self.until

    async def _news(self) -> None:
        """Wait until something has arrived."""
        if self._waiter is not None:
            raise Error("one reader is waited for twice at a time; open another one")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def close(self) -> None:
        self._batches.clear()
        self._send(Unsubscribe(self.number))

    def _read(self, batch: StreamBatch | Withheld) -> None:
        if isinstance(batch, EpochOpened):
            return
        if isinstance(batch, Rollback):
            self.attempt, self._position = batch.attempt, batch.position
            return
        if isinstance(batch, DeliveredBatch):
            self.attempt = batch.attempt
        used = self._used
        used[0] += batch.count
        used[1] += _size(batch)
        self._position = batch.last
        if used[0] >= AHEAD_MESSAGES // 4 or used[1] >= AHEAD_BYTES // 4:
            self._send(Credit(self.number, used[0], used[1], self._position))
            self._used = [0, 0]


def _batches_in(frame: ReadFrame) -> Sequence[StreamBatch | Withheld]:
    if isinstance(frame, Withheld):
        return [frame]
    if isinstance(frame, SubscribedBatches):
        return [DeliveredBatch(*batch) for batch in frame.batches]
    if isinstance(frame, Shed):
        _, *gap = msgspec.structs.astuple(frame)
        return [GapBatch(*gap)]
    return [frame.opened if isinstance(frame, Opened) else frame.rolled]


def _count(batch: StreamBatch | Withheld) -> int:
    return 0 if isinstance(batch, EpochOpened | Rollback) else batch.count


def _size(batch: StreamBatch | Withheld) -> int:
    return len(batch.placed.batch.body) if isinstance(batch, DeliveredBatch) else 0


I = TypeVar("I")  # noqa: E741 - of items


class ClientReader(ABC, Generic[I]):
    """An `async for` over a daemon's deliveries; `begin` subscribes, `end` gives that up. No
    generator, because those end when an `anext` is cancelled."""

    def __init__(
        self, begin: Callable[[], ClientSubscription], end: Callable[[ClientSubscription], None]
    ) -> None:
        self._begin = begin
        self._end = end
        self._subscription: ClientSubscription | None = None
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> I:
        """The next item."""

    def _begun(self) -> ClientSubscription:
        if self._closed:
            raise StopAsyncIteration
        if self._subscription is None:
            self._subscription = self._begin()
        return self._subscription

    async def _batch(self) -> StreamBatch:
        return await self._begun().following()

    async def aclose(self) -> None:
        """Stop reading: nobody waits for this reader any more. Raises nothing."""
        self._leave()

    def _leave(self) -> None:
        self._closed = True
        if self._subscription is not None:
            self._end(self._subscription)
            self._subscription = None

    def __del__(self) -> None:
        if self._subscription is not None:
            self._leave()


class ClientBatches(ClientReader[StreamBatch]):
    """What `Client.batches` iterates over."""

    async def __anext__(self) -> StreamBatch:
        return await self._batch()


class ClientDeliveries(ClientReader[StreamItem]):
    """What `Client.deliveries` iterates over."""

    def __init__(
        self, begin: Callable[[], ClientSubscription], end: Callable[[ClientSubscription], None]
    ) -> None:
        super().__init__(begin, end)
        self._items: Iterator[StreamItem] = iter(())

    async def __anext__(self) -> StreamItem:
        for item in self._items:
            return item
        while True:
            batch = await self._batch()
            if isinstance(batch, EpochOpened | Rollback):
                return batch
            self._items = iter(batch.deliveries())
            for item in self._items:
                return item

    async def aclose(self) -> None:
        """Stop reading: nobody waits for this reader any more. Raises nothing."""
        self._items = iter(())
        await super().aclose()
