"""`two_phase`: members propose numbers, the origin fixes the highest (Skeen, as in [GS] §2).

An origin sends a batch to all members. Each member proposes a number (clock, its own name) for it,
above every number that it has proposed or seen fixed, in the order of the origin's seqs. It keeps
the batch on a heap. When the origin has all proposals it fixes the highest, which is the order key,
and tells the members. The lowest batch on a member's heap passes when its number is fixed.

In [GS] a proposal exceeds only earlier proposals. It must also exceed every fixed number seen;
otherwise two members may deliver two batches in different orders (errata OTHER-1). A member keeps a
number that it has told through a restart: the number promises that nothing above it passes here
while it is open.

Causal order: an offer carries the origin's clock, which is at least every number that the origin
has logged or fixed, and proposals exceed it. An origin sends to another group only when its earlier
batches have their numbers. So a batch has a higher key than all that happened before it.
"""

import heapq
from dataclasses import dataclass, field

from msgspec.structs import asdict

from ordercast.core.claims import check_ahead
from ordercast.core.order.direct import Direct, Mine
from ordercast.core.order.interface import CLOSING, Environment
from ordercast.core.order.kept_states import ResumedTwoPhase, TwoPhaseState
from ordercast.core.outbox import Decided, Note, OrderingState, Passed, Promised, Stream
from ordercast.core.structure import Structure
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Key
from ordercast.wire.frames import DOWN, UP, Final, Item, Offer, Proposal

Number = tuple[int, Site]


@dataclass(slots=True)
class _Waiting:
    """A batch on the heap. `number`: this site has proposed it, or the origin has fixed it."""

    batch: Batch
    number: Number
    fixed: bool = False


@dataclass(slots=True)
class _Own:
    """This site's own batch, and the proposals of its members until its number is fixed."""

    batch: Batch
    members: tuple[Site, ...]
    proposals: dict[Site, int] = field(default_factory=dict)
    number: Number | None = None


