"""From the site's deliveries to the application's `async for`: readers, lag, what is shed.

Recent batches are kept in memory; a reader that is further behind reads the store. Each reader has
its own cursor. The slowest reader shows how far the application has come; without any reader the
last confirmed position does. The lag of the application is bounded. At the bound a slow application
holds the site up (`wait`), or batches are shed: the application finds a gap in their place.

One future wakes a reader for all that a turn of the loop delivered, never one per message. An epoch
that opened stands between two positions and takes none itself. So does a rollback; the positions
after it are given again.

Readers are no async generators: those end when an `anext` is cancelled (a timeout), or lose their
place. Here a cancelled `anext` has taken nothing, and the next one goes on with the same item.
"""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import chain, takewhile
from operator import length_hint
from typing import Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from ordercast.core.epochs.log_tail import Rollback as Rollback
from ordercast.core.epochs.records import EpochOpened as EpochOpened
from ordercast.model.arguments import require_number
from ordercast.model.errors import ConfigError, Error, Forgotten
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch, Delivery
from ordercast.net.site.gaps import Gap as Gap
from ordercast.net.site.gaps import GapBatch as GapBatch
from ordercast.net.site.gaps import without_body
from ordercast.net.store.events import Entrances, OpenedEpochs, Openings, RollbackLog
from ordercast.net.store.reader import READ_BYTES

_RECENT_MESSAGES = 16_384  # in memory although they are in the store
_RECENT_BYTES = 16 * 1024 * 1024
_READ_MESSAGES = 4_096  # at once from the store; bytes: `READ_BYTES`


StreamItem: TypeAlias = Delivery | Gap | EpochOpened | Rollback
StreamBatch: TypeAlias = DeliveredBatch | GapBatch | EpochOpened | Rollback
_Kept: TypeAlias = DeliveredBatch | GapBatch

I = TypeVar("I")  # noqa: E741 - of items

_ALL = sys.maxsize  # a position behind all


class Log(Protocol):
    """Where earlier deliveries can be read again."""

    def read(self, start: int, most_messages: int) -> list[DeliveredBatch]: ...

    def openings(self, start: int, end: int, after: int) -> Openings: ...


class Lag(NamedTuple):
    """How far the application may be behind; `shed`: beyond that, drop batches and do not wait."""

    messages: int
    size: int
    shed: bool


class Cursor:
    """How far a reader has come: up to `last`, without what is left of `items`. This is worked out
    when somebody asks: once per turn of the loop, while reading is once per message. `epoch` and
    `attempt`: the last opening and the last rollback that the reader knows of. `whole`: the reader
    also gets what was shed for the site's own application. `ended`: why it gets nothing more."""

    __slots__ = ("attempt", "ended", "entered", "epoch", "items", "last", "waiter", "whole")

    def __init__(self, read: int, epoch: int = 0, attempt: int = 1) -> None:
        self.entered = read
        self.last = read
        self.epoch = epoch
        self.attempt = attempt
        self.items: Iterator[Delivery | Gap] = iter(())
        self.waiter: asyncio.Future[None] | None = None
        self.whole = False
        self.ended: Error | None = None

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    @property
    def read(self) -> int:
        """The last position that was handed over; at first, the position before the reader's
        start."""
        return self.last - length_hint(self.items)

    @property
    def handed(self) -> int:
        """The last position that was handed over. 0: none yet."""
        read = self.read
        return read if read > self.entered else 0

    def roll_back(self, rolled: Rollback) -> None:
        """The reader was told that the positions after this one are given again."""
        self.items = iter(())
        self.last = rolled.position
        self.attempt = rolled.attempt


