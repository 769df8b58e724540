"""`Node`: a site inside the application's process, and the face that an application uses.

    async with Node.open("cluster.toml", site="a") as node:
        receipt = await node.multicast("alpha", b"payload")
        async for item in node.deliveries(): ...

Payloads sent to one group in one turn of the event loop travel as one batch. `multicast` returns as
soon as the window has room; the receipt tells when the message is durable, ordered, stable.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain
from pathlib import Path
from typing import Any

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import EpochOpened
from ordercast.core.epochs.returning import Rollback
from ordercast.core.outbox import Receipt as CoreReceipt
from ordercast.model.epochs import Edit
from ordercast.model.errors import Error
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.messages import DeliveredBatch
from ordercast.net.cluster.config import Cluster
from ordercast.net.site.asking import Asking
from ordercast.net.site.assembly import AnyStore, MakeTransport
from ordercast.net.site.changes import Changing, new_change_name
from ordercast.net.site.driver import Driver
from ordercast.net.site.founding import begin, remember
from ordercast.net.site.gaps import GapBatch, gap_told, tell_gap
from ordercast.net.site.handover import Handover, StateHooks, state_hooks
from ordercast.net.site.leaving import unflushed_of
from ordercast.net.site.meeting import Meeting
from ordercast.net.site.opening import Opening
from ordercast.net.site.outgoing import Outgoing
from ordercast.net.site.receipts import Stages, Voucher
from ordercast.net.site.sending import Sending
from ordercast.net.site.standing import Standing
from ordercast.net.site.stream import Lag, Stream, StreamBatch, StreamItem
from ordercast.net.store.box import StoreBox
from ordercast.wire.codec import WireFrame
from ordercast.wire.handover import HandoverFrame

CLOSE_S = 5.0  # how long leaving waits for what is under way
REST_S = 0.25  # and then for silence
LOOK_S = 0.1  # between looks at whether who waits still should


class Node(Sending, Changing):
    """Made by `Node.open`; also the driver's `Application`. `on_layout` is called after the site
    has heard of a change of the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        site: SiteName,
        store: AnyStore,
        make_transport: MakeTransport,
        *,
        embedded: bool,
        address: str = "",
        hooks: StateHooks | None = None,
    ) -> None:
        begun = begin(cluster, site, store, address)
        self.cluster = cluster = begun.cluster
        self.site = site
        self.boot = store.boot
        self.store = store
        self.started_ns = time.time_ns()
        self.core = Member(
            site,
            begun.layout,
            cluster.options(),
            cluster.build,
            boot=store.boot,
            store=store.store_number,
            times=cluster.voting_times(),
            records=store.restored(),
        )
        durable = cluster.durability != "memory"
        # What leaving waits for. Where nothing is stored, a site takes with it what others lack.
        self._flushed = "ordered" if durable else "stable"
        self._begun = begun
        self.transport = make_transport(self)
        self._meeting = Meeting(site, self.transport, cluster.sites, self.core.layout)
        opened = store.opened()
        self.driver = Driver(
            self.core,
            self.transport,
            store,
            self,
            durable=durable,
            opened=opened[-1].epoch if opened else 0,
        )
        self.standing = Standing(self.core, lambda: self.driver.fed_at)
        limits = cluster.limits
        shed = cluster.slow_member == "shed"
        self.stream = Stream(
            store if durable else None,
            confirmed=store.confirmed,
            # What the core has let go of it does not deliver again; the store has it.
            delivered=max(store.delivered, store.confirmed, self.core.delivered),
            lag=Lag(limits.unread_messages, limits.unread_bytes, shed),
            embedded=embedded,
            hold=self.driver.hold,
            shed=self._was_shed,
            gaps=[gap_told(position, detail) for position, detail in store.gaps()],
            opened=opened,
            rolled=store.rollbacks(),
            confirmed_attempt=store.confirmed_attempt,
            restored=store.logged,
        )
        self.handover = Handover(
            cluster.name,
            site,
            lambda peer, frame: self.transport.send(peer, [frame]),
            self.stream.opened_as,
            folder=store.path.with_suffix(".snapshots") if store.path is not None else None,
            hooks=hooks,
        )
        if hooks is not None:
            self.stream.on_opened = self.handover.at
        self.stages = Stages()
        window = self.core.window
        for group in window.groups():
            self.stages.restored(group, window.stable_seq(group))
            self.stages.update([CoreReceipt("accepted", group, 1, window.last_seq(group))])
        self.voucher = Voucher(self.reached)
        self.outgoing = Outgoing(self.core, self.standing, self.driver.wake)
        self.on_layout: list[Callable[[], None]] = []
        self.asking = Asking(self.standing, self.driver.ask)
        self._requests: list[tuple[bytes, int, Group, int, int]] = []
        self._answered: list[tuple[bytes, int]] = []
        self._events: list[tuple[str, int, str]] = []
        self._confirming: list[asyncio.Future[None]] = []  # until the next commit, and
        self._committing: deque[list[asyncio.Future[None]]] = deque()  # until each under way
        self._closed: str | None = None
        self.failed = ""  # why it stopped by itself
        self._failing: asyncio.Task[None] | None = None
        self.on_failed: Callable[[], None] | None = None
        self._looking: asyncio.TimerHandle | None = None

    @property
    def incarnation(self) -> int:
        return self.core.incarnation

    @property
    def address(self) -> tuple[str, int]:
        """Where the site listens; the true port once it does."""
        transport = getattr(self, "transport", None)
        found: tuple[str, int] = getattr(transport, "address", self._begun.address)
        return found

    @property
    def admitted(self) -> bool:
        """Whether the site is on the roster: a newcomer is not, before it was told so."""
        return self.site in self.core.layout.roster

    @property
    def retired(self) -> bool:
        """It knows the cluster, and is no part of it (any more)."""
        return self.core.layout.count >= 0 and not self.admitted

    def settled(self) -> int:
        """Up to this position nothing will be taken back."""
        return min(self.standing.settled(), *self.stream.rolling, self.stream.delivered)

    def terms(self) -> dict[str, str]:
        """What other sites must agree on."""
        return {**self.cluster.terms(), "founding": self.core.layout.founding}

    # --- opening and closing ----------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        cluster: "str | Path | Cluster",
        site: SiteName,
        *,
        dir: str | Path | None = None,  # noqa: A002 - the name of the command's option
        embedded: bool = True,
        address: str = "",
        snapshot: Callable[[Group], bytes] | None = None,
        restore: Callable[[Group, bytes], object] | None = None,
    ) -> "AbstractAsyncContextManager[Node]":
        """A running site. `dir` holds its store (default `.ordercast/NAME`). `embedded`: the
        application reads here, and may hold others up; a daemon's readers come and go. `address`
        (HOST:PORT): of a site that is not in the file, and is added while the cluster runs.

        `snapshot` and `restore`: where an epoch opens in which another has joined a group of this
        site, `snapshot(group)` gives the application's state of it; `restore(group, state)` takes
        it at the joiner, before its first delivery of that epoch."""
        hooks = state_hooks(snapshot, restore)
        return Opening(cls, cluster, site, dir, embedded, address, hooks)

    async def start(self) -> None:
        await self.transport.start()
        self.driver.start()
        if self.standing.excludes:
            self._look()

    async def close(self, *, timeout_s: float = CLOSE_S) -> None:
        """Flush, then stop. An Error tells what was not flushed in time."""
        if self._failing is not None:
            await self._failing
            raise Error(self.failed)
        unflushed: str | None = None
        try:
            await asyncio.wait_for(self.flush(self._flushed), timeout_s)
            await self._rest()
        except TimeoutError:
            unflushed = unflushed_of(self, self._flushed)
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
        if self._failing is not None and self._failing is not asyncio.current_task():
            await self._failing
            return
        self._closed = why = self.failed or f"site {self.site} is closed"
        self.driver.close()
        if self._looking is not None:
            self._looking.cancel()
        self._meeting.close()
        await self.transport.close()
        quiet = not self.failed and self.core.quiet() and not self.outgoing.waiting_messages
        await self.store.close(quiet=quiet)
        self.stages.close(why)
        self.stream.close(why)
        self.outgoing.close(why)
        for done in chain(self._confirming, *self._committing):
            if not done.done():
                done.set_exception(Error(f"positions are confirmed, but not durably: {why}"))
        self.asking.close(why)

    # --- changes ----------------------------------------------------------------------------------

    async def change(self, *edits: Edit, name: str = "") -> None:
        """Returns when this site has heard that it is done; waits for a majority of the voters, and
        for the sites of the domains that it closes."""
        if self._closed is not None:
            raise Error(self._closed)
        await self.asking.change(edits, name or new_change_name())

    def decided(self, outcomes: Sequence[tuple[str, str]]) -> None:
        self.asking.decided(outcomes)

    def _look(self) -> None:
        """Who waits here is told when that is given up."""
        self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        self._review()
        self.asking.look()

    def laid_out(self) -> None:
        layout = self.core.layout
        self._follow()
        news = self.standing.news()
        if news is not None and self.driver.durable:
            self._events.append(news)
        self._meeting.follow(layout)
        if layout.founding and layout.founding != self.store.founding:  # a newcomer was told
            begun = self._begun
            remember(self.store, self.cluster, begun.layout, self.address, layout.founding)
            self.transport.retell(self.terms())
        for call in list(self.on_layout):
            call()

    # --- receiving --------------------------------------------------------------------------------

    def deliveries(
        self, start: int | None = None, attempt: int | None = None
    ) -> AsyncIterator[StreamItem]:
        """Every message for this site in order, from position `start`, or behind the last that was
        confirmed. It never ends by itself; an Error when the site is closed. `attempt`: of the last
        delivery that the application has; if that was taken back, it is told so first."""
        return self.stream.deliveries(start, attempt)

    def batches(
        self, start: int | None = None, attempt: int | None = None
    ) -> AsyncIterator[StreamBatch]:
        """The same by the batch: less work per message."""
        return self.stream.batches(start, attempt)

    async def confirm(self, position: int, attempt: int | None = None) -> None:
        """The application is done with everything up to this position, and will not see it again,
        also after a restart: returns when that is durable. What was taken back since it was
        delivered, in `attempt` or to the slowest reader, is not confirmed by that."""
        news = self.stream.confirm(position, attempt)
        if not self.driver.durable or (not news and position <= self.store.confirmed):
            return
        if self._closed is not None:
            raise Error(f"position {position} cannot be confirmed: {self._closed}")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirming.append(done)
        self.driver.wake()
        await done

    async def status(self) -> dict[str, Any]:
        from ordercast.net.site.status import status_of

        return status_of(self)

    # --- what the transport asks and tells --------------------------------------------------------

    def members(self) -> tuple[int, tuple[SiteName, ...]]:
        home = self.core.layout.home(self.site)
        return (0, ()) if home is None else (home.epoch, tuple(sorted(home.sites)))

    def epochs(self) -> Collection[int]:
        return self.core.engines

    def frames(self, peer: SiteName, frames: Sequence[WireFrame]) -> None:
        self.driver.frames(peer, frames)

    def connected(self, peer: SiteName) -> None:
        self.driver.connected(peer)

    def lost(self, peer: SiteName) -> None:
        """What was under way is repeated when there is a connection again."""

    def congested(self, peer: SiteName, congested: bool) -> None:
        self.driver.congested(peer, congested)

    def handed(self, peer: SiteName, frame: HandoverFrame) -> None:
        self.handover.handed(peer, frame)

    # --- the driver's Application -----------------------------------------------------------------

    def offer(self, now: int) -> bool:
        if not self.outgoing.waiting_messages:
            return True
        taken, all_taken = self.outgoing.submit(now)
        for client, number, group, seq, count in taken:
            self._requests.append((client, number, group, seq, count))
        return all_taken

    def delivered(self, batches: Sequence[DeliveredBatch | EpochOpened | Rollback]) -> None:
        self.stream.add(batches)

    def rolling_back(self, rolled: Rollback) -> None:
        self.stream.rolling.append(rolled.position)

    def received(self, receipts: Sequence[CoreReceipt]) -> None:
        if self.stages.update(receipts):
            self.outgoing.may_have_room()

    def wants_commit(self) -> bool:
        return bool(self._confirming or self._requests or self._events or self._answered)

    def annotate(self, written: StoreBox) -> None:
        written.after_position, written.after_attempt = self.stream.application_at()
        written.delivered = self.stream.delivered
        self._committing.append(self._confirming)
        if self._confirming:
            written.confirmed = self.stream.confirmed
            written.confirmed_attempt = self.stream.confirmed_attempt
            self._confirming = []
        if self._requests:
            written.requests, self._requests = self._requests, []
        if self._answered:
            written.answered, self._answered = self._answered, []
        if self._events:
            written.events, self._events = self._events, []

    def broken(self, error: Exception) -> None:
        if not self.failed:
            self.failed = f"site {self.site} has failed, and must be restarted: {error!r}"
            self._failing = asyncio.get_running_loop().create_task(self.abandon())
            if self.on_failed is not None:
                self.on_failed()

    def committed(self) -> None:
        for done in self._committing.popleft():
            if not done.done():  # else its waiter was cancelled
                done.set_result(None)

    def _was_shed(self, gap: GapBatch) -> None:
        if self.driver.durable:
            self._events.append(("gap", gap.position, tell_gap(gap)))

    # --- for daemons ------------------------------------------------------------------------------

    def requested(self, client: bytes, number: int) -> tuple[Group, int, int] | None:
        """The group, first seq and count that a client's request became, or will, if it was taken:
        also one that waits for the site, whose session may be gone."""
        return self.outgoing.asked.get((client, number)) or self.store.request(client, number)

    def answered(self, client: bytes, number: int) -> None:
        """The client will not repeat requests up to this one."""
        self._answered.append((client, number))