class TwoPhase(Direct):
    """State: the clock; batches that wait for their numbers here; own batches not yet final."""

    states = (OrderingState, TwoPhaseState, ResumedTwoPhase)

    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        super().__init__(site, structure, environment, causal=causal)
        self._clock = 0
        self._waiting: dict[tuple[Stream, int], _Waiting] = {}
        self._heap: list[tuple[Number, Stream, int]] = []  # outdated numbers stay, and are skipped
        self._own: dict[tuple[int, Group], dict[int, _Own]] = {}
        self._fixed: dict[Mine, Number] = {}  # of own batches, from before a restart
        self._incarnation = 0  # of own batches
        self._close: Batch | None = None
        self._advancing = False

    # --- the origin -------------------------------------------------------------------------------

    def submit(self, batch: Batch) -> None:
        stream = (batch.incarnation, batch.group)
        mine = self._own.setdefault(stream, {})
        if batch.seq in mine:
            return  # a Close, which is submitted until it has passed
        if batch.incarnation != CLOSING:
            self._incarnation = batch.incarnation
        own = mine[batch.seq] = _Own(batch, self.members(batch))
        self.expect_place(batch)
        number = self._fixed.pop((*stream, batch.seq), None)
        for member in own.members:
            if member != self.site:
                self.environment.send(member, UP, Offer(batch, self._clock))
        if self.site in own.members:
            self._offered(self.site, batch, self._clock)
        if number is not None and own.number is None:
            self._fix(own, number)

    def _proposed(self, member: Site, mine: Mine, clock: int) -> None:
        incarnation, group, seq = mine
        own = self._own.get((incarnation, group), {}).get(seq)
        if own is None or own.number is not None:
            return
        own.proposals[member] = clock
        if len(own.proposals) == len(own.members):
            number = max((clock, member) for member, clock in own.proposals.items())
            if self.environment.resumes:
                self.environment.persist(Decided(self.site, *mine, *number))
            self._fix(own, number)

    def _fix(self, own: _Own, number: Number) -> None:
        batch = own.batch
        mine = (batch.incarnation, batch.group, batch.seq)
        own.number = number
        own.proposals.clear()
        self._clock = max(self._clock, number[0])
        for member in own.members:
            if member != self.site:
                self.environment.send(member, DOWN, Final(*mine, *number))
        if self.site in own.members:
            self._decide((self.site, batch.incarnation, batch.group), batch.seq, number)
            self._advance()
        self.has_place(batch)

    # --- a member ---------------------------------------------------------------------------------

    def check(self, peer: Site, item: Item) -> None:
        if type(item) is Offer:
            self.check_sent(peer, item.batch)
            self.check_member(item.batch)
        elif type(item) is Proposal:
            own = self._own.get((item.incarnation, item.group), {}).get(item.seq)
            if own is not None and not self.is_member(own.batch, peer):
                raise PeerMistake(f"it proposes for {item.group!r} and is no member")
        elif type(item) is Final:
            stream, number = (peer, item.incarnation, item.group), (item.clock, item.site)
            waiting = self._waiting.get((stream, item.seq))
            if waiting is not None and not waiting.fixed:
                fixed_by = self.is_member(waiting.batch, item.site)
                if not fixed_by or number < waiting.number:
                    raise PeerMistake(f"{number} is none of the numbers proposed for its batch")
        else:
            raise PeerMistake(f"a {type(item).__name__} is not of this protocol")
        check_ahead(item.clock, self._clock, "clock")

    def receive(self, peer: Site, item: Item) -> None:
        if type(item) is Offer:
            self._offered(peer, item.batch, item.clock)
        elif type(item) is Proposal:
            self._proposed(peer, (item.incarnation, item.group, item.seq), item.clock)
        elif type(item) is Final:
            stream, number = (peer, item.incarnation, item.group), (item.clock, item.site)
            if (stream, item.seq) not in self._waiting:
                return  # a repeat
            if self._decide(stream, item.seq, number) and self.environment.resumes:
                self.environment.persist(Decided(*stream, item.seq, *number))
            self._advance()

    def _offered(self, origin: Site, batch: Batch, clock: int) -> None:
        if self.is_logged(batch):
            return  # a repeat: its origin has fixed the number
        stream = (batch.origin, batch.incarnation, batch.group)
        waiting = self._waiting.get((stream, batch.seq))
        if waiting is None:
            self._clock = max(self._clock, self.within(origin, clock, self._clock)) + 1
            waiting = self._wait(batch, (self._clock, self.site))
            if self.environment.resumes:
                self.environment.persist(Promised(batch, self._clock))
        if not waiting.fixed:
            self._propose(origin, waiting)

    def _propose(self, origin: Site, waiting: _Waiting) -> None:
        batch, clock = waiting.batch, waiting.number[0]
        mine = (batch.incarnation, batch.group, batch.seq)
        if origin == self.site:
            self._proposed(self.site, mine, clock)
        else:
            self.environment.send(origin, DOWN, Proposal(*mine, clock))

    def _wait(self, batch: Batch, number: Number) -> _Waiting:
        stream = (batch.origin, batch.incarnation, batch.group)
        waiting = self._waiting[stream, batch.seq] = _Waiting(batch, number)
        heapq.heappush(self._heap, (number, stream, batch.seq))
        return waiting

    def _decide(self, stream: Stream, seq: int, number: Number) -> bool:
        """Note a fixed number; whether it was news. The caller then lets pass what can."""
        self._clock = max(self._clock, number[0])
        waiting = self._waiting.get((stream, seq))
        if waiting is None or waiting.fixed:
            return False
        waiting.fixed = True
        if number != waiting.number:
            waiting.number = number
            heapq.heappush(self._heap, (number, stream, seq))
        return True

    def _advance(self) -> None:
        """Let the lowest batch pass, as long as its number is fixed."""
        if self._advancing:
            return
        self._advancing = True
        heap = self._heap
        while heap:
            number, stream, seq = heap[0]
            waiting = self._waiting.get((stream, seq))
            if waiting is None or waiting.number != number:
                heapq.heappop(heap)
                continue
            if not waiting.fixed or not self.environment.may_log():
                break
            heapq.heappop(heap)
            del self._waiting[stream, seq]
            self.append(Key((number[0],), number[1]), waiting.batch)
        self._advancing = False

    def resume(self) -> None:
        self._advance()

    def way(self, batch: Batch) -> str:
        return batch.group

    def held(self) -> int:
        return len(self._waiting)

    def final(self, group: Group, seq: int) -> None:
        mine = self._own.get((self._incarnation, group), {})
        while mine and (first := next(iter(mine))) <= seq:
            del mine[first]

    def waits_for(self, batch: Batch) -> list[Site]:
        own = self._own.get((batch.incarnation, batch.group), {}).get(batch.seq)
        if own is None or own.number is not None:
            return []
        return [member for member in own.members if member not in own.proposals]

    def awaited(self) -> list[Site]:
        open_ones = (w.batch.origin for w in self._waiting.values() if not w.fixed)
        return list(dict.fromkeys(open_ones))

    def most_queued(self, window: int, origins: int) -> int:  # noqa: ARG002
        """One item for each own batch, and one for each batch of the peer."""
        return 2 * window

    # --- what survives a restart ------------------------------------------------------------------

    def restarted(self, peer: Site | None) -> None:
        """A restarted peer offers its batches again by itself. This site, restarted, proposes again
        for all batches that are open here."""
        if peer is not None:
            return
        for waiting in list(self._waiting.values()):
            if not waiting.fixed and waiting.batch.origin != self.site:
                self._propose(waiting.batch.origin, waiting)
        if self._close is not None:
            self.submit(self._close)
        self._fixed = {mine: n for mine, n in self._fixed.items() if mine[0] == CLOSING}
        self._advance()

    def known(self, batch: Batch) -> bool:
        return (batch.incarnation, batch.group, batch.seq) in self._fixed

    def note(self, record: Note) -> None:
        if isinstance(record, Promised):
            self._clock = max(self._clock, record.clock)
            self._wait(record.batch, (record.clock, self.site))
        elif isinstance(record, Decided):
            stream, number = (
                (record.origin, record.incarnation, record.group),
                (record.clock, record.site),
            )
            self._decide(stream, record.seq, number)
            if record.origin == self.site:
                self._fixed[record.incarnation, record.group, record.seq] = number

    def replay(self, record: Passed) -> None:
        key, batch = record.placed.key, record.placed.batch
        self._waiting.pop(((batch.origin, batch.incarnation, batch.group), batch.seq), None)
        self._clock = max(self._clock, key.path[0])
        if batch.incarnation == CLOSING and batch.origin == self.site:
            self._close = batch
            self._fixed[batch.incarnation, batch.group, batch.seq] = (key.path[0], key.site)
        super().replay(record)

    def restore(self, state: OrderingState) -> None:
        super().restore(state)
        if isinstance(state, TwoPhaseState):
            self._clock = state.clock
        if isinstance(state, ResumedTwoPhase):
            for batch, clock, site, fixed in state.waiting:
                self._wait(batch, (clock, site)).fixed = fixed
            for incarnation, group, seq, clock, site in state.fixed:
                self._fixed[incarnation, group, seq] = (clock, site)

    def journal(self) -> TwoPhaseState:
        state = TwoPhaseState(**asdict(super().journal()), clock=self._clock)
        if not self.environment.resumes:
            return state
        waiting = [(one.batch, *one.number, one.fixed) for one in self._waiting.values()]
        fixed = [
            (*stream, seq, *own.number)
            for stream, mine in self._own.items()
            for seq, own in mine.items()
            if own.number is not None
        ]
        return ResumedTwoPhase(**asdict(state), waiting=tuple(waiting), fixed=tuple(fixed))
