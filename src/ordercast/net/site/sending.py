"""Sending, as an application does it: to groups, to lists of sites, in batches."""

import asyncio
from collections.abc import Iterable, Sequence

from ordercast.core.epochs.member import Member
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.net.site.filling import TURN_BYTES, Request
from ordercast.net.site.given import as_bytes, names_of, plain
from ordercast.net.site.outgoing import Outgoing
from ordercast.net.site.receipts import STAGES, Receipt, Stages, Voucher, refusal


class Sending:
    """A node's part; the rest of it makes what is named here."""

    core: Member
    outgoing: Outgoing
    stages: Stages
    voucher: Voucher

    async def multicast(self, group: "Group | Sequence[Group]", payload: bytes) -> Receipt:
        """Send to a group, or to all members of several as one; waits while the window is full."""
        if type(group) is not str and type(group := plain(group)) is not str:
            return await self.multicast_to(self._union(group), payload)
        outgoing = self.outgoing
        seq: int | None = outgoing.joined(group, payload)
        if seq:
            return Receipt(self.voucher, group, seq)
        if outgoing.waiting_bytes > TURN_BYTES:
            await asyncio.sleep(0)
        seq = outgoing.take(group, payload)
        if seq is None:
            payload = bytes(payload)
            await outgoing.turn((payload,))
            seq = outgoing.take(group, payload, granted=True)
            assert seq is not None
        return Receipt(self.voucher, group, seq)

    def multicast_nowait(self, group: "Group | Sequence[Group]", payload: bytes) -> Receipt:
        """The same, but WindowFull instead of waiting."""
        if type(group) is not str and type(group := plain(group)) is not str:
            group, seq = self.outgoing.take_listed(self._union(group), [payload])
        else:
            seq = self.outgoing.joined(group, payload) or self.outgoing.take(group, payload)
        if seq is None:
            raise self.outgoing.window_full()
        return Receipt(self.voucher, group, seq)

    async def multicast_many(
        self,
        group: "Group | Sequence[Group]",
        payloads: Sequence[bytes],
        *,
        request: Request | None = None,
    ) -> Receipt:
        """Send a batch, which is ordered as one; the receipt is of its last message."""
        if type(group) is not str and type(group := plain(group)) is not str:
            return await self.multicast_to(self._union(group), payloads, request=request)
        outgoing = self.outgoing
        batch = list(payloads)
        if outgoing.waiting_bytes > TURN_BYTES:
            await asyncio.sleep(0)
        seq = outgoing.take_batch(group, batch, request)
        if seq is None:
            await outgoing.turn(batch)
            seq = outgoing.take_batch(group, batch, request, granted=True)
            assert seq is not None
        return Receipt(self.voucher, group, seq)

    async def multicast_to(
        self,
        sites: Iterable[SiteName],
        payload: "bytes | Sequence[bytes]",
        *,
        request: Request | None = None,
    ) -> Receipt:
        """Send to listed sites: an implicit group, delivered once at each."""
        payloads = list(payload) if isinstance(payload, (list, tuple)) else [as_bytes(payload)]
        listed = names_of(sites, "sites")
        group, seq = self.outgoing.take_listed(listed, payloads, request)
        if seq is None:
            await self.outgoing.turn(payloads)
            group, seq = self.outgoing.take_listed(listed, payloads, request, granted=True)
            assert seq is not None
        return Receipt(self.voucher, group, seq)

    def _union(self, groups: Sequence[Group]) -> tuple[SiteName, ...]:
        members: dict[SiteName, None] = {}
        for group in names_of(groups, "group"):
            self.core.domain(group, ())  # refuses what there is not
            members.update(dict.fromkeys(self.core.layout.groups[group]))
        return tuple(members)

    async def reached(self, stage: str, group: Group, seq: int) -> None:
        """UnknownGroup where the group was removed before the message had its place."""
        if self.core.window.was_skipped(group, seq):
            raise refusal(group, seq)
        if not self.stages.reached(stage, group, seq):
            given = self.outgoing.given(group)
            if given is None:
                self.stages.doubted[group] = None
            elif seq > given:
                raise refusal(group, seq)
        await self.stages.wait(stage, group, seq)

    def _review(self) -> None:
        """Whether there is room now; and who waits for a message of an earlier run is told when
        there is none, once that is known."""
        self.outgoing.may_have_room()
        for group in list(self.stages.doubted):
            given = self.outgoing.given(group)
            if given is not None:
                del self.stages.doubted[group]
                self.stages.refuse(group, given + 1)

    async def flush(self, until: str = "ordered") -> None:
        """Wait until everything sent so far has reached a stage."""
        if until not in STAGES:
            raise ConfigError(f"until: {until!r} is none of {', '.join(STAGES)}")
        for group, seq in list(self.outgoing.last_seqs().items()):
            await self.stages.wait(until, group, seq)

    def _follow(self) -> None:
        """The layout has changed: what waits for a group that is gone is refused."""
        refused = self.outgoing.follow()
        for group, first in refused.items():
            self.stages.refuse(group, first)
        if refused:
            self.voucher = self.voucher.refuse(refused)
        self.outgoing.may_have_room()
