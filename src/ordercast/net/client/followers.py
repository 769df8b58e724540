"""A client's followers of named readers, and ranges of them.

A follower that loses its connection drops at once the messages that its application has not got
yet: another follower may have the turn by now, and confirm them. On the next connection it stands
in line again, and says how far its application has come.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.arguments import require_number
from ordercast.model.errors import ConfigError, TurnLost
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch, Placed
from ordercast.net.admin.frames import (
    ClientFrame,
    ConfirmRead,
    Follow,
    RangeEnd,
    ReaderRemoval,
    ReaderReset,
    ReadRange,
    SubscribedBatches,
    TurnGiven,
)
from ordercast.net.client.calls import AskDaemon
from ordercast.net.client.readers import ClientReader, ClientSubscription, ReadFrame
from ordercast.net.site.gaps import Gap
from ordercast.net.site.named_readers import require_reader, require_unplaced
from ordercast.net.site.named_stream import require_span
from ordercast.net.site.stream import StreamBatch, StreamItem


class NamedSubscription(ClientSubscription):
    """A follower (`groups`: as in `Follow`), or a range (`span`). `place`: the last position that
    its application got. `has_turn`: on the present connection."""

    def __init__(
        self,
        number: int,
        reader: str,
        send: Callable[[ClientFrame], None],
        *,
        groups: tuple[str, ...] | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(number, span[0] if span else None, False, send)
        self.reader = reader
        self.groups = groups
        self.span = span
        self.has_turn = False
        self.place = span[0] - 1 if span else 0
        self.items: deque[StreamItem] = deque()
        self._of = 0  # the number of the reader; 0: it was not told yet
        self._known = 1  # the attempt that the application has come to
        self._ended = False

    def subscribe(self) -> None:
        if self._error is None and not self._ended:
            super().subscribe()

    def _question(self) -> ClientFrame:
        if self.span is not None:
            return ReadRange(self.number, self.reader, self.place + 1, self.span[1])
        return Follow(
            self.number,
            self.reader,
            self.groups,
            self._of,
            self.place,
            self._known if self._of else 0,
        )

    def lost(self) -> None:
        self.has_turn = False
        self._batches.clear()
        self.items.clear()
        if self._of or self.span is not None:
            self.next = self.place + 1
            self._attempt = self._known

    def failed(self, error: Exception) -> None:
        self.lost()
        super().failed(error)

    def told(self, frame: TurnGiven | RangeEnd) -> None:
        if isinstance(frame, RangeEnd):
            self._ended = True
            self._wake()
            return
        if not self._of:
            self._of, self.place = frame.number, frame.position
        self._known = self._attempt = max(self._known, frame.attempt)
        self.next = frame.position + 1
        self.has_turn = True
        self._wake()

    def of_earlier(self, frame: ReadFrame) -> ReadFrame:
        """An earlier release keeps all requests of a batch that it cuts. In a range both ends may
        be cut. Nobody knows then which requests belong to the messages that are left, so they are
        removed."""
        if isinstance(frame, SubscribedBatches) and self.span is not None:
            return replace(frame, batches=tuple(map(_without_parts, frame.batches)))
        return frame

    def _follows(self, position: int) -> bool:
        """Whether a batch or opening at this position may come next. There are holes, because
        messages of other groups are left out."""
        return self.next is None or position >= self.next

    def _rolled(self, rolled: Rollback) -> None:
        """Told also if only messages of other groups are taken back: the application must confirm
        in the new attempt."""
        if rolled.attempt > self._attempt:
            self._attempt = rolled.attempt
            self.next = rolled.position + 1
            self._batches.append(rolled)
            self._wake()

    # --- to the application -----------------------------------------------------------------------

    async def batch(self) -> StreamBatch:
        """The next batch, which the application gets whole."""
        batch = await self._more()
        self._got(batch, None)
        return batch

    async def item(self) -> StreamItem:
        while not self.items:
            batch = await self._more()
            if isinstance(batch, EpochOpened | Rollback):
                self._got(batch, None)
                return batch
            self.items.extend(batch.deliveries())
        item = self.items.popleft()
        self._got(None, item)
        return item

    async def entered(self) -> int:
        """Wait for the turn. Returns the last position that was confirmed."""
        while not self.has_turn:
            if self._error is not None:
                raise self._error
            await self._news()
        return self.place

    async def _more(self) -> StreamBatch:
        while True:
            if self._ended and not self._batches:
                raise StopAsyncIteration
            if self._batches or self._error is not None:
                return await self.following()
            await self._news()

    def _got(self, batch: StreamBatch | None, item: StreamItem | None) -> None:
        if isinstance(batch, Rollback):
            self.place, self._known = batch.position, batch.attempt
        elif isinstance(batch, EpochOpened):
            self.place = max(self.place, batch.position)
        elif batch is not None:
            self.place = batch.last
            if isinstance(batch, DeliveredBatch):
                self._known = max(self._known, batch.attempt)
        elif isinstance(item, Gap):
            self.place = item.last
        elif item is not None and not isinstance(item, EpochOpened | Rollback):
            self.place = item.position
            self._known = max(self._known, item.attempt)
        self.attempt = self._known


class NamedCalls:
    """What a client can do with named readers. `begin` takes up a subscription; `ask` asks the
    daemon, on every new connection, until it answers."""

    def __init__(
        self,
        subscriptions: Mapping[int, ClientSubscription],
        next_id: Callable[[], int],
        begin: Callable[[NamedSubscription], None],
        ask: AskDaemon,
        send: Callable[[ClientFrame], None],
    ) -> None:
        self._subscriptions = subscriptions
        self._next_id = next_id
        self._begin = begin
        self._ask = ask
        self._send = send

    def follow(
        self,
        reader: str,
        groups: Iterable[Group] | str | None,
        start: int | None,
        attempt: int | None,
    ) -> Callable[[], NamedSubscription]:
        require_unplaced(reader, start, attempt)
        found = require_reader(reader, groups)
        wanted = None if groups is None else ("*",) if found is None else tuple(found)
        return lambda: self._begun(reader, wanted, None)

    def read(self, reader: str, start: int, end: int) -> Callable[[], NamedSubscription]:
        require_reader(reader, None)
        span = require_span(start, end)
        return lambda: self._begun(reader, None, span)

    def _begun(
        self, reader: str, groups: tuple[str, ...] | None, span: tuple[int, int] | None
    ) -> NamedSubscription:
        made = NamedSubscription(self._next_id(), reader, self._send, groups=groups, span=span)
        self._begin(made)
        return made

    async def confirm(self, reader: str, position: int, attempt: int | None) -> None:
        require_reader(reader, None)
        followers = [
            one
            for one in self._subscriptions.values()
            if isinstance(one, NamedSubscription) and one.reader == reader and one.span is None
        ]
        if not followers:
            raise TurnLost(f"reader {reader!r}: this client does not follow it; confirm meanwhile")
        follower = next((one for one in followers if one.has_turn), followers[0])
        if position > follower.place:
            raise ConfigError(
                f"position {position} cannot be confirmed: {follower.place} is the last that the"
                f" follower of reader {reader!r} got"
            )
        known = follower.attempt if attempt is None else attempt
        await self._ask(ConfirmRead, follower.number, position, known)

    async def reset(self, reader: str, position: int | None) -> int:
        require_reader(reader, None)
        if position is not None:
            require_number(position, "position", 0)
        body = await self._ask(ReaderReset, reader, position)
        return msgspec.json.decode(body, type=int)

    async def remove(self, reader: str) -> None:
        require_reader(reader, None)
        await self._ask(ReaderRemoval, reader)


class NamedClientBatches(ClientReader[StreamBatch]):
    """What `Client.batches` iterates over for a named reader."""

    async def __anext__(self) -> StreamBatch:
        return await _named(self._begun()).batch()


class NamedClientDeliveries(ClientReader[StreamItem]):
    """What `Client.deliveries` iterates over for a named reader, and `Client.read`."""

    async def __anext__(self) -> StreamItem:
        return await _named(self._begun()).item()


def _without_parts(item: tuple[int, int, Placed, int]) -> tuple[int, int, Placed, int]:
    """A batch that was cut, without its parts of requests: asking for them raises an error."""
    position, epoch, placed, attempt = item
    batch = placed.batch
    if batch.requests is None or sum(n for _, n in batch.requests.numbers) == batch.count:
        return item
    unknown = replace(batch, requests=replace(batch.requests, numbers=()))
    return position, epoch, replace(placed, batch=unknown), attempt


def _named(subscription: ClientSubscription) -> NamedSubscription:
    assert isinstance(subscription, NamedSubscription)
    return subscription
