"""Runs one site over real connections and a real store.

In one turn of the event loop all frames and submissions are fed to the site. Then it is drained
once, and the driver does the duties of the outbox in the order that `core.outbox` lists, with one
write per peer. Duties that wait for durable records are done when the store's writer thread reports
them, in order, while new turns go on.

An exception in the core leaves it half changed. Nothing of such a state may leave the site, so the
site stops as in a crash. Everything that was drained before is in its store.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, runtime_checkable

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import REFUSED, Caught, EpochOpened, Folded, MemberBox
from ordercast.core.outbox import Accepted, StageReached
from ordercast.history.rows import RETURNED
from ordercast.model.epochs import Edit, Finish, Open
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Site
from ordercast.model.messages import DeliveredBatch
from ordercast.model.options import NEVER
from ordercast.net.site.copies.outcomes import Outcomes
from ordercast.net.site.copies.outside import OutsideMarks
from ordercast.net.site.replica_digests import DigestExchange
from ordercast.net.site.store_points import StorePoints
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import opening_events, rollback_event
from ordercast.wire.client_marks import ClientMarksFrame
from ordercast.wire.codec import WireFrame
from ordercast.wire.copies import CopyFrame
from ordercast.wire.dissemination import Heard, Keyed, TreePacket
from ordercast.wire.epochs import Feed, InEpoch, SiteFrame
from ordercast.wire.frames import Ack, Data, Repair
from ordercast.wire.handover import HandoverFrame
from ordercast.wire.lineage import Lineage, LineageFrame, StoredRow
from ordercast.wire.pipes import PIPE_FRAMES
from ordercast.wire.replica_digest import ReplicaDigest

_log = logging.getLogger("ordercast.net.driver")

_NOT_OF_SITES = (Data, Ack, Repair, Keyed, Heard, TreePacket, *PIPE_FRAMES)

_TIMER_S = 0.001  # added to every alarm: a loop may fire a timer up to this much too early
_QUIET_NS = 100_000
"""If the last turn was so long ago, not much is coming: what has come is dealt with at once. Under
load it waits until the loop has read all connections, and is dealt with together."""

_TRY_AGAIN_S = 0.02  # after a batch that the site had no room to place


class Carrier(Protocol):
    """What a driver needs of a transport."""

    def send(self, peer: Site, frames: Sequence[WireFrame]) -> None: ...

    def refuse(self, peer: Site, why: str) -> None:
        """The peer broke a rule: drop its connection, say so in one line, count it."""


@runtime_checkable
class Sharing(Carrier, Protocol):
    """A transport that sends frames for many sites at once, and gives back the other frames."""

    def share(
        self, sends: Sequence[tuple[Site, SiteFrame]]
    ) -> Sequence[tuple[Site, SiteFrame]]: ...


class Keeper(Protocol):
    """What a driver needs of a store."""

    @property
    def row(self) -> int: ...

    def write(self, box: StoreBox, then: Callable[[], None]) -> None: ...


class Application(Protocol):
    """The running site around the driver: its requests, and the events that it is told."""

    rows_due: bool  # `annotate` has rows to add, perhaps to a commit without records

    def offer(self, now: int) -> bool:
        """Hand over what is reserved. False: the site had no room for some of it, ask again."""

    def delivered(self, batches: Sequence[DeliveredBatch | EpochOpened | Rollback]) -> None: ...

    def rolling_back(self, rolled: Rollback) -> None:
        """The rollback is being stored; it is delivered when it is durable."""

    def received(self, receipts: Sequence[StageReached]) -> None: ...

    def barred(self) -> None:
        """The site's store was declared lost."""

    def laid_out(self) -> None:
        """The member's layout has changed."""

    def handed(self, peer: Site, frame: HandoverFrame) -> None:
        """Take a frame about the application's state: the member does not handle it."""

    points: StorePoints
    digests: DigestExchange
    outside: OutsideMarks
    outcomes: Outcomes

    def decided(self, outcomes: Sequence[tuple[str, str]]) -> None:
        """The outcomes of changes that this site asked for: "" if done, else why not."""

    def annotate(self, written: StoreBox) -> None:
        """Add the application's own rows (requests, cursors, events) to a commit. A commit that
        somebody waits for may not linger."""

    def committed(self) -> None:
        """The oldest commit that was annotated is durable."""

    def broken(self, error: Exception) -> None:
        """The driver has stopped for good."""


