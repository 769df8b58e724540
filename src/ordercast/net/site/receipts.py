"""Receipts: how far a message has come, without any work per message.

Stages are reached in the order of seqs. So only the last seq is kept per stage and group, and a
future only for receipts that somebody awaits.

When a group or a producer is removed, messages that no epoch took are refused. If later messages go
on, their seqs stay; if there are none, the refused seqs are given again. So a receipt asks a
`ReceiptSource`, which knows what was refused since.
"""

import asyncio
import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Awaitable, Callable, Sequence
from operator import itemgetter
from typing import Protocol, TypeAlias

import msgspec

from ordercast.core.epochs.records import REFUSED
from ordercast.core.outbox import DOUBTED, StageReached
from ordercast.model.errors import Error, UnknownGroup
from ordercast.model.groups import Group
from ordercast.model.messages import STAGES

FEW = 1_024  # groups and lists: up to here nothing is searched for old ones

_Waiter: TypeAlias = tuple[int, int, asyncio.Future[None]]
"""The seq that is waited for, a number that no other waiter has, and the waiter's future."""

_SEQ: Callable[[_Waiter], int] = itemgetter(0)


class StageSource(Protocol):
    """Answers receipts."""

    async def reached(self, stage: str, group: Group, seq: int) -> None: ...


class Receipt(msgspec.Struct, frozen=True, eq=False):
    """How far one message has come. `group` and `seq` name it, with the site it was sent from."""

    _source: StageSource
    group: Group
    seq: int

    def __repr__(self) -> str:
        return f"Receipt(group={self.group!r}, seq={self.seq})"

    async def accepted(self) -> None:
        """Wait until it is durable here: a restart of this site goes on with it. Raises
        UnknownGroup (its group, its producer or what the group remembers of ids was removed, or the
        grant of its site withdrawn and the epoch ended, before it had its place), or Error (the
        site is closed).
        """
        await self._source.reached("accepted", self.group, self.seq)

    async def ordered(self) -> None:
        """Wait until it has its place in the order. Raises as `accepted`."""
        await self._source.reached("ordered", self.group, self.seq)

    async def stable(self) -> None:
        """Wait until every member has it durably, and all that was ordered before it. Raises as
        `accepted`."""
        await self._source.reached("stable", self.group, self.seq)


class ReceiptSource:
    """Answers the receipts of messages that were sent between two refusals."""

    __slots__ = ("_later", "_reached", "_refused")

    def __init__(self, reached: "Callable[[str, Group, int], Awaitable[None]]") -> None:
        self._reached = reached
        self._refused: Sequence[tuple[Group, range]] = ()  # by the refusal that ended its time
        self._later: ReceiptSource | None = None

    def refuse(self, refused: Sequence[tuple[Group, range]]) -> "ReceiptSource":
        """Messages with these seqs will never be ordered. Returns the source for later receipts."""
        self._refused = refused
        self._later = ReceiptSource(self._reached)
        return self._later

    async def reached(self, stage: str, group: Group, seq: int) -> None:
        at: ReceiptSource | None = self
        while at is not None:
            if any(group == other and seq in seqs for other, seqs in at._refused):
                raise refusal(group, seq)
            at = at._later
        await self._reached(stage, group, seq)


def refusal(group: Group, seq: int) -> UnknownGroup:
    return UnknownGroup(
        f"message {seq} to {group} was not sent: before it had its place that group (or its"
        " producer) was removed, or the grant to send there withdrawn"
    )


def unknown(group: Group, seq: int) -> Error:
    return Error(
        f"message {seq} to {group}: whether it was delivered is not known any more, because this"
        " site was retired after it had sent it"
    )


