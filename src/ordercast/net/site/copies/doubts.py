"""Messages of this site that are stable, but perhaps not delivered.

A message with an id, or a client's request, may come too late: its group no longer remembers enough
(docs/ids.md, docs/requests.md). A producer's message may come behind a later generation
(docs/producers.md). The receipts of such messages raise Expired. Only a member of the group knows
what became of a message; a site that is no member asks one, where it can.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import REFUSED
from ordercast.core.outbox import DOUBTED, StageReached
from ordercast.model.errors import ConfigError, Expired
from ordercast.model.groups import Group, Site
from ordercast.net.site.receipts import Receipt, StageSource


@dataclass(slots=True)
class _DoubtedSource:
    """Answers the receipt of such a message. `was_told`: whether the end of an epoch has said that
    it is delivered. `ask`: asks a member that knows. `doubted`: it is not known to be delivered.
    `asking`: a member is asked as soon as the message is stable, because it may forget."""

    source: StageSource
    was_told: Callable[[], bool]
    error: Callable[[], Expired]
    ask: Callable[[], Coroutine[None, None, bool]] | None
    doubted: bool = False
    asking: "asyncio.Task[bool] | None" = None

    async def reached(self, stage: str, group: Group, seq: int) -> None:
        await self.source.reached(stage, group, seq)
        if stage == "stable" and self.doubted:
            if self.asking is None or not await asyncio.shield(self.asking):
                raise self.error()
            self.doubted = False


class Doubts:
    """`open` holds the messages that are not yet stable, by group and last seq."""

    def __init__(self) -> None:
        self.open: dict[tuple[Group, int], _DoubtedSource] = {}
        self._asking: dict[asyncio.Task[bool], None] = {}

    def follow(
        self,
        receipt: Receipt,
        was_told: Callable[[], bool],
        error: Callable[[], Expired],
        ask: Callable[[], Coroutine[None, None, bool]] | None = None,
    ) -> Receipt:
        """The receipt to be given in place of this one."""
        source = _DoubtedSource(receipt._source, was_told, error, ask)
        self.open[receipt.group, receipt.seq] = source
        return Receipt(source, receipt.group, receipt.seq)

    def received(self, receipts: Sequence[StageReached]) -> None:
        """Note which messages are stable and not known to be delivered."""
        for receipt in receipts:
            if receipt.stage == DOUBTED:
                source = self.open.get((receipt.group, receipt.seq + receipt.count - 1))
                if source is not None:
                    self._doubt(source)
            elif receipt.stage in ("stable", REFUSED):
                self.open.pop((receipt.group, receipt.seq + receipt.count - 1), None)

    def _doubt(self, source: _DoubtedSource) -> None:
        source.doubted = not source.was_told()
        if source.doubted and source.ask is not None:
            task = source.asking = asyncio.create_task(source.ask())
            self._asking[task] = None
            task.add_done_callback(self._asked)

    def _asked(self, task: "asyncio.Task[bool]") -> None:
        del self._asking[task]
        if not task.cancelled():
            task.exception()  # the receipt raises it, if there is one still


def require_member(core: Member, group: Group, what: str) -> Sequence[Site]:
    """The members of the group. Raises ConfigError unless this site is one of them."""
    members = core.layout.groups[group]
    if core.name not in members:
        raise ConfigError(
            f"{what.split()[-1]}: site {core.name!r} is no member of group {group!r}: send with"
            f" {what} through one of {', '.join(members[:8])}{' …' if len(members) > 8 else ''}"
        )
    return members
