"""A site within one epoch: link → (causal hold) → ordering → ordered log → safe gate → application.

Its member calls `accept`, `receive` and `alarm` with integer nanoseconds, any number of times, then
`drain` once. After a crash a new engine is made from the last durable checkpoint and the durable
records after it, with the next `boot`; `start` it first.

An epoch ends with its Close ([GS] §5.1): a message of incarnation 0, which no application has, from
the root of the domain's tree to all its sites. After the Close an engine places and takes nothing
more (a direct protocol goes on answering, but lets nothing pass). Messages that the application
sends then are accepted and kept for the next epoch. A flush freezes an engine: then nothing more
happens. docs/epochs.md has a picture of its states.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import cast

from msgspec import UNSET

from ordercast.core import states
from ordercast.core.flow import Flow
from ordercast.core.gate import Gate
from ordercast.core.link import Link, LinkAlarms, Outgoing, Sends
from ordercast.core.order.interface import CLOSING, DirectOrdering
from ordercast.core.order.registry import protocol_named
from ordercast.core.outbox import (
    FIRST_OPENING,
    NOTES,
    Accepted,
    Checkpoint,
    EngineBox,
    FoldedPast,
    Headed,
    OrderingState,
    Outbox,
    Passed,
    Record,
    StreamSeqs,
    typed,
)
from ordercast.core.own_messages import OwnMessages
from ordercast.core.passed_headers import HeadOrdering
from ordercast.core.producers import ProducerMarks
from ordercast.core.retention import Held, PassedBatches
from ordercast.core.senders import Senders
from ordercast.core.stability.registry import tracker_named
from ordercast.core.structure import Structure
from ordercast.model.epochs import Included
from ordercast.model.errors import ConfigError, PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import implicit_group, is_implicit
from ordercast.model.limits import ITEMS, VECTOR_ENTRIES
from ordercast.model.messages import Batch, DeliveredBatch, Placed, Requests, pack_payloads
from ordercast.model.options import NEVER, Options
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    UP,
    Ack,
    Acks,
    Data,
    DurableCounts,
    Frame,
    Item,
    Repair,
    Settled,
    Submit,
)
from ordercast.wire.stability import COUNTLESS, ROUNDS


def _not_known(site: Site) -> int | None:  # noqa: ARG001
    """An engine without a member knows no incarnations."""
    return None


class Engine:
    """State: links by peer; the ordering object, the tracker of stability, the gate, own messages,
    retention; the duties that this burst has for the driver so far."""

    # More than thirty attributes: in a dictionary each would be slower to reach.
    __slots__ = (
        "_alarms", "_blocked", "_completes", "_counts", "_deliveries", "_down_early", "_durable",
        "_mine", "_persist", "_prompt", "_touched", "_writes", "alarm_at", "boot",
        "direct", "epoch_state", "flow", "gate", "heading", "incarnation", "incarnation_of",
        "links", "marks", "mistakes", "name", "now", "options", "ordering", "own", "parent",
        "records_state", "resumes", "retention", "senders", "stability", "stirred", "structure",
    )  # fmt: skip

    def __init__(
        self,
        name: Site,
        structure: Structure,
        options: Options,
        *,
        protocol: str = "propagation",
        incarnation: int = 1,
        boot: int = 1,
        checkpoint: Checkpoint | None = None,
        records: Sequence[Record] = (),
        attempt: int = 1,
        remember: Callable[[Placed], None] | None = None,
        frozen: bool = False,
        inside: bool = True,
        excludes: bool | None = None,
        durable: bool = True,
    ) -> None:
        """`attempt`: of its deliveries. `remember` is called with batches that the log forgets.
        `inside`: the site is in the domain. `excludes`: sites may be excluded; None: by policy.
        `durable`: the driver writes records. If it does not, only the record of the Close is made,
        and no frame waits."""
        if options.limits.frame_items > ITEMS:
            raise ConfigError(f"frame_items: {options.limits.frame_items:,} is above {ITEMS:,}")
        info = protocol_named(protocol)
        waits = options.on_failure == "wait"
        self.name = name
        self.structure = structure = structure.tellers if info.direct else structure
        self.options = options
        self._prompt = options.prompt_stability  # an application waits for what is stable
        self.incarnation, self.boot = incarnation, boot
        self.parent = structure.parent(name)
        self.now, self.alarm_at = 0, NEVER  # the alarm: of the last drain
        self.stirred = True  # something has happened since then
        # It is frozen before the replay: the end of a replay would send own messages again.
        self.epoch_state = states.FROZEN if frozen else states.OPEN
        self.records_state = states.REPLAYING
        self._durable, self._writes = durable, False  # `_writes`: records are asked for now
        # An origin outside the domain is never excluded from it: it goes on after a restart.
        self.resumes = waits or not inside
        self.links: dict[Site, Link] = {}
        self._ask_nothing()
        self._alarms = LinkAlarms(self.links)
        self._down_early = durable and not (waits or info.direct or options.causal_for_good)
        self._mine: dict[Group, bool] = {}  # whether this site is in a named group
        self.incarnation_of: Callable[[Site], int | None] = _not_known
        self.senders: Senders | None = None  # who may send in this epoch; None: everybody
        self._counts: dict[Group, tuple[int, tuple[Site, ...]]] | None = None
        self.stability = tracker_named(options.stability).make(
            name, structure, self._report, options, boot, partial(getattr, self, "now")
        )
        self.ordering = info.make(name, structure, self, causal=options.causal)
        self.direct = cast(DirectOrdering, self.ordering) if info.direct else None
        self.heading = cast(HeadOrdering, self.ordering) if info.headers else None
        self.marks = ProducerMarks()
        self.gate = Gate(self.stability, structure.epoch, safe=options.deliver == "safe")
        self.gate.attempt = attempt
        self.own = OwnMessages(
            structure, options.limits, self.stability, self._order, self.ordering.way,
            causal=options.causal, direct=self.direct,
        )  # fmt: skip
        if options.causal and (not waits if excludes is None else excludes):
            self.own.one_group_at_a_time()
        self.retention = PassedBatches(name, self.ordering, self.own, self.stability, self.gate)
        self.retention.remember, self.retention.durable = remember, durable
        self.flow = Flow(options.limits, self.retention)
        if records or (checkpoint is not None and checkpoint != FIRST_OPENING):
            self._restore(checkpoint, records)
        else:
            self._go_on(states.NOTHING_BEFORE)

    def _ask_nothing(self) -> None:
        """There are no duties for the driver yet."""
        self._persist: list[Record] = []
        self._deliveries: list[DeliveredBatch] = []
        self._touched: dict[Site, Link] = {}  # links with something to send
        self._blocked: dict[Site, Link] = {}  # links with an item that has no room
        self.mistakes: dict[Site, str] = {}  # peers' mistakes in this burst
        self._completes: Held | None = None  # passes next, and is held since its header passed

    @property
    def position(self) -> int:
        return self.gate.delivered

    def _happens(self, event: str) -> None:
        self.epoch_state = states.EPOCH[self.epoch_state][event]

    def _go_on(self, event: str) -> None:
        self.records_state = states.RECORDS[self.records_state][event]
        self._writes = self._durable and self.records_state.persists

    # --- the driver's calls ---------------------------------------------------------------------

    def start(self, now: int) -> None:
        """Call this first. After a restart, news of stability is asked for and told again."""
        self.now, self.stirred = now, True
        if self.boot > 1:
            self._announce()

    def may_accept(self, group: Group, members: tuple[Site, ...]) -> bool:
        """Whether there is room to place a batch, where this site itself places it, and whether a
        batch can carry the causal past."""
        return (not self.own.carries_past or self.own.past_fits()) and (
            not self.epoch_state.places
            or self.structure.primary(group, members) != self.name
            or self.flow.room_up()
        )

    def accept(
        self, now: int, group: Group, members: tuple[Site, ...], seq: int, count: int,
        body: bytes, requests: Requests | None = None,
    ) -> None:  # fmt: skip
        """Take a batch of the application. Its room and its seqs are reserved."""
        self.now, self.stirred = now, True
        past = self.own.past() if self.own.carries_past else ()
        batch = Batch(self.name, self.incarnation, group, seq, count, body, past, members, requests)
        if self._writes:
            self._persist.append(Accepted(batch))
        self.own.accept(batch)
        self.retention.grown()

    def _order(self, batch: Batch) -> None:
        """Have a batch placed, unless the epoch is closing. A direct protocol that resumes after a
        restart sends it again even then: other sites may wait for it."""
        state = self.epoch_state
        again = self.direct is not None and self.records_state.again and self.resumes
        if state.places or (again and state.works):
            self.ordering.submit(batch)

    def receive(self, now: int, peer: Site, frame: Frame) -> None:
        """Take a frame. A mistake in it changes nothing, and is in the outbox's `mistakes`."""
        if not self.epoch_state.works:
            return
        self.now, self.stirred = now, True
        link = self.links.get(peer) or self.link(peer)
        try:
            if frame.boot == link.peer_boot or self._heard_boot(link, frame.boot):
                if type(frame) is Data:
                    if frame.acks:
                        self._acknowledged(link, frame.of, frame.acks)
                    link.receive(now, frame, self._take)
                elif type(frame) is Ack:
                    self._acknowledged(link, frame.of, frame.acks)
                elif type(frame) is Repair and (frame.lane < link.anew or frame.of == self.boot):
                    link.repair(now, frame)
        except PeerMistake as mistake:
            self.mistakes.setdefault(peer, str(mistake))
        if link.blocked:
            self._blocked[peer] = link
        if link.urgent or link.ack_at <= now:
            self._touched[peer] = link
        elif peer not in self._touched:
            self._alarms.arm(link)

    def _heard_boot(self, link: Link, boot: int) -> bool:
        """A frame has another boot than the last one. False: an earlier boot, so it comes late."""
        if link.heard(boot) is None:
            return False
        self._touched[link.peer] = link
        self.ordering.restarted(link.peer)
        self.stability.restarted(link.peer)
        self._tell_settled(link.peer, self.retention.final_seqs(link.peer))
        if link.lost and not link.outgoing[CONTROL].last:
            # Perhaps this site has started itself, and has not heard the peer since. The peer tells
            # all again when it hears of that, and nothing else may be left to tell it.
            self.send(link.peer, CONTROL, DurableCounts(()))
        link.lost = ()
        return True

    def alarm(self, now: int) -> None:
        if not self.epoch_state.works:
            return
        self.now, self.stirred = now, True
        for link in self._alarms.due(now):
            link.alarm(now)
            self._touched[link.peer] = link

    def connected(self, now: int, peer: Site) -> None:
        """The connection to the peer is new: both go on after the last item that the other has."""
        self.now, self.stirred = now, True
        link = self._touched[peer] = self.link(peer)
        link.connected(now)

    def congest(self, now: int, peer: Site, *, congested: bool) -> None:
        """The driver takes no more frames for the peer, or has room again."""
        self.now, self.stirred = now, True
        link = self.link(peer)
        link.congested = congested
        if not congested:
            self._touched[peer] = link

    def hold(self, now: int, *, held: bool) -> None:
        """`held`: the application lags too far behind; take nothing more until it has caught up. In
        a frozen epoch the waiting items come too late: this site has reported its log."""
        self.flow.held = held
        self.stirred = True
        if not held and self.epoch_state.works:
            self.now = now
            self._resume()

    def drain(self) -> EngineBox:
        """All duties since the last drain, with those that the end of a burst adds."""
        self.stirred = False
        if self.gate.copies:
            folded, self.retention.folded_copies = self.retention.folded_copies, []
            self.gate.forget_copies(folded)
        late: Sends = []
        down: Sends = [] if self._down_early else late
        counted: list[Site] | tuple[()] = ()
        forget, at, now = None, NEVER, self.now
        if self.epoch_state.works:
            if self.flow.refused:
                self.flow.refused = False
                self._resume()
            at = self.stability.flush(now) if self.direct is None else self._flush_direct()
            if self.heading is not None:
                at = min(at, self.heading.flush(now))
            if self._touched:
                arm = self._alarms.arm
                for peer, link in self._touched.items():
                    if link.flush(now, down, late):
                        counted = [*counted, peer]
                    arm(link)
                self._touched = {}
            heap = self._alarms.heap
            if heap and heap[0][0] < at:
                at = heap[0][0]
            if self.retention.due:
                forget = self.retention.checkpoint()
        self.alarm_at = at
        persist, deliveries, receipts = self._persist, self._deliveries, self.own.receipts
        mistakes: Sequence[tuple[Site, str]] = ()
        if persist:  # the next burst must not add to this list
            self._persist = []
        if deliveries:
            self._deliveries = []
        if receipts:
            self.own.receipts = []
        if self.mistakes:
            mistakes, self.mistakes = tuple(self.mistakes.items()), {}
        return Outbox(
            persist or (), () if down is late else down, late, deliveries or (), receipts or (),
            forget, at, counted, mistakes,
        )  # fmt: skip

    def _flush_direct(self) -> int:
        direct, left = cast(DirectOrdering, self.direct), self.own.left
        at = min(direct.flush(self.now), self.stability.flush(self.now))
        while left != (left := self.own.left):
            # Batches that waited in causal order have left meanwhile: they belong to this burst.
            at = min(at, direct.flush(self.now), self.stability.flush(self.now))
        return at

    def stored(self, counted: Sequence[Site]) -> None:
        """An outbox with these peers in `counted` is durable, and its `then_send` has left."""
        for peer in counted:
            self.links[peer].unstored -= 1

    # --- links ----------------------------------------------------------------------------------

    def link(self, peer: Site) -> Link:
        link = self.links.get(peer)
        if link is None:
            options = self.options
            link = Link(
                peer, self.boot, options.limits, options.timing,
                lasting=self.direct is None, up_early=self._down_early and not self.resumes,
            )  # fmt: skip
            self.links[peer] = link
        return link

    def _acknowledged(self, link: Link, of: int, acks: Acks) -> None:
        if of != self.boot:  # an earlier boot: valid only for lanes that go on through restarts
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
        """Take the items that had to wait, if there is room now; items from above first."""
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

    def _take(self, peer: Site, lane: int, item: Item) -> bool:
        """Hand up an item. False: it waits, for room or for a grant of its origin. An item of a
        direct protocol never waits for room: another site might wait for it."""
        if lane == CONTROL:
            self._take_control(peer, item)
            return True
        if self.direct is not None:
            self.ordering.check(peer, item)
            if self.senders is not None and not self.senders.allow(item):
                return False
            if lane == UP:
                self.links[peer].incoming[UP].done += 1
        else:
            if lane == UP and not self.epoch_state.places:
                return False
            self.ordering.check(peer, item)
            if self.senders is not None and not self.senders.allow(item):
                return False
            if not (self.flow.room_down() if lane == DOWN else self.flow.room_up()):
                return False
        self.ordering.receive(peer, item)
        return True

    def grant(self, now: int, senders: Senders | None) -> None:
        """Other sites may send in this epoch than before."""
        self.senders = senders
        if self._blocked and self.epoch_state.works:
            self.now, self.stirred = now, True
            self._resume()

    def _take_control(self, peer: Site, item: Item) -> None:
        """Take a report, an item of a round, news of what is final, or an item of the protocol."""
        if type(item) is Settled:
            for group, seq in item.seqs:
                self.own.check_stable(peer, group, seq)
            for group, seq in item.seqs:  # this site may have lost the end of its store
                self.own.stable(group, min(seq, self.own.last_seq.get(group, 0)))
        elif type(item) is DurableCounts or isinstance(item, ROUNDS):
            news = self.stability.receive(peer, item)
            if news:
                self.settle(news)
            if type(item) is DurableCounts and not item.counts:
                self._tell_settled(peer, self.retention.final_seqs(peer))
        elif self.heading is not None:
            self.heading.check_control(peer, item)
            self.heading.control(peer, item)
        else:
            raise PeerMistake(f"a {type(item).__name__} is not of this protocol")

    # --- what the ordering object asks (`order.interface.Environment`, `heads.HeadEnvironment`) ---

    def send(self, peer: Site, lane: int, item: Item) -> None:
        link = self.links.get(peer) or self.link(peer)
        self._touched[peer] = link
        if lane == CONTROL:
            link.control(item)
            return
        waiting = link.push(lane, item)
        if lane == DOWN and self.direct is None:
            self.flow.pushed(waiting)

    def persist(self, record: Record) -> None:
        if self._writes:
            self._persist.append(record)
            if self.direct is not None and isinstance(record, NOTES):
                self.retention.noted()

    def passed(self, entry: Passed, children: Sequence[Site], *, mine: bool) -> None:
        placed = entry.placed
        batch = placed.batch
        held, self._completes = self._completes, None
        if batch.incarnation == CLOSING:
            if held is None:
                self._hold_close(entry, children)
            if not self._durable:  # observers see by it when a site has closed
                self._persist.append(entry)
            self._happens(states.CLOSE_LOGGED)
            return
        copy = mine and batch.requests is not None and not self.marks.keeps(batch)
        known = not copy or self.marks.knows(batch)
        if copy:
            self.gate.copies[placed.key] = known
        if mine and batch.origin == self.name and batch.requests is not None:
            self.own.logged(batch, known=known)
        position = self.gate.logged + (0 if copy else batch.count) if mine else 0
        if held is None:
            self._hold(entry, children, position, mine=mine)
        else:
            held.position = position
        if mine:
            news = self.gate.append(placed)
            if not (self.gate.safe or copy or self.own.carries_past):
                self._deliveries.append(self.gate.deliver(placed))
            elif not (self.gate.safe or copy):
                self._deliver(placed)
            elif not copy and self.own.carries_past and not self.records_state.persists:
                # Perhaps it was delivered before the restart: new messages follow it.
                self.own.delivered(placed)
            if news:
                self.settle([batch.group])

    def _hold(self, entry: Passed, children: Sequence[Site], position: int, *, mine: bool) -> Held:
        owed = self._owed(children) if children else ()
        held = self.retention.hold(entry, owed, position, mine=mine)
        batch = entry.placed.batch
        if not entry.from_parent and batch.members:
            self.stability.concerns(batch.group, batch.members)
        return held

    def _hold_close(self, entry: Passed, children: Sequence[Site]) -> Held:
        """Hold the Close for good: a restart must close again."""
        return self.retention.hold(entry, self._owed(children), NEVER, mine=False)

    def _owed(self, children: Sequence[Site]) -> list[tuple[Outgoing, int, Site]]:
        """For each child, its lane and the number of the last item that was sent to it."""
        links = self.links
        return [(out := links[child].outgoing[DOWN], out.last, child) for child in children]

    def headed(self, entry: Passed, children: Sequence[Site], *, mine: bool) -> Held:
        batch = entry.placed.batch
        if batch.incarnation == CLOSING:
            held = self._hold_close(entry, children)
            self._happens(states.CLOSE_HEADED)
        else:
            held = self._hold(entry, children, 0, mine=mine)  # its position comes with its body
        held.pending = True
        return held

    def filled(self, held: Held, entry: Passed, *, mine: bool) -> None:
        self.retention.filled(held, entry)
        self._completes = held
        self.passed(entry, (), mine=mine)

    def lost_control(self, peer: Site) -> Iterable[Item]:
        return self.links[peer].lost

    def submitted(self) -> dict[Site, list[Batch]]:
        found: dict[Site, list[Batch]] = {}
        for peer, link in self.links.items():
            batches = [i.batch for i in link.outgoing[UP].items if type(i) is Submit]
            if batches:
                found[peer] = batches
        return found

    def ordered(self, batch: Batch) -> None:
        if batch.incarnation != CLOSING:
            self.own.placed(batch)

    def room(self) -> bool:
        return self.epoch_state.places and self.flow.room_up()

    def may_log(self) -> bool:
        return self.epoch_state.places and self.flow.room_down()

    def dealt_with(self, origin: Site) -> None:
        link = self.links[origin]
        inc = link.incoming[UP]
        inc.done += 1
        inc.unacknowledged += 1
        link.ack_at = self.now
        self._touched[origin] = link  # a held batch may be placed while another peer is heard

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
        """More messages of these groups are stable than before."""
        news = dict.fromkeys(groups)
        for placed in self.gate.settle():
            news[placed.batch.group] = None
            if placed.batch.requests is not None and placed.key not in self.gate.copies:
                self.marks.settle(placed.batch)
            if self.gate.safe and placed.key not in self.gate.copies:
                self._deliver(placed)
        for group in news:
            for origin, seq in self.retention.finals(group):
                self._tell_settled(origin, [(group, seq)])

    def _report(self, peer: Site, item: Item) -> None:
        link = self._touched[peer] = self.links.get(peer) or self.link(peer)
        until = self.now if self._prompt else self.now + self.stability.patience()
        link.report(item, self.now, until, counts=type(item) not in COUNTLESS)

    def _tell_settled(self, origin: Site, seqs: Sequence[tuple[Group, int]]) -> None:
        if origin == self.name:
            for group, seq in seqs:
                self.own.stable(group, seq)
            return
        for first in range(0, len(seqs), VECTOR_ENTRIES):
            self._report(origin, Settled(tuple(seqs[first : first + VECTOR_ENTRIES])))

    # --- the end of the epoch ---------------------------------------------------------------------

    def close(self, now: int, sites: tuple[Site, ...]) -> None:
        """This site is the root: order the Close, once."""
        self.now, self.stirred = now, True
        if self.epoch_state.places:
            body = pack_payloads([b""])
            group = implicit_group(sites)
            self.ordering.submit(Batch(self.name, CLOSING, group, 1, 1, body, (), sites))

    def freeze(self) -> None:
        """A flush begins: this site reports its log and does nothing more in this epoch."""
        self.stirred = True
        self._happens(states.FREEZE)

    def end(self, lasts: Mapping[Group, int]) -> None:
        """All sites have closed. All that was logged is stable, and so are this site's own messages
        up to `lasts`."""
        for placed in self.gate.settle_all():
            if self.gate.safe and placed.key not in self.gate.copies:
                self._deliver(placed)
        for group, seq in lasts.items():
            self.own.included(group, seq)

    def unplaced(self) -> list[Batch]:
        """Own batches that no closed epoch includes, in the order in which they were sent."""
        stable = self.own.stable_seq
        return [batch for batch in self.own.kept if batch.seq > stable(batch.group)]

    def take_over(self, batch: Batch) -> None:
        """Take an own batch that was accepted in an epoch that is gone."""
        self.stirred = True
        self.own.replay(Accepted(batch))
        self.own.send_again(batch)

    def part_from(self, peer: Site) -> None:
        """The peer, an origin outside the domain, is retired. Nothing is owed to it any more,
        unless a direct protocol waits for its answer. It may stay until its accepted batches have
        their places: they are still taken, under their numbers. Items that came too early are
        dropped, and it sends them again."""
        self.stirred = True
        link = self.links[peer]
        if self.direct is None:
            link.forget_early()
            self._blocked.pop(peer, None)
        elif peer in self.direct.awaited():
            return
        lasts = [out.last for out in link.outgoing]
        self._acknowledged(link, self.boot, tuple((lane, n, n) for lane, n in enumerate(lasts)))

    # --- the log of the epoch ---------------------------------------------------------------------

    def in_log(self, placed: Placed) -> tuple[bool, bool, bool]:
        """Of a batch that has passed here, as `in_epoch` wants it."""
        mine = self._mine.get(placed.batch.group) or self.is_mine(placed.batch)
        copy = mine and bool(self.gate.copies) and placed.key in self.gate.copies
        return mine and not copy, copy, copy and self.gate.copies[placed.key]

    def is_mine(self, batch: Batch) -> bool:
        """Whether a batch that passes here belongs to this site's log. The Close never does."""
        if batch.incarnation == CLOSING:
            return False
        if batch.members:
            return self.name in batch.members
        mine = self._mine[batch.group] = self.structure.is_member(batch.group, self.name)
        return mine

    def log(self) -> list[Placed]:
        """The batches of the log that are still held."""
        return [p for p in self.ordering.log() if p.batch.incarnation != CLOSING]

    def counts(self) -> dict[Group, tuple[int, tuple[Site, ...]]]:
        """For each group: the number of its last message in the log; members, if it is implicit."""
        if self._counts is not None:
            return self._counts
        found = {
            group: (number, self.retention.implicit.get(group, ()))
            for group, number in self.retention.logged.items()
        }
        for placed in self.log():
            batch = placed.batch
            found[batch.group] = (placed.number + batch.count - 1, batch.members)
        if not self.epoch_state.works:  # nothing more comes
            self._counts = found
        return found

    def log_seqs(self) -> Included:
        """Per origin and group, the last seq in the log."""
        found = dict(self.retention.log_seqs)
        for placed in self.log():
            batch = placed.batch
            found[batch.origin, batch.incarnation, batch.group] = batch.seq + batch.count - 1
        return (*(tuple((*stream, seq) for stream, seq in found.items())), *self.own_marks())

    def own_marks(self) -> StreamSeqs:
        """The marks at this site's groups. At lists of other sites they are as they were."""
        groups = self.structure.groups
        return self.marks.of(lambda g: is_implicit(g) or self.name in groups.get(g, ()))

    # --- made again from its store: policy `wait` ([GS] §5.2.2) -----------------------------------

    def _restore(self, checkpoint: Checkpoint | None, records: Sequence[Record]) -> None:
        """Load the counters of the checkpoint, then replay the records. A replay has all effects
        but persisting: links get back their numbers and unacknowledged items, the log its
        positions. Own batches that this site did not place itself are sent again; a primary that
        has them recognises their numbers. Items that were received and not durable were not
        acknowledged, so they come again. The lanes of a direct protocol begin anew: it tells again
        what it owes."""
        if checkpoint is not None:
            self._load(checkpoint.state)
            records = [*checkpoint.records, *records]
        elif self.direct is not None:
            self.direct.restore(OrderingState(inherited=()))
        for record in records:
            if type(record) is Accepted:
                self.own.replay(record)
        placed_here: set[tuple[Group, int]] = set()
        heading = self.heading
        if heading is not None:
            for head in heading.heads():
                self._came(head, placed_here)
        for record in records:
            if heading is not None and type(record) is Headed:
                self._came(record, placed_here)
                heading.note(record)
            elif type(record) is not Passed:
                if self.direct is not None and isinstance(record, NOTES):
                    self.direct.note(record)
            else:
                if self.direct is None and (heading is None or not heading.completes(record)):
                    self._came(record, placed_here)
                self.ordering.replay(record)
        if heading is not None:
            heading.replayed()
        self._go_on(states.REPLAYED)
        self.own.resume(placed_here)
        self._go_on(states.RESUMED)
        if self.direct is not None:
            self.direct.restarted(None)
        self.retention.restored = self.retention.held()
        for link in self.links.values():
            for out in link.outgoing:
                out.restored = len(out.items)

    def _load(self, state: FoldedPast) -> None:
        retention = self.retention
        retention.load(state)
        self.marks = ProducerMarks(retention.marks.all())
        self.ordering.restore(typed(state.ordering, self.ordering.states))
        self.gate.logged = self.gate.delivered = self.gate.settled = retention.position
        for group, number in retention.logged.items():
            members = retention.implicit.get(group) or self.structure.members(group)
            self.stability.logged(group, number, members)
            self.stability.settled(group, number)
        final_here = dict(retention.final_seqs(self.name))
        if self.direct is not None and state.own_stable is not UNSET:
            final_here.update(state.own_stable)  # a direct protocol has forgotten their places
        self.own.restore(retention.own_seqs, final_here, state.past)
        if self.direct is not None:
            return
        for lane, counts in ((DOWN, retention.sent_down), (UP, retention.sent_up)):
            for peer, count in counts.items():
                self.link(peer).outgoing[lane].start_at(count)
        for origin, count in retention.from_origin.items():
            self._received(origin, UP, count)
        if self.parent is not None:
            self._received(self.parent, DOWN, retention.from_parent)

    def _came(self, record: Passed | Headed, placed_here: set[tuple[Group, int]]) -> None:
        """Note on which lane the batch came, or that this site placed its own."""
        if record.from_parent:
            self._received(record.source, DOWN, 1)
        elif record.source != self.name:
            self._received(record.source, UP, 1)
        else:
            placed_here.add((record.placed.batch.group, record.placed.batch.seq))

    def _received(self, peer: Site, lane: int, count: int) -> None:
        inc = self.link(peer).incoming[lane]
        inc.got += count
        inc.done += count

    def _announce(self) -> None:
        """After a restart: ask what is final of own messages, and tell others again of theirs."""
        self.stability.restarted(None)
        for primary in self.own.awaited():
            if primary != self.name:
                self.send(primary, CONTROL, DurableCounts(()))
        for origin in self.retention.origins():
            self._tell_settled(origin, self.retention.final_seqs(origin))

    # --- for judges and operators -----------------------------------------------------------------

    def quiet(self, apart_from: Sequence[Site] = ()) -> bool:
        """Whether nothing is left to do here: all is placed, sent, acknowledged, delivered and
        final. `apart_from`: sites that are gone; items to them or from them may wait."""
        restless = () if self.direct is None else self.direct.restless
        return (
            self.epoch_state.works
            and self.own.idle()
            and not self.ordering.held()
            and not self.gate.unsettled()
            and self.stability.deadline() == NEVER
            and all(
                link.idle(restless) for peer, link in self.links.items() if peer not in apart_from
            )
        )
