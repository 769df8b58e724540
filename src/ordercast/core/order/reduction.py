"""The reduction of [SWAP] §3: any swap object and any reliable FIFO multicast order messages.

A site hands its own batches to its swap object. The site where a batch's predecessor is found
multicasts batch and predecessor, and receivers chain them. One swap object orders the messages of
one domain, on the forest's tree: the header goes to every site of the domain, the body only to the
group's members (errata SWAP-6). The order key is the number in the chain. A batch has its place
when its origin has chained it. Before that, batches in front of its predecessor may be unknown to
the origin, so an earlier moment would be too early for causal order; with this one, causal order
costs nothing (SWAP-7).

An origin outside the domain submits through one fixed site of the domain, the root of its tree.

A site has at most `ahead` batches on their way that some site of the domain has not chained. Sites
tell each other how far they are after every `every` batches. So the lane to a slow site that is no
member is bounded.

What a site hears is durable before it is answered. A restarted site hears it all again, comes to
the same state, and tells again what it owes.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

from msgspec.structs import asdict

from ordercast.core.claims import check_addressed, check_ahead, check_whole
from ordercast.core.order.bodies import name_of
from ordercast.core.order.chain import Chain, Header
from ordercast.core.order.debts import REQUESTS, Debts, Request
from ordercast.core.order.direct import Domainwide
from ordercast.core.order.interface import CLOSING, Environment
from ordercast.core.order.kept_states import (
    Ask,
    DirectState,
    ResumedReduction,
)
from ordercast.core.order.swaps import (
    Found,
    NumberKnown,
    SendCount,
    SendMark,
    Step,
    SwapObject,
    SwapSend,
    TellMark,
    ask_of,
)
from ordercast.core.outbox import (
    Note,
    OrderingState,
    Passed,
    Stream,
    SwapNote,
    Turned,
    by_stream,
    stream_seqs,
)
from ordercast.core.structure import Structure
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Key
from ordercast.model.options import NEVER
from ordercast.wire.frames import UP, Final, Item, Offer
from ordercast.wire.swap import (
    ChainMark,
    Count,
    Counted,
    CountValue,
    Follows,
    MarkValue,
    Reached,
    Swap,
)
from ordercast.wire.tom import MessageName


class Reduction(Domainwide, ABC):
    """State: the swap object; the chain; batches on their way (`_open`); batches that wait to be
    issued (`_queue`); what peers are owed; bodies of own batches that are not final."""

    states = (OrderingState, DirectState, ResumedReduction)

    ahead = 1_024
    every = 256

    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        super().__init__(site, structure, environment, causal=causal)
        self.root = self.structure.root_of[site]
        self.domain = self.structure.domains[self.root]
        parent = self.structure.parent(site)
        self._near = (*self.structure.children[site], *([] if parent is None else [parent]))
        limits, origins = environment.options.limits, len(self.structure.table.sites) + 1
        self._most = self.most_held(limits.window_messages + 1, origins)
        self.swaps = self.swap_object()
        self.chain = Chain()
        self.debts = Debts(environment)
        self._queue: deque[Batch] = deque()  # to be issued when there is room
        self._open: dict[MessageName, int] = {}  # issued here: the number; 0: not chained
        self._reached: dict[Site, int] = {}  # 0 if absent: a domain can be large
        self._told_reached = 0
        self._bodies: dict[tuple[int, Group], dict[int, Batch]] = {}  # own batches, by seq
        self._through: dict[Stream, int] = {}  # last seq taken from an origin outside
        self._incarnation = 0  # of own batches
        self._closing = self._closed = False  # the Close was issued here; was chained here
        self._hold = environment.options.timing.hold
        self._turn_at = NEVER
        self._silent = False  # records are being replayed: send nothing
        self._advancing = self._issuing = False

    @abstractmethod
    def swap_object(self) -> SwapObject:
        """Make the object that finds predecessors."""

    # --- issuing ----------------------------------------------------------------------------------

    def way(self, batch: Batch) -> str:
        """All batches to one domain go the same way, named by its root."""
        return self.structure.root_of[self.members(batch)[0]]

    def submit(self, batch: Batch) -> None:
        if batch.incarnation == CLOSING:
            if self._closing:
                return  # the Close is submitted until it has passed
            self._closing = True
        else:
            self._incarnation = batch.incarnation
        self.expect_place(batch)
        mine = (batch.incarnation, batch.group, batch.seq)
        if self.way(batch) != self.root:
            self._handed[mine] = batch
            if not self._silent:
                self.environment.send(self.way(batch), UP, Offer(batch, 0))
            return
        self._bodies.setdefault(mine[:2], {})[batch.seq] = batch
        if self.chain.has(batch):
            self.has_place(batch)  # it was chained before a restart
        elif name_of(batch) not in self._open:
            self._queue.append(batch)
            self._issue()

    def _offered(self, batch: Batch) -> None:
        """Take a batch that an origin outside the domain has offered."""
        stream = (batch.origin, batch.incarnation, batch.group)
        if batch.seq <= max(self._through.get(stream, 0), self._inherited.get(stream, 0)):
            if self.chain.has(batch) or batch.seq <= self._inherited.get(stream, 0):
                self._answer(batch)  # a repeat
            return
        self._through[stream] = batch.seq + batch.count - 1
        self._queue.append(batch)
        if self.environment.resumes and not self._may_issue():
            self.environment.persist(SwapNote(batch.origin, Offer(batch, 0)))
        self._issue()

    def _may_issue(self) -> bool:
        """A Close never waits, and neither do the batches before it in the queue."""
        return not self._silent and (self._closing or len(self._open) < self.ahead)

    def _issue(self) -> None:
        """Issue batches while there is room. A batch that gets its place at once makes room for the
        next: this loop goes on with it, and nested calls return."""
        if self._issuing:
            return
        self._issuing = True
        while self._queue and self._may_issue():
            batch = self._queue.popleft()
            if self.environment.resumes:
                own = Swap(0, self.noted(batch), name_of(batch), self.site)
                self.environment.persist(SwapNote(self.site, own))
            self._swap(batch)
        self._issuing = False

    def _swap(self, batch: Batch) -> None:
        self._open[name_of(batch)] = 0
        self._follow(self.swaps.swap(ask_of(batch, self.site)))

    # --- the swap object's steps ------------------------------------------------------------------

    def _follow(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Found):
                self._reveal(Follows(self._whole(step.batch), step.after))
            elif isinstance(step, NumberKnown):
                self._reveal(Counted(self._whole(step.batch), step.place))
            elif isinstance(step, SwapSend):
                ask = step.ask
                self.debts.say(step.peer, Swap(0, self._whole(ask.batch), ask.last, ask.issuer))
            elif isinstance(step, SendCount):
                self.debts.say(step.peer, Count(0, step.count))
            elif isinstance(step, SendMark):
                self.debts.say(step.peer, ChainMark(0, step.mark))
            elif isinstance(step, TellMark):
                self.debts.say(step.peer, MarkValue(0, step.mark, step.last))
            else:
                self.debts.say(step.peer, CountValue(0, step.name, step.value))

    @property
    def others(self) -> tuple[Site, ...]:
        """The other sites of the domain."""
        return tuple(peer for peer in self.domain if peer != self.site)

    def _in_domain(self, site: Site) -> bool:
        return self.structure.root_of.get(site) == self.root

    def _reveal(self, header: Header) -> None:
        """Multicast: the header to all sites of the domain, the body to members."""
        self.debts.owe(header, self.others, self.members(header.batch))
        self._take_header(header)

    def flush(self, now: int) -> int:
        """The burst ends: requests that wait here go on, unless they wait for more (SWAP-5)."""
        if not self.swaps.waiting() or self._silent:
            self._turn_at = NEVER
            return NEVER
        self._turn_at = min(self._turn_at, now + self._hold)
        if now < self._turn_at:
            return self._turn_at
        self._turn_at = NEVER
        if self.environment.resumes:
            self.environment.persist(Turned())
        self._follow(self.swaps.turn())
        return NEVER

    # --- receiving --------------------------------------------------------------------------------

    def check(self, peer: Site, item: Item) -> None:
        if type(item) is Offer:
            self.check_offer(peer, item)
        elif type(item) is Final:
            self.check_handed(peer, item)
        elif not self._in_domain(peer):
            raise PeerMistake("it is of another domain")
        elif isinstance(item, (Follows, Counted)):
            self._check_header(item)
        elif type(item) is Reached:
            check_ahead(item.place, self.chain.number, "place")
        elif isinstance(item, (Swap, Count)):
            if peer not in self._near:
                raise PeerMistake("it sends a request and is no neighbour in the tree")
            if isinstance(item, Swap):
                self._check_chained(item.batch)
                check_whole(item.batch)
                if not self._in_domain(item.issuer):
                    raise PeerMistake(f"a request issued by {item.issuer!r}, of another domain")
            elif item.count > self._most:
                raise PeerMistake(f"it asks for {item.count:,} places at once")
        elif type(item) is CountValue:
            check_ahead(item.value, self.chain.number, "place")
        elif isinstance(item, (ChainMark, MarkValue)):
            if not self.debts.has_heard(peer, item.number):  # it is told again after a restart
                self.swaps.check_mark(peer, item)
        else:
            raise PeerMistake(f"a {type(item).__name__} is not of this protocol")

    def _check_header(self, header: Header) -> None:
        """PeerMistake for a wrong header. Members must get it with its body, others need not."""
        batch = header.batch
        self._check_chained(batch)
        if self._is_mine(batch) or batch.body:
            check_whole(batch)
        if isinstance(header, Counted):
            check_ahead(header.place, self.chain.number, "place")
        if len(self.chain) >= self._most:
            raise PeerMistake(f"{len(self.chain):,} headers wait for others before them")

    def _check_chained(self, batch: Batch) -> None:
        """PeerMistake unless the batch is to a group of this domain. Any site may pass it on."""
        check_addressed(self.structure, batch)
        self.check_incarnation(batch)
        if self.structure.root_of[self.members(batch)[0]] != self.root:
            raise PeerMistake(f"a batch to {batch.group!r}, of another domain")

    def receive(self, peer: Site, item: Item) -> None:
        if type(item) is Offer:
            self._offered(item.batch)
        elif type(item) is Final:
            self.placed_elsewhere(item)
        elif isinstance(item, (Follows, Counted)):
            self._header(peer, item)
        elif type(item) is Reached:
            self._reached[peer] = max(self._reached.get(peer, 0), item.place)
            self._look_at_open()
        elif isinstance(item, REQUESTS) and self.debts.is_news(peer, item.number):
            if self.environment.resumes:
                self.environment.persist(SwapNote(peer, item))
            self._request(peer, item)

    def _request(self, peer: Site, item: Request) -> None:
        if isinstance(item, Swap):
            steps = self.swaps.receive(peer, Ask(item.batch, item.last, item.issuer))
        elif isinstance(item, Count):
            steps = self.swaps.count(peer, item.count)
        elif isinstance(item, ChainMark):
            steps = self.swaps.marked(peer, item.mark)
        elif isinstance(item, MarkValue):
            steps = self.swaps.mark_told(peer, item.mark, item.last)
        else:
            steps = self.swaps.told(peer, item.name, item.value)
        self._follow(steps)

    def _header(self, peer: Site, header: Header) -> None:
        if self.chain.has(header.batch):
            return
        passes = self.chain.is_next(header) and self._is_mine(header.batch)
        if self.environment.resumes and not (passes and self._may_chain(header.batch)):
            self.environment.persist(SwapNote(peer, header))  # else `append` makes it durable
        self._take_header(header)

    def _take_header(self, header: Header) -> None:
        self.chain.add(header)
        self._advance()

    # --- chaining ---------------------------------------------------------------------------------

    def _is_mine(self, batch: Batch) -> bool:
        return self.is_member(batch, self.site)

    def _may_chain(self, batch: Batch) -> bool:
        """Nothing is chained behind a Close. While replaying, a batch for this site is not chained
        here: its record `Passed` comes."""
        if self._closed:
            return False
        return not self._is_mine(batch) or (not self._silent and self.environment.may_log())

    def _advance(self) -> None:
        if self._advancing:
            return
        self._advancing = True
        while (batch := self.chain.next()) is not None and self._may_chain(batch):
            batch = self._whole(batch)
            number = self.chain.link(batch)
            if self._is_mine(batch):
                self.append(Key((number,), self.root), batch)
            self._chained(batch, number)
        self._advancing = False
        self._look_at_open()

    def _chained(self, batch: Batch, number: int) -> None:
        self._closed = self._closed or batch.incarnation == CLOSING
        name = name_of(batch)
        if name in self._open:
            self._open[name] = number
            if batch.origin == self.site:
                self.has_place(batch)
            else:
                self._answer(batch)
        if number - self._told_reached >= self.every:
            self._tell_reached(self.others)

    def _answer(self, batch: Batch) -> None:
        """Tell an origin outside the domain that its batch has its place."""
        mine = (batch.incarnation, batch.group, batch.seq)
        self.debts.answer(batch.origin, Final(*mine, max(self.chain.number, 1), self.site))

    def _tell_reached(self, peers: Sequence[Site]) -> None:
        if self.chain.number and not self._silent:
            self._told_reached = self.chain.number
            for peer in peers:
                self.environment.send(peer, UP, Reached(self.chain.number))

    def _reached_by_all(self) -> int:
        """What every other site of the domain has chained."""
        if len(self._reached) < len(self.domain) - 1:
            return 0
        return min(self._reached.values(), default=self.chain.number)

    def _look_at_open(self) -> None:
        """Forget batches that all sites have chained: that makes room for the next."""
        everywhere = self._reached_by_all()
        while self._open and 0 < next(iter(self._open.values())) <= everywhere:
            del self._open[next(iter(self._open))]
        self._issue()

    def resume(self) -> None:
        self._advance()

    def held(self) -> int:
        return len(self.chain) + len(self._queue) + self.swaps.waiting()

    # --- what is final or acknowledged ------------------------------------------------------------

    def final(self, group: Group, seq: int) -> None:
        bodies = self._bodies.get((self._incarnation, group), {})
        while bodies and (first := next(iter(bodies))) <= seq:
            del bodies[first]

    def acknowledged(self, peer: Site, items: Sequence[Item]) -> None:
        for item in items:
            self.debts.acknowledged(peer, item)

    def waits_for(self, batch: Batch) -> list[Site]:
        """Sites that must chain more to make room for it, or that have not heard a request."""
        if self.is_handed(batch):
            return [self.way(batch)]
        if self._queue:
            least = self._reached_by_all()
            return [peer for peer in self.others if self._reached.get(peer, 0) == least]
        return self.debts.unheard()

    def most_queued(self, window: int, origins: int) -> int:
        """Headers and requests of batches on their way; offers and their answers."""
        return 2 * self.ahead * origins + 2 * window * origins

    def most_held(self, window: int, origins: int) -> int:
        return 2 * self.ahead * origins + window * origins

    # --- what survives a restart ------------------------------------------------------------------

    def restarted(self, peer: Site | None) -> None:
        if peer is not None:
            if self._in_domain(peer):
                self._tell_reached((peer,))
            return
        self._silent = False
        self.debts.tell_again(self._whole, self.members)
        for batch in self._handed.values():
            self.environment.send(self.way(batch), UP, Offer(batch, 0))
        self._tell_reached(self.others)
        self._issue()
        self._advance()

    def known(self, batch: Batch) -> bool:
        return self.chain.has(batch) or name_of(batch) in self._open

    def note(self, record: Note) -> None:
        if isinstance(record, Turned):
            self._follow(self.swaps.turn())
        elif isinstance(record, SwapNote):
            self._hear_again(record.peer, record.item)

    def _hear_again(self, peer: Site, item: Request | Follows | Counted | Offer) -> None:
        if isinstance(item, (Follows, Counted)):
            if not self.chain.has(item.batch):
                self._take_header(item)
        elif isinstance(item, Offer):
            self._offered(item.batch)
        elif peer == self.site and isinstance(item, Swap):
            self._issued(item.batch)
        elif self.debts.is_news(peer, item.number):
            self._request(peer, item)

    def _issued(self, batch: Batch) -> None:
        """Replay: this site issued a request for the batch."""
        self._closing = self._closing or batch.incarnation == CLOSING
        if not self._in_domain(batch.origin):
            stream = (batch.origin, batch.incarnation, batch.group)
            self._through[stream] = batch.seq + batch.count - 1
        self._queue = deque(b for b in self._queue if name_of(b) != name_of(batch))
        self._swap(batch)

    def replay(self, record: Passed) -> None:
        batch, number = record.placed.batch, record.placed.key.path[0]
        news = number > self.chain.number
        self.chain.skip_to(number, batch)
        super().replay(record)
        if news:
            self._chained(batch, number)
            self._advance()

    def _whole(self, batch: Batch) -> Batch:
        """The batch with its body. After a restart own bodies come back by `submit`."""
        if batch.body or batch.origin != self.site:
            return batch
        return self._bodies.get((batch.incarnation, batch.group), {}).get(batch.seq, batch)

    def restore(self, state: OrderingState) -> None:
        super().restore(state)
        self._silent = self.debts.silent = True
        if not isinstance(state, ResumedReduction):
            return
        self.swaps.load(state.swaps)
        self.debts.load(state.debts)
        self.chain.load(state.chain)
        self._queue.extend(state.queue)
        self._open = dict(state.open)
        self._through = by_stream(state.through)
        self._closing, self._closed = state.closing, state.closed

    def journal(self) -> DirectState:
        state = super().journal()
        if not self.environment.resumes:
            return state
        return ResumedReduction(
            **asdict(state),
            swaps=self.swaps.state(self.noted),
            debts=self.debts.state(self.noted),
            chain=self.chain.state(self.noted),
            queue=tuple(batch for batch in self._queue if batch.origin != self.site),
            open=tuple(self._open.items()),
            through=stream_seqs(self._through),
            closing=self._closing,
            closed=self._closed,
        )
