"""The base of protocols without a tree: the log of a site, and the state that survives a restart.

Batches pass the members of their group in key order, and a batch takes the next number of its
group. The number is the same at every member, because each member logs all batches of the group.
One member, the group's teller, tells origins what is final (`structure.Tellers`).
"""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar, cast

from msgspec.structs import replace

from ordercast.core.claims import (
    FAR_OUTSIDE,
    check_addressed,
    check_close,
    check_origin,
    check_whole,
)
from ordercast.core.order.interface import CLOSING, Environment
from ordercast.core.order.kept_states import DirectState
from ordercast.core.outbox import (
    OrderingState,
    Passed,
    Stream,
    by_stream,
    included,
    stream_seqs,
)
from ordercast.core.structure import Structure, Tellers
from ordercast.model.epochs import Included
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Key, Placed
from ordercast.model.options import NEVER
from ordercast.wire.frames import Final, Item, Offer

Mine = tuple[int, Group, int]
"""An own batch: incarnation, group, seq."""

NO_KEY = Key((), "")


class Direct:
    """State: the log (`_numbers`, `_seqs`, `last_key`); own batches that have no place yet."""

    states: ClassVar[Sequence[type[OrderingState]]]
    restless: ClassVar[tuple[type, ...]] = ()

    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        self.site = site
        self.structure = cast(Tellers, structure)
        self.environment = environment
        self.causal = causal
        self.last_key = NO_KEY
        self._numbers: dict[Group, int] = {}  # the last number logged here
        self._seqs: dict[Stream, int] = {}  # the last seq logged here
        self._log: deque[Placed] = deque()
        # The same values, folded from the records that were forgotten.
        self._old_key = NO_KEY
        self._old_numbers: dict[Group, int] = {}
        self._old_seqs: dict[Stream, int] = {}
        self._inherited: dict[Stream, int] = {}  # the last seq that earlier epochs include
        # Own batches, by seq; whether the batch has its place.
        self._unplaced: dict[tuple[int, Group], dict[int, tuple[Batch, bool]]] = {}

    # --- the log ----------------------------------------------------------------------------------

    def members(self, batch: Batch) -> tuple[Site, ...]:
        return batch.members or self.structure.members(batch.group)

    def is_member(self, batch: Batch, site: Site) -> bool:
        if batch.members:
            return site in batch.members
        return self.structure.is_member(batch.group, site)

    def is_logged(self, batch: Batch) -> bool:
        stream = (batch.origin, batch.incarnation, batch.group)
        return batch.seq <= self._seqs.get(stream, 0)

    def append(self, key: Key, batch: Batch) -> None:
        """Append the batch to this site's log."""
        placed = Placed(key, self._numbers.get(batch.group, 0) + 1, batch)
        told_elsewhere = self.structure.primary(batch.group, batch.members) != self.site
        entry = Passed(placed, key.site, told_elsewhere)
        self.environment.persist(entry)
        self._pass(entry)

    def _pass(self, entry: Passed) -> None:
        placed, batch = entry.placed, entry.placed.batch
        self.last_key = placed.key
        self._numbers[batch.group] = placed.number + batch.count - 1
        self._seqs[batch.origin, batch.incarnation, batch.group] = batch.seq + batch.count - 1
        self._log.append(placed)
        self.environment.passed(entry, (), mine=True)

    def log(self) -> Sequence[Placed]:
        return self._log

    def placed_here(self) -> Included:
        return included(self._seqs, self._inherited)

    # --- what a peer may say ----------------------------------------------------------------------

    def check_sent(self, sender: Site, batch: Batch) -> None:
        """PeerMistake unless the sender is the batch's origin and its group is of this epoch."""
        check_origin(sender, batch)
        check_addressed(self.structure, batch)
        self.check_incarnation(batch)
        check_whole(batch)

    def check_incarnation(self, batch: Batch) -> None:
        if batch.incarnation == CLOSING:
            check_close(self.structure.root_of[self.site], batch)
        else:
            self.environment.check_incarnation(batch)

    def within(self, origin: Site, clock: int, own: int) -> int:
        """How far the clock of an origin may move this site's clock, which is `own`."""
        roots = self.structure.root_of
        inside = roots.get(origin) == roots[self.site]
        return clock if inside else min(clock, own + FAR_OUTSIDE)

    def check_member(self, batch: Batch) -> None:
        if not self.is_member(batch, self.site):
            raise PeerMistake(f"a batch to {batch.group!r}, of which {self.site} is no member")

    # --- own batches: they get their places in any order, and the site is told in seq order -------

    def expect_place(self, batch: Batch) -> None:
        stream = (batch.incarnation, batch.group)
        self._unplaced.setdefault(stream, {})[batch.seq] = (batch, False)

    def has_place(self, batch: Batch) -> None:
        stream = (batch.incarnation, batch.group)
        waiting = self._unplaced.get(stream, {})
        if batch.seq not in waiting:
            return
        waiting[batch.seq] = (waiting[batch.seq][0], True)  # as submitted: a header has no body
        while waiting:
            seq = next(iter(waiting))
            first, placed = waiting[seq]
            if not placed:
                return
            del waiting[seq]
            self.environment.ordered(first)
        self._unplaced.pop(stream, None)

    # --- what survives a restart ------------------------------------------------------------------

    def restore(self, state: OrderingState) -> None:
        self._inherited = by_stream(state.inherited)
        self._old_seqs = dict(self._inherited)
        if isinstance(state, DirectState):
            self.last_key = self._old_key = state.key
            self._old_numbers = dict(state.numbers)
            self._old_seqs = by_stream(state.seqs)
        self._numbers = dict(self._old_numbers)
        self._seqs = dict(self._old_seqs)

    def replay(self, record: Passed) -> None:
        self._pass(record)

    def forget(self, record: Passed) -> None:
        placed, batch = record.placed, record.placed.batch
        self._old_key = placed.key
        self._old_numbers[batch.group] = placed.number + batch.count - 1
        stream = (batch.origin, batch.incarnation, batch.group)
        self._old_seqs[stream] = batch.seq + batch.count - 1
        if self._log and self._log[0] is placed:
            self._log.popleft()

    def journal(self) -> DirectState:
        return DirectState(
            key=self._old_key,
            numbers=dict(self._old_numbers),
            seqs=stream_seqs(self._old_seqs),
            inherited=stream_seqs(self._inherited),
        )

    # --- defaults: a protocol overrides them where it has something to do -------------------------

    def acknowledged(self, peer: Site, items: Sequence[Item]) -> None: ...

    def final(self, group: Group, seq: int) -> None: ...

    def awaited(self) -> Sequence[Site]:
        return ()

    def flush(self, now: int) -> int:  # noqa: ARG002
        return NEVER

    def most_held(self, window: int, origins: int) -> int:
        return window * origins


