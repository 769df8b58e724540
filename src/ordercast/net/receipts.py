"""Receipts: how far a message has come, without any work per message.

Per stage and group only the last seq that reached it is kept (stages are reached in seq order), and
a future only for those receipts that somebody awaits.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ordercast.core.outbox import Receipt as CoreReceipt
from ordercast.model.errors import Error
from ordercast.model.groups import Group

STAGES = ("accepted", "ordered", "stable")


class Progress(Protocol):
    """Where a receipt asks: the node, or the client of a daemon."""

    async def reached(self, stage: str, group: Group, seq: int) -> None: ...


class Receipt(msgspec.Struct, frozen=True, eq=False):
    """Of one message: `group` and `seq` name it, with the site it was sent from."""

    _progress: Progress
    group: Group
    seq: int

    def __repr__(self) -> str:
        return f"Receipt(group={self.group!r}, seq={self.seq})"

    async def accepted(self) -> None:
        """It is durable here: a restart of this site goes on with it."""
        await self._progress.reached("accepted", self.group, self.seq)

    async def ordered(self) -> None:
        """It has its place in the order."""
        await self._progress.reached("ordered", self.group, self.seq)

    async def stable(self) -> None:
        """Every member has it durably, and all that was ordered before it."""
        await self._progress.reached("stable", self.group, self.seq)


class Stages:
    """The last seq of each group at each stage, and who waits for more."""

    def __init__(self) -> None:
        self._last: dict[str, dict[Group, int]] = {stage: {} for stage in STAGES}
        self._waiting: dict[tuple[str, Group], deque[tuple[int, asyncio.Future[None]]]] = {}
        self._why_not: str | None = None

    def reached(self, stage: str, group: Group, seq: int) -> bool:
        return self._last[stage].get(group, 0) >= seq

    def last(self, stage: str, group: Group) -> int:
        return self._last[stage].get(group, 0)

    def restored(self, group: Group, seq: int) -> None:
        """What earlier runs of this site accepted and had stable."""
        for stage in STAGES:
            self._last[stage][group] = seq

    async def wait(self, stage: str, group: Group, seq: int) -> None:
        if self._last[stage].get(group, 0) >= seq:
            return
        if self._why_not is not None:
            raise Error(f"message {seq} to {group} is not {stage}: {self._why_not}")
        waiting = self._waiting.setdefault((stage, group), deque())
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (seq, future)
        if waiting and waiting[-1][0] > seq:
            place = next(i for i, (other, _) in enumerate(waiting) if other > seq)
            waiting.insert(place, entry)
        else:
            waiting.append(entry)
        try:
            await future
        except asyncio.CancelledError:
            if entry in waiting:  # else it was reached, or closed, in the same turn
                waiting.remove(entry)
            if not waiting and self._waiting.get((stage, group)) is waiting:
                del self._waiting[stage, group]
            raise

    def update(self, receipts: Sequence[CoreReceipt]) -> bool:
        """Take the core's receipts; whether some message has become stable."""
        stable = False
        for receipt in receipts:
            stage, group = receipt.stage, receipt.group
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

    def _release(
        self,
        stage: str,
        group: Group,
        waiting: "deque[tuple[int, asyncio.Future[None]]]",
        upto: int,
    ) -> None:
        while waiting and waiting[0][0] <= upto:
            future = waiting.popleft()[1]
            if not future.done():  # else its waiter was cancelled
                future.set_result(None)
        if not waiting:
            del self._waiting[stage, group]

    def close(self, why: str) -> None:
        """Nothing more will be heard."""
        self._why_not = why
        for (stage, group), waiting in self._waiting.items():
            for seq, future in waiting:
                if not future.done():
                    future.set_exception(Error(f"message {seq} to {group} is not {stage}: {why}"))
        self._waiting.clear()
