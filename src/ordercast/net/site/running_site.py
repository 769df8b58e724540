"""A running site: the core, its driver, store and transport, and what its application waits for.

It takes what the driver hands out, and the frames that the transport brings. Daemons and the tools
of an operator use it directly; a user's application has a face in front of it.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from ordercast.core.epochs.admission import SeqRange
from ordercast.core.epochs.grant_edits import about_grants, granted, needed_for
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.member import Member
from ordercast.core.outbox import StageReached
from ordercast.model.epochs import Edit
from ordercast.model.errors import ConfigError, Error
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Site
from ordercast.model.messages import DeliveredBatch
from ordercast.model.version import __version__
from ordercast.net.cluster.addresses import door_at
from ordercast.net.cluster.config import Cluster
from ordercast.net.link.hello import FORESTS, FOUNDING
from ordercast.net.site.assembly import AnyStore, MakeTransport
from ordercast.net.site.changes import ChangeRequests, new_change_name, require_change
from ordercast.net.site.copies.doubts import Doubts
from ordercast.net.site.copies.ids import IdSender
from ordercast.net.site.copies.outcomes import Outcomes
from ordercast.net.site.copies.outside import OutsideMarks
from ordercast.net.site.copies.producers import ProducerSender
from ordercast.net.site.copies.repeats import RepeatSender
from ordercast.net.site.driver import NodeDriver
from ordercast.net.site.founding import begin, forests_of, remember
from ordercast.net.site.gaps import GapBatch, gap_from_json, gap_to_json
from ordercast.net.site.handover import Handover, StateHooks
from ordercast.net.site.meters.passages import Passages
from ordercast.net.site.meters.traffic import Traffic
from ordercast.net.site.named_readers import NamedReaders
from ordercast.net.site.peer_list import PeerList
from ordercast.net.site.permits import Permits
from ordercast.net.site.presence import Presence
from ordercast.net.site.receipts import Stages
from ordercast.net.site.replica_digests import DigestExchange
from ordercast.net.site.sender import SiteSender
from ordercast.net.site.store_points import StorePoints
from ordercast.net.site.stream import EpochOpened, Lag, Stream
from ordercast.net.store.box import StoreBox
from ordercast.wire.codec import WireFrame
from ordercast.wire.handover import HandoverFrame

_log = logging.getLogger("ordercast.net.site")

CLOSE_S = 5.0  # how long closing waits until all is flushed
REST_S = 0.25  # and then for silence
LOOK_S = 0.1  # between looks at calls that may wait in vain


def _barred(site: Site, store: AnyStore) -> str:
    files = "its store" if store.path is None else f"{store.path}*"
    return (
        f"site {site} was declared lost by 'ordercast cluster recover': move {files} away; without"
        " its old store it returns as a new incarnation"
    )


def _too_old(core: Member) -> str:
    return (
        f"site {core.name}: its cluster uses {', '.join(core.lacks)}, which this program"
        f" ({__version__}) does not have: run the release that the other sites run"
    )


class RunningSite:
    """`embedded`: the application reads in this process, and holds others up when it lags."""

    def __init__(
        self,
        cluster: Cluster,
        site: Site,
        store: AnyStore,
        make_transport: MakeTransport,
        *,
        embedded: bool,
        address: str = "",
        clients: tuple[str, int] | None = None,
        hooks: StateHooks | None = None,
    ) -> None:
        self._begun = begun = begin(cluster, site, store, address)
        self.door = "" if clients is None else door_at(clients, begun.address[0])
        self.cluster = cluster = begun.cluster
        self.site = site
        self.boot = store.boot
        self.store = store
        self.started_ns = time.time_ns()
        self.core = core = self._open_core()
        self._used = self.core.layout.features  # as the transport was told
        self._revoked = self.core.layout.revoked  # as the transport was told
        self.durable = cluster.durability != "memory"
        self.on_layout: list[Callable[[], None]] = []
        """Called after the site has heard of a change of the cluster."""
        self.points = StorePoints(site, store, self._outdated, self._founded)
        self.driver = NodeDriver(self.core, store, self, durable=self.durable)
        self.frames = self.driver.frames  # what the transport tells goes straight there
        self.connected = self.driver.connected
        self.congested = self.driver.congested
        self.detoured = self.driver.detoured
        self.transport = make_transport(self)
        self.driver.carry(self.transport)
        self._peers = PeerList(site, self.transport, cluster.sites, self.core.layout)
        self.presence = Presence(self.core, lambda: self.driver.fed_at, self._unlinked)
        self.stream = self._open_stream(embedded)
        self.traffic = Traffic(self.stream, site, self.core.incarnation)
        self.traffic.follow(self.core.layout.groups, self.core.incarnation)
        self.passages = Passages(self.core.layout)
        self.named = self._open_readers()
        self.handover = self._open_handover(hooks)
        self.digests = DigestExchange(site, lambda: self.core.layout, self._send)
        self.stages = self._open_stages()
        self.permits = Permits(site, self.core, cluster.grants)
        self.sender = SiteSender(core, self.presence, self.stages, self.driver.wake, self.permits)
        self.changes = ChangeRequests(self.presence, self.driver.ask)
        self._doubts = Doubts()
        self.outcomes = Outcomes(self.core, self._send)
        self.producing = ProducerSender(
            self.core, self.sender, self._give_ticket, self._doubts, self.outcomes
        )
        self.ids = IdSender(
            self.core, self.sender, self.producing.granted_ticket, self._doubts, self.outcomes
        )
        self.outside = OutsideMarks(self.core, self._send)
        self.repeats = RepeatSender(
            self.core, self.sender, self.producing.ticket, self._doubts, self.outside
        )
        self.rows_due = False  # as in `driver.Application`: one of the next four has rows
        self._requests: list[tuple[bytes, int, str, int, int]] = []
        self._answered: list[tuple[bytes, int]] = []
        self._events: list[tuple[str, int, str]] = []
        self._confirming: list[asyncio.Future[None]] = []  # callers that wait for the next commit
        self._committing: deque[list[asyncio.Future[None]]] = deque()  # per commit under way
        self._closed: str | None = None
        self.failed = ""  # why it stopped by itself
        self._failing: asyncio.Task[None] | None = None
        self.on_failed: Callable[[], None] | None = None
        self._looking: asyncio.TimerHandle | None = None

    def _send(self, peer: Site, frame: WireFrame) -> None:
        self.transport.send(peer, [frame])

    def _open_core(self) -> Member:
        cluster, store = self.cluster, self.store
        core = Member(
            self.site,
            self._begun.layout,
            cluster.options(),
            cluster.build,
            boot=store.boot,
            store=store.store_number,
            times=cluster.voting_times(),
            records=store.restored(),
            gone=cluster.retired,
            durable=cluster.durability != "memory",
        )
        if core.declared_lost:
            raise ConfigError(_barred(self.site, store))
        if core.lacks:
            raise ConfigError(_too_old(core))
        return core

    def _open_stream(self, embedded: bool) -> Stream:
        store, limits, opened = self.store, self.cluster.limits, self.store.opened()
        self.driver.last_opened = opened[-1].epoch if opened else 0
        return Stream(
            store if self.durable else None,
            confirmed=store.confirmed,
            # The core does not deliver again what it has forgotten; the store has it.
            delivered=max(store.delivered, store.confirmed, self.core.delivered),
            lag=Lag(
                limits.unread_messages, limits.unread_bytes, self.cluster.slow_member == "shed"
            ),
            embedded=embedded and self.cluster.unnamed_reader,
            hold=self.driver.hold,
            shed=self._was_shed,
            gaps=[gap_from_json(position, detail) for position, detail in store.gaps()],
            opened=opened,
            entered=store.entered(),
            rolled=store.rollbacks(),
            confirmed_attempt=store.confirmed_attempt,
            restored=store.logged,
        )

    def _open_stages(self) -> Stages:
        stages, window = Stages(), self.core.window
        for group in window.groups():
            stages.restored(group, window.stable_seq(group))
            stages.update([StageReached("accepted", group, 1, window.last_seq(group))])
        return stages

    def _open_readers(self) -> NamedReaders:
        return NamedReaders(
            self.site,
            self.stream,
            self.store,
            self.cluster.reader_limits(),
            durable=self.durable,
            groups=lambda: self.core.layout.groups,
            keep=self._keep_rows,
        )

    def _open_handover(self, hooks: StateHooks | None) -> Handover:
        path = self.store.path
        handover = Handover(
            self.cluster.name,
            self.site,
            self._send,
            self.stream,
            folder=None if path is None else path.with_suffix(".snapshots"),
            hooks=hooks,
        )
        if hooks is not None:
            self.stream.on_opened = handover.at
        return handover

    # --- what it is -------------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        return self.core.incarnation

    def _unlinked(self) -> list[Site]:
        return [link.peer for link in self.transport.links() if link.state != "connected"]

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
        """Whether the site knows the cluster, and is not or no longer a part of it."""
        return self.core.layout.count >= 0 and not self.admitted

    def settled(self) -> int:
        """Up to this position nothing will be taken back."""
        return min(self.presence.settled(), *self.stream.rolling, self.stream.delivered)

    def _founded(self) -> bool:
        return self.core.layout.count > 0

    def terms(self) -> dict[str, str]:
        """What other sites must agree on."""
        layout, forests = self.core.layout, forests_of(self._begun.layout)
        founding = layout.founding if layout.count >= 0 else ""
        return {**self.cluster.terms(), FOUNDING: founding, FORESTS: forests}

    def features(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The features of this program, and the features that the cluster uses."""
        return self.core.features, self.core.layout.features

    def members(self) -> tuple[int, tuple[Site, ...]]:
        """The epoch of the site's domain, and all sites of that domain."""
        home = self.core.layout.home(self.site)
        return (0, ()) if home is None else (home.epoch, tuple(sorted(home.sites)))

    def epochs(self) -> Collection[int]:
        """The epochs in which the site has a part."""
        return self.core.engines

    # --- starting and closing ---------------------------------------------------------------------

    async def start(self) -> None:
        self.transport.revoke(self._revoked)
        await self.transport.start()
        self.driver.start()
        self.store.when_stopped(partial(_in_loop, asyncio.get_running_loop(), self._store_stopped))
        self.named.start()
        if self.presence.excludes:
            self._look()

    async def close(self, *, timeout_s: float = CLOSE_S) -> None:
        """Flush, then stop. An Error tells what was not flushed in time."""
        if self._failing is not None:
            await self._failing
            raise Error(self.failed)
        unflushed: str | None = None
        # Without a store, a site that ends takes with it the messages that others lack.
        stage = "ordered" if self.durable else "stable"
        try:
            async with asyncio.timeout(timeout_s):
                await self.sender.flush(stage)
            await self._rest()
        except TimeoutError:
            unflushed = self._unflushed(stage)
        finally:
            self.note_delivered()
            await self.abandon()
        if unflushed is not None:
            raise Error(unflushed)

    def note_delivered(self) -> None:
        """Before an orderly end: have the store note what was delivered since the last commit. An
        export at `safe` has no more than is noted, unless the site was quiet at its end."""
        if self._closed is None:
            _, attempt = self.stream.application_at()
            noted = StoreBox(delivered=self.stream.delivered, after_attempt=attempt)
            self.store.write(noted, None)

    async def _rest(self) -> None:
        """Wait a little until this site is quiet: other sites may wait for its last report."""
        end = time.monotonic() + REST_S
        while not self.core.quiet() and time.monotonic() < end:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.005)

    def _unflushed(self, stage: str) -> str:
        """One line about the messages that are not at this stage."""
        left, window, stages = self.core.admission.messages, self.core.window, self.stages
        behind = {
            group: last - stages.last(stage, group)
            for group in window.groups()
            if (last := window.last_seq(group)) > stages.last(stage, group)
        }
        told = ", ".join(f"{count:,} to {group}" for group, count in sorted(behind.items()))
        parts = []
        if left:
            parts.append(f"{left:,} messages were never taken into the window and are dropped")
        if behind:
            lost = stage == "stable"
            fate = "may be lost" if lost else "are stored, and the next start sends them"
            parts.append(f"messages not {stage} yet: {told}; they {fate}")
        return f"site {self.site} closed before all was flushed: {'; '.join(parts) or 'unknown'}"

    async def abandon(self) -> None:
        """Stop now: connections first, then the store."""
        if self._failing is not None and self._failing is not asyncio.current_task():
            await self._failing
            return
        self._closed = why = self.failed or f"site {self.site} is closed"
        self.driver.close()
        if self._looking is not None:
            self._looking.cancel()
        self._peers.close()
        await self.transport.close()
        self.store.keep_points(self.points.news())
        await self.store.close(quiet=not self.failed and self.quiet())
        self.stages.close(why)
        self.named.close(why)
        self.stream.close(why)
        self.sender.close(why)
        self.repeats.close()
        self.outside.close(why)
        self.outcomes.close(why)
        for done in chain(self._confirming, *self._committing):
            if not done.done():
                done.set_exception(Error(f"positions are confirmed, but not durably: {why}"))
        self.changes.close(why)

    def quiet(self) -> bool:
        """Whether neither the core nor a message of this site waits for anything."""
        return self.core.quiet() and not self.core.admission.messages

    # --- what its application asks ----------------------------------------------------------------

    async def _give_ticket(self, edit: Edit) -> None:
        """A subject that may send to the group may also be a producer there: the site asks for the
        ticket in its place."""
        if self._closed is not None:
            raise Error(self._closed)
        await self.changes.change((edit,), new_change_name(), None)

    async def change(
        self, edits: tuple[Edit, ...], name: str = "", subject: ClientSubject | None = None
    ) -> None:
        """`subject`: who asks, if it is not this site's own application."""
        if self._closed is not None:
            raise Error(self._closed)
        name = name or new_change_name()
        require_change(name, edits)
        layout = self.core.layout
        if about_grants(edits) and layout.count > 0:
            granted(layout, edits)  # an earlier release could not read it: it raises ConfigError
        self._require_granted(edits, subject)
        try:
            await self.changes.change(edits, name, subject)
        except ConfigError:
            self._require_granted(edits, subject)  # a grant may be gone since it was asked for
            raise

    def _require_granted(self, edits: tuple[Edit, ...], subject: ClientSubject | None) -> None:
        for act, group in needed_for(edits):
            self.permits.require(subject or self.permits.own, act, group)

    async def confirm(self, position: int, attempt: int | None = None) -> None:
        await self.stream.repeated(position)
        if self._closed is not None and position > self.stream.delivered:
            raise Error(f"position {position} cannot be confirmed: {self._closed}")
        news = self.stream.confirm(position, attempt)
        if not self.durable or (not news and position <= self.store.confirmed):
            return
        if self._closed is not None:
            raise Error(f"position {position} cannot be confirmed: {self._closed}")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirming.append(done)
        self._keep_rows()
        await done

    def _keep_rows(self) -> None:
        """Write the application's own rows soon."""
        self.rows_due = True
        self.driver.wake()

    def requested(self, client: bytes, number: int) -> SeqRange | None:
        """The seqs of a client's request that is accepted, or for which seqs are reserved. A
        reserved request may wait here after its session has ended."""
        return self.core.admission.requested.get((client, number)) or self.store.request(
            client, number
        )

    def answered(self, client: bytes, number: int) -> None:
        """The client will not repeat requests up to this one."""
        self._answered.append((client, number))
        self.rows_due = True

    def _look(self) -> None:
        """From time to time: fail the calls that wait for something that will not come."""
        self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        self.sender.review()
        self.changes.look()
        self.permits.look(self.core.ungranted())

    # --- what the transport tells -----------------------------------------------------------------

    def lost(self, peer: Site) -> None:
        """What was under way is repeated when there is a connection again."""

    # --- the driver's Application -----------------------------------------------------------------

    def offer(self, now: int) -> bool:
        self.traffic.times.sent(now, self.core.admission.queue[0])
        admitted, all_accepted = self.core.admission.hand_over(now)
        if admitted:
            self._requests += admitted
            self.rows_due = True
        return all_accepted

    def rolling_back(self, rolled: Rollback) -> None:
        self.stream.rolling.append(rolled.position)

    def delivered(self, batches: Sequence[DeliveredBatch | EpochOpened | Rollback]) -> None:
        self.traffic.delivered(batches)
        self.stream.add(batches)

    def received(self, receipts: Sequence[StageReached]) -> None:
        self.traffic.received(receipts)
        if self._doubts.open:
            self._doubts.received(receipts)
        if self.stages.update(receipts):
            self.sender.grant()

    def laid_out(self) -> None:
        layout = self.core.layout
        self.passages.follow(layout, time.monotonic_ns(), time.time_ns())
        self.traffic.follow(layout.groups, self.core.incarnation)
        self.sender.follow()
        news = self.presence.news()
        if news is not None and self.durable:
            self._events.append(news)
            self.rows_due = True
        self._peers.follow(layout)
        told = layout.count >= 0 and layout.founding not in ("", self.store.founding)
        if told:  # a newcomer
            remember(self.store, self.cluster, self._begun.layout, self.address, layout.founding)
        if told or layout.features != self._used:
            self._used = layout.features
            self.transport.retell(self.terms(), layout.features)
        if layout.revoked is not self._revoked:
            self._revoked = layout.revoked
            self.transport.revoke(layout.revoked)
        if self.core.lacks:
            self._stop(_too_old(self.core))
        for call in list(self.on_layout):
            call()

    def handed(self, peer: Site, frame: HandoverFrame) -> None:
        self.handover.handed(peer, frame)

    def decided(self, outcomes: Sequence[tuple[str, str]]) -> None:
        self.changes.decided(outcomes)

    def annotate(self, written: StoreBox) -> None:
        if self.rows_due or self.stages.awaits("accepted"):
            written.may_linger = False
        self.rows_due = False
        written.after_position, written.after_attempt = self.stream.application_at()
        written.delivered = self.stream.delivered
        # A list of its own for each commit: a caller that confirms from now on waits for the next
        # one.
        waiting, self._confirming = self._confirming, []
        written.readers, written.readers_gone, of_readers = self.named.rows()
        self._committing.append([*waiting, *of_readers])
        if waiting:
            written.confirmed = self.stream.confirmed
            written.confirmed_attempt = self.stream.confirmed_attempt
        if self._requests:
            written.requests, self._requests = self._requests, []
        if self._answered:
            written.answered, self._answered = self._answered, []
        if self._events:
            written.events, self._events = self._events, []
        written.points = self.points.news()

    def committed(self) -> None:
        for done in self._committing.popleft():
            if not done.done():  # else its waiter was cancelled
                done.set_result(None)

    def barred(self) -> None:
        self._stop(_barred(self.site, self.store))

    def broken(self, error: Exception) -> None:
        self._stop(f"site {self.site} has failed, and must be restarted: {error!r}")

    def _store_stopped(self, error: Exception) -> None:
        """Stop: nothing can be acknowledged any more, and others would wait for this site as long
        as it answers."""
        if self._closed is None:
            why = f"site {self.site} stops: its store can be written no more: {error}"
            _log.critical("%s", why)
            self._stop(why)

    def _outdated(self, why: str) -> None:
        if not self.failed:
            _log.critical("%s", why)
        self.driver.close()
        self._stop(why)

    def _stop(self, why: str) -> None:
        if not self.failed:
            self.failed = why
            self._failing = asyncio.get_running_loop().create_task(self.abandon())
            if self.on_failed is not None:
                self.on_failed()

    def _was_shed(self, gap: GapBatch) -> None:
        if self.durable:
            self._events.append(("gap", gap.position, gap_to_json(gap)))
            self.rows_due = True


def _in_loop(
    loop: asyncio.AbstractEventLoop, call: Callable[[Exception], None], error: Exception
) -> None:
    with suppress(RuntimeError):  # the loop is closed: the site is, too
        loop.call_soon_threadsafe(call, error)