class Domainwide(Direct):
    """The base of protocols that order all messages of a domain together. An own batch to another
    domain is handed to that domain's root, which says when the batch has its place (`Final`)."""

    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        super().__init__(site, structure, environment, causal=causal)
        self._handed: dict[Mine, Batch] = {}

    def way(self, batch: Batch) -> str:
        """The site that gets the batch placed: this one in its own domain, else the root there."""
        root = self.structure.root_of[self.members(batch)[0]]
        return self.site if root == self.structure.root_of[self.site] else root

    def is_handed(self, batch: Batch) -> bool:
        return (batch.incarnation, batch.group, batch.seq) in self._handed

    def check_offer(self, peer: Site, item: Offer) -> None:
        """PeerMistake unless an origin outside the domain hands its batch to this root."""
        self.check_sent(peer, item.batch)
        root = self.structure.root_of[self.site]
        inside = self.structure.root_of.get(peer) == root
        if inside or self.site != root or self.way(item.batch) != self.site:
            raise PeerMistake(f"it hands in a batch to {item.batch.group!r} that is not taken here")

    def check_handed(self, peer: Site, item: Final) -> None:
        """PeerMistake unless the peer was handed the own batch of which it says the place."""
        batch = self._handed.get((item.incarnation, item.group, item.seq))
        if batch is not None and self.way(batch) != peer:
            raise PeerMistake(f"it says the place of batch {item.seq} to {item.group!r}")

    def check_passed_on(self, peer: Site, batch: Batch) -> None:
        """PeerMistake unless the batch is the peer's own, or the root took it in from outside."""
        root = self.structure.root_of[self.site]
        if self.structure.root_of.get(peer) != root:
            raise PeerMistake("it is of another domain")
        outside = self.structure.root_of.get(batch.origin) != root
        self.check_sent(batch.origin if outside and peer == root else peer, batch)

    def placed_elsewhere(self, final: Final) -> None:
        batch = self._handed.pop((final.incarnation, final.group, final.seq), None)
        if batch is not None:
            self.has_place(batch)

    def noted(self, batch: Batch) -> Batch:
        """The batch as records have it: an own batch without its body, which is kept elsewhere."""
        own = batch.origin == self.site and batch.incarnation != CLOSING
        return replace(batch, body=b"") if own else batch