P = ParamSpec("P")


def _or_break(
    call: Callable[Concatenate["NodeDriver", P], None],
) -> Callable[Concatenate["NodeDriver", P], None]:
    """Guard a call into the core. Once the driver is closed the call does nothing; an exception in
    the call closes the driver."""

    @wraps(call)
    def guarded(self: "NodeDriver", /, *args: P.args, **options: P.kwargs) -> None:
        if self.closed:
            return
        try:
            call(self, *args, **options)
        except Exception as error:
            self.break_off(error)

    return guarded


class NodeDriver:
    """`durable`: duty 3 of an outbox waits for the store; without a store it is done at once."""

    def __init__(
        self,
        member: Member,
        store: Keeper,
        application: Application,
        *,
        durable: bool,
    ) -> None:
        self.member = member
        self.store = store
        self.application = application
        self.durable = durable
        self.last_opened = 0  # the last epoch of which the store has an event
        self._layout = member.layout
        self._row = store.row  # the last row that is durable, as far as commits were reported
        self._told: dict[Site, int] = {}  # the last row that each peer was told
        self._reserved = member.admission.queue  # what the application has to offer
        self.fed_at = 0  # when a manager, which has a majority, was last heard
        self._loop = asyncio.get_running_loop()
        self._woken = False
        self._turned_at = 0  # when the last turn ended
        self.closed = False
        self._unwritten: deque[tuple[MemberBox, bool]] = deque()
        """Outboxes that are not revealed yet, and whether each is a commit of its own."""
        self._lingers = False  # the last commit may be waiting for another box
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0
        self._again: asyncio.TimerHandle | None = None

    def carry(self, carrier: Carrier) -> None:
        """Frames leave by this transport. Before `start`."""
        self.carrier = carrier
        self._share = carrier.share if isinstance(carrier, Sharing) else None

    def start(self) -> None:
        self.fed_at = now = time.monotonic_ns()
        self.member.start(now)
        self.member.raft.hurry(now)
        self.wake()

    def close(self) -> None:
        """Feed and send nothing more; commits under way go on in the store."""
        self.closed = True
        for timer in (self._alarm, self._again):
            if timer is not None:
                timer.cancel()

    def break_off(self, error: Exception) -> None:
        _log.critical("a mistake in the core: this site stops, as in a crash", exc_info=error)
        self.close()
        self.application.broken(error)

    # --- what feeds the site ----------------------------------------------------------------------

    def wake(self) -> None:
        """Drain at the end of this turn of the loop, once, whatever else comes."""
        if not self._woken and not self.closed:
            self._woken = True
            self._loop.call_soon(self._turn)

    def frames(self, peer: Site, frames: Sequence[WireFrame]) -> None:
        if self.closed:
            return
        points = self.application.points
        if peer in points.behind and not (frames and type(frames[0]) is Lineage):
            return  # it was refused: frames that are still on their way are ignored
        now = time.monotonic_ns()
        receive = self.member.receive
        try:
            for frame in frames:
                if type(frame) is InEpoch:
                    receive(now, peer, frame)
                elif isinstance(frame, LineageFrame):
                    if not points.take(peer, frame):
                        if peer in points.behind:
                            self.carrier.refuse(peer, points.behind[peer])
                        return
                elif isinstance(frame, HandoverFrame):
                    self.application.handed(peer, frame)
                elif isinstance(frame, ReplicaDigest):
                    self.application.digests.take(peer, frame)
                elif isinstance(frame, ClientMarksFrame):
                    self.application.outside.take(peer, frame)
                elif isinstance(frame, CopyFrame):
                    self.application.outcomes.take(peer, frame)
                elif type(frame) is Feed:
                    if self.member.believes(peer):
                        self.fed_at = now
                    receive(now, peer, frame)
                    if self.member.declared_lost:
                        self.application.barred()
                elif not isinstance(frame, _NOT_OF_SITES):
                    receive(now, peer, frame)
        except Exception as error:
            self.break_off(error)
        if self._woken or self.closed:
            return
        if now - self._turned_at > _QUIET_NS:
            self._turn()
        else:
            self._woken = True
            self._loop.call_soon(self._turn)

    @_or_break
    def connected(self, peer: Site) -> None:
        introduction = self.application.points.introduction(peer)
        if introduction is not None:
            self._told[peer] = introduction.row
            self.carrier.send(peer, [introduction])
        self.member.connected(time.monotonic_ns(), peer)
        self.wake()

    @_or_break
    def congested(self, peer: Site, congested: bool) -> None:
        self.member.congest(time.monotonic_ns(), peer, congested=congested)
        self.wake()

    @_or_break
    def detoured(self, peers: tuple[Site, ...]) -> None:
        """These peers are reached through others; the manager hears of it with the next beat."""
        self.member.detoured = peers

    @_or_break
    def hold(self, held: bool) -> None:
        self.member.hold(time.monotonic_ns(), held=held)
        self.wake()

    def ask(
        self, change: str, edits: tuple[Edit, ...], subject: ClientSubject | None = None
    ) -> None:
        self.member.ask(time.monotonic_ns(), change, edits, subject)
        self.wake()

    @_or_break
    def _ring(self) -> None:
        self._alarm = None
        self._alarm_at = 0
        self.member.alarm(time.monotonic_ns())
        self._turn()

    def _ask_again(self) -> None:
        self._again = None
        self.wake()

    # --- the end of a turn ------------------------------------------------------------------------

    def _turn(self) -> None:
        self._woken = False
        if self.closed:
            return
        now = time.monotonic_ns()
        member = self.member
        try:
            if member.layout is not self._layout:
                self._look()
            if self._reserved and not self.application.offer(now) and self._again is None:
                self._again = self._loop.call_later(_TRY_AGAIN_S, self._ask_again)
            self._perform(now, member.drain())
            if member.layout is not self._layout:
                self._look()
        except Exception as error:
            self.break_off(error)
        self._turned_at = time.monotonic_ns()

    def _look(self) -> None:
        self._layout = self.member.layout
        self.application.laid_out()

    def _perform(self, now: int, box: MemberBox) -> None:
        alarm = min(box.epochs_alarm, box.voters_alarm)
        if alarm < NEVER and (self._alarm is None or alarm < self._alarm_at):
            self._arm(now, alarm)
        for peer, mistake in box.mistakes:
            self.carrier.refuse(peer, mistake)
        if not self.durable:
            if self.application.rows_due:
                self._note()
            if box.send:
                box.then_send = [*box.send, *box.then_send]
            self._reveal(box)
            return
        if box.send:
            self._send(box.send)
        if box.persist or box.forget is not None or self.application.rows_due:
            self._unwritten.append((box, True))
            self._commit(box)
        elif self._unwritten:
            self._unwritten.append((box, False))
            if self._lingers and (box.then_send or box.deliver or box.receipts or box.outcomes):
                self._lingers = False
                self.store.write(StoreBox(), _nothing)  # so that it waits no longer
        else:
            self._reveal(box)

    def _commit(self, box: MemberBox) -> None:
        # A checkpoint may be written with the records before it. It may let the core forget
        # deliveries that nobody was told yet: a restart finds them in the store's log.
        written = StoreBox(records=box.persist, at_ns=time.time_ns(), forget=box.forget)
        written.may_linger = _may_linger(box)
        self.application.annotate(written)
        self._lingers = written.may_linger
        if box.receipts:
            written.refused = [(r.group, r.seq) for r in box.receipts if r.stage == REFUSED]
        if box.forget is not None:  # there is one when an epoch opened; no restart repeats that
            self._ended(written, box)
        self.store.write(written, self._committed)

    def _ended(self, written: StoreBox, box: MemberBox) -> None:
        """Write rollbacks and openings of epochs as events. They become durable with the records
        that caused them. A restart may write some of them again. Batches that were fetched from
        other sites are in no record."""
        events = [event for event in written.events if event[0] != RETURNED]
        returned = [event for event in written.events if event[0] == RETURNED]
        for item in box.deliver:
            if isinstance(item, Rollback):
                events.append(rollback_event(item))
                self.application.rolling_back(item)
            elif isinstance(item, EpochOpened) and item.epoch > self.last_opened:
                self.last_opened = item.epoch
                events += opening_events(item)
        written.events = [*events, *returned]
        if _ends_an_epoch(box):
            written.caught, written.logged = box.deliver, self.member.logged

    def _note(self) -> None:
        """Write the application's own rows where nothing is durable."""
        written = StoreBox(at_ns=time.time_ns())
        self.application.annotate(written)
        self.store.write(written, self.application.committed)

    def _committed(self) -> None:
        """The oldest commit is durable: do duty 3 of its outbox, and of later outboxes without
        records."""
        unwritten = self._unwritten
        self._row = self.store.row
        self.application.committed()
        self._reveal(unwritten.popleft()[0])
        while unwritten and not unwritten[0][1]:
            self._reveal(unwritten.popleft()[0])

    def _reveal(self, box: MemberBox) -> None:
        """Do what had to wait until the outbox is durable."""
        if (box.then_send or box.counted) and not self.closed:
            try:
                if box.then_send:
                    self._send(box.then_send, self._row)
                if box.counted:
                    self.member.stored(box.counted)
            except Exception as error:
                self.break_off(error)
        if box.deliver:
            self.application.delivered(box.deliver)
        if box.receipts:
            self.application.received(box.receipts)
        if box.outcomes:
            self.application.decided(box.outcomes)

    def _send(self, sends: Sequence[tuple[Site, SiteFrame]], row: int = 0) -> None:
        """`row`: the frames promise only what the store has up to this row. 0: they promise
        nothing."""
        if self._share is not None:
            sends = self._share(sends)
        if len(sends) == 1 and not row:  # the common case
            peer, frame = sends[0]
            self.carrier.send(peer, [frame])
            return
        by_peer: dict[Site, list[WireFrame]] = {}
        if row:
            told = self._told
            for peer, _ in sends:
                if told.get(peer, 0) < row:
                    told[peer] = row
                    by_peer[peer] = [StoredRow(row)]
        for peer, frame in sends:
            frames = by_peer.get(peer)
            if frames is None:
                by_peer[peer] = [frame]
            else:
                frames.append(frame)
        for peer, frames in by_peer.items():
            self.carrier.send(peer, frames)

    def _arm(self, now: int, alarm: int) -> None:
        """Set the one timer. It may ring early, if a later alarm has been asked for since: that
        does no harm."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = alarm
        delay_s = max(0, alarm - now) / 1e9 + _TIMER_S
        self._alarm = self._loop.call_later(delay_s, self._ring)


def _nothing() -> None:
    """Nobody asks when an empty box is durable."""


def _may_linger(box: MemberBox) -> bool:
    """Whether the box has only own batches, and all of them have left for their primaries. When a
    batch comes back in its place, a second record of it is written. Only then does anybody wait,
    and for both records."""
    if not box.send or box.then_send or box.deliver or box.outcomes or box.forget is not None:
        return False
    return all(type(record) is Accepted for record in box.persist) and all(
        receipt.stage == "accepted" for receipt in box.receipts
    )


def _ends_an_epoch(box: MemberBox) -> bool:
    if box.forget is None:
        return False
    return any(
        isinstance(record, Caught)
        or (isinstance(record, Folded) and isinstance(record.record, (Finish, Open)))
        for record in box.persist
    )
