"""`symmetric`: sites stamp their own batches, and merge all by stamp: Lamport in [GS] §2, [TOM] §4.

A batch gets its sender's next timestamp (clock, name), which is its order key, and goes to the
members. A member lets the batch with the lowest timestamp pass when it has heard, without gap, that
timestamp from the sender and a higher one from *every other site that may send in the domain*. To
hear only the members and the sender is not enough where any site may send to any group (errata
OTHER-2).

A site asks silent sites for a timestamp above the highest that waits here, one question at a time.
A site that is asked answers with a null message, unless it has sent a higher timestamp already.
Nulls are not answered. A timestamp promises that no lower one follows. So no timestamp is given
twice, not even after a restart. One silent site stops the domain.

An origin outside the domain hands its batches to one fixed site of the domain (the root of its
tree), which stamps them. Clocks run ahead of everything received, so key order is causal. A batch
that another site stamps carries its origin's clock, and the origin waits until the batch has its
place before it sends to another domain.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import asdict

from ordercast.core.claims import check_ahead
from ordercast.core.order.direct import Domainwide, Mine
from ordercast.core.order.interface import CLOSING, Environment
from ordercast.core.order.kept_states import DirectState, ResumedSymmetric
from ordercast.core.outbox import (
    Clocked,
    Note,
    OrderingState,
    Passed,
    Stamped,
    Stream,
    by_stream,
    stream_seqs,
)
from ordercast.core.structure import Structure
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Key
from ordercast.wire.frames import DOWN, UP, Final, Item, Null, Offer, Timed, Wanted

Timestamp = tuple[int, Site]

_AHEAD = 1_024  # how many clock values one record (`Clocked`) makes safe to give as nulls


@dataclass(slots=True)
class _Given:
    """A batch stamped here, to be sent again after a restart: an own batch until it is final, a
    batch from outside until all sites in `owed` have acknowledged it."""

    batch: Batch
    owed: dict[Site, None] = field(default_factory=dict)


class Symmetric(Domainwide):
    """State: the clock; the clock heard from each site of the domain; batches that wait; batches
    stamped here."""

    states = (OrderingState, DirectState, ResumedSymmetric)

    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        super().__init__(site, structure, environment, causal=causal)
        tellers = self.structure
        self._domain = tellers.domains[tellers.root_of[site]]
        self._clock = 0
        self._durable = 0  # after a restart no clock up to this one is given
        self._heard: dict[Site, int] = {peer: 0 for peer in self._domain if peer != site}
        self._least: Timestamp = (
            0,
            "",
        )  # of these; the same until this peer is heard again
        self._told: dict[Site, int] = {}  # the last clock sent to a peer
        self._asked: dict[Site, Timestamp] = {}  # what a peer was asked to exceed, and has not yet
        self._heap: list[tuple[Timestamp, Batch]] = []
        self._highest: Timestamp = (0, "")  # the highest that has waited here
        self._given: dict[int, _Given] = {}  # by clock
        self._clocks: dict[tuple[int, Group], dict[int, int]] = {}  # of own batches, by seq
        self._through: dict[Stream, int] = {}  # the last seq stamped for an origin outside
        self._incarnation = 0  # of own batches
        self._before: dict[Mine, int] = {}  # clocks of own batches, from before a restart
        self._was_here = False  # it was in this epoch before its restart
        self._silent = False  # records are being replayed: send nothing before old promises
        self._advancing = False

    # --- stamping ---------------------------------------------------------------------------------

    def submit(self, batch: Batch) -> None:
        mine = (batch.incarnation, batch.group, batch.seq)
        clocks = self._clocks.setdefault(mine[:2], {})
        if batch.seq in clocks:
            return  # a Close, which is submitted until it has passed
        if batch.incarnation != CLOSING:
            self._incarnation = batch.incarnation
        self.expect_place(batch)
        stamper = self.way(batch)
        if stamper != self.site:
            self._handed[mine] = batch
            if not self._silent:
                self.environment.send(stamper, UP, Offer(batch, self._clock))
            return
        clock = self._before.pop(mine, 0)
        if not clock:
            clock = self._tick()
            if self.environment.resumes:  # its payloads are kept with the origin's own batches
                self.environment.persist(Stamped(self.noted(batch), clock, self.site))
        clocks[batch.seq] = clock
        self._give(batch, clock)
        self.has_place(batch)

    def _tick(self, least: int = 0) -> int:
        self._clock = max(self._clock, least) + 1
        return self._clock

    def _give(self, batch: Batch, clock: int) -> None:
        """Send the batch with its timestamp to its members; this site may be one."""
        others = self._others(batch)
        given = self._given[clock] = _Given(batch, dict.fromkeys(others))
        for member in others:
            self._send(member, Timed(batch, clock))
        if batch.origin != self.site:
            given.owed[batch.origin] = None
            self._answer(batch, clock)
        if self.site in self.members(batch) and Key((clock,), self.site) > self.last_key:
            self._wait((clock, self.site), batch)  # else it was logged before a restart
        self._advance()

    def _send(self, peer: Site, item: Timed | Null) -> None:
        if not self._silent:
            self._told[peer] = item.clock
            self.environment.send(peer, UP, item)

    def _answer(self, batch: Batch, clock: int) -> None:
        mine = (batch.incarnation, batch.group, batch.seq)
        if not self._silent:
            self.environment.send(batch.origin, DOWN, Final(*mine, clock, self.site))

    def _stamp_for(self, batch: Batch, clock: int) -> None:
        """Stamp a batch that an origin outside the domain has offered."""
        stream = (batch.origin, batch.incarnation, batch.group)
        if batch.seq <= max(self._through.get(stream, 0), self._inherited.get(stream, 0)):
            self._answer(batch, self._clock)  # a repeat: the answer was lost, or is under way
            return
        self._through[stream] = batch.seq + batch.count - 1
        clock = self._tick(self.within(batch.origin, clock, self._clock))
        if self.environment.resumes:
            self.environment.persist(Stamped(batch, clock, self.site))
        self._give(batch, clock)

    # --- merging ----------------------------------------------------------------------------------

    def check(self, peer: Site, item: Item) -> None:
        if type(item) is Timed:
            self.check_passed_on(peer, item.batch)
            self.check_member(item.batch)
        elif type(item) is Null or type(item) is Wanted:
            if peer not in self._heard:
                raise PeerMistake("it is of another domain")
        elif type(item) is Offer:
            self.check_offer(peer, item)
        elif type(item) is Final:
            self.check_handed(peer, item)
        else:
            raise PeerMistake(f"a {type(item).__name__} is not of this protocol")
        check_ahead(item.clock, max(self._clock, self._heard.get(peer, 0)), "clock")

    def receive(self, peer: Site, item: Item) -> None:
        if type(item) is Timed:
            self._clock = max(self._clock, item.clock)
            if self._hear(peer, item.clock) and Key((item.clock,), peer) > self.last_key:
                if self.environment.resumes:
                    self.environment.persist(Stamped(item.batch, item.clock, peer))
                self._wait((item.clock, peer), item.batch)
            self._ask(peer)
            self._advance()
        elif type(item) is Null:
            self._hear(peer, item.clock)
            self._ask(peer)
            self._advance()
        elif type(item) is Wanted:
            self._wanted(peer, (item.clock, item.site))
        elif type(item) is Offer:
            self._stamp_for(item.batch, item.clock)
        elif type(item) is Final:
            self._clock = max(self._clock, item.clock)
            self.placed_elsewhere(item)

    def _hear(self, peer: Site, clock: int) -> bool:
        """Note a peer's clock; whether it is higher than before."""
        if clock <= self._heard[peer]:
            return False
        self._heard[peer] = clock
        if peer in self._asked and (clock, peer) > self._asked[peer]:
            del self._asked[peer]
        return True

    def _wait(self, stamp: Timestamp, batch: Batch) -> None:
        heapq.heappush(self._heap, (stamp, batch))
        self._highest = max(self._highest, stamp)
        for peer in self._heard:
            self._ask(peer)

    def _ask(self, peer: Site) -> None:
        """Ask the peer for a timestamp above all that wait here, unless a question is open."""
        if self._silent or not self._heap or peer in self._asked:
            return
        if (self._heard[peer], peer) < self._highest:
            self._asked[peer] = self._highest
            self.environment.send(peer, UP, Wanted(*self._highest))

    def _wanted(self, peer: Site, stamp: Timestamp) -> None:
        self._clock = max(self._clock, stamp[0])
        if (self._told.get(peer, 0), self.site) <= stamp:
            self._send_null(peer)

    def _send_null(self, peer: Site) -> None:
        clock = self._tick()
        if self.environment.resumes and clock > self._durable:
            self._durable = clock + _AHEAD
            self.environment.persist(Clocked(self._durable))
        self._send(peer, Null(clock))

    def _advance(self) -> None:
        """Let the lowest batch pass, as long as nothing lower can come."""
        if self._advancing or self._silent or not self._heap:
            return
        self._advancing = True
        while self._heap and self._heap[0][0] <= self._safe_upto() and self.environment.may_log():
            (clock, site), batch = heapq.heappop(self._heap)
            self.append(Key((clock,), site), batch)
        self._advancing = False

    def _safe_upto(self) -> Timestamp:
        """Every timestamp that still comes is above this one. This site's own clock is ahead of all
        that wait."""
        clock, peer = self._least
        if self._heard.get(peer) != clock:  # clocks only rise, so the least of all may be another
            heard = ((clock, peer) for peer, clock in self._heard.items())
            self._least = min(heard, default=self._highest)
        return self._least

    def resume(self) -> None:
        self._advance()

    def held(self) -> int:
        return len(self._heap)

    # --- what is final or acknowledged ------------------------------------------------------------

    def final(self, group: Group, seq: int) -> None:
        clocks = self._clocks.get((self._incarnation, group), {})
        while clocks and (first := next(iter(clocks))) <= seq:
            self._given.pop(clocks.pop(first), None)

    def acknowledged(self, peer: Site, items: Sequence[Item]) -> None:
        for item in items:
            if not isinstance(item, (Timed, Final)):
                continue
            given = self._given.get(item.clock)
            if given is None or given.batch.origin == self.site:
                continue
            if not isinstance(item, Final) or item.seq == given.batch.seq:
                given.owed.pop(peer, None)
                if not given.owed:
                    del self._given[item.clock]

    def waits_for(self, batch: Batch) -> list[Site]:
        if self.is_handed(batch):
            return [self.way(batch)]
        least = min(self._heard.values(), default=0)
        return [peer for peer, clock in self._heard.items() if self._heap and clock == least]

    def most_queued(self, window: int, origins: int) -> int:
        """Own batches and batches stamped for others; a question and an answer."""
        return window * origins + 2

    # --- what survives a restart ------------------------------------------------------------------

    def restarted(self, peer: Site | None) -> None:
        if peer is not None:
            self._told.pop(peer, None)
            self._asked.pop(peer, None)
            if peer in self._heard:
                self._ask(peer)
            return
        self._silent = False
        for clock, given in sorted(self._given.items()):
            for member in self.members(given.batch):
                if member != self.site:
                    self._send(member, Timed(given.batch, clock))
            if given.batch.origin != self.site:
                self._answer(given.batch, clock)
        for batch in self._handed.values():
            self.environment.send(self.way(batch), UP, Offer(batch, self._clock))
        for other in self._heard:
            if self._was_here:  # they may wait for an answer to a question that is forgotten
                self._send_null(other)
            self._ask(other)
        self._before.clear()
        self._advance()

    def known(self, batch: Batch) -> bool:
        return (batch.incarnation, batch.group, batch.seq) in self._before

    def note(self, record: Note) -> None:
        self._was_here = True
        if isinstance(record, Clocked):
            self._durable = record.clock
            self._clock = max(self._clock, record.clock)
        elif isinstance(record, Stamped):
            self._again(record.batch, record.clock, record.site)

    def _again(self, batch: Batch, clock: int, site: Site) -> None:
        """Replay: the batch was stamped here, or received with its timestamp; it may still wait."""
        self._clock = max(self._clock, clock)
        if site != self.site:
            self._heard[site] = max(self._heard[site], clock)
        elif batch.origin != self.site:
            stream = (batch.origin, batch.incarnation, batch.group)
            last = batch.seq + batch.count - 1
            self._through[stream] = max(last, self._through.get(stream, 0))
            self._given[clock] = _Given(batch, dict.fromkeys([*self._others(batch), batch.origin]))
        elif batch.incarnation == CLOSING:
            self._clocks.setdefault((CLOSING, batch.group), {})[batch.seq] = clock
            self._given[clock] = _Given(batch)
        else:
            self._before[batch.incarnation, batch.group, batch.seq] = clock
            return  # it comes with its payloads when it is submitted again
        if self.site in self.members(batch) and Key((clock,), site) > self.last_key:
            self._wait((clock, site), batch)

    def _others(self, batch: Batch) -> list[Site]:
        return [member for member in self.members(batch) if member != self.site]

    def replay(self, record: Passed) -> None:
        key = record.placed.key
        self._clock = max(self._clock, key.path[0])
        while self._heap and self._heap[0][0] <= (key.path[0], key.site):
            heapq.heappop(self._heap)
        super().replay(record)

    def restore(self, state: OrderingState) -> None:
        super().restore(state)
        self._silent = True
        self._was_here = isinstance(state, ResumedSymmetric)
        if isinstance(state, ResumedSymmetric):
            self._clock = self._durable = state.clock
            self._through = by_stream(state.through)
            for batch, clock, site in state.stamped:
                self._again(batch, clock, site)

    def journal(self) -> DirectState:
        state = super().journal()
        if not self.environment.resumes:
            return state
        stamped = [(self.noted(one.batch), clock, self.site) for clock, one in self._given.items()]
        stamped += [
            (batch, *stamp)
            for stamp, batch in self._heap
            if stamp[1] != self.site or stamp[0] not in self._given
        ]
        return ResumedSymmetric(
            **asdict(state),
            clock=max(self._clock, self._durable),
            through=stream_seqs(self._through),
            stamped=tuple(stamped),
        )
