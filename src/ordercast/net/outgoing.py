"""What the application has sent and the site has not taken yet, and who waits for room.

The window is checked here, when the application sends; seqs are given here too, because everything
goes to the site in this order, at the end of the turn. Payloads to one group gather in one batch up
to `BATCH_BYTES`. With causal order a send to another group ends the batch: the order in which the
application sent is then the order in which the site takes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ordercast.core.site import Site
from ordercast.model.errors import ConfigError, Error, TooLarge, WindowFull
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.implicit import implicit_group
from ordercast.wire.limits import BATCH_MESSAGES, BODY_BYTES

BATCH_BYTES = 65_536  # of payloads that gather
_OVERHEAD = 5  # bytes that packing adds to a payload, at most

Request: TypeAlias = tuple[bytes, int]
"""A client's id and the number it gave to what it sends: the same one is taken once."""

Taken: TypeAlias = tuple[bytes, int, Group, int, int]
"""A request, and the group, first seq and count that it became."""


class Waiting:
    """A batch that is filling, or waits for the end of the turn."""

    __slots__ = ("group", "members", "payloads", "request", "size")

    def __init__(
        self, group: Group, members: tuple[SiteName, ...], payloads: list[bytes], size: int
    ) -> None:
        self.group = group
        self.members = members
        self.payloads = payloads
        self.size = size
        self.request: Request | None = None


