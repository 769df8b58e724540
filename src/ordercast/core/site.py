"""One site, composed: link → (causal hold) → ordering → ordered log → safe gate → application.

A driver calls `submit`, `receive` and `alarm` with integer nanoseconds, any number of them, then
`drain`s once and does its duties (see `outbox`). After a crash a new Site is made from the last
durable checkpoint and the durable records after it, with the next `boot`; `start` it first.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from ordercast.core.alarms import Alarms
from ordercast.core.control import take_control
from ordercast.core.flow import Flow
from ordercast.core.gate import Gate
from ordercast.core.heads import HeadOrdering, Heads
from ordercast.core.link import Link, Sends
from ordercast.core.observe import Observation, is_quiet, observe
from ordercast.core.order.interface import DirectOrdering
from ordercast.core.order.registry import protocol_named
from ordercast.core.outbox import NOTES, Accepted, Checkpoint, Outbox, Passed, Record
from ordercast.core.own import OwnMessages, packed
from ordercast.core.restart import announce, restore
from ordercast.core.retention import Retention
from ordercast.core.stability.registry import tracker_named
from ordercast.core.structure import Structure
from ordercast.core.tellers import take_direct, with_tellers
from ordercast.model.errors import ConfigError, PeerMistake, WindowFull
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import ITEMS
from ordercast.model.messages import Batch, DeliveredBatch, Placed, Requests
from ordercast.model.options import NEVER, Options
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    UP,
    Ack,
    Acks,
    Data,
    Frame,
    Item,
    Repair,
    Settled,
    Submit,
)
from ordercast.wire.stability import COUNTLESS


def _not_known(site: SiteName) -> int | None:  # noqa: ARG001
    """Of a site by itself: nobody tells it incarnations."""
    return None


class Site:
    def __init__(
        self,
        name: SiteName,
        structure: Structure,
        options: Options,
        *,
        protocol: str = "propagation",
        incarnation: int = 1,
        boot: int = 1,
        checkpoint: Checkpoint | None = None,
        records: Sequence[Record] = (),
    ) -> None:
        if options.limits.frame_items > ITEMS:
            raise ConfigError(f"frame_items: {options.limits.frame_items} is above {ITEMS}")
        info = protocol_named(protocol)
        self.name = name
        self.structure = structure = with_tellers(structure) if info.direct else structure
        self.options = options
        self.incarnation = incarnation
        self.boot = boot
        self.parent = structure.parent(name)
        self.now = 0
        self.links: dict[SiteName, Link] = {}
        self._persist: list[Record] = []
        self._deliveries: list[DeliveredBatch] = []
        self._touched: dict[SiteName, Link] = {}  # with something to send
        self._blocked: dict[SiteName, Link] = {}  # with something that there was no room for
        self._alarms = Alarms(self.links)
        self.resumes = options.on_failure == "wait"
        self._relay_before_durable = not (self.resumes or info.direct or options.causal_for_good)
        self.replaying = self.resuming = False
        self.incarnation_of: Callable[[SiteName], int | None] = _not_known
        self.mistakes: dict[SiteName, str] = {}  # of peers, in this burst
        self.stability = tracker_named(options.stability).make(
            name, structure, self._report, options, boot, partial(getattr, self, "now")
        )
        self.ordering = info.make(name, structure, self, causal=options.causal)
        self.direct = cast(DirectOrdering, self.ordering) if info.direct else None
        self.heading = cast(HeadOrdering, self.ordering) if info.headers else None
        self.heads = Heads(self)
        self.gate = Gate(self.stability, structure.epoch, safe=options.deliver == "safe")
        self.own = OwnMessages(
            structure, options.limits, self.stability, self._order, self.ordering.way,
            causal=options.causal, direct=self.direct,
        )  # fmt: skip
        self.retention = Retention(name, self.ordering, self.own, self.stability, self.gate)
        self.flow = Flow(options.limits, self.retention)
        if checkpoint is not None or records:
            restore(self, checkpoint, records)

    @property
    def position(self) -> int:
        return self.gate.delivered

    # --- the driver's calls ---------------------------------------------------------------------

    def start(self, now: int) -> None:
        """Before anything else. After a restart: tell and ask what others have forgotten of us."""
        self.now = now
        if self.boot > 1:
            announce(self)

    def submit(
        self, now: int, group: Group, payloads: list[bytes], requests: Requests | None = None,
        least: int = 1,
    ) -> int:  # fmt: skip
        """Accept a batch; its first seq, at least so much. Nothing is changed when this raises."""
        self.structure.members(group)
        return self._submit(now, group, (), payloads, requests, least)

    def submit_to(
        self, now: int, sites: Sequence[SiteName], payloads: list[bytes],
        requests: Requests | None = None, least: int = 1,
    ) -> tuple[Group, int]:  # fmt: skip
        """Accept a batch for listed sites, which must be of one domain: (group name, first seq)."""
        group = implicit_group(members := self.structure.listed(sites))
        self.structure.primary(group, members)
        return group, self._submit(now, group, members, payloads, requests, least)

    def _submit(
        self, now: int, group: Group, members: tuple[SiteName, ...], payloads: list[bytes],
        requests: Requests | None, least: int,
    ) -> int:  # fmt: skip
        self.now = now
        body = packed(payloads, self.options.limits.message_bytes)
        self.own.require_window(len(payloads), len(body))
        if self.structure.primary(group, members) == self.name and not self._may_accept():
            raise WindowFull(f"{self.name} has no room to place more: another site lags behind")
        seq = max(self.own.last_seq.get(group, 0) + 1, least)
        count, past = len(payloads), self.own.past()
        batch = Batch(self.name, self.incarnation, group, seq, count, body, past, members, requests)
        self.persist(Accepted(batch))
        self.own.accept(batch)
        self.retention.grown()
        return seq

    def _may_accept(self) -> bool:
        return self.room()

    def _order(self, batch: Batch) -> None:
        self.ordering.submit(batch)

    def receive(self, now: int, peer: SiteName, frame: Frame) -> None:
        """Take a frame. What it gets wrong is in the outbox's `mistakes`, and changes nothing."""
        self.now = now
        link = self.links.get(peer) or self.link(peer)
        try:
            self._receive(now, link, frame)
        except PeerMistake as mistake:
            self.mistakes.setdefault(peer, str(mistake))
        if link.blocked:
            self._blocked[peer] = link
        if link.urgent or link.ack_at <= now:
            self._touched[peer] = link
        elif peer not in self._touched:
            self._alarms.arm(link)

    def _receive(self, now: int, link: Link, frame: Frame) -> None:
        peer = link.peer
        if frame.boot != link.peer_boot:
            restarted = link.heard(frame.boot)
            if restarted is None:
                return
            self._touched[peer] = link
            self._peer_restarted(link)
        if type(frame) is Data:
            if frame.acks:
                self._acknowledged(link, frame.of, frame.acks)
            link.receive(now, frame, self._take)
        elif type(frame) is Ack:
            self._acknowledged(link, frame.of, frame.acks)
        elif type(frame) is Repair and (frame.lane < link.anew or frame.of == self.boot):
            link.repair(now, frame)

    def alarm(self, now: int) -> None:
        self.now = now
        for link in self._alarms.due(now):
            link.alarm(now)
            self._touched[link.peer] = link

    def connected(self, now: int, peer: SiteName) -> None:
        """There is a new connection to the peer: both go on from what the other has (by number)."""
        self.now = now
        link = self._touched[peer] = self.link(peer)
        link.connected(now)

    def congest(self, now: int, peer: SiteName, *, congested: bool) -> None:
        """The driver has as much as it takes for the peer, or has room again."""
        self.now = now
        link = self.link(peer)
        link.congested = congested
        if not congested:
            self._touched[peer] = link

    def hold(self, now: int, *, held: bool) -> None:
        """The application lags too far behind: take nothing more until it has caught up."""
        self.flow.held = held
        if not held:
            self.now = now
            self._resume()

    def drain(self) -> Outbox:
        """Everything asked for since the last drain, and what the end of a burst adds to it."""
        if self.flow.refused:
            self.flow.refused = False
            self._resume()
        left = self.own.left
        at = NEVER if self.direct is None else self.direct.flush(self.now)
        at = min(at, self.stability.flush(self.now))
        while self.direct is not None and left != (left := self.own.left):
            # What waited in causal order has left meanwhile, and is of this burst too.
            at = min(at, self.direct.flush(self.now), self.stability.flush(self.now))
        if self.heading is not None:
            at = min(at, self.heading.flush(self.now))
        late: Sends = []
        down: Sends = [] if self._relay_before_durable else late
        counted: list[SiteName] = []
        if self._touched:
            for peer, link in self._touched.items():
                if link.flush(self.now, down, late):
                    counted.append(peer)
                self._alarms.arm(link)
            self._touched = {}
        at = self._alarms.next(at)
        persist, deliveries, receipts = self._persist, self._deliveries, self.own.receipts
        if persist:  # never a list that the next burst would add to
            self._persist = []
        if deliveries:
            self._deliveries = []
        if receipts:
            self.own.receipts = []
        return Outbox(
            persist or (),
            down if self._relay_before_durable else (),
            late,
            deliveries or (),
            receipts or (),
            self.retention.checkpoint() if self.retention.due else None,
            None if at == NEVER else at,
            counted,
            self._mistaken(),
        )

    def _mistaken(self) -> Sequence[tuple[SiteName, str]]:
        if not self.mistakes:
            return ()
        mistakes, self.mistakes = tuple(self.mistakes.items()), {}
        return mistakes

    def stored(self, counted: Sequence[SiteName]) -> None:
        """An outbox that had counted these is durable, and its `then_send` has left."""
        for peer in counted:
            self.links[peer].stored()

    # --- links ----------------------------------------------------------------------------------

    def link(self, peer: SiteName) -> Link:
        link = self.links.get(peer)
        if link is None:
            options, lasting = self.options, self.direct is None
            link = Link(peer, self.boot, options.limits, options.timing, lasting=lasting)
            self.links[peer] = link
        return link

    def _acknowledged(self, link: Link, of: int, acks: Acks) -> None:
        if of != self.boot:  # about an earlier control stream; the others go on through restarts
            acks = tuple(ack for ack in acks if ack[0] < link.anew)
        for lane, items in link.acknowledged(self.now, acks):
            if self.direct is not None:
                self.direct.acknowledged(link.peer, items)
            elif lane == UP:
                for item in items:
                    if type(item) is Submit:
                        self.own.placed(item.batch)
            elif lane == DOWN:
                left = len(link.outgoing[DOWN].items)
                if self.flow.done(left + len(items), left):
                    self._resume()

    def _resume(self) -> None:
        """Take what had to wait, if there is room now; what comes down first."""
        blocked, self._blocked = self._blocked, {}
        for peer, link in blocked.items():
            try:
                link.resume(self.now, self._take)
            except PeerMistake as mistake:
                self.mistakes.setdefault(peer, str(mistake))
            self._touched[peer] = link
            if link.blocked:
                self._blocked[peer] = link
        self.ordering.resume()

    def _take(self, peer: SiteName, lane: int, item: Item) -> bool:
        if lane == CONTROL:
            take_control(self, peer, item)
            return True
        self.ordering.check(peer, item)
        if self.direct is not None:
            return take_direct(self, self.direct, peer, lane, item)
        if not (self.flow.room_down() if lane == DOWN else self.flow.room_up()):
            return False
        self.ordering.receive(peer, item)
        return True

    def _peer_restarted(self, link: Link) -> None:
        self.ordering.restarted(link.peer)
        self.stability.restarted(link.peer)
        self.tell_settled(link.peer, self.retention.final_seqs(link.peer))
        link.lost = ()

    # --- what the ordering object asks (interface.Environment) ------------------------------------

    def send(self, peer: SiteName, lane: int, item: Item) -> None:
        link = self.links.get(peer) or self.link(peer)
        self._touched[peer] = link
        if lane == CONTROL:
            link.control(item)
            return
        waiting = link.push(lane, item)
        if lane == DOWN and self.direct is None:
            self.flow.pushed(waiting)

    def persist(self, record: Record) -> None:
        if not self.replaying:
            self._persist.append(record)
            if self.direct is not None and isinstance(record, NOTES):
                self.retention.noted()

    def passed(self, entry: Passed, children: Sequence[SiteName], *, mine: bool) -> None:
        placed = entry.placed
        batch = placed.batch
        if not self.heads.were_held():
            position = self.gate.logged + batch.count if mine else 0
            self.retention.hold(entry, self.heads.owed(children), position)
            if not entry.from_parent and batch.members:
                self.stability.concerns(batch.group, batch.members)
        if mine:
            news = self.gate.append(placed)
            if not self.gate.safe:
                self._deliver(placed)
            elif self.replaying and self.own.carries_past:
                self.own.delivered(placed)  # before the restart, perhaps: what is sent now follows
            if news:
                self.settle([batch.group])

    def ordered(self, batch: Batch) -> None:
        self.own.placed(batch)

    def room(self) -> bool:
        return self.flow.room_up()

    def may_log(self) -> bool:
        return self.flow.room_down()

    def dealt_with(self, origin: SiteName) -> None:
        link = self.links[origin]
        inc = link.incoming[UP]
        inc.done += 1
        inc.unacknowledged += 1
        link.ack_at = self.now
        self._touched[origin] = link  # what was held is placed while another peer is heard

    def stable(self, group: Group, number: int) -> bool:
        return self.stability.stable(group) >= number

    def check_incarnation(self, batch: Batch) -> None:
        known = self.incarnation_of(batch.origin)
        if known is not None and batch.incarnation != known:
            raise PeerMistake(
                f"a batch of {batch.origin!r}'s incarnation {batch.incarnation}, which is {known}"
            )

    # --- delivery and stability -------------------------------------------------------------------

    def _deliver(self, placed: Placed) -> None:
        if self.own.carries_past:
            self.own.delivered(placed)
        self._deliveries.append(self.gate.deliver(placed))

    def settle(self, groups: Sequence[Group]) -> None:
        news = dict.fromkeys(groups)
        for placed in self.gate.settle():
            news[placed.batch.group] = None
            if self.gate.safe:
                self._deliver(placed)
        for group in news:
            for origin, seq in self.retention.finals(group):
                self.tell_settled(origin, [(group, seq)])

    def _report(self, peer: SiteName, item: Item) -> None:
        link = self._touched[peer] = self.link(peer)
        until = self.now + self.stability.patience()
        link.report(item, self.now, until, counts=type(item) not in COUNTLESS)

    def tell_settled(self, origin: SiteName, seqs: Sequence[tuple[Group, int]]) -> None:
        if origin == self.name:
            for group, seq in seqs:
                self.own.stable(group, seq)
        elif seqs:
            self._report(origin, Settled(tuple(seqs)))

    # --- for judges and operators ---------------------------------------------------------------

    def observations(self) -> list[Observation]:
        return observe(self)

    def quiet(self, apart_from: Sequence[SiteName] = ()) -> bool:
        """Nothing is outstanding here: all placed, sent, acknowledged, delivered and final."""
        return is_quiet(self, apart_from)
