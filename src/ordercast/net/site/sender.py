"""The messages that the application of this site sends, and the callers that wait for room or a
receipt.

`core.epochs.admission` decides about room and seqs. The parts that need an event loop are here:
senders that wait in line, the time after which they give up, and the receipts.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from time import time_ns

from ordercast.core.batches import NO_EXTRAS, PER_MESSAGE, Extras, as_bytes, extras_of
from ordercast.core.epochs.admission import BATCH_BYTES, PlaceInLine, RequestName
from ordercast.core.epochs.member import Member
from ordercast.model.arguments import one_or_many, plain, require_names, require_payloads
from ordercast.model.errors import ConfigError, Error, NotInMajority, WindowFull
from ordercast.model.grants import EVERY, SEND, ClientSubject
from ordercast.model.groups import Group, Site
from ordercast.model.headers import BatchHeaders, Headers
from ordercast.model.messages import STAGES
from ordercast.net.site.permits import Permits
from ordercast.net.site.presence import NOT_FOUNDED, Presence
from ordercast.net.site.receipts import Receipt, ReceiptSource, Stages, refusal, unknown

TURN_BYTES = BATCH_BYTES - 4_096
"""A sender that has sent so much in one turn of the loop lets the turn end: the batch leaves then.
It is less than a batch holds, else the next message would begin another batch before that."""


class SiteSender:
    """`wake` makes the driver accept all reservations at the end of this turn of the loop."""

    def __init__(
        self,
        core: Member,
        presence: Presence,
        stages: Stages,
        wake: Callable[[], None],
        permits: Permits,
    ) -> None:
        self.admission = core.admission
        self.receipts = ReceiptSource(self.reached)
        self._core = core
        self._presence = presence
        self._stages = stages
        self._wake = wake
        self._permits = permits
        self._line: dict[PlaceInLine, asyncio.Future[None]] = {}
        self._not_ready: list[asyncio.Future[None]] = []
        self._closed: str | None = None

    # --- sending ----------------------------------------------------------------------------------

    async def multicast(
        self,
        group: Group | Sequence[Group],
        payload: bytes,
        headers: Headers = None,
    ) -> Receipt:
        if type(group) is not str and type(group := plain(group)) is not str:
            return await self._multicast_union(group, [as_bytes(payload)], headers)
        extras = extras_of(headers, 1) if headers else NO_EXTRAS
        if self.admission.bytes > TURN_BYTES:
            await asyncio.sleep(0)
        self.require_open(group)
        seq = self.admission.reserve(group, payload, time_ns(), extras)
        if not seq:
            payload = bytes(payload)  # the caller may change its own while this waits

            def reserve(in_line: PlaceInLine) -> int:
                return self.admission.reserve(group, payload, time_ns(), extras, in_line=in_line)

            seq = await self._in_line(reserve, (payload,), extras, group)
        self._wake()
        return Receipt(self.receipts, group, seq)

    def multicast_nowait(
        self,
        group: Group | Sequence[Group],
        payload: bytes,
        headers: Headers = None,
    ) -> Receipt:
        if type(group) is not str and type(group := plain(group)) is not str:
            self.require_open(EVERY)
            groups = self._addressed(group)
            extras, sites = extras_of(headers, 1, groups), self._union(groups)
            group, seq = self.admission.reserve_listed(sites, [payload], None, time_ns(), extras)
        else:
            self.require_open(group)
            extras = extras_of(headers, 1) if headers else NO_EXTRAS
            seq = self.admission.reserve(group, payload, time_ns(), extras)
        if not seq:
            raise self._no_room(extras)
        self._wake()
        return Receipt(self.receipts, group, seq)

    async def multicast_many(
        self,
        group: Group | Sequence[Group],
        payloads: Sequence[bytes],
        headers: BatchHeaders = None,
    ) -> Receipt:
        batch = require_payloads(payloads)
        if type(group) is not str and type(group := plain(group)) is not str:
            return await self._multicast_union(group, batch, headers)
        return await self.send_batch(group, batch, extras_of(headers, len(batch)))

    async def multicast_to(
        self,
        sites: Iterable[Site],
        payload: bytes | Sequence[bytes],
        headers: Headers = None,
    ) -> Receipt:
        batch = one_or_many(payload)
        listed = require_names(sites, "sites")
        return await self.send_listed(listed, batch, extras_of(headers, len(batch)))

    async def _multicast_union(
        self, group: Sequence[Group], batch: list[bytes], headers: BatchHeaders
    ) -> Receipt:
        groups = self._addressed(group)
        return await self.send_to_groups(batch, extras_of(headers, len(batch), groups))

    async def send_batch(
        self,
        group: Group,
        batch: list[bytes],
        extras: Extras = NO_EXTRAS,
        request: RequestName | None = None,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        """Send to a named group. `request`: the request of a daemon's client that the batch is. A
        request is accepted once. `subject`: whom the client speaks for."""
        if self.admission.bytes > TURN_BYTES:
            await asyncio.sleep(0)
        self.require_open(group, subject)

        def reserve(in_line: PlaceInLine | None = None) -> int:
            now = time_ns()
            return self.admission.reserve_batch(group, batch, request, now, extras, in_line=in_line)

        seq = reserve() or await self._in_line(reserve, batch, extras, group, subject)
        self._wake()
        return Receipt(self.receipts, group, seq)

    async def send_to_groups(
        self,
        batch: list[bytes],
        extras: Extras,
        request: RequestName | None = None,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        """Send to all members of the groups of `extras`."""
        return await self.send_listed(self._union(extras.groups), batch, extras, request, subject)

    async def send_listed(
        self,
        sites: Sequence[Site],
        batch: list[bytes],
        extras: Extras = NO_EXTRAS,
        request: RequestName | None = None,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        self.require_open(EVERY, subject)
        admission = self.admission
        group, seq = admission.reserve_listed(sites, batch, request, time_ns(), extras)
        if not seq:

            def reserve(in_line: PlaceInLine) -> int:
                now = time_ns()
                return admission.reserve_listed(
                    sites, batch, request, now, extras, in_line=in_line
                )[1]

            seq = await self._in_line(reserve, batch, extras, EVERY, subject)
        self._wake()
        return Receipt(self.receipts, group, seq)

    def _addressed(self, groups: Sequence[Group]) -> tuple[Group, ...]:
        return tuple(dict.fromkeys(require_names(groups, "group")))

    def _union(self, groups: Sequence[Group]) -> tuple[Site, ...]:
        members: dict[Site, None] = {}
        for group in groups:
            self._core.domain(group, ())  # raises UnknownGroup
            members.update(dict.fromkeys(self._core.layout.groups[group]))
        return tuple(members)

    def require_open(self, group: Group, subject: ClientSubject | None = None) -> None:
        """Raises an Error unless the site takes messages, and the subject may send to the group.
        `EVERY`: to listed sites."""
        if self._closed is not None or self._presence.hopeless:
            self._require_hope()
        self.require_granted(group, subject)

    def require_granted(self, group: Group, subject: ClientSubject | None = None) -> None:
        """Raises NotGranted unless the subject may send to the group. `EVERY`: to listed sites."""
        self._permits.require(subject or self._permits.own, SEND, group)

    def _require_hope(self) -> None:
        if self._closed is not None:
            raise Error(self._closed)
        if self._presence.hopeless:
            raise NotInMajority(self._presence.why_not() or "")

    async def ready(self) -> None:
        """Wait until the site takes messages and the cluster is founded: before that it knows
        neither the features of the cluster nor what its groups remember. Raises NotInMajority, or
        Error (the site is closed)."""
        while not (self.admission.founded and self.admission.open()):
            self._require_hope()
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._not_ready.append(waiting)
            await waiting

    async def whole(self, group: Group, sites: Sequence[Site]) -> None:
        """Wait until one domain has all these sites: none of them is absent. Raises as `ready`, and
        if there is no such domain for another reason."""
        while True:
            try:
                self._core.domain(group, self._core.layout.listed(sites))
                return
            except NotInMajority:
                self._require_hope()
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._not_ready.append(waiting)
            await waiting

    def _no_room(self, extras: Extras) -> WindowFull | NotInMajority:
        why = self._presence.why_not()
        if extras.headers and not self.admission.founded:
            why = why or f"{NOT_FOUNDED}: headers wait until the cluster is"
        return self.admission.window_full() if why is None else NotInMajority(why)

    # --- waiting for room -------------------------------------------------------------------------

    async def _in_line(
        self,
        reserve: Callable[..., int],
        payloads: Sequence[bytes],
        extras: Extras,
        group: Group,
        subject: ClientSubject | None = None,
    ) -> int:
        """Wait for room in line, and reserve it. A sender that is cancelled, or has lost its grant
        meanwhile, has reserved nothing, and its room goes to the next in line."""
        size = sum(map(len, payloads)) + PER_MESSAGE * (len(payloads) + 1) + extras.size
        in_line = self.admission.stand_in_line(len(payloads), size)
        loop = asyncio.get_running_loop()
        try:
            while True:
                granted = self._line[in_line] = loop.create_future()
                await granted
                self.require_granted(group, subject)
                if seq := reserve(in_line=in_line):
                    return seq
        finally:
            del self._line[in_line]
            self.admission.leave_line(in_line)
            self.grant()

    def _look(self) -> None:
        """Wake callers that wait for another layout: it has changed, or there is no more hope of
        that."""
        waiting, self._not_ready = self._not_ready, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def grant(self) -> None:
        """Give room to senders in line, or fail them if there is no hope of room."""
        if not self._line:
            return
        if self._presence.hopeless:
            self._fail_line(NotInMajority(self._presence.why_not() or ""))
            return
        for in_line in self.admission.grant():
            granted = self._line[in_line]
            if not granted.done():  # else its sender was cancelled, and is about to leave
                granted.set_result(None)

    def _fail_line(self, error: Error) -> None:
        for granted in self._line.values():
            if not granted.done():
                granted.set_exception(type(error)(str(error)))

    def close(self, why: str) -> None:
        self.admission.count_joined()  # nothing joins any more
        self._closed = why
        self._fail_line(Error(why))
        self._look()

    # --- receipts ---------------------------------------------------------------------------------

    async def reached(self, stage: str, group: Group, seq: int) -> None:
        """Wait for a stage. Raises UnknownGroup if the group was removed before the message had its
        place."""
        if self._core.window.was_skipped(group, seq):
            raise refusal(group, seq)
        if not self._stages.reached(stage, group, seq):
            if self._is_bygone(group, seq):
                raise unknown(group, seq)
            if self._was_forgotten(group, seq):
                return
            last = self.admission.last_seq(group)
            if last is None:
                self._stages.doubted[group] = None
            elif seq > last:
                raise refusal(group, seq)
        await self._stages.wait(stage, group, seq)

    def _was_forgotten(self, group: Group, seq: int) -> bool:
        """Whether the message is in a stream that the cluster has forgotten: it is stable then. A
        message below the floor may also be reserved, or without a place."""
        core = self._core
        floor = core.layout.floors.get((core.name, core.incarnation), 0)
        return seq <= floor and not (self.admission.numbers(group) or core.window.knows(group))

    def _is_bygone(self, group: Group, seq: int) -> bool:
        core = self._core
        return core.layout.forgets(core.name, core.incarnation, group, seq)

    def _is_needed(self, group: Group) -> bool:
        """Whether receipts of the group cannot be answered by the layout alone."""
        return group in self._core.layout.groups or self._core.window.knows(group)

    async def flush(self, until: str) -> None:
        if until not in STAGES:
            raise ConfigError(f"until: {until!r} is none of {', '.join(STAGES)}")
        for group, seq in self.admission.last_seqs().items():
            await self._stages.wait(until, group, seq)

    def review(self) -> None:
        """From time to time: look again at senders that wait for room, and at receipts of an
        earlier run. A receipt whose message was never sent is failed as soon as that is known."""
        self.grant()
        self._look()
        for group in list(self._stages.doubted):
            last = self.admission.last_seq(group)
            if last is not None:
                del self._stages.doubted[group]
                self._stages.cut(group, last + 1)

    def follow(self) -> None:
        """The layout has changed. Refuse messages and reservations that no epoch takes any more.
        The seqs of refused messages may be given again if no later ones are in use, so receipts of
        the refused messages ask another source."""
        batches, self._core.window.refused = self._core.window.refused, []
        refused = [(group, range(seq, seq + count)) for group, seq, count in batches]
        for seqs in refused:
            self._stages.refuse(*seqs)
        bygone, self._core.window.bygone = self._core.window.bygone, []
        for group, seq, count in bygone:
            self._stages.refuse(group, range(seq, seq + count), unknown)
        for group, first in self.admission.follow().items():
            self._stages.cut(group, first)
            refused.append((group, range(first, sys.maxsize)))
        if refused:
            self.receipts = self.receipts.refuse(refused)
        self._stages.forget(self._is_needed)
        self.grant()
        self._look()
