"""The named readers of a site: a position of its own for each name, kept in the store.

Of the followers of a name one has the turn, and confirms. The others stand in line in the order in
which they came. Any number may read ranges. Nobody waits for a named reader but the store, which
keeps what the reader has not passed, up to its limits (docs/store.md has the argument).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.arguments import require_names, require_number
from ordercast.model.errors import ConfigError, Error, Forgotten, TurnLost, UnknownGroup
from ordercast.model.groups import Group, Site
from ordercast.model.limits import LARGEST_NUMBER, READER_GROUPS
from ordercast.model.names import nearest, require_name, shown
from ordercast.net.cluster.config import ReaderLimits
from ordercast.net.site.stream import Cursor, Stream, StreamBatch
from ordercast.net.store.reader_rows import ALL_GROUPS, MOST_READERS, ReaderHold, ReaderRow
from ordercast.net.store.store import drawn

_log = logging.getLogger("ordercast.net.site")

LOOK_S = 1.0  # between moves of readers without a follower past messages of other groups
WARN = 0.8  # of a limit


Making: TypeAlias = Callable[[Iterable[str]], AbstractContextManager[None]]
"""Called with the names of readers that are about to be made."""


class ReaderStore(Protocol):
    """What is needed of a store."""

    @property
    def first(self) -> int: ...

    @property
    def holds(self) -> Mapping[str, ReaderHold]: ...

    def readers(self) -> dict[str, ReaderRow]: ...


class ReaderStanding(NamedTuple):
    """`groups`: None for all. `followed`: somebody follows it now."""

    groups: frozenset[Group] | None
    confirmed: int
    followed: bool


class ReaderPlace:
    """Where a follower was before its connection broke: `number` of the reader, and the position
    and the attempt that its application had come to."""

    __slots__ = ("attempt", "number", "position")

    def __init__(self, number: int, position: int, attempt: int) -> None:
        self.number = number
        self.position = position
        self.attempt = attempt


class ReaderTurn:
    """One follower of a reader. It has the turn while it is the first in the reader's line."""

    def __init__(self, reader: "NamedReader", place: ReaderPlace | None) -> None:
        self.reader = reader
        self.place = place
        self.cursor: Cursor | None = None
        self.handed = 0  # the last position of the reader's groups that it was given
        self.given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the follower has the turn; an error if it will never have it."""

    def end(self, error: Error) -> None:
        """The follower gets this error instead of anything more."""
        if not self.given.done():
            self.given.set_exception(error)
            self.given.exception()  # perhaps nobody asks
        if self.cursor is not None:
            self.cursor.ended = error
            self.cursor.wake()

    def require(self) -> Cursor:
        """The follower's place. Raises TurnLost, or why it ended, unless it has the turn."""
        if self.cursor is not None and self.cursor.ended is not None:
            raise self.cursor.ended
        if self.cursor is None or not self.reader.line or self.reader.line[0] is not self:
            raise TurnLost(f"reader {self.reader.row.name!r}: this follower has no turn")
        return self.cursor


class NamedReader:
    """`row` is what the store has, or soon will. `waits`: there is a message for the reader behind
    `passed`; None: that is not known."""

    def __init__(self, row: ReaderRow) -> None:
        self.row = row
        self.line: list[ReaderTurn] = []
        self.waits: bool | None = None