class Stream:
    """`log` is None where nothing is stored: then batches stay in memory until they are read."""

    def __init__(
        self,
        log: Log | None,
        *,
        confirmed: int,
        delivered: int,
        lag: Lag,
        embedded: bool,
        hold: Callable[[bool], None],
        shed: Callable[[GapBatch], None],
        gaps: Sequence[GapBatch] = (),
        opened: Sequence[EpochOpened] = (),
        entered: Sequence[EpochOpened] = (),
        rolled: Sequence[Rollback] = (),
        confirmed_attempt: int = 1,
        restored: int = 0,
    ) -> None:
        self.log = log
        self.confirmed = confirmed
        self.confirmed_attempt = confirmed_attempt  # in which the application has come there
        self.delivered = delivered  # last position released to the application, read or not
        self._handed = confirmed  # last position read by a reader that has left
        self.lag_limit = lag
        self.embedded = embedded  # the application lives here: it lags also before it reads
        self.holding = False
        self._hold = hold
        self._shed = shed
        self._restored = restored  # the end of the log at the start: maybe seen, so never shed
        self._gaps = {gap.position: gap for gap in gaps}  # of positions that the log has
        self._openings = OpenedEpochs(opened, stored=log is not None)
        self._entrances = Entrances(entered)
        self._rollbacks = RollbackLog(rolled)
        # The latest attempt that a reader was told of.
        self._told = max(self._rollbacks.seen_by(confirmed), confirmed_attempt)
        self.rolling: deque[int] = deque()
        """Positions of rollbacks that are being stored, and not told yet."""
        self.on_opened: Callable[[EpochOpened], Awaitable[None]] | None = None
        """Awaited where a reader comes to an epoch, before it is told."""
        self._recent: deque[_Kept] = deque()
        self._recent_messages = 0
        self._recent_bytes = 0
        self._dropped = 0  # last position that is no longer in memory
        self._messages = 0  # delivered in this run, for the mean size
        self._bytes = 0
        self._readers: list[Cursor] = []
        self._watchers: list[Cursor] = []  # readers that nobody waits for
        self._confirming: list[asyncio.Future[None]] = []  # wait for repeated deliveries
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed: str | None = None

    # --- from the site ----------------------------------------------------------------------------

    def add(self, batches: Sequence[DeliveredBatch | EpochOpened | Rollback]) -> None:
        for batch in batches:
            if type(batch) is not DeliveredBatch:
                self._add_event(batch)
                continue
            whole = batch.placed.batch
            count, size = whole.count, len(whole.body)
            last = batch.position + count - 1
            if last <= self.delivered:
                continue  # a restart repeats what the store has
            kept: _Kept = batch
            if self.lag_limit.shed and last > self._restored and self._too_far():
                kept, size = without_body(batch), 0
                if self.log is not None:
                    self._gaps[kept.position] = kept
                self._shed(kept)
            self.delivered = last
            self._recent.append(kept)
            self._recent_messages += count
            self._recent_bytes += size
            self._bytes += size
            self._messages += count
        if self.log is not None or not self._readers:
            self.trim()  # otherwise a reader does it when it asks for more
        for reader in self._readers:
            waiter = reader.waiter
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        for watcher in self._watchers:
            watcher.wake()
        if self._confirming:
            self._wake_confirming()
        if not self.lag_limit.shed and not self.holding and self._too_far():
            self.holding = True
            self._hold(True)

    def _add_event(self, event: DeliveredBatch | EpochOpened | Rollback) -> None:
        if isinstance(event, EpochOpened):
            if self._openings.add(event):
                self._entrances.add(event)
        elif isinstance(event, Rollback):
            self._roll_back(event)

    def _wake_confirming(self) -> None:
        waiting, self._confirming = self._confirming, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _roll_back(self, rolled: Rollback) -> None:
        """Readers notice by themselves. They may still read the batches that they hold."""
        if self.rolling:
            self.rolling.popleft()
        if not self._rollbacks.add(rolled):
            return
        position = rolled.position
        self.delivered = min(self.delivered, position)
        self.confirmed = min(self.confirmed, position)
        self._handed = min(self._handed, position)
        self._dropped = min(self._dropped, position)
        self._restored = min(self._restored, position)
        while self._recent and self._recent[-1].position > position:
            gone = self._recent.pop()
            self._recent_messages -= gone.count
            self._recent_bytes -= _size_of(gone)
        for gone_at in [at for at in self._gaps if at > position]:
            del self._gaps[gone_at]

    @property
    def attempt(self) -> int:
        return self._rollbacks.last

    def rolled_back(self) -> list[tuple[int, int]]:
        """The last rollbacks: attempts and positions."""
        return self._rollbacks.latest()

    @property
    def last_opened(self) -> int:
        """The last epoch that opened here."""
        return self._openings.last

    def entered_at(self, epoch: int, group: Group) -> EpochOpened | None:
        """The opening, with this group and perhaps others, if the group began with the epoch or a
        site came into it. None also where that is forgotten."""
        return self._entrances.of(epoch, group)

    def trim(self) -> None:
        """Drop from memory the batches that the store has, or, without a store, the batches that
        were read. If nobody reads and nobody is waited for, drop the oldest."""
        recent = self._recent
        if self.log is None and (self._readers or self.embedded):
            if not recent:
                return
            readers = self._readers
            if len(readers) == 1:  # the common case
                read = readers[0].last - length_hint(readers[0].items)
            else:
                read = self.progress()
            if read >= self.delivered:  # the common case: all was read
                self._dropped = self.delivered
                self._recent_messages = self._recent_bytes = 0
                recent.clear()
            while recent and recent[0].last <= read:
                self._drop()
            if len(self._openings.opened) > 1:
                self._openings.forget_before(self._dropped)
            return
        while recent and (
            self._recent_messages > _RECENT_MESSAGES or self._recent_bytes > _RECENT_BYTES
        ):
            self._drop()
        if self.log is None:
            self._openings.forget_before(self._dropped)

    def _drop(self) -> None:
        gone = self._recent.popleft()
        self._dropped = gone.last
        self._recent_messages -= gone.count
        self._recent_bytes -= _size_of(gone)

    # --- lag --------------------------------------------------------------------------------------

    def progress(self) -> int:
        """How far the application has come."""
        readers = self._readers
        if len(readers) == 1:  # the common case
            return readers[0].last - length_hint(readers[0].items)
        if readers:
            return min(reader.read for reader in readers)
        return max(self.confirmed, self.handed)

    @property
    def handed(self) -> int:
        """The last position that some reader got."""
        handed = self._handed
        for reader in self._readers:
            read = reader.last - length_hint(reader.items)  # asked for with each commit: no calls
            if read > handed and read > reader.entered:
                handed = read
        return handed

    @property
    def heard(self) -> int:
        """The attempt that the application knows of: its slowest reader's, or the last reader's."""
        return min((reader.attempt for reader in self._readers), default=self._told)

    def application_at(self) -> tuple[int, int]:
        """The last position that the application was handed and that stands, and the attempt."""
        handed, attempt = self.handed, self._rollbacks.last
        if attempt > 1:  # there was a rollback
            limit = self._rollbacks.limit(self.heard)
            handed = handed if limit is None else min(handed, limit)
        return handed, attempt

    @property
    def lag(self) -> int:
        if not self._counts() and not self.progress():
            return 0  # no application has ever read here
        # A reader may be beyond the end until it is told of a rollback.
        return max(0, self.delivered - self.progress())

    def _counts(self) -> bool:
        """Whether lag matters. Not in a daemon that nobody reads: its store keeps everything."""
        return bool(self._readers) or self.embedded

    def _too_far(self) -> bool:
        readers = self._readers
        if len(readers) == 1:  # the common case
            lag = self.delivered - readers[0].last + length_hint(readers[0].items)
        elif readers or self.embedded:
            lag = self.delivered - self.progress()
        else:
            return False
        if lag >= self.lag_limit.messages:
            return True
        if self.log is None:
            return self._recent_bytes >= self.lag_limit.size and lag > 0
        return lag * self._bytes >= self.lag_limit.size * self._messages > 0

    def advanced(self) -> None:
        if self.log is None:
            self.trim()
        if not self.holding or self._too_far():
            return
        if self.lag <= self.lag_limit.messages // 2 or not self._counts():
            self.holding = False
            self._hold(False)

    # --- to the application -----------------------------------------------------------------------

    async def repeated(self, position: int) -> None:
        """Wait while a position that the log had at the start is not delivered again. The
        application may have seen it in the life before: at `safe` a site that restarts delivers it
        when it knows again that it is stable."""
        require_number(position, "position", 0)
        while self.delivered < position <= self._restored and self._closed is None:
            waiter = asyncio.get_running_loop().create_future()
            self._confirming.append(waiter)
            await waiter

    def confirm(self, position: int, attempt: int | None = None) -> bool:
        """Whether this confirms anything new. Deliveries that were taken back since the application
        saw them, in `attempt` or as far as its readers know, are not confirmed."""
        require_number(position, "position", 0)
        self.require_attempt(attempt)
        attempt = self.heard if attempt is None else attempt
        position = self.standing(position, attempt)
        if position > self.delivered:
            raise ConfigError(
                f"position {position} cannot be confirmed: {self.delivered} is the last delivered"
            )
        if position <= self.confirmed and (
            attempt <= self.confirmed_attempt or position < self.confirmed
        ):
            return False
        self.confirmed = position
        self.confirmed_attempt = max(self.confirmed_attempt, attempt)
        for gone in [p for p, gap in self._gaps.items() if gap.last <= position]:
            del self._gaps[gone]
        self.advanced()
        return True

    def require_attempt(self, attempt: int | None) -> None:
        """Raise ConfigError for an attempt that this site has not told of: whoever knows it would
        be told no rollback up to it."""
        if attempt is None:
            return
        require_number(attempt, "attempt", 0)
        if attempt > self.attempt:
            raise ConfigError(f"attempt: {attempt} was not told by this site: {self.attempt} is")

    def standing(self, position: int, attempt: int) -> int:
        """The last position up to this one that was not taken back since the attempt."""
        limit = self._rollbacks.limit(attempt)
        for cut in (*self.rolling, *(() if limit is None else (limit,))):
            position = min(position, cut)
        return position

    def batches(self, start: int | None, attempt: int | None = None) -> "Batches":
        """From position `start`, or behind the last confirmed; without end."""
        return Batches(self, start, attempt)

    def deliveries(self, start: int | None, attempt: int | None = None) -> "Deliveries":
        return Deliveries(self, start, attempt)

    def enter(self, start: int | None, attempt: int | None = None) -> Cursor:
        cursor = self.cursor(start, attempt)
        self._readers.append(cursor)
        self._loop = asyncio.get_running_loop()
        self.advanced()  # it may begin further on than the application had come
        return cursor

    def cursor(self, start: int | None, attempt: int | None = None) -> Cursor:
        """A place in the stream. A cursor that was made but never entered holds nobody back.
        `attempt`: of the last delivery that the reader had; without it, the reader is taken to know
        of all rollbacks."""
        read = self._begin(start)
        self.require_attempt(attempt)
        known = self._rollbacks.seen_by(read) if attempt is None else attempt
        if start is None:
            known = max(known, self.confirmed_attempt)
        return Cursor(read, self._openings.seen_by(read), known)

    def watch(self, start: int | None, attempt: int | None = None) -> Cursor:
        """A place for a reader that nobody waits for, however far behind it is."""
        cursor = self.cursor(start, attempt)
        self._watchers.append(cursor)
        return cursor

    def skip(self, cursor: Cursor, last: int) -> None:
        """Go on behind a position: the messages up to it are no longer kept."""
        cursor.last = last
        cursor.epoch = max(cursor.epoch, self._openings.seen_by(last))
        cursor.attempt = max(cursor.attempt, self._rollbacks.seen_by(last))

    def leave(self, cursor: Cursor) -> None:
        """The reader is gone, and holds nobody back any more; it may have been the slowest."""
        if cursor in self._watchers:
            self._watchers.remove(cursor)
        if cursor in self._readers:
            self._readers.remove(cursor)
            self._handed = max(self._handed, cursor.handed)
            self._told = max(self._told, cursor.attempt)
            self.advanced()

    def leave_soon(self, cursor: Cursor) -> None:
        """The same from any thread: the garbage collector finds forgotten readers."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.leave, cursor)

    def _begin(self, start: int | None) -> int:
        """The position before the first to be read."""
        if start is not None:
            require_number(start, "start", 1)
            return start - 1
        if self.log is None:  # what is dropped was read, or skipped by a reader further on
            return max(self.confirmed, self.handed, self._dropped)
        return self.confirmed

    def at_once(self, reader: Cursor) -> Sequence[StreamBatch] | None:
        """What is there behind the reader, if nothing but recent batches is: nearly always. Empty:
        nothing is there, and nothing else is to be told. None: `after` has to look."""
        read = reader.last - length_hint(reader.items)
        if (
            reader.attempt != self._rollbacks.last
            or (reader.epoch < self._openings.last and self._openings.has_more(reader.epoch, read))
            or reader.whole
            or reader.ended is not None
        ):
            return None
        if read >= self.delivered:
            return () if self._closed is None else None
        recent = self._recent
        if recent and recent[0].position == read + 1 and self._recent_bytes <= READ_BYTES:
            return list(recent)  # the common case without a store
        return self._from_memory(read) or None

    async def after(self, reader: Cursor) -> Sequence[StreamBatch]:
        """What is there behind the reader. It waits until there is something."""
        while True:
            if reader.ended is not None:
                raise reader.ended
            read, rollbacks = reader.read, self._rollbacks
            news = reader.attempt != rollbacks.last
            if news and (rolled := rollbacks.due(reader.attempt, read)) is not None:
                opened, upto = await self._openings_of(reader, read, read)
                before = [one for one in opened if one.epoch <= rolled.epoch]
                return before if len(before) == len(opened) and upto < _ALL else [*before, rolled]
            if read < self.delivered:
                found = self._from_memory(read)
                if reader.whole:
                    found = list(takewhile(_is_whole, found))
                if news or not found:
                    found = found or await self._from_log(read + 1, whole=reader.whole)
                    found = list(takewhile(partial(_is_of, reader.attempt), found))
                if found:
                    openings, upto = await self._openings_of(reader, read, found[-1].last)
                    return _merged(found, openings, upto) if openings else found
            elif openings := (await self._openings_of(reader, read, read))[0]:
                return openings
            if rollbacks.due(reader.attempt, read) is not None:
                continue  # told while the log was read
            if self._closed is not None:
                raise Error(self._closed)
            reader.waiter = asyncio.get_running_loop().create_future()
            try:
                await reader.waiter
            finally:
                reader.waiter = None

    def _from_memory(self, read: int) -> list[_Kept]:
        """What was delivered behind a position, or nothing where that is no longer here."""
        recent = self._recent  # it ends at `delivered`, or is empty
        if not recent or recent[0].position > read + 1:
            return []
        found: list[_Kept] = []
        for batch in reversed(recent):
            found.append(batch)
            if batch.position <= read + 1:
                break
        found.reverse()
        return found if self._recent_bytes <= READ_BYTES else _first_of(found)

    async def _openings_of(
        self, reader: Cursor, read: int, end: int
    ) -> tuple[list[EpochOpened], int]:
        """The openings to tell a reader that has read up to `read`; up to position `end` at least,
        if they are not too many. With them, the position of the last one if more may stand there,
        or `_ALL`."""
        openings = self._openings
        if not openings.has_more(reader.epoch, read):  # the common case
            return [], _ALL
        if self.log is None or read >= openings.whole_from:
            return openings.after(reader.epoch, read), _ALL
        loop = asyncio.get_running_loop()
        found, all_of_them = await loop.run_in_executor(
            None, self.log.openings, read, end, reader.epoch
        )
        # The store may have one that comes after a rollback which the reader must hear first.
        known = [one for one in found if reader.epoch < one.epoch <= openings.last]
        return known, _ALL if all_of_them or len(known) < len(found) else known[-1].position

    async def _from_log(self, start: int, *, whole: bool) -> list[_Kept]:
        if self.log is None:
            raise Forgotten(f"position {start} was read before, and nothing is stored here")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, self.log.read, start, _READ_MESSAGES)
        batches: list[_Kept] = [
            batch if whole else self._gaps.get(batch.position, batch)
            for batch in found
            if batch.position <= self.delivered
        ]
        if not batches and (self.rolling or start > self.delivered):
            return []  # it is being taken back
        if not batches or batches[0].position > start:
            raise Forgotten(
                f"position {start} is no longer kept; see 'retention' in the cluster file"
            )
        return batches

    def close(self, why: str) -> None:
        """Readers get what there is, and then an error."""
        self._closed = why
        self._wake_confirming()
        for reader in chain(self._readers, self._watchers):
            reader.wake()


class StreamReader(ABC, Generic[I]):
    """A reader. If it lags, it holds the site up, from its first `anext` until it is closed."""

    def __init__(self, stream: Stream, start: int | None, attempt: int | None = None) -> None:
        self._stream = stream
        self._start = start
        self._attempt = attempt
        self._cursor: Cursor | None = None
        self._batches: Iterator[DeliveredBatch | GapBatch | EpochOpened | Rollback] = iter(())
        self._busy = False
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> I:
        """The next item."""

    async def _refill(self) -> Cursor:
        """Fetch more batches. Only this reader moves its cursor."""
        if self._closed:
            raise StopAsyncIteration
        if self._busy:
            raise Error("one reader is waited for twice at a time; open another one")
        stream, cursor = self._stream, self._cursor
        if cursor is None:
            cursor = self._cursor = stream.enter(self._start, self._attempt)
        else:
            if stream.log is None:
                stream.trim()
            if stream.holding:
                stream.advanced()
        self._busy = True
        try:
            found = stream.at_once(cursor)
            if found is not None and not found:  # the common case
                cursor.waiter = asyncio.get_running_loop().create_future()
                try:
                    await cursor.waiter
                finally:
                    cursor.waiter = None
                found = stream.at_once(cursor)
            self._batches = iter(found or await stream.after(cursor))
        finally:
            self._busy = False
        return cursor

    async def _arrive(self, opened: EpochOpened) -> EpochOpened:
        """The application has everything before the epoch: here its state is given or taken."""
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
        """Stop reading: nobody waits for this reader any more. Raises nothing."""
        self._closed = True
        self._batches = iter(())
        if self._cursor is not None:
            self._stream.leave(self._cursor)

    def __del__(self) -> None:
        if self._cursor is not None:
            self._stream.leave_soon(self._cursor)


class Deliveries(StreamReader[Delivery | Gap | EpochOpened | Rollback]):
    """What `Node.deliveries` iterates over: one message at a time. If reading stops within a batch,
    the messages that follow in it count as not read."""

    def __init__(self, stream: Stream, start: int | None, attempt: int | None = None) -> None:
        super().__init__(stream, start, attempt)
        self._items: Iterator[Delivery | Gap] = iter(())

    async def __anext__(self) -> Delivery | Gap | EpochOpened | Rollback:
        for item in self._items:
            return item
        while True:
            for batch in self._batches:
                if type(batch) is DeliveredBatch:  # the common case
                    return self._first(batch)
                if isinstance(batch, EpochOpened):
                    return await self._arrive(batch)
                if isinstance(batch, Rollback):
                    return self._rolled(batch)
                return self._first(batch)
            await self._refill()

    def ready(self) -> Iterator[Delivery | Gap]:
        """The rest of the batch that was begun, without a way through the event loop. What is taken
        from it counts as read. Raises nothing."""
        return self._items

    def _first(self, batch: DeliveredBatch | GapBatch) -> Delivery | Gap:
        cursor = self._cursor
        assert cursor is not None
        items: Sequence[Delivery | Gap] = batch.deliveries()
        last = batch.position + len(items) - 1
        if batch.position <= cursor.last:  # all before it was handed over
            items = items[cursor.last + 1 - batch.position :]
        self._items = cursor.items = iter(items)
        cursor.last = last
        return next(self._items)

    async def aclose(self) -> None:
        """Stop reading: nobody waits for this reader any more. Raises nothing."""
        self._items = iter(())
        await super().aclose()


class Batches(StreamReader[DeliveredBatch | GapBatch | EpochOpened | Rollback]):
    """What `Node.batches` iterates over."""

    async def __anext__(self) -> DeliveredBatch | GapBatch | EpochOpened | Rollback:
        cursor = self._cursor
        while True:
            for batch in self._batches:
                assert cursor is not None
                if isinstance(batch, EpochOpened):
                    return await self._arrive(batch)
                if isinstance(batch, Rollback):
                    return self._rolled(batch)
                handed = batch
                if batch.position <= cursor.last:  # the reader has these, or did not ask for them
                    handed = batch.between(cursor.last + 1, batch.last)
                cursor.last = batch.last
                return handed
            cursor = await self._refill()


def _merged(
    batches: list[_Kept], openings: list[EpochOpened], upto: int
) -> list[_Kept | EpochOpened]:
    """Put each opening at its place between two batches; no batch is of two epochs. What stands
    behind position `upto` comes later: another opening may come first."""
    merged: list[_Kept | EpochOpened] = []
    for batch in takewhile(lambda batch: batch.last <= upto, batches):
        while openings and openings[0].position < batch.position:
            merged.append(openings.pop(0))
        merged.append(batch)
    last = min(upto, batches[-1].last)
    merged.extend(takewhile(lambda opened: opened.position <= last, openings))
    return merged


def _is_of(attempt: int, batch: _Kept) -> bool:
    """Whether a reader at this attempt may read the batch. Before batches of a later attempt it
    must read the rollback."""
    return isinstance(batch, GapBatch) or batch.attempt <= attempt


def _is_whole(batch: _Kept) -> bool:
    return not isinstance(batch, GapBatch)


def _first_of(batches: list[_Kept]) -> list[_Kept]:
    """The first batches, about `READ_BYTES` of them. A slow reader keeps all of them in memory,
    although the stream has dropped them."""
    size = 0
    for n, batch in enumerate(batches, start=1):
        size += _size_of(batch)
        if size >= READ_BYTES:
            return batches[:n]
    return batches


def _size_of(batch: _Kept) -> int:
    return 0 if isinstance(batch, GapBatch) else len(batch.placed.batch.body)