class Stages:
    """The last seq of each group at each stage, and the callers that wait for more."""

    def __init__(self) -> None:
        self._last: dict[str, dict[Group, int]] = {stage: {} for stage in STAGES}
        # In the order of seqs and numbers. A daemon's client may wait for thousands in any order.
        self._waiting: dict[tuple[str, Group], list[_Waiter]] = {}
        self._waiters = 0  # so far
        self._why_not: str | None = None
        self._look_at = FEW  # search for old groups when there are more than this
        self.doubted: dict[
            Group, None
        ] = {}  # groups with awaited seqs that may never have been sent

    def reached(self, stage: str, group: Group, seq: int) -> bool:
        return self._last[stage].get(group, 0) >= seq

    def last(self, stage: str, group: Group) -> int:
        return self._last[stage].get(group, 0)

    def restored(self, group: Group, seq: int) -> None:
        """Messages of earlier runs up to this seq have reached all stages."""
        for stage in STAGES:
            self._last[stage][group] = seq

    def forget(self, needed: Callable[[Group], bool]) -> None:
        """Forget groups that are not needed, now and then."""
        if max(map(len, self._last.values())) <= self._look_at:
            return
        for stage, last in self._last.items():
            self._last[stage] = {group: seq for group, seq in last.items() if needed(group)}
        self._look_at = max(FEW, 2 * max(map(len, self._last.values())))

    async def wait(self, stage: str, group: Group, seq: int) -> None:
        if self._last[stage].get(group, 0) >= seq:
            return
        if self._why_not is not None:
            raise Error(f"message {seq} to {group} is not {stage}: {self._why_not}")
        waiting = self._waiting.setdefault((stage, group), [])
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters += 1
        entry = (seq, self._waiters, future)
        insort(waiting, entry)
        try:
            await future
        except asyncio.CancelledError:
            at = bisect_left(waiting, entry)
            if at < len(waiting) and waiting[at] is entry:  # else reached, or closed, in this turn
                del waiting[at]
            if not waiting and self._waiting.get((stage, group)) is waiting:
                del self._waiting[stage, group]
            raise

    def awaits(self, stage: str) -> bool:
        """Whether somebody waits for a message to reach this stage."""
        return any(waited == stage for waited, _ in self._waiting)

    def update(self, receipts: Sequence[StageReached]) -> bool:
        """Take the core's receipts. True: some message has become stable, or never will."""
        stable = False
        for receipt in receipts:
            stage, group = receipt.stage, receipt.group
            if stage == REFUSED:  # `refuse` was told when the layout changed
                stable = True
                continue
            if stage == DOUBTED:  # `net.site.copies` looks at it
                continue
            upto = receipt.seq + receipt.count - 1
            if stage == "stable":
                stable = True
            last = self._last[stage]
            if upto > last.get(group, 0):
                last[group] = upto
                waiting = self._waiting.get((stage, group))
                if waiting:
                    self._release(stage, group, waiting, upto)
        return stable

    def refuse(
        self, group: Group, seqs: range, why: Callable[[Group, int], Error] = refusal
    ) -> None:
        """Messages to the group with these seqs will never be ordered, as far as is known."""
        for stage in STAGES:
            waiting = self._waiting.get((stage, group))
            if waiting is None:
                continue
            for seq, _, future in waiting:
                if seq in seqs and not future.done():
                    future.set_exception(why(group, seq))
            waiting[:] = [entry for entry in waiting if entry[0] not in seqs]
            if not waiting:
                del self._waiting[stage, group]

    def cut(self, group: Group, first: int) -> None:
        """Refuse all messages from this seq on. The next message may have this seq."""
        self.refuse(group, range(first, sys.maxsize))
        for last in self._last.values():
            if last.get(group, 0) >= first:
                last[group] = first - 1

    def _release(self, stage: str, group: Group, waiting: list[_Waiter], upto: int) -> None:
        reached = bisect_right(waiting, upto, key=_SEQ)
        for _, _, future in waiting[:reached]:
            if not future.done():  # else its waiter was cancelled
                future.set_result(None)
        del waiting[:reached]
        if not waiting:
            del self._waiting[stage, group]

    def close(self, why: str) -> None:
        """Nothing more will be heard."""
        self._why_not = why
        for (stage, group), waiting in self._waiting.items():
            for seq, _, future in waiting:
                if not future.done():
                    future.set_exception(Error(f"message {seq} to {group} is not {stage}: {why}"))
        self._waiting.clear()