class NamedReaders:
    """`keep` is called when there are rows for the next commit. `stored` waits until all rows so
    far are durable."""

    def __init__(
        self,
        site: Site,
        stream: Stream,
        store: ReaderStore,
        limits: ReaderLimits,
        *,
        durable: bool,
        groups: Callable[[], Mapping[Group, Collection[Site]]],
        keep: Callable[[], None],
    ) -> None:
        self.site = site
        self.stream = stream
        self._store = store
        self._limits = limits
        self._durable = durable
        self._groups = groups
        self._keep = keep
        self._readers = {name: NamedReader(row) for name, row in store.readers().items()}
        self._changed: dict[str, None] = {}  # names of rows that are to be written
        self._passed: dict[str, None] = {}  # names of rows that may wait for the next look
        self._gone: dict[str, None] = {}
        self._waiting: list[asyncio.Future[None]] = []  # callers that wait for the next commit
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed: str | None = None

    # --- for the site -----------------------------------------------------------------------------

    def start(self) -> None:
        if self._durable:
            self._look()

    def close(self, why: str) -> None:
        self._closed = why
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        for reader in self._readers.values():
            for turn in list(reader.line):
                turn.end(Error(why))
        for done in self._waiting:
            if not done.done():
                done.set_exception(Error(f"the reader's position may not be durable: {why}"))

    def rows(self) -> tuple[list[ReaderRow], list[str], list[asyncio.Future[None]]]:
        """The rows to write, the names of the rows to delete, and the callers to tell when they are
        durable."""
        if not (self._changed or self._gone or self._waiting):  # the common case
            return [], [], []
        changed = [self._readers[name].row for name in self._changed if name in self._readers]
        gone, waiting = list(self._gone), self._waiting
        self._changed, self._gone, self._waiting = {}, {}, []
        return changed, gone, waiting

    async def _stored(self) -> None:
        if self._closed is not None:
            raise Error(self._closed)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._keep()
        await done

    async def first_kept(self) -> int:
        """The first position that the store still has."""
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self._store.first)

    # --- making, resetting and removing them ------------------------------------------------------

    async def open(
        self, name: str, groups: Iterable[Group] | str | None, making: Making | None = None
    ) -> NamedReader:
        """The reader of this name. If there is none and groups are given, make it: it begins with
        the first message that is kept. `making` is entered before the reader is made. It raises an
        Error if the caller may make no more readers."""
        wanted = self.check(name, groups)
        reader = self._readers.get(name)
        if reader is None and groups is None:
            raise ConfigError(f"there is no reader {name!r} at site {self.site}: say its groups")
        if reader is None:
            self._require_members(wanted)
            first = await self.first_kept()
            with making([name]) if making is not None else nullcontext():
                reader = self._readers.get(name) or self._make(name, wanted, first)
            await self._stored()
        if groups is not None and reader.row.groups != wanted:
            raise ConfigError(
                f"reader {name!r} of site {self.site} is of groups {groups_text(reader.row)}; to"
                " read others use another name, or remove it first"
            )
        return reader

    def check(self, name: str, groups: Iterable[Group] | str | None) -> frozenset[Group] | None:
        """Check what a caller gives. Returns the groups in the form of a row."""
        require_reader(name, groups)
        if not self._durable:
            raise ConfigError(
                f"reader {name!r}: with durability 'memory' a site keeps no positions of readers"
            )
        return None if groups is None or groups == ALL_GROUPS else frozenset(groups)

    def _require_members(self, groups: frozenset[Group] | None) -> None:
        known = self._groups()
        for group in sorted(groups or ()):
            if group not in known:
                raise UnknownGroup(f"there is no group {group!r}{nearest(group, known)}")
            if self.site not in known[group]:
                raise ConfigError(
                    f"site {self.site} is no member of group {group!r}, and has no messages of it"
                )

    def _make(self, name: str, groups: frozenset[Group] | None, first: int) -> NamedReader:
        if len(self._readers) >= MOST_READERS:
            raise ConfigError(f"site {self.site} has {MOST_READERS:,} readers already")
        row = ReaderRow(
            name, groups, _drawn(), first - 1, first - 1, self.stream.attempt, time.time_ns()
        )
        reader = self._readers[name] = NamedReader(row)
        self._changed[name] = None
        return reader

    def reader(self, name: str) -> NamedReader:
        require_name(name, "reader")
        reader = self._readers.get(name)
        if reader is None:
            hint = nearest(name, self._readers)
            raise ConfigError(f"there is no reader {name!r} at site {self.site}{hint}")
        return reader

    @property
    def names(self) -> Collection[str]:
        return self._readers.keys()

    def place_of(self, name: str) -> ReaderStanding | None:
        """How a reader stands; None: there is none of this name."""
        reader = self._readers.get(name)
        if reader is None:
            return None
        row = reader.row
        confirmed = self.stream.standing(row.confirmed, row.attempt)
        return ReaderStanding(row.groups, confirmed, bool(reader.line))

    async def reset(self, name: str, position: int | None) -> int:
        """Go on with this position: the next follower begins there. 0: the first that is kept.
        None: behind all that was delivered. The present follower loses the turn. Returns the
        position."""
        first = await self.first_kept() if position == 0 else 0
        reader = self.reader(name)
        last = self.stream.delivered
        if position == 0:
            last = min(last, first - 1)
        elif position is not None:
            require_number(position, "position", 0)
            if position > last + 1:
                raise ConfigError(f"position {position}: {last} is the last delivered")
            last = position - 1
        reader.row = replace(
            reader.row, number=_drawn(), confirmed=last, passed=last, attempt=self.stream.attempt
        )
        reader.waits = None
        self._changed[name] = None
        self._end(reader, f"reader {name!r} of site {self.site} was reset to {last + 1}")
        await self._stored()
        return last + 1

    async def remove(self, name: str) -> None:
        """Forget the reader. Nothing is kept for it any more."""
        reader = self.reader(name)
        del self._readers[name]
        self._changed.pop(name, None)
        self._gone[name] = None
        self._end(reader, f"reader {name!r} of site {self.site} was removed")
        await self._stored()

    def _end(self, reader: NamedReader, why: str) -> None:
        line, reader.line = reader.line, []
        for turn in line:
            turn.end(TurnLost(why))

    # --- following --------------------------------------------------------------------------------

    def enter(self, reader: NamedReader, place: ReaderPlace | None) -> ReaderTurn:
        """Stand in line. Raises Forgotten if it is not the reader that the follower had before."""
        if self._closed is not None:
            raise Error(self._closed)
        if self._readers.get(reader.row.name) is not reader:  # since it was found
            raise TurnLost(f"reader {reader.row.name!r} of site {self.site} was removed")
        turn = ReaderTurn(reader, place)
        if place is not None and place.number != reader.row.number:
            raise another_reader(reader.row.name, self.site)
        if place is not None:
            self.stream.require_attempt(place.attempt)
        reader.line.append(turn)
        if reader.line[0] is turn:
            self._next(reader.line)
        return turn

    def leave(self, turn: ReaderTurn) -> None:
        """The follower stops, or its connection is lost: the next one in line has the turn."""
        if turn.cursor is not None:
            self.stream.leave(turn.cursor)
        line = turn.reader.line
        if turn not in line:
            return
        had = line[0] is turn
        line.remove(turn)
        turn.end(TurnLost(f"reader {turn.reader.row.name!r}: this follower has stopped"))
        if had:
            turn.reader.waits = None
            self._next(line)

    def _next(self, line: list[ReaderTurn]) -> None:
        """Give the turn to the first in line that can take it."""
        while line and not self._give(line[0]):
            del line[0]

    def _give(self, turn: ReaderTurn) -> bool:
        """Give the turn to a follower, unless others have confirmed beyond its place."""
        row, place = turn.reader.row, turn.place
        confirmed = self.stream.standing(row.confirmed, row.attempt)
        begin, attempt = self.stream.standing(row.passed, row.attempt), row.attempt
        turn.handed = confirmed
        if place is not None:
            if confirmed > place.position or row.attempt > place.attempt:
                turn.end(
                    TurnLost(
                        f"reader {row.name!r}: another follower has confirmed position {confirmed};"
                        f" this one has read up to {place.position}"
                    )
                )
                return False
            attempt = place.attempt
            if place.position > begin:
                begin = turn.handed = place.position
        turn.cursor = self.stream.watch(begin + 1, attempt)
        turn.cursor.whole = True
        if not turn.given.done():
            turn.given.set_result(None)
        return True

    async def confirm(self, turn: ReaderTurn, position: int, attempt: int | None) -> None:
        """The follower is done with everything up to this position. Returns when that is
        durable."""
        require_number(position, "position", 0)
        self.stream.require_attempt(attempt)
        await asyncio.shield(turn.given)
        await self.stream.repeated(position)
        cursor = turn.require()
        attempt = cursor.attempt if attempt is None else attempt
        position = self.stream.standing(position, attempt)
        last = min(cursor.last, self.stream.delivered)  # a follower says itself where it was before
        if position > last:
            raise ConfigError(
                f"position {position} cannot be confirmed: reader {turn.reader.row.name!r} has read"
                f" up to {last}"
            )
        self._confirm(turn, position, attempt)
        await self._stored()

    async def confirm_first(self, name: str, position: int, attempt: int | None) -> None:
        """Confirm for the follower that has the turn."""
        reader = self.reader(name)
        if not reader.line:
            raise TurnLost(f"reader {name!r}: nobody follows it; confirm while it is read")
        await self.confirm(reader.line[0], position, attempt)

    def _confirm(self, turn: ReaderTurn, position: int, attempt: int) -> None:
        reader, stream = turn.reader, self.stream
        row = reader.row
        confirmed = max(position, stream.standing(row.confirmed, row.attempt))
        passed = max(confirmed, stream.standing(row.passed, row.attempt))
        attempt = max(attempt, row.attempt)
        reader.row = replace(row, confirmed=confirmed, passed=passed, attempt=attempt)
        self._changed[row.name] = None
        self.advance(turn)

    def advance(self, turn: ReaderTurn) -> None:
        """Move `passed` over messages that are not for the reader, if all that it was handed is
        confirmed."""
        cursor, row = turn.cursor, turn.reader.row
        if cursor is None or turn.handed > row.confirmed or row.attempt != self.stream.attempt:
            return
        self._pass(turn.reader, cursor.last)

    def _pass(self, reader: NamedReader, position: int) -> None:
        if position > reader.row.passed:
            reader.row = replace(reader.row, passed=position)
            self._passed[reader.row.name] = None

    # --- readers that nobody follows --------------------------------------------------------------

    def _look(self) -> None:
        """Now and then: move the readers that nobody follows over messages that are not for
        them."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        self._changed |= self._passed
        self._passed.clear()
        if self._task is None or self._task.done():
            idle = self._idle()
            if idle:
                self._task = asyncio.create_task(self._walk(idle))

    def _idle(self) -> list[NamedReader]:
        attempt = self.stream.attempt
        return [
            reader
            for reader in self._readers.values()
            if not reader.line
            and not reader.waits
            and reader.row.attempt == attempt
            and reader.row.passed < self.stream.delivered
        ]

    async def _walk(self, idle: list[NamedReader]) -> None:
        """Go through the deliveries behind the readers, once for all readers."""
        stream = self.stream
        end, attempt = stream.delivered, stream.attempt
        numbers = {reader.row.name: reader.row.number for reader in idle}
        cursor = stream.watch(min(reader.row.passed for reader in idle) + 1)
        cursor.whole = True
        try:
            while idle and cursor.last < end:
                batches = await stream.after(cursor)
                if stream.attempt != attempt:
                    return
                # Meanwhile some may have been followed, reset or removed.
                idle = [
                    reader
                    for reader in idle
                    if not reader.line and numbers[reader.row.name] == reader.row.number
                ]
                self._step(idle, cursor, batches)
                idle = [reader for reader in idle if not reader.waits]
        except Forgotten:
            for reader in idle:
                reader.waits = True
        except Error as error:
            _log.debug("readers cannot be looked after: %s", error)
        finally:
            stream.leave(cursor)

    def _step(
        self, idle: list[NamedReader], cursor: Cursor, batches: Sequence[StreamBatch]
    ) -> None:
        """Nothing is awaited here, and the work grows with the batches plus the readers."""
        by_group: dict[Group | None, list[NamedReader]] = {}
        for reader in idle:
            for group in reader.row.groups or (None,):
                by_group.setdefault(group, []).append(reader)
        for batch in batches:
            if isinstance(batch, EpochOpened):
                cursor.epoch = batch.epoch
            elif not isinstance(batch, Rollback):
                for group in (None, *batch.audience):
                    left = []
                    for reader in by_group.get(group, ()):
                        if reader.waits:
                            continue
                        if batch.last > reader.row.passed:
                            reader.waits = True
                            self._pass(reader, batch.position - 1)
                        else:
                            left.append(reader)
                    by_group[group] = left
                cursor.last = batch.last
        for reader in idle:
            if not reader.waits:
                self._pass(reader, cursor.last)

    # --- what an operator sees --------------------------------------------------------------------

    def status(self) -> dict[str, dict[str, Any]]:
        """Of each reader: see docs/operations.md."""
        return {name: self._status_of(reader) for name, reader in self._readers.items()}

    def _status_of(self, reader: NamedReader) -> dict[str, Any]:
        row, stream, limits = reader.row, self.stream, self._limits
        passed = stream.standing(row.passed, row.attempt)
        hold = self._store.holds.get(row.name, ReaderHold(0, 0))
        behind = max(0, stream.delivered - passed)
        size, age = (hold.bytes, hold.age_ns) if behind else (0, 0)
        return {
            "groups": ALL_GROUPS if row.groups is None else sorted(row.groups),
            "confirmed": stream.standing(row.confirmed, row.attempt),
            "passed": passed,
            "lag": behind,
            "followers": len(reader.line),
            "held_bytes": size,
            "held_s": round(age / 1e9, 3),
            "limit_bytes": limits.bytes,
            "limit_s": limits.age / 1e9,
            "limit_used": round(max(size / limits.bytes, age / limits.age), 3),
            "created_ns": row.created_ns,
        }


def _drawn() -> int:
    """A random number, as frames can have it; no other reader has it."""
    return drawn() % LARGEST_NUMBER or 1


def reader_warnings(readers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line for each reader that is near its limit, or beyond it."""
    return [
        f"reader {name}: {told['lag']:,} positions behind,"
        f" at {told['limit_used']:.0%} of its limit; beyond it messages go, and it finds a gap"
        for name, told in readers.items()
        if told["limit_used"] >= WARN
    ]


