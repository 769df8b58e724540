"""`Node`: a site inside the application's process, and the face that an application uses.

    async with Node.open("cluster.toml", site="a") as node:
        receipt = await node.multicast("alpha", b"payload")
        async for item in node.deliveries(): ...

Payloads sent to one group in one turn of the event loop travel as one batch. `multicast` returns as
soon as the window has room; the receipt tells when the message is durable, ordered, stable.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from ordercast.core.outbox import Receipt as CoreReceipt
from ordercast.core.site import Site
from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.messages import DeliveredBatch
from ordercast.net.assembly import AnyStore, MakeTransport, open_store, over_tcp
from ordercast.net.config import Cluster, read_cluster
from ordercast.net.driver import Driver
from ordercast.net.gaps import GapBatch, gap_told, tell_gap
from ordercast.net.outgoing import Outgoing, Request, as_bytes, names_of, plain
from ordercast.net.receipts import STAGES, Receipt, Stages
from ordercast.net.stream import Lag, Stream, StreamBatch, StreamItem
from ordercast.net.written import Written
from ordercast.wire.frames import Frame

_log = logging.getLogger("ordercast.net.node")

TURN_BYTES = 65_536  # who sends so much in one turn of the loop lets it end: it is on its way then
CLOSE_S = 5.0  # how long leaving waits for what is under way
REST_S = 0.25  # and then for silence


class Node:
    """Made by `Node.open`; also the driver's `Application`."""

    def __init__(
        self,
        cluster: Cluster,
        site: SiteName,
        store: AnyStore,
        make_transport: MakeTransport,
        *,
        embedded: bool,
    ) -> None:
        checkpoint, records = store.restored()
        self.cluster = cluster
        self.site = site
        self.boot, self.incarnation = store.boot, store.incarnation
        self.store = store
        self.started_ns = time.time_ns()
        self.core = Site(
            site,
            cluster.structure(),
            cluster.options(),
            protocol=cluster.protocol,
            incarnation=store.incarnation,
            boot=store.boot,
            checkpoint=checkpoint,
            records=records,
        )
        durable = cluster.durability != "memory"
        # What leaving waits for. Where nothing is stored, a site takes with it what others lack.
        self._flushed = "ordered" if durable else "stable"
        self.transport = make_transport(self)
        self.driver = Driver(self.core, self.transport, store, self, durable=durable)
        limits = cluster.limits
        shed = cluster.slow_member == "shed"
        self.stream = Stream(
            store if durable else None,
            confirmed=store.confirmed,
            # What the core has let go of it does not deliver again; the store has it.
            delivered=max(store.delivered, store.confirmed, self.core.position),
            lag=Lag(limits.unread_messages, limits.unread_bytes, shed),
            embedded=embedded,
            hold=self.driver.hold,
            shed=self._was_shed,
            gaps=[gap_told(position, detail) for position, detail in store.gaps()],
            restored=store.logged,
        )
        self.stages = Stages()
        for group, seq in self.core.own.last_seq.items():
            self.stages.restored(group, self.core.own.stable_seq(group))
            self.stages.update([CoreReceipt("accepted", group, 1, seq)])
        self.outgoing = Outgoing(self.core, self.driver.wake)
        self._requests: list[tuple[bytes, int, Group, int, int]] = []
        self._answered: list[tuple[bytes, int]] = []
        self._events: list[tuple[str, int, str]] = []
        self._confirming: list[asyncio.Future[None]] = []  # until the next commit, and
        self._committing: deque[list[asyncio.Future[None]]] = deque()  # until each under way
        self._closed: str | None = None

    # --- opening and closing ----------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        cluster: "str | Path | Cluster",
        site: SiteName,
        *,
        dir: str | Path | None = None,  # noqa: A002 - the name of the command's option
        embedded: bool = True,
    ) -> "AbstractAsyncContextManager[Node]":
        """A running site. `dir` holds its store (default `.ordercast/NAME`). `embedded`: the
        application reads here, and may hold others up; a daemon's readers come and go."""
        return _Opening(cls, cluster, site, dir, embedded)

    async def start(self) -> None:
        await self.transport.start()
        self.driver.start()

    async def close(self, *, timeout_s: float = CLOSE_S) -> None:
        """Flush, then stop. An Error tells what was not flushed in time."""
        unflushed: str | None = None
        try:
            await asyncio.wait_for(self.flush(self._flushed), timeout_s)
            await self._rest()
        except TimeoutError:
            unflushed = self._unflushed()
        finally:
            await self.abandon()
        if unflushed is not None:
            raise Error(unflushed)

    async def _rest(self) -> None:
        """Others may wait for a report from here: it is soon on its way."""
        end = time.monotonic() + REST_S
        while not self.core.quiet() and time.monotonic() < end:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.005)

    async def abandon(self) -> None:
        """Stop now: connections first, then the store."""
        self._closed = why = f"site {self.site} is closed"
        self.driver.close()
        await self.transport.close()
        quiet = self.core.quiet() and not self.outgoing.waiting_messages
        await self.store.close(quiet=quiet)
        self.stages.close(why)
        self.stream.close(why)
        self.outgoing.close(why)
        for done in chain(self._confirming, *self._committing):
            if not done.done():
                done.set_exception(Error(f"positions are confirmed, but not durably: {why}"))

    def _unflushed(self) -> str:
        stage = self._flushed
        left = self.outgoing.waiting_messages
        behind = {
            group: last - self.stages.last(stage, group)
            for group, last in self.core.own.last_seq.items()
            if last > self.stages.last(stage, group)
        }
        told = ", ".join(f"{count} to {group}" for group, count in sorted(behind.items()))
        parts = []
        if left:
            parts.append(f"{left} messages were never taken into the window and are dropped")
        if behind:
            fate = (
                "may be lost" if stage == "stable" else "are stored, and the next start sends them"
            )
            parts.append(f"messages not {stage} yet: {told}; they {fate}")
        return f"site {self.site} closed before all was flushed: {'; '.join(parts) or 'unknown'}"

    # --- sending ----------------------------------------------------------------------------------

    async def multicast(self, group: "Group | Sequence[Group]", payload: bytes) -> Receipt:
        """Send to a group, or to all members of several as one; waits while the window is full."""
        outgoing = self.outgoing
        if type(group) is not str and type(group := plain(group)) is not str:
            return await self.multicast_to(self._union(group), payload)
        if outgoing.waiting_bytes > TURN_BYTES:
            await asyncio.sleep(0)
        seq = outgoing.take(group, payload)
        if seq is None:
            payload = bytes(payload)
            await outgoing.turn((payload,))
            seq = outgoing.take(group, payload, granted=True)
            assert seq is not None
        return Receipt(self, group, seq)

    def multicast_nowait(self, group: "Group | Sequence[Group]", payload: bytes) -> Receipt:
        """The same, but WindowFull instead of waiting."""
        if type(group) is not str and type(group := plain(group)) is not str:
            group, seq = self.outgoing.take_listed(self._union(group), [payload])
        else:
            seq = self.outgoing.take(group, payload)
        if seq is None:
            raise self.outgoing.window_full()
        return Receipt(self, group, seq)

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
        return Receipt(self, group, seq)

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
        return Receipt(self, group, seq)

    def _union(self, groups: Sequence[Group]) -> tuple[SiteName, ...]:
        members: dict[SiteName, None] = {}
        for group in names_of(groups, "group"):
            members.update(dict.fromkeys(self.core.structure.members(group)))
        return tuple(members)

    async def reached(self, stage: str, group: Group, seq: int) -> None:
        await self.stages.wait(stage, group, seq)

    async def flush(self, until: str = "ordered") -> None:
        """Wait until everything sent so far has reached a stage."""
        if until not in STAGES:
            raise ConfigError(f"until: {until!r} is none of {', '.join(STAGES)}")
        for group, seq in list(self.outgoing.last_seqs().items()):
            await self.stages.wait(until, group, seq)

    # --- receiving --------------------------------------------------------------------------------

    def deliveries(self, start: int | None = None) -> AsyncIterator[StreamItem]:
        """Every message for this site in order, from position `start`, or behind the last that was
        confirmed. It never ends by itself; an Error when the site is closed."""
        return self.stream.deliveries(start)

    def batches(self, start: int | None = None) -> AsyncIterator[StreamBatch]:
        """The same by the batch: less work per message."""
        return self.stream.batches(start)

    async def confirm(self, position: int) -> None:
        """The application is done with everything up to this position, and will not see it again,
        also after a restart: returns when that is durable."""
        self.stream.confirm(position)
        if not self.driver.durable or position <= self.store.confirmed:
            return
        if self._closed is not None:
            raise Error(f"position {position} cannot be confirmed: {self._closed}")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirming.append(done)
        self.driver.wake()
        await done

    async def status(self) -> dict[str, Any]:
        from ordercast.net.status import status_of

        return status_of(self)

    # --- what the transport tells -----------------------------------------------------------------

    def frames(self, peer: SiteName, frames: list[Frame]) -> None:
        self.driver.frames(peer, frames)

    def connected(self, peer: SiteName) -> None:
        self.driver.connected(peer)

    def lost(self, peer: SiteName) -> None:
        """What was under way is repeated when there is a connection again."""

    def congested(self, peer: SiteName, congested: bool) -> None:
        self.driver.congested(peer, congested)

    # --- the driver's Application -----------------------------------------------------------------

    def offer(self, now: int) -> bool:
        taken, all_taken = self.outgoing.submit(now)
        for client, number, group, seq, count in taken:
            self._requests.append((client, number, group, seq, count))
        return all_taken

    def delivered(self, batches: Sequence[DeliveredBatch]) -> None:
        self.stream.add(batches)

    def received(self, receipts: Sequence[CoreReceipt]) -> None:
        if self.stages.update(receipts):
            self.outgoing.may_have_room()

    def wants_commit(self) -> bool:
        return bool(self._confirming or self._requests or self._events or self._answered)

    def annotate(self, written: Written) -> None:
        written.after_position = self.stream.handed
        written.delivered = self.stream.delivered
        self._committing.append(self._confirming)
        if self._confirming:
            written.confirmed = self.stream.confirmed
            self._confirming = []
        if self._requests:
            written.requests, self._requests = self._requests, []
        if self._answered:
            written.answered, self._answered = self._answered, []
        if self._events:
            written.events, self._events = self._events, []

    def committed(self) -> None:
        for done in self._committing.popleft():
            if not done.done():  # else its waiter was cancelled
                done.set_result(None)

    def _was_shed(self, gap: GapBatch) -> None:
        if self.driver.durable:
            self._events.append(("gap", gap.position, tell_gap(gap)))

    # --- for daemons ------------------------------------------------------------------------------

    def requested(self, client: bytes, number: int) -> tuple[Group, int, int] | None:
        """The group, first seq and count that a client's request became, if it was taken."""
        return self.store.request(client, number)

    def answered(self, client: bytes, number: int) -> None:
        """The client will not repeat requests up to this one."""
        self._answered.append((client, number))


class _Opening:
    """`async with Node.open(...)`: makes the node on entering, closes it on leaving."""

    def __init__(
        self,
        kind: type[Node],
        cluster: str | Path | Cluster,
        site: SiteName,
        directory: str | Path | None,
        embedded: bool,
    ) -> None:
        self._kind = kind
        self._cluster = cluster
        self._site = site
        self._directory = directory
        self._embedded = embedded
        self._node: Node | None = None

    async def __aenter__(self) -> Node:
        cluster = self._cluster
        if not isinstance(cluster, Cluster):
            cluster = read_cluster(cluster)
        cluster.site(self._site)
        store = open_store(cluster, self._site, cluster.directory(self._directory))
        try:
            node = self._kind(
                cluster, self._site, store, over_tcp(cluster), embedded=self._embedded
            )
            await node.start()
        except BaseException:
            await store.close()
            raise
        self._node = node
        return node

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Without an error of the application's own, what was not flushed is one."""
        assert self._node is not None
        try:
            await self._node.close()
        except Error as unflushed:
            if error is None:
                raise
            _log.warning("%s", unflushed)
