"""What the application has sent and the site has not taken yet, and who waits for room.

The window is checked here, when the application sends; seqs are given here too, because everything
goes to the site in this order, at the end of the turn. Payloads to one group gather in one batch up
to `BATCH_BYTES`. With causal order a send to another group ends the batch: the order in which the
application sent is then the order in which the site takes.

What waits here for a group that is removed goes with it, and its seqs are free again (`follow`).

Who finds the window full waits in line, and who comes later behind. The first in line is given its
room as soon as there is enough for it, so a large batch is not overtaken for ever by small ones.
While the site takes nothing (`standing`) all wait in line, until it does, or it is given up.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from ordercast.core.epochs.member import Member
from ordercast.model.errors import Error, NotInMajority, TooLarge, WindowFull
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.implicit import implicit_group
from ordercast.net.site.filling import BATCH_BYTES, Given, InLine, Quick, Request, Taken, Waiting
from ordercast.net.site.given import OVERHEAD, as_bytes, measured
from ordercast.net.site.standing import Standing


class Outgoing:
    def __init__(self, core: Member, standing: Standing, wake: Callable[[], None]) -> None:
        limits = core.options.limits
        self._messages = 0  # that wait
        self._bytes = 0
        self._core = core
        self._standing = standing
        self._shut: dict[Group, None] = {}  # those that are frozen
        self._own = core.window
        self._lasts = core.layout.lasts  # as `follow` has seen them
        self._wake = wake
        self._most_messages = limits.window_messages
        self._most_bytes = limits.window_bytes
        self._message_bytes = limits.message_bytes
        self._causal = core.options.causal
        self._last: dict[Group, int] = {}  # seq given to the last message to a named group
        self._last_listed: dict[Group, int] = {}  # and to an implicit one
        self._lists: dict[Group, tuple[SiteName, ...]] = {}  # the members of those
        self._waiting: deque[Waiting] = deque()
        self.asked: dict[Request, Given] = {}  # what clients' requests among these will become
        self._filling: dict[Group, Waiting] = {}
        self._quick: Quick | None = None
        self._is_quick = limits.message_bytes >= BATCH_BYTES  # else every size is looked at
        self._line: deque[InLine] = deque()
        self._granted_messages = self._granted_bytes = 0
        self._closed: str | None = None

    # --- taking -----------------------------------------------------------------------------------

    def joined(self, group: Group, payload: bytes) -> int:
        """The seq of a message that joins the batch that the last one went to; 0: `take` it."""
        quick = self._quick
        if quick is None or group is not quick.group or type(payload) is not bytes:
            return 0
        left, seq = quick.left - len(payload) - OVERHEAD, quick.seq + 1
        if left < 0 or seq > quick.upto:
            return 0
        quick.left, quick.seq = left, seq
        quick.append(payload)
        return seq

    def _count(self) -> None:
        """Count what has joined; what comes next is looked at. First of all in everything here."""
        quick = self._quick
        if quick is not None:
            self._quick = None
            size = quick.began - quick.left
            self._filling[quick.group].size += size
            self._bytes += size
            self._messages += quick.seq - self._last[quick.group]
            self._last[quick.group] = quick.seq

    @property
    def waiting_messages(self) -> int:
        self._count()
        return self._messages

    @property
    def waiting_bytes(self) -> int:
        self._count()
        return self._bytes

    def take(self, group: Group, payload: bytes, *, granted: bool = False) -> int | None:
        """The message's seq, or None while the window is full. `granted`: the caller has waited in
        line for this room (`turn`), and takes it now."""
        self._count()
        if (
            type(payload) is not bytes
            or len(payload) > self._message_bytes
            or group not in self._last
        ):
            payload = self._check(group, payload)
        self._require_thawed(group)
        size = len(payload) + OVERHEAD
        if not granted and not self._fits(1, size):
            return None
        batch = self._filling.get(group)
        if batch is None or batch.size + size > BATCH_BYTES:
            batch = self._begin(group, (), [payload], size)
            if self._causal:
                self._filling.clear()
            self._filling[group] = batch
        else:
            batch.payloads.append(payload)
            batch.size += size
        self._messages += 1
        self._bytes += size
        seq = self._last[group] = self._last[group] + 1
        if self._is_quick and not self._line:
            self._quicken(batch, group, seq)
        return seq

    def _quicken(self, batch: Waiting, group: Group, seq: int) -> None:
        """So much may follow, as far as is known: less is never allowed before the end of the turn,
        but to somebody in line."""
        unstable, unstable_bytes = self._own.unstable_both()
        messages = self._most_messages - unstable - self._granted_messages - self._messages
        size = self._most_bytes - unstable_bytes - self._granted_bytes - self._bytes
        self._quick = Quick(batch, group, min(size, BATCH_BYTES - batch.size), seq, seq + messages)

    def take_batch(
        self,
        group: Group,
        payloads: list[bytes],
        request: Request | None = None,
        *,
        granted: bool = False,
    ) -> int | None:
        """The last message's seq, or None while the window is full."""
        self._count()
        size = measured(payloads, self._message_bytes)
        if group not in self._last:
            self._check(group, b"")
        self._require_thawed(group)
        return self._take(self._last, group, (), payloads, size, request, granted)

    def take_listed(
        self,
        sites: Sequence[SiteName],
        payloads: list[bytes],
        request: Request | None = None,
        *,
        granted: bool = False,
    ) -> tuple[Group, int | None]:
        """To listed sites: their group's name, and as above."""
        self._count()
        size = measured(payloads, self._message_bytes)
        members = self._core.layout.listed(sites)
        group = implicit_group(members)
        self._core.domain(group, members)  # refuses what no one order covers
        last = self._last_listed
        if group not in last:
            last[group] = self._own.next_seq(group) - 1
            self._lists[group] = members
        return group, self._take(last, group, members, payloads, size, request, granted)

    def _take(
        self,
        last: dict[Group, int],
        group: Group,
        members: tuple[SiteName, ...],
        payloads: list[bytes],
        size: int,
        request: Request | None,
        granted: bool,
    ) -> int | None:
        count = len(payloads)
        if not granted and not self._fits(count, size):
            return None
        if self._causal:
            self._filling.clear()
        self._filling.pop(group, None)
        self._begin(group, members, payloads, size).request = request
        self._messages += count
        self._bytes += size
        if request is not None:
            self.asked[request] = (group, last[group] + 1, count)
        seq = last[group] = last[group] + count
        return seq

    def _fits(self, messages: int, size: int) -> bool:
        """Room, and nobody in line before; and what was foretold goes by what is known now."""
        if self._closed is not None:
            raise Error(self._closed)
        up_to_date = self._lasts is self._core.layout.lasts and not self._line
        return up_to_date and self._standing.open() and self._has_room(messages, size)

    def _has_room(self, messages: int, size: int) -> bool:
        """As in the core: something is always let in when nothing is under way."""
        unstable, unstable_bytes = self._own.unstable_both()
        under_way = unstable + self._messages + self._granted_messages
        if not under_way:
            return True
        if under_way + messages > self._most_messages:
            return False
        under_way_bytes = unstable_bytes + self._bytes + self._granted_bytes
        return under_way_bytes + size <= self._most_bytes

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
            self._core.domain(group, ())  # refuses what there is not
            self._last[group] = self._own.next_seq(group) - 1
        payload = as_bytes(payload)
        if len(payload) > self._message_bytes:
            raise TooLarge(f"a message of {len(payload)} bytes; the limit is {self._message_bytes}")
        return payload

    def _require_thawed(self, group: Group) -> None:
        if group in self._shut:
            self._core.domain(group, ())  # says why not

    # --- waiting for room -------------------------------------------------------------------------

    async def turn(self, payloads: Sequence[bytes]) -> None:
        """Wait in line for room for these. Take it at once, before anything is awaited. A waiter
        that is cancelled takes nothing, and passes its room on."""
        if self._closed is not None:
            raise Error(self._closed)
        waiter = InLine(len(payloads), sum(map(len, payloads)) + OVERHEAD * (len(payloads) + 1))
        self._count()  # nobody overtakes it
        self._line.append(waiter)
        try:
            await waiter.future
        except BaseException:
            self._leave(waiter)
            self.may_have_room()
            raise
        self._leave(waiter)
        # The group may have gone meanwhile: then it takes nothing, and others wait behind it.
        asyncio.get_running_loop().call_soon(self.may_have_room)

    def _leave(self, waiter: InLine) -> None:
        self._line.remove(waiter)
        if waiter.granted:
            self._granted_messages -= waiter.messages
            self._granted_bytes -= waiter.size

    def may_have_room(self) -> None:
        """Grant it to the first in line, as far as it goes."""
        if self._line and not self._may_grant():
            return
        for waiter in self._line:
            if waiter.future.done():
                continue  # granted or cancelled, and about to leave
            if not self._has_room(waiter.messages, waiter.size):
                return
            waiter.granted = True
            waiter.future.set_result(None)
            self._granted_messages += waiter.messages
            self._granted_bytes += waiter.size

    def _may_grant(self) -> bool:
        try:
            return self._standing.open()
        except NotInMajority as error:
            for waiter in self._line:
                if not waiter.future.done():
                    waiter.future.set_exception(NotInMajority(str(error)))
            return False

    def window_full(self) -> WindowFull | NotInMajority:
        why = self._standing.why_not()
        if why is not None:
            return NotInMajority(why)
        return WindowFull(
            f"{self._own.unstable + self._messages} messages"
            f" ({self._own.unstable_bytes + self._bytes} bytes) are accepted and not yet"
            f" stable; the window is {self._most_messages} messages or {self._most_bytes} bytes"
        )

    # --- handing to the site ----------------------------------------------------------------------

    def submit(self, now: int) -> tuple[list[Taken], bool]:
        """Hand over what waits: what became of requests, and whether the site took everything."""
        self._count()
        taken: list[Taken] = []
        if not self._waiting:
            return taken, True
        self._filling.clear()
        if not self._standing.takes():
            return taken, True  # asked again when that has changed
        waiting = self._waiting
        frozen: deque[Waiting] = deque()
        while waiting:
            batch = waiting[0]
            count = len(batch.payloads)
            try:
                seq = batch.submit(self._core, now)
            except WindowFull:
                waiting.extendleft(reversed(frozen))
                return taken, False
            except NotInMajority:  # its members are absent: it stays, and others pass it
                if self._causal:
                    return taken, True
                frozen.append(waiting.popleft())
                continue
            waiting.popleft()
            self._messages -= count
            self._bytes -= batch.size
            if batch.request is not None:
                self.asked.pop(batch.request, None)
                taken.append((*batch.request, batch.group, seq, count))
        self._waiting = frozen
        return taken, True

    def follow(self) -> dict[Group, int]:
        """The layout has changed: of each group that is gone, or was in between, the first seq that
        no epoch takes. What waits here for such a group is dropped."""
        self._count()
        self._lasts = self._core.layout.lasts
        waits = Counter[Group]()
        apart: dict[Group, None] = {}
        for batch in self._waiting:
            waits[batch.group] += len(batch.payloads)
            if batch.group not in apart and self._open(batch.group, batch.members) is False:
                apart[batch.group] = None
        refused, layout = dict[Group, int](), self._core.layout
        self._shut = dict.fromkeys(g for g in layout.groups if layout.domain_of([g]) is None)
        if self._shut:
            self._filling.clear()
        groups = layout.groups if self._core.name in layout.roster else {}
        for last in (self._last, self._last_listed):
            for group, seq in list(last.items()):
                if self._open(group, self._lists.get(group, ())) is None:
                    continue  # its past, which tells the last that was taken, is yet to come
                taken = self._own.next_seq(group) - 1  # the last sent that was not refused
                if group in apart or taken + waits[group] != seq:
                    refused[group] = taken + 1
                if group in refused or (last is self._last and group not in groups):
                    del last[group]
        if refused:
            self._drop(refused)
        return refused

    def _open(self, group: Group, members: tuple[SiteName, ...]) -> bool | None:
        """Whether there is an epoch for it; None: not while sites, or this one, are absent."""
        if self._core.name in self._core.layout.roster and not self._standing.takes():
            return None
        try:
            self._core.domain(group, members)
        except NotInMajority:
            return None
        except Error:
            return False
        return True

    def _drop(self, groups: Mapping[Group, int]) -> None:
        self._filling.clear()
        waiting, self._waiting = self._waiting, deque()
        for batch in waiting:
            if batch.group in groups:
                self._messages -= len(batch.payloads)
                self._bytes -= batch.size
                if batch.request is not None:
                    self.asked.pop(batch.request, None)
            else:
                self._waiting.append(batch)
        self.may_have_room()

    def given(self, group: Group) -> int | None:
        """The seq of the last message to it: what came behind was refused, perhaps in an earlier
        run. None: not known yet."""
        self._count()
        if self._open(group, self._lists.get(group, ())) is None:
            return None
        return self._given(group, self._last.get(group) or self._last_listed.get(group, 0))

    def _given(self, group: Group, last: int) -> int:
        """`last` was foretold; while nothing waits, numbers up to it may be nobody's (skipped)."""
        return last if last >= self._own.next_seq(group) else self._own.last_seq(group)

    def last_seqs(self) -> dict[Group, int]:
        """Given to the last message of each group sent to in this run."""
        self._count()
        last = {**self._last, **self._last_listed}
        return {group: self._given(group, seq) for group, seq in last.items()}

    def close(self, why: str) -> None:
        self._count()
        self._closed = why
        for waiter in self._line:
            if not waiter.future.done():
                waiter.future.set_exception(Error(why))
