"""From the site's deliveries to the application's `async for`: readers, lag, what is shed.

Recent batches are kept in memory; a reader that is further behind reads the store. Each reader has
its own cursor. The slowest one, or before there is any the last confirmed position, is how far the
application has come: its lag behind what is delivered is bounded. At the bound a slow application
holds the site up (`wait`), or batches are shed: the application finds a gap in their place.

One future wakes a reader for all that a turn of the loop delivered, never one per message. An epoch
that opened stands between two positions, and takes none itself; so does a rollback, behind which
positions are given again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple, Protocol, TypeAlias

from ordercast.core.epochs.records import EpochOpened as EpochOpened
from ordercast.core.epochs.returning import Rollback as Rollback
from ordercast.model.errors import ConfigError, Error
from ordercast.model.messages import DeliveredBatch, Delivery
from ordercast.net.site.gaps import Gap as Gap
from ordercast.net.site.gaps import GapBatch as GapBatch
from ordercast.net.site.gaps import without_body
from ordercast.net.site.pieces import is_above, is_of, merged, size_of
from ordercast.net.site.readers import Batches, Cursor, Deliveries
from ordercast.net.store.events import OpenedEpochs, RollbackLog

_RECENT_MESSAGES = 16_384  # in memory although they are in the store
_RECENT_BYTES = 16 * 1024 * 1024
_READ_MESSAGES = 4_096  # at once from the store


StreamItem: TypeAlias = Delivery | Gap | EpochOpened | Rollback
StreamBatch: TypeAlias = DeliveredBatch | GapBatch | EpochOpened | Rollback
_Kept: TypeAlias = DeliveredBatch | GapBatch


class Log(Protocol):
    """Where earlier deliveries can be read again."""

    def read(self, start: int, most_messages: int) -> list[DeliveredBatch]: ...


class Lag(NamedTuple):
    """When the application is too far behind; `shed`: then drop for it, do not wait."""

    messages: int
    size: int
    shed: bool


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
        rolled: Sequence[Rollback] = (),
        confirmed_attempt: int = 1,
        restored: int = 0,
    ) -> None:
        self.log = log
        self.confirmed = confirmed
        self.confirmed_attempt = confirmed_attempt  # in which the application has come there
        self.delivered = delivered  # last position released to the application, read or not
        self._handed = confirmed  # last position that some reader got that has left
        self.lag_limit = lag
        self.embedded = embedded  # the application lives here: it lags also before it reads
        self.holding = False
        self._hold = hold
        self._shed = shed
        self._restored = restored  # in the log at the start: maybe seen before, so never shed now
        self._gaps = {gap.position: gap for gap in gaps}  # of positions that the log has
        self._openings = OpenedEpochs(opened)
        self._rollbacks = RollbackLog(rolled)
        self._told = max(self._rollbacks.seen_by(confirmed), confirmed_attempt)  # to a reader
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed: str | None = None

    # --- from the site ----------------------------------------------------------------------------

    def add(self, batches: Sequence[DeliveredBatch | EpochOpened | Rollback]) -> None:
        for batch in batches:
            if isinstance(batch, EpochOpened):
                self._openings.add(batch)
                continue
            if isinstance(batch, Rollback):
                self._roll_back(batch)
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
            self._trim()  # a reader does that by itself when it asks for more
        for reader in self._readers:
            waiter = reader.waiter
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        if not self.lag_limit.shed and not self.holding and self._too_far():
            self.holding = True
            self._hold(True)

    def _roll_back(self, rolled: Rollback) -> None:
        """Readers notice by themselves: what they were given, and hold, they may still read."""
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
            self._recent_bytes -= size_of(gone)
        for gone_at in [at for at in self._gaps if at > position]:
            del self._gaps[gone_at]

    @property
    def attempt(self) -> int:
        return self._rollbacks.last

    def rolled_back(self) -> list[tuple[int, int]]:
        """The last rollbacks: attempts and positions."""
        return self._rollbacks.latest()

    def opened_as(self, epoch: int) -> EpochOpened | None:
        return self._openings.of(epoch)

    def _trim(self) -> None:
        """Drop from memory what the store has, or, where there is none, what has been read; the
        oldest, where nobody has read for long and nobody is waited for."""
        recent = self._recent
        if self.log is None and self._counts():
            read = self.progress() if recent else 0
            while recent and recent[0].last <= read:
                self._drop()
            return
        while recent and (
            self._recent_messages > _RECENT_MESSAGES or self._recent_bytes > _RECENT_BYTES
        ):
            self._drop()

    def _drop(self) -> None:
        gone = self._recent.popleft()
        self._dropped = gone.last
        self._recent_messages -= gone.count
        self._recent_bytes -= size_of(gone)

    # --- lag --------------------------------------------------------------------------------------

    def progress(self) -> int:
        """How far the application has come."""
        readers = self._readers
        if len(readers) == 1:  # the common case
            return readers[0].read
        if readers:
            return min(reader.read for reader in readers)
        return max(self.confirmed, self.handed)

    @property
    def handed(self) -> int:
        """The last position that some reader got."""
        handed = self._handed
        for reader in self._readers:
            if reader.handed > handed:
                handed = reader.handed
        return handed

    @property
    def heard(self) -> int:
        """The attempt that the application knows of: of its slowest reader, or of the last one."""
        return min((reader.attempt for reader in self._readers), default=self._told)

    def application_at(self) -> tuple[int, int]:
        """What the application was handed last, of what still stands, and the attempt."""
        limit = self._rollbacks.limit(self.heard)
        return (self.handed if limit is None else min(self.handed, limit)), self.attempt

    @property
    def lag(self) -> int:
        return max(0, self.delivered - self.progress())  # one may be beyond, until it is told

    def _counts(self) -> bool:
        """Not with a daemon that nobody reads: its store, if it has one, keeps everything."""
        return bool(self._readers) or self.embedded

    def _too_far(self) -> bool:
        if not self._counts():
            return False
        lag = self.lag
        if lag >= self.lag_limit.messages:
            return True
        if self.log is None:
            return self._recent_bytes >= self.lag_limit.size and lag > 0
        return lag * self._bytes >= self.lag_limit.size * self._messages > 0

    def advanced(self) -> None:
        if self.log is None:
            self._trim()
        if not self.holding or self._too_far():
            return
        if self.lag <= self.lag_limit.messages // 2 or not self._counts():
            self.holding = False
            self._hold(False)

    # --- to the application -----------------------------------------------------------------------

    def confirm(self, position: int, attempt: int | None = None) -> bool:
        """Whether that is news. Of what was taken back since the application saw it, in `attempt`
        or as far as its readers have come, nothing is confirmed."""
        attempt = self.heard if attempt is None else attempt
        limit = self._rollbacks.limit(attempt)
        for cut in (*self.rolling, *(() if limit is None else (limit,))):
            position = min(position, cut)
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

    def batches(self, start: int | None, attempt: int | None = None) -> Batches:
        """From position `start`, or behind the last confirmed; without end."""
        return Batches(self, start, attempt)

    def deliveries(self, start: int | None, attempt: int | None = None) -> Deliveries:
        return Deliveries(self, start, attempt)

    def enter(self, start: int | None, attempt: int | None = None) -> Cursor:
        cursor = self.cursor(start, attempt)
        self._readers.append(cursor)
        self._loop = asyncio.get_running_loop()
        self.advanced()  # it may begin at the end, where nobody had come
        return cursor

    def cursor(self, start: int | None, attempt: int | None = None) -> Cursor:
        """A place in the stream; nobody waits for who has it and did not `enter`. `attempt`: that
        of what the reader had before; else it is taken to know what stands there now."""
        read = self._begin(start)
        known = self._rollbacks.seen_by(read) if attempt is None else attempt
        if start is None:
            known = max(known, self.confirmed_attempt)
        return Cursor(read, self._openings.seen_by(read), known)

    def leave(self, cursor: Cursor) -> None:
        """Nobody waits for it any more; it may have been the slowest."""
        if cursor in self._readers:
            self._readers.remove(cursor)
            self._handed = max(self._handed, cursor.handed)
            self._told = max(self._told, cursor.attempt)
            self.advanced()

    def leave_soon(self, cursor: Cursor) -> None:
        """The same from any thread: a forgotten reader is found by the garbage collector."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.leave, cursor)

    def _begin(self, start: int | None) -> int:
        """The position before the first to be read."""
        if start is not None:
            if start < 1:
                raise ConfigError(f"start: {start} is too small (positions begin at 1)")
            return start - 1
        if self.log is None:  # a reader that began further on has skipped what is dropped
            return max(self.confirmed, self.handed, self._dropped)
        return self.confirmed

    def has_more(self, reader: Cursor) -> bool:
        if self._rollbacks.due(reader.attempt, reader.read) is not None:
            return True
        return reader.read < self.delivered or bool(self._pending(reader))

    async def after(self, reader: Cursor) -> Sequence[StreamBatch]:
        while True:
            read, rollbacks = reader.read, self._rollbacks
            news = reader.attempt != rollbacks.last
            if news and (rolled := rollbacks.due(reader.attempt, read)) is not None:
                return [*self._openings.until(reader.epoch, read, rolled), rolled]
            if read < self.delivered:
                found = self._from_memory(read)
                if news or not found:
                    found = found or await self._from_log(read + 1)
                    found = list(takewhile(partial(is_of, reader.attempt), found))
                if found:
                    if reader.epoch == self._openings.last:  # the common case
                        return found
                    openings = self._openings.after(reader.epoch, read)
                    return merged(found, openings) if openings else found
            elif openings := self._pending(reader):
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
        recent = self._recent
        if recent and recent[0].position == read + 1:
            return list(recent)  # the common case
        found = list(takewhile(partial(is_above, read), reversed(recent)))
        if found and found[-1].position <= read + 1:
            found.reverse()
            return found
        return []

    def _pending(self, reader: Cursor) -> list[EpochOpened]:
        if reader.epoch == self._openings.last:
            return []
        return self._openings.after(reader.epoch, reader.read)

    async def _from_log(self, start: int) -> list[_Kept]:
        if self.log is None:
            raise ConfigError(f"position {start} was read before, and nothing is stored here")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, self.log.read, start, _READ_MESSAGES)
        batches: list[_Kept] = [
            self._gaps.get(batch.position, batch)
            for batch in found
            if batch.position <= self.delivered
        ]
        if not batches and (self.rolling or start > self.delivered):
            return []  # it is being taken back
        if not batches or batches[0].position > start:
            raise ConfigError(
                f"position {start} is no longer kept; see 'retention' in the cluster file"
            )
        return batches

    def close(self, why: str) -> None:
        """Readers get what there is, and then an error."""
        self._closed = why
        for reader in self._readers:
            if reader.waiter is not None and not reader.waiter.done():
                reader.waiter.set_result(None)
