"""What each subject may take of a daemon: connections, bytes per second, a share of the window.

The limits hold for a subject, however many connections it has, so no client starves another. They
are for clients and sites; the owner of the socket could stop the daemon anyway, and has none.

The share shrinks as others take theirs: docs/security.md#the-window-among-subjects has the rule and
why it leaves room. It follows the dynamic thresholds of Choudhury and Hahne, "Dynamic Queue Length
Thresholds for Shared-Memory Packet Switches" (1998), with a factor that falls with the subjects.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ordercast.model.errors import Error, TooLarge
from ordercast.model.grants import SOCKET, ClientSubject
from ordercast.net.cluster.config import LimitsConfig

BURST_S: Final = 1.0  # of its rate: so much a subject that was quiet may bring at once
CROWDED_S: Final = 0.05  # between looks, while too much of a subject waits
FIRST_MESSAGES: Final = 256  # kept for the first messages of subjects; or half, if that is less
FIRST_BYTES: Final = 8  # this part of the bytes is kept for them

Unstable = Callable[[], tuple[int, int]]
"""Returns the number and the bytes of the messages that are accepted here and not stable."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """`rate`: bytes per second; 0: no limit. `messages`, `bytes`: the share of the window."""

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


class SharedWindow:
    """Decides which subject gets room in the window of the site. State: how much all subjects have
    under way, the number of these subjects, the line of subjects that wait, and the messages of an
    earlier run that are not stable yet.

    A message counts from when it enters until it is stable. Messages of the owner of the socket do
    not count: in the site's own line they wait for the messages before them."""

    def __init__(self, messages: int, size: int, unstable: Unstable = lambda: (0, 0)) -> None:
        self._most = (messages, size)
        self._kept = min(FIRST_MESSAGES, messages // 2), size // FIRST_BYTES
        self._messages = self._bytes = 0
        self._subjects = 0  # that have something under way
        self._turns: dict[SubjectShare, None] = {}  # with callers in line, the next first
        self._unstable = unstable
        self._earlier = unstable()  # at most this much is of an earlier run

    def has_room(self, held: tuple[int, int], messages: int, size: int) -> bool:
        """Whether a subject that has `held` under way may take this much more."""
        if not self._messages:
            return True  # a message that is larger than half the window goes alone
        free, free_bytes = self._free()
        if not held[0] and messages == 1:
            return free > 0 and size <= free_bytes // 2
        shared, shared_bytes = free - self._kept[0], free_bytes - self._kept[1]
        k = max(1, self._subjects) if held[0] else 1
        return (held[0] + messages) * k <= shared - messages and (
            held[1] + size
        ) * k <= shared_bytes - size

    def _free(self) -> tuple[int, int]:
        if self._earlier[0]:
            now = self._unstable()
            self._earlier = min(self._earlier[0], now[0]), min(self._earlier[1], now[1])
        return (
            self._most[0] - self._earlier[0] - self._messages,
            self._most[1] - self._earlier[1] - self._bytes,
        )

    def change(self, messages: int, size: int, subjects: int) -> None:
        """Add this much to what is under way. Below 0: remove it."""
        self._messages += messages
        self._bytes += size
        self._subjects += subjects

    def wait(self, share: "SubjectShare") -> None:
        self._turns.setdefault(share)

    def let_in(self) -> None:
        """Give room to waiting subjects in turn, one batch each. A subject that finds no room holds
        nobody else up."""
        turns, passed = self._turns, 0
        while turns and passed < len(turns):
            share = next(iter(turns))
            del turns[share]
            entered = share.let_in_one()
            passed = 0 if entered else passed + 1
            if share.is_waiting:
                turns[share] = None


class SubjectShare:
    """State: the messages of a subject in the window, the messages that wait to enter it, its
    callers in line, and the bytes that it may still bring."""

    def __init__(self, limits: ShareLimits | None, window: SharedWindow) -> None:
        self._limits = limits  # None: there are none
        self._window = window
        self._messages = self._bytes = 0  # reserved in the window, and not stable
        self._waiting_bytes = 0  # taken from connections, and not in the window
        self._line: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._left = 0.0 if limits is None else limits.rate * BURST_S
        self._at = 0.0  # when `_left` was counted

    @property
    def idle(self) -> bool:
        return not (self._messages or self._line or self._waiting_bytes)

    # --- bytes per second -------------------------------------------------------------------------

    def spend(self, size: int, now: float) -> float:
        """Count bytes that came, at this time of the loop. Returns the seconds for which nothing
        more should be read."""
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
        """The bytes of messages that wait have grown by `size`, or shrunk if it is below 0."""
        self._waiting_bytes += size

    def allowed(self, messages: int, size: int) -> tuple[int, int]:
        """These messages and bytes, but not more than the share."""
        if self._limits is None:
            return messages, size
        return min(messages, self._limits.messages), min(size, self._limits.bytes)

    # --- the share of the window ------------------------------------------------------------------

    async def enter(self, messages: int, size: int) -> None:
        """Wait until the subject may have this much more in the window. Raises TooLarge if a batch
        is larger than the most that a subject may have. A single message always goes, alone if need
        be."""
        if self._limits is None:
            return
        if messages > 1 and (messages > self._limits.messages or size > self._limits.bytes):
            raise TooLarge(
                f"a batch of {messages:,} messages ({size:,} bytes); one client may have"
                f" {self._limits.messages:,} ({self._limits.bytes:,} bytes) under way at this"
                " daemon"
            )
        if not self._line and self._has_room(messages, size):
            self._change(messages, size)
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (messages, size, given)
        self._line.append(place)
        self._window.wait(self)
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():
                self.leave(messages, size)
            else:
                if place in self._line:
                    self._line.remove(place)
                self._window.let_in()
            raise

    def _has_room(self, messages: int, size: int) -> bool:
        assert self._limits is not None
        held = (self._messages, self._bytes)
        within = not held[0] or (
            held[0] + messages <= self._limits.messages and held[1] + size <= self._limits.bytes
        )
        return within and self._window.has_room(held, messages, size)

    def _change(self, messages: int, size: int) -> None:
        before = self._messages
        self._messages += messages
        self._bytes += size
        self._window.change(messages, size, bool(self._messages) - bool(before))

    def leave(self, messages: int, size: int) -> None:
        """Remove this much from what is under way."""
        if self._limits is not None:
            self._change(-messages, -size)
            self._window.let_in()

    @property
    def is_waiting(self) -> bool:
        return bool(self._line)

    def let_in_one(self) -> bool:
        """Let the first in line enter, if there is room. Returns whether it entered."""
        while self._line and self._line[0][2].done():  # its sender is gone
            self._line.popleft()
        if not self._line or not self._has_room(*self._line[0][:2]):
            return False
        messages, size, given = self._line.popleft()
        self._change(messages, size)
        given.set_result(None)
        return True

    def hold(self, stable: Callable[[], Awaitable[None]], messages: int, size: int) -> None:
        """Count a batch that has entered until it is stable or refused, even if the session that
        brought it ends."""
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
    """The shares of all subjects that are connected, or have messages under way."""

    def __init__(self, limits: LimitsConfig, unstable: Unstable = lambda: (0, 0)) -> None:
        self.limits = ShareLimits.of(limits)
        self._window = SharedWindow(limits.window_messages, limits.window_bytes, unstable)
        self._shares: dict[ClientSubject, SubjectShare] = {}

    def of(self, subject: ClientSubject) -> SubjectShare:
        if subject not in self._shares:
            limits = None if subject.kind == SOCKET else self.limits
            self._shares[subject] = SubjectShare(limits, self._window)
        return self._shares[subject]

    def forget(self, there: set[ClientSubject]) -> None:
        """Drop the shares of subjects that are not in `there` and have nothing under way."""
        gone = [one for one, share in self._shares.items() if one not in there and share.idle]
        for subject in gone:
            del self._shares[subject]

    def close(self) -> None:
        for share in self._shares.values():
            share.close()
