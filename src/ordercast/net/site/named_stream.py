"""The iterators of a follower of a named reader, and of a reader of a range: the deliveries of the
reader's groups. A gap stands in place of messages that are no longer kept.

The iterators are no generators: a cancelled `anext` has taken nothing.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Self, TypeVar

from msgspec.structs import replace

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.arguments import require_number
from ordercast.model.errors import ConfigError, Error, Forgotten, TurnLost
from ordercast.model.groups import Group
from ordercast.model.implicit import is_implicit
from ordercast.net.site.gaps import Gap, GapBatch, forgotten
from ordercast.net.site.named_readers import (
    Making,
    NamedReaders,
    ReaderPlace,
    ReaderTurn,
    another_reader,
)
from ordercast.net.site.stream import Cursor, StreamBatch, StreamItem
from ordercast.net.store.reader_rows import ReaderRow

T = TypeVar("T")


class NamedBatches:
    """The batches of a reader's groups. For a follower they begin at the reader's position, and the
    first `anext` waits for the turn. With a `span` they are those at the given positions: anybody
    may read them, without a turn, and they have an end."""

    def __init__(
        self,
        named: NamedReaders,
        name: str,
        groups: Iterable[Group] | str | None = None,
        *,
        place: ReaderPlace | None = None,
        span: tuple[int, int] | None = None,
        admit: Callable[[Iterable[Group] | None], None] | None = None,
        making: Making | None = None,
        on_turn: Callable[[int, int, int], None] | None = None,
    ) -> None:
        """`admit` is called with the reader's groups (None: all), and raises an Error if the caller
        may not read them. `making`: as for `NamedReaders.open`. `on_turn` is called with the
        reader's number, the position that reading goes on behind, and the attempt, when the
        follower has the turn."""
        self.name = name
        self._named = named
        self._stream = named.stream
        self._groups = groups
        self._place = place
        self._span = span
        self._admit = admit
        self._making = making
        self._on_turn = on_turn
        self._turn: ReaderTurn | None = None
        self._entered: asyncio.Future[ReaderTurn] = asyncio.get_running_loop().create_future()
        self._cursor: Cursor | None = None
        self._row: ReaderRow | None = None
        self._found: deque[StreamBatch] = deque()
        self._busy = False
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamBatch:
        if self._closed:
            raise StopAsyncIteration
        if self._busy:
            raise Error("one reader is waited for twice at a time; open another one")
        self._busy = True
        try:
            return await self._following()
        finally:
            self._busy = False

    async def confirm(self, position: int, attempt: int | None = None) -> None:
        """As `NamedReaders.confirm`. Waits until this follower has the turn."""
        turn = await asyncio.shield(self._entered)
        await self._named.confirm(turn, position, attempt)

    async def aclose(self) -> None:
        """Stop reading: the next follower has the turn. Raises nothing."""
        self.close()

    def close(self) -> None:
        self._closed = True
        self._found.clear()
        if not self._entered.done():
            self._entered.set_exception(TurnLost(f"reader {self.name!r}: it is read no longer"))
            self._entered.exception()  # perhaps nobody confirms
        if self._turn is not None:
            self._named.leave(self._turn)
        elif self._cursor is not None:
            self._stream.leave(self._cursor)

    def admit_again(self) -> None:
        """Call `admit` again: the caller may have lost a grant."""
        row = self._row if self._turn is None else self._turn.reader.row
        if self._admit is not None and row is not None:
            self._admit(row.groups)

    @property
    def attempt(self) -> int:
        """The attempt that the follower has come to."""
        return 1 if self._cursor is None else self._cursor.attempt

    # --- beginning --------------------------------------------------------------------------------

    async def _begin(self) -> tuple[Cursor, ReaderRow]:
        if self._cursor is not None and self._row is not None:
            return self._cursor, self._row
        if self._span is not None:
            row = self._named.reader(self.name).row
            if self._admit is not None:
                self._admit(row.groups)
            cursor = self._stream.watch(self._span[0])
            cursor.whole = True
        else:
            try:
                turn = await self._enter()
                await asyncio.shield(turn.given)
                cursor, row = turn.require(), turn.reader.row
            except Error as error:
                if not self._entered.done():
                    self._entered.set_exception(error)
                    self._entered.exception()  # perhaps nobody confirms
                raise
            if self._on_turn is not None:
                self._on_turn(row.number, cursor.last, cursor.attempt)
        self._cursor, self._row = cursor, row
        return cursor, row

    async def _enter(self) -> ReaderTurn:
        """Stand in line, once."""
        if self._turn is None:
            if self._place is not None:
                try:
                    reader = self._named.reader(self.name)
                except ConfigError:
                    raise another_reader(self.name, self._named.site) from None
            else:
                reader = await self._named.open(self.name, self._groups, self._making)
            if self._admit is not None:
                self._admit(reader.row.groups)
            self._turn = self._named.enter(reader, self._place)
            if not self._entered.done():
                self._entered.set_result(self._turn)
        return self._turn

    # --- reading ----------------------------------------------------------------------------------

    async def _following(self) -> StreamBatch:
        cursor, row = await self._begin()
        while True:
            if cursor.ended is not None:
                raise cursor.ended
            while self._found:
                batch = self._take(cursor, row, self._found.popleft())
                if batch is not None:
                    return batch
            if self._span is not None and cursor.last >= self._span[1]:
                self.close()
                raise StopAsyncIteration
            if self._turn is not None:
                self._named.advance(self._turn)
            try:
                self._found.extend(await self._stream.after(cursor))
            except Forgotten:
                first = await self._named.first_kept()
                if first <= cursor.last + 1:
                    raise
                missing = forgotten(cursor.last + 1, first - 1)
                return self._missed(cursor, missing)

    def _missed(self, cursor: Cursor, missing: GapBatch) -> GapBatch:
        if self._span is not None and missing.last > self._span[1]:
            missing = forgotten(missing.position, self._span[1])
        self._stream.skip(cursor, missing.last)
        if self._turn is not None:
            self._turn.handed = missing.last
        return missing

    def _take(self, cursor: Cursor, row: ReaderRow, batch: StreamBatch) -> StreamBatch | None:
        """Move on over a batch. Returns what the follower gets of it."""
        turn = self._turn
        if isinstance(batch, EpochOpened):
            cursor.epoch = batch.epoch
            return batch
        if isinstance(batch, Rollback):
            cursor.roll_back(batch)
            if turn is not None:
                turn.handed = min(turn.handed, batch.position)
            return _annulled_of(row, batch)
        wanted = row.wants(batch.audience)
        first = max(batch.position, cursor.last + 1)
        cursor.last = batch.last if self._span is None else min(batch.last, self._span[1])
        if not wanted or first > cursor.last:
            return None
        part = batch.between(first, cursor.last)
        if turn is not None:
            turn.handed = part.last
        return part


def _annulled_of(row: ReaderRow, rolled: Rollback) -> Rollback:
    """A rollback, with the messages of the reader's groups, and all to several groups or to listed
    sites: an id does not tell which groups a message was for."""
    annulled = tuple(
        item
        for item in rolled.annulled
        if is_implicit(item[1].group) or row.wants((item[1].group,))
    )
    return replace(rolled, annulled=annulled)


class NamedIterator(ABC, Generic[T]):
    """A follower in this process. `begin` makes its batches when it is first asked."""

    def __init__(self, begin: Callable[[], NamedBatches]) -> None:
        self._begin = begin
        self._batches: NamedBatches | None = None
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> T:
        """The next item."""

    async def _batch(self) -> StreamBatch:
        if self._closed:
            raise StopAsyncIteration
        if self._batches is None:
            self._batches = self._begin()
            self._loop = asyncio.get_running_loop()
        return await anext(self._batches)

    async def aclose(self) -> None:
        """Stop reading: the next follower has the turn. Raises nothing."""
        self._closed = True
        if self._batches is not None:
            self._batches.close()

    def __del__(self) -> None:
        """The garbage collector finds forgotten followers, in any thread."""
        if self._batches is not None and not self._closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._batches.close)


class NamedBatchReader(NamedIterator[StreamBatch]):
    """What `Node.batches` iterates over for a named reader."""

    async def __anext__(self) -> StreamBatch:
        return await self._batch()


class NamedDeliveries(NamedIterator[StreamItem]):
    """What `Node.deliveries` iterates over for a named reader, and `Node.read`."""

    def __init__(self, begin: Callable[[], NamedBatches]) -> None:
        super().__init__(begin)
        self._items: deque[StreamItem] = deque()

    async def __anext__(self) -> StreamItem:
        while not self._items:
            batch = await self._batch()
            if isinstance(batch, EpochOpened | Rollback):
                return batch
            items: Sequence[StreamItem | Gap] = batch.deliveries()
            self._items.extend(items)
        return self._items.popleft()

    async def aclose(self) -> None:
        """Stop reading: the next follower has the turn. Raises nothing."""
        self._items.clear()
        await super().aclose()


def require_span(start: int, end: int) -> tuple[int, int]:
    require_number(start, "start", 1)
    require_number(end, "end", 1)
    if end < start:
        raise ConfigError(f"end: {end} is before start ({start})")
    return start, end