def another_reader(name: str, site: Site) -> Forgotten:
    return Forgotten(
        f"reader {name!r} of site {site} is not the one that was read before: it was reset or"
        " removed, or the site has lost its store"
    )


def require_unnamed(groups: object) -> None:
    if groups is not None:
        raise ConfigError(f"groups: {shown(groups)}: only a named reader has groups; say 'reader'")


def require_unplaced(name: str, start: object, attempt: object) -> None:
    for what, value in (("start", start), ("attempt", attempt)):
        if value is not None:
            raise ConfigError(
                f"{what}: {shown(value)}: reader {name!r} has a position of its own; 'reader reset'"
                " changes it"
            )


def groups_text(row: ReaderRow) -> str:
    return ALL_GROUPS if row.groups is None else ", ".join(sorted(row.groups))


def require_reader(name: str, groups: Iterable[Group] | str | None) -> Sequence[Group] | None:
    """Check the name of a reader and its groups: a list of names, `*` for all, None: not given."""
    require_name(name, "reader")
    if groups is None or groups == ALL_GROUPS:
        return None
    found = require_names(groups, "groups")
    for group in found:
        require_name(group, "groups")
    if not found:
        raise ConfigError(f"groups: reader {name!r} needs one at least, or {ALL_GROUPS!r} for all")
    if len(found) > READER_GROUPS:
        raise ConfigError(f"groups: {len(found)} are too many (at most {READER_GROUPS:,})")
    if len(set(found)) < len(found):
        raise ConfigError(f"groups: {shown(groups)} names a group twice")
    return found
