"""`propagation`: [GS] §3.2, the message passing protocol on a propagation forest.

A group's primary gives each batch its place: it merges the batch with those that come down from
above. Every site passes batches on, in that one merged order, to the children at or below which
there are members, and delivers the batches for itself. The forest has one tree per domain (errata
GS-11) and links are FIFO, so all sites below a site see the batches that pass it in one order.

A key (docs/core.md) is the path of the last batch that the parent relayed, then this site's level
and counter. Below any site key order is the merged order; over the domain it is one total order.

Causal order is enforced here, before a batch is placed: a primary holds the batch until everything
in its causal past that passes this site has passed.
"""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace

from ordercast.core.claims import (
    check_addressed,
    check_close,
    check_origin,
    check_past,
    check_whole,
)
from ordercast.core.order.interface import CLOSING, Environment
from ordercast.core.order.kept_states import PropagationState
from ordercast.core.outbox import OrderingState, Passed, by_stream, included, stream_seqs
from ordercast.core.structure import Structure
from ordercast.model.epochs import Included
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.limits import PAST, VECTOR_ENTRIES
from ordercast.model.messages import Batch, Key, Placed, Vector
from ordercast.wire.frames import DOWN, UP, Item, Relay, Submit


class Propagation:
    """State: what has passed (`_numbers`, `_base`, `_counter`, `_seqs`); batches still held."""

    states: ClassVar[Sequence[type[OrderingState]]] = (OrderingState, PropagationState)

    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        self.site = site
        self.structure = structure
        self.environment = environment
        self.causal = causal
        self._level = -structure.depth(site)
        self._parent = structure.parent(site)
        self._root = structure.root(site)
        self._base: tuple[int, ...] = ()  # the key path of the last batch from the parent
        self._counter = 0
        self._numbers: dict[Group, int] = {}  # the last number that passed here
        self._seqs: dict[tuple[Site, int, Group], int] = {}  # the last seq placed here
        self._routes: dict[Group, tuple[bool, tuple[Site, ...]]] = {}
        self._comes_down: dict[Group, bool] = {}  # named groups whose batches the parent relays
        self._log: deque[Placed] = deque()
        # The same values, folded from the records that were forgotten.
        self._old_base: tuple[int, ...] = ()
        self._old_counter = 0
        self._old_numbers: dict[Group, int] = {}
        self._old_seqs: dict[tuple[Site, int, Group], int] = {}
        self._inherited: dict[tuple[Site, int, Group], int] = {}  # the last seqs of earlier epochs
        # Causal order only. `_given`: the last number placed here, per origin and group.
        self._waiting: dict[Site, deque[Batch]] = {}  # per origin, in arrival order
        self._given: dict[Site, dict[Group, tuple[int, tuple[Site, ...]]]] = {}
        self._passes: dict[Group, bool] = {}
        self._releasing = False

    # --- the message passing protocol -----------------------------------------------------------

    def submit(self, batch: Batch) -> None:
        primary = self.structure.primary(batch.group, batch.members)
        if primary == self.site:
            self._arrive(self.site, batch)
        else:
            self.environment.send(primary, UP, Submit(batch))

    def check(self, peer: Site, item: Item) -> None:
        if type(item) is Relay:
            if peer != self._parent:
                raise PeerMistake("it hands down a batch and is not the parent")
            self._check_relay(item.placed)
            self._check_relayed_body(item.placed.batch)
        elif type(item) is Submit:
            batch = item.batch
            check_origin(peer, batch)
            if check_addressed(self.structure, batch) != self.site:
                raise PeerMistake(f"it submits to {batch.group!r}, which is not ordered here")
            if batch.incarnation == CLOSING:
                raise PeerMistake("it submits a Close")
            self.environment.check_incarnation(batch)
            if batch.past:
                check_past(self.structure, batch.past, PAST)
            check_whole(batch)
        else:
            raise PeerMistake(f"a {type(item).__name__} is not of this protocol")

    def _check_relay(self, placed: Placed) -> None:
        """PeerMistake unless it is the next batch of its group here, above all earlier keys."""
        batch = placed.batch
        if batch.members or batch.group not in self._comes_down:
            primary = check_addressed(self.structure, batch)
            if primary == self.site or not self._passes_here(batch.group, batch.members):
                raise PeerMistake(f"a batch to {batch.group!r} does not come down here")
            if not batch.members:
                self._comes_down[batch.group] = True
        if placed.number != self._numbers.get(batch.group, 0) + 1:
            known = self._numbers.get(batch.group, 0)
            raise PeerMistake(f"number {placed.number} of {batch.group!r} comes after {known}")
        if placed.key.path <= self._base:
            raise PeerMistake(f"key {placed.key.path} comes after {self._base}")
        if batch.past:
            check_past(self.structure, batch.past, VECTOR_ENTRIES)
        if batch.incarnation == CLOSING:
            check_close(self._root, batch)
        else:
            self.environment.check_incarnation(batch)

    def _check_relayed_body(self, batch: Batch) -> None:
        check_whole(batch)

    def receive(self, peer: Site, item: Item) -> None:
        if type(item) is Relay:
            placed = item.placed
            self._base = placed.key.path
            self._pass(Passed(placed, peer, True), item)
        elif type(item) is Submit:
            self._arrive(peer, item.batch)

    def _arrive(self, peer: Site, batch: Batch) -> None:
        if self.causal:
            self._waiting.setdefault(peer, deque()).append(batch)
            if not self._releasing:
                self._release()
        else:
            self._place(peer, batch)

    def _place(self, peer: Site, batch: Batch) -> None:
        stream = (batch.origin, batch.incarnation, batch.group)
        if batch.seq > self._seqs.get(stream, 0):  # else it is a repeat, placed before
            self._seqs[stream] = batch.seq + batch.count - 1
            self._counter += 1
            key = Key((*self._base, self._level, self._counter), self.site)
            placed = Placed(key, self._numbers.get(batch.group, 0) + 1, batch)
            self._pass(Passed(placed, peer, False), Relay(placed))
            if peer == self.site:
                self.environment.ordered(batch)
        if peer != self.site:
            self.environment.dealt_with(peer)

    def _pass(self, entry: Passed, item: Relay) -> None:
        placed = entry.placed
        batch = placed.batch
        self._numbers[batch.group] = placed.number + batch.count - 1
        environment = self.environment
        environment.persist(entry)
        mine, children = self._routes.get(batch.group) or self._route(batch)
        for child in children:
            environment.send(child, DOWN, item)
        if mine:
            self._log.append(placed)
        environment.passed(entry, children, mine=mine)
        if self._waiting and not self._releasing:
            self._release()

    def _route(self, batch: Batch) -> tuple[bool, tuple[Site, ...]]:
        found = self._routes.get(batch.group)
        if found is None:
            members = batch.members or self.structure.members(batch.group)
            found = (self.site in members, self.structure.routes(self.site, members))
            if not batch.members:
                self._routes[batch.group] = found
        return found

    def resume(self) -> None:
        if self._waiting:
            self._release()

    def way(self, batch: Batch) -> str:
        return self.structure.primary(batch.group, batch.members)

    def log(self) -> Sequence[Placed]:
        return self._log

    def held(self) -> int:
        return sum(len(queue) for queue in self._waiting.values())

    def restarted(self, peer: Site | None) -> None:
        """Nothing to do: lanes UP and DOWN go on, and nothing is lost."""

    # --- causal order -----------------------------------------------------------------------------

    def _release(self) -> None:
        """Place every batch whose past has passed; batches of one origin in arrival order."""
        room = self.environment.room
        again = self._releasing = True
        while again:
            again = False
            for origin in sorted(self._waiting):
                queue = self._waiting[origin]
                while queue and room() and self._ready(origin, queue[0]):
                    self._place_next(origin, queue.popleft())
                    again = True
                if not queue:
                    del self._waiting[origin]
        self._releasing = False

    def _ready(self, origin: Site, batch: Batch) -> bool:  # noqa: ARG002
        return self._past_has_passed(batch.past)

    def _past_has_passed(self, past: Vector) -> bool:
        return all(
            self._numbers.get(group, 0) >= number
            for group, number, members in past
            if self._passes_here(group, members)
        )

    def _passes_here(self, group: Group, members: tuple[Site, ...]) -> bool:
        """Whether the group's messages pass this site: it lies on the way to a member."""
        known = self._passes.get(group)
        if known is None:
            structure = self.structure
            primary = structure.primary(group, members)
            at: Site | None = self.site
            while at is not None and at != primary:
                at = structure.parent(at)
            everyone = members or structure.members(group)
            known = at is not None and (
                self.site in everyone or bool(structure.routes(self.site, everyone))
            )
            if not members:
                self._passes[group] = known
        return known

    def _place_next(self, origin: Site, batch: Batch) -> None:
        """Add to the past the numbers that the origin's earlier messages got here, then place."""
        given = self._given.setdefault(origin, {})
        for group in [
            group for group, (number, _) in given.items() if self.environment.stable(group, number)
        ]:
            del given[group]
        past = {group: (number, members) for group, number, members in batch.past}
        for group, (number, members) in given.items():
            if len(past) == VECTOR_ENTRIES:
                break  # no honest origin has so many under way (`OwnMessages`)
            if number > past.get(group, (0, ()))[0]:
                past[group] = (number, members)
        vector = tuple((group, *past[group]) for group in sorted(past))
        self._place(origin, batch if vector == batch.past else replace(batch, past=vector))
        if batch.group in self._numbers:  # else a repeat that an earlier epoch includes
            given[batch.group] = (self._numbers[batch.group], batch.members)

    # --- what survives a restart ------------------------------------------------------------------

    def restore(self, state: OrderingState) -> None:
        self._inherited = by_stream(state.inherited)
        self._old_seqs = dict(self._inherited)
        if isinstance(state, PropagationState):
            self._base = self._old_base = state.base
            self._counter = self._old_counter = state.counter
            self._old_numbers = dict(state.numbers)
            self._old_seqs = by_stream(state.seqs)
        self._numbers = dict(self._old_numbers)
        self._seqs = dict(self._old_seqs)

    def replay(self, record: Passed) -> None:
        placed, batch = record.placed, record.placed.batch
        if record.from_parent:
            self._base = placed.key.path
        else:
            self._counter = placed.key.path[-1]
            self._seqs[batch.origin, batch.incarnation, batch.group] = batch.seq + batch.count - 1
            if self.causal:
                given = self._given.setdefault(record.source, {})
                given[batch.group] = (placed.number + batch.count - 1, batch.members)
        self._pass(record, Relay(placed))

    def forget(self, record: Passed) -> None:
        placed, batch = record.placed, record.placed.batch
        if record.from_parent:
            self._old_base = placed.key.path
        else:
            self._old_counter = placed.key.path[-1]
            stream = (batch.origin, batch.incarnation, batch.group)
            self._old_seqs[stream] = batch.seq + batch.count - 1
        self._old_numbers[batch.group] = placed.number + batch.count - 1
        if self._log and self._log[0] is placed:
            self._log.popleft()

    def placed_here(self) -> Included:
        return included(self._seqs, self._inherited)

    def journal(self) -> OrderingState:
        return PropagationState(
            base=self._old_base,
            counter=self._old_counter,
            numbers=dict(self._old_numbers),
            seqs=stream_seqs(self._old_seqs),
            inherited=stream_seqs(self._inherited),
        )
