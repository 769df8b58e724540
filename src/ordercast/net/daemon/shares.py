"""What each subject may take of a daemon: connections, bytes per second, a share of the window.

The limits hold for a subject, however many connections it has, so no client starves another. They
are for clients and sites; the owner of the socket could stop the daemon anyway, and has none.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ordercast.model.errors import Error, TooLarge
from ordercast.model.grants import SOCKET, ClientSubject
from ordercast.net.cluster.config import LimitsConfig

BURST_S: Final = 1.0  # a subject that was quiet may bring so much at once
CROWDED_S: Final = 0.05  # between looks, while too much of a subject waits


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """`rate`: bytes per second; 0: as many as come. `messages`, `bytes`: of the window."""

    connections: int
    rate: int
    messages: int
    bytes: int

    @classmethod
    def of(cls, limits: LimitsConfig) -> "ShareLimits":
        part = limits.subject_window
        return cls(
            limits.subject_connections,
            limits.subject_rate,
            max(1, limits.window_messages * part // 100),
            max(1, limits.window_bytes * part // 100),
        )


class SubjectShare:
    """State: what a subject has under way in the window, what of it waits for that, who waits for
    room, and the bytes that it may still bring."""

    def __init__(self, limits: ShareLimits | None) -> None:
        self._limits = limits  # None: there are none
        self._messages = self._bytes = 0  # reserved in the window, and not stable
        self._waiting_bytes = 0  # taken from connections, and not in the window
        self._line: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._left = 0.0 if limits is None else limits.rate * BURST_S
        self._at = 0.0  # when that was counted

    @property
    def idle(self) -> bool:
        return not (self._messages or self._line or self._waiting_bytes)

    # --- bytes per second -------------------------------------------------------------------------

    def spend(self, size: int, now: float) -> float:
        """So many bytes came, at this time of the loop. Returns for how many seconds no more should
        be read."""
        if self._limits is None:
            return 0.0
        pause = 0.0
        if self._limits.rate:
            most = self._limits.rate * BURST_S
            earned = (now - self._at) * self._limits.rate if self._at else most
            self._left, self._at = min(most, self._left + earned) - size, now
            pause = max(0.0, -self._left / self._limits.rate)
        crowded = self._waiting_bytes > self._limits.bytes
        return max(pause, CROWDED_S) if crowded else pause

    def waits(self, size: int) -> None:
        """So many bytes of messages more wait (or less, below 0)."""
        self._waiting_bytes += size

    def allowed(self, messages: int, size: int) -> tuple[int, int]:
        """So much, but not more than the share."""
        if self._limits is None:
            return messages, size
        return min(messages, self._limits.messages), min(size, self._limits.bytes)

    # --- the share of the window ------------------------------------------------------------------

    async def enter(self, messages: int, size: int) -> None:
        """Wait until the subject may have so much more in the window. Raises TooLarge if a batch is
        larger than the share. A single message always goes, alone if need be."""
        if self._limits is None:
            return
        if messages > 1 and (messages > self._limits.messages or size > self._limits.bytes):
            raise TooLarge(
                f"a batch of {messages:,} messages ({size:,} bytes); one client may have"
                f" {self._limits.messages:,} ({self._limits.bytes:,} bytes) under way at this"
                " daemon"
            )
        if not self._line and self._has_room(messages, size):
            self._take(messages, size)
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (messages, size, given)
        self._line.append(place)
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():
                self.leave(messages, size)
            else:
                self._line.remove(place)
                self._let_in()
            raise

    def _has_room(self, messages: int, size: int) -> bool:
        assert self._limits is not None
        return not self._messages or (
            self._messages + messages <= self._limits.messages
            and self._bytes + size <= self._limits.bytes
        )

    def _take(self, messages: int, size: int) -> None:
        self._messages += messages
        self._bytes += size

    def leave(self, messages: int, size: int) -> None:
        """So much is not under way any more."""
        if self._limits is not None:
            self._messages -= messages
            self._bytes -= size
            self._let_in()

    def _let_in(self) -> None:
        while self._line and self._has_room(*self._line[0][:2]):
            messages, size, given = self._line.popleft()
            if not given.done():
                self._take(messages, size)
                given.set_result(None)

    def hold(self, stable: Callable[[], Awaitable[None]], messages: int, size: int) -> None:
        """Count what has entered until it is stable, or is refused, whatever becomes of the session
        that brought it."""
        if self._limits is None:
            return
        task = asyncio.create_task(self._until(stable, messages, size))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _until(self, stable: Callable[[], Awaitable[None]], messages: int, size: int) -> None:
        try:
            await stable()
        except Error:
            return  # its group was removed, or the site closes
        finally:
            self.leave(messages, size)

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()


class SubjectShares:
    """The shares of all subjects that are there, or have something under way."""

    def __init__(self, limits: LimitsConfig) -> None:
        self.limits = ShareLimits.of(limits)
        self._shares: dict[ClientSubject, SubjectShare] = {}

    def of(self, subject: ClientSubject) -> SubjectShare:
        if subject not in self._shares:
            limits = None if subject.kind == SOCKET else self.limits
            self._shares[subject] = SubjectShare(limits)
        return self._shares[subject]

    def forget(self, there: set[ClientSubject]) -> None:
        """Drop the shares of subjects that are not there, and have nothing under way."""
        gone = [one for one, share in self._shares.items() if one not in there and share.idle]
        for subject in gone:
            del self._shares[subject]

    def close(self) -> None:
        for share in self._shares.values():
            share.close()