class Outgoing:
    def __init__(self, core: Site, wake: Callable[[], None]) -> None:
        limits = core.options.limits
        self.waiting_messages = 0
        self.waiting_bytes = 0
        self._core = core
        self._own = core.own
        self._wake = wake
        self._most_messages = limits.window_messages
        self._most_bytes = limits.window_bytes
        self._message_bytes = limits.message_bytes
        self._causal = core.options.causal
        self._last: dict[Group, int] = {}  # seq given to the last message
        self._waiting: deque[Waiting] = deque()
        self._filling: dict[Group, Waiting] = {}
        self._rooms: deque[asyncio.Future[None]] = deque()
        self._closed: str | None = None

    # --- taking -----------------------------------------------------------------------------------

    def take(self, group: Group, payload: bytes) -> int | None:
        """The message's seq, or None while the window is full."""
        size = len(payload)
        if type(payload) is not bytes or size > self._message_bytes or group not in self._last:
            payload = self._check(group, payload)
        if not self._fits(1, size + _OVERHEAD):
            return None
        batch = self._filling.get(group)
        if batch is None or batch.size + size > BATCH_BYTES:
            batch = self._begin(group, (), [payload], size + _OVERHEAD)
            if self._causal:
                self._filling.clear()
            self._filling[group] = batch
        else:
            batch.payloads.append(payload)
            batch.size += size + _OVERHEAD
        self.waiting_messages += 1
        self.waiting_bytes += size + _OVERHEAD
        seq = self._last[group] = self._last[group] + 1
        return seq

    def take_batch(
        self, group: Group, payloads: list[bytes], request: Request | None = None
    ) -> int | None:
        """The last message's seq, or None while the window is full."""
        size = self._check_batch(payloads)
        if group not in self._last:
            self._check(group, b"")
        return self._take(group, (), payloads, size, request)

    def take_listed(
        self, sites: Sequence[SiteName], payloads: list[bytes], request: Request | None = None
    ) -> tuple[Group, int | None]:
        """To listed sites: their group's name, and as above."""
        size = self._check_batch(payloads)
        members = self._core.structure.listed(sites)
        group = implicit_group(members)
        self._core.structure.primary(group, members)  # refuses what no one order covers
        if group not in self._last:
            self._last[group] = self._own.last_seq.get(group, 0)
        return group, self._take(group, members, payloads, size, request)

    def _take(
        self,
        group: Group,
        members: tuple[SiteName, ...],
        payloads: list[bytes],
        size: int,
        request: Request | None,
    ) -> int | None:
        count = len(payloads)
        if not self._fits(count, size):
            return None
        if self._causal:
            self._filling.clear()
        self._filling.pop(group, None)
        self._begin(group, members, payloads, size).request = request
        self.waiting_messages += count
        self.waiting_bytes += size
        seq = self._last[group] = self._last[group] + count
        return seq

    def _fits(self, messages: int, size: int) -> bool:
        """As in the core: something is always let in when nothing is under way."""
        if self._closed is not None:
            raise Error(self._closed)
        under_way = self._own.unstable + self.waiting_messages
        if not under_way:
            return True
        return (
            under_way + messages <= self._most_messages
            and self._own.unstable_bytes + self.waiting_bytes + size <= self._most_bytes
        )

    def _begin(
        self, group: Group, members: tuple[SiteName, ...], payloads: list[bytes], size: int
    ) -> Waiting:
        batch = Waiting(group, members, payloads, size)
        self._waiting.append(batch)
        self._wake()
        return batch

    def _check(self, group: Group, payload: bytes) -> bytes:
        """The rare cases: a group not sent to before, what is no bytes, what is too large."""
        if group not in self._last:
            self._core.structure.members(group)
            self._last[group] = self._own.last_seq.get(group, 0)
        if not isinstance(payload, (bytes, bytearray, memoryview)):
            raise ConfigError(f"payload: bytes are needed, not {type(payload).__name__}")
        if len(payload) > self._message_bytes:
            raise TooLarge(f"a message of {len(payload)} bytes; the limit is {self._message_bytes}")
        return bytes(payload)

    def _check_batch(self, payloads: list[bytes]) -> int:
        if not payloads:
            raise ConfigError("payloads: a batch of no messages")
        for payload in payloads:
            if type(payload) is not bytes:
                raise ConfigError(f"payload: bytes are needed, not {type(payload).__name__}")
            if len(payload) > self._message_bytes:
                raise TooLarge(
                    f"a message of {len(payload)} bytes; the limit is {self._message_bytes}"
                )
        count = len(payloads)
        size = sum(map(len, payloads)) + _OVERHEAD * (count + 1)
        if count > BATCH_MESSAGES or size > BODY_BYTES:
            raise TooLarge(
                f"a batch of {count} messages, {size} bytes;"
                f" the limits are {BATCH_MESSAGES} and {BODY_BYTES}"
            )
        return size

    # --- waiting for room -------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """Others wait already: who comes later waits behind them."""
        return bool(self._rooms)

    async def room(self) -> None:
        """Until there may be room. A waiter that is cancelled passes its turn on."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rooms.append(future)
        try:
            await future
        except asyncio.CancelledError:
            self.may_have_room()
            raise

    def may_have_room(self) -> None:
        room = self._most_messages - self._own.unstable - self.waiting_messages
        while self._rooms and room > 0:
            future = self._rooms.popleft()
            if not future.done():
                future.set_result(None)
                room -= 1

    def window_full(self) -> WindowFull:
        return WindowFull(
            f"{self._own.unstable + self.waiting_messages} messages"
            f" ({self._own.unstable_bytes + self.waiting_bytes} bytes) are accepted and not yet"
            f" stable; the window is {self._most_messages} messages or {self._most_bytes} bytes"
        )

    # --- handing to the site ----------------------------------------------------------------------

    def submit(self, now: int) -> tuple[list[Taken], bool]:
        """Hand over what waits: what became of requests, and whether the site took everything."""
        taken: list[Taken] = []
        if not self._waiting:
            return taken, True
        self._filling.clear()
        waiting = self._waiting
        while waiting:
            batch = waiting[0]
            count = len(batch.payloads)
            try:
                if batch.members:
                    _, seq = self._core.submit_to(now, batch.members, batch.payloads)
                else:
                    seq = self._core.submit(now, batch.group, batch.payloads)
            except WindowFull:
                return taken, False
            waiting.popleft()
            self.waiting_messages -= count
            self.waiting_bytes -= batch.size
            if batch.request is not None:
                taken.append((*batch.request, batch.group, seq, count))
        return taken, True

    def last_seqs(self) -> dict[Group, int]:
        """Given to the last message of each group sent to in this run."""
        return dict(self._last)

    def close(self, why: str) -> None:
        self._closed = why
        while self._rooms:
            future = self._rooms.popleft()
            if not future.done():
                future.set_exception(Error(why))
