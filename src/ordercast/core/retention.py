"""The batches of the past that a site still needs, and the checkpoint that replaces the others.

A batch that passed is held until every child has it durably; if it is for this site, until it is
settled here; if it was placed here, until it is final (so that its origin has been told). Then it
is folded into counters. A checkpoint is these counters and the records that are still held. It is
made when at least as much can be forgotten as is kept, so the work per batch is bounded. The log is
the truth, and the numbers of links are indexes into it: the counters count forgotten batches.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import UNSET

from ordercast.core.gate import Gate
from ordercast.core.link import Outgoing
from ordercast.core.order.interface import Ordering
from ordercast.core.outbox import (
    Accepted,
    Checkpoint,
    FoldedPast,
    Passed,
    Record,
    by_stream,
    plain,
    stream_seqs,
)
from ordercast.core.own_messages import OwnMessages
from ordercast.core.producers import NO_MARKS, ProducerMarks
from ordercast.core.stability.interface import Stability
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Key, Placed

Owed: TypeAlias = tuple[Outgoing, int, Site]
"""The lane to a child, the number under which it gets the batch, and its name."""


class Held:
    """A batch that passed. `position`: the log's last position with it, if it is `mine`: for this
    site. `size`: of its body, in bytes."""

    __slots__ = ("entry", "mine", "owed", "pending", "position", "size")

    def __init__(self, entry: Passed, owed: Sequence[Owed], position: int, *, mine: bool) -> None:
        self.entry = entry
        self.owed = owed
        self.mine = mine
        self.position = position
        self.size = len(entry.placed.batch.body)
        self.pending = False  # its header has passed, and its body is missing


class PassedBatches:
    def __init__(
        self, site: Site, ordering: Ordering, own: OwnMessages, stability: Stability, gate: Gate
    ) -> None:
        self.durable = True  # checkpoints are written; otherwise none is made
        self.site = site
        self.ordering = ordering
        self.own = own
        self.stability = stability
        self.gate = gate
        self.batches: deque[Held] = deque()
        self._bytes = 0  # of their bodies
        self._not_final: dict[Group, deque[tuple[int, Site, int]]] = {}  # (number, origin, seq)
        self._final_seqs: dict[Site, dict[Group, int]] = {}
        self._forgotten = 0  # records forgotten since the last checkpoint
        self._forgotten_bytes = 0
        self._notes = 0  # notes written since the last checkpoint
        self.restored = 0  # batches that a restart brought back, final or not
        self._look_at = own.limits.checkpoint_batches
        self._look_at_bytes = own.limits.checkpoint_bytes
        self.due = False  # enough has gathered to see whether a checkpoint pays
        self.remember: Callable[[Placed], None] | None = None  # called with forgotten batches
        # Counts of the forgotten batches.
        self.position = 0
        self.logged: dict[Group, int] = {}
        self.implicit: dict[Group, tuple[Site, ...]] = {}
        self.sent_down: dict[Site, int] = {}
        self.sent_up: dict[Site, int] = {}
        self.from_parent = 0
        self.from_origin: dict[Site, int] = {}
        self.own_seqs: dict[Group, int] = {}
        self.log_seqs: dict[tuple[Site, int, Group], int] = {}  # last seq in the log
        self.marks = ProducerMarks()
        self.folded_copies: list[Key] = []  # forgotten batches that had no positions

    def hold(self, entry: Passed, owed: Sequence[Owed], position: int, *, mine: bool) -> Held:
        """Hold a batch that passes. `owed`, `position` and `mine` are as in `Held`."""
        held = Held(entry, owed, position, mine=mine)
        self.batches.append(held)
        self._bytes += held.size
        if len(self.batches) >= self._look_at or self._bytes >= self._look_at_bytes:
            self.due = True
        if not entry.from_parent:
            batch = entry.placed.batch
            self._not_final.setdefault(batch.group, deque()).append(
                (entry.placed.number + batch.count - 1, batch.origin, batch.seq + batch.count - 1)
            )
        return held

    def filled(self, held: Held, entry: Passed) -> None:
        """The body has come of a batch whose header had passed."""
        held.entry, held.pending = entry, False
        self._bytes -= held.size
        held.size = len(entry.placed.batch.body)
        self._bytes += held.size
        self.grown()

    def grown(self) -> None:
        own = self.own
        if (
            len(self.batches) + len(own.kept) >= self._look_at
            or self._bytes + own.kept_bytes >= self._look_at_bytes
        ):
            self.due = True

    def noted(self) -> None:
        """A note was written. The next checkpoint replaces it."""
        self._notes += 1
        if self._notes >= self._look_at:
            self.due = True

    def finals(self, group: Group) -> list[tuple[Site, int]]:
        """Per origin, the seq up to which messages of the group have become final just now."""
        waiting = self._not_final.get(group)
        if not waiting:
            return []
        final = self.stability.final(group)
        told: dict[Site, int] = {}
        while waiting and waiting[0][0] <= final:
            _, origin, seq = waiting.popleft()
            told[origin] = seq
            self._final_seqs.setdefault(origin, {})[group] = seq
        return list(told.items())

    def final_seqs(self, origin: Site) -> list[tuple[Group, int]]:
        return list(self._final_seqs.get(origin, {}).items())

    def origins(self) -> list[Site]:
        return list(self._final_seqs)

    # --- forgetting -----------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint | None:
        """Fold the batches that are no longer needed. Returns a checkpoint if it pays."""
        self.due = False
        self._fold_all()
        kept = len(self.batches) + len(self.own.kept)
        if self.own.direct is not None:  # its state has the batches without a place
            kept += self.own.direct.held()
        limits, size = self.own.limits, self._bytes + self.own.kept_bytes
        least, least_bytes = limits.checkpoint_batches, limits.checkpoint_bytes
        # A look at batches that must stay costs nothing, whatever their bytes.
        self._look_at, self._look_at_bytes = max(least, 2 * kept), size + least_bytes
        if not self.durable:
            self._forgotten = self._notes = self._forgotten_bytes = 0
        elif self._forgotten + self._notes >= max(least // 2, kept) or (
            self._forgotten_bytes >= max(least_bytes // 2, size)
        ):
            return self.whole()
        return None

    def whole(self) -> Checkpoint:
        """A checkpoint now, whether it pays or not."""
        self._forgotten = self._notes = self._forgotten_bytes = 0
        records: list[Record] = [Accepted(batch) for batch in self.own.kept]
        records.extend(held.entry for held in self.batches if not held.pending)
        return Checkpoint(self._state(), tuple(records))

    def _fold_all(self) -> None:
        held = self.batches
        while held and self._done_with(held[0]):
            self._fold(held.popleft())
        for batch in self.own.forgettable():
            self.own_seqs[batch.group] = batch.seq + batch.count - 1
            primary = self.own.structure.primary(batch.group, batch.members)
            if primary != self.site:
                self.sent_up[primary] = self.sent_up.get(primary, 0) + 1
            self._forgotten += 1
            self._forgotten_bytes += len(batch.body)

    def _done_with(self, held: Held) -> bool:
        if held.position > self.gate.settled or held.pending:
            return False
        copies = self.gate.unsettled_copies  # they have no positions of their own
        if copies and held.entry.placed.key in copies:
            return False
        for out, number, _ in held.owed:
            if out.done < number:
                return False
        placed = held.entry.placed
        last = placed.number + placed.batch.count - 1
        return held.entry.from_parent or self.stability.final(placed.batch.group) >= last

    def _fold(self, held: Held) -> None:
        entry = held.entry
        self._forgotten += 1
        self._forgotten_bytes += held.size
        self._bytes -= held.size
        self.ordering.forget(entry)
        batch = entry.placed.batch
        for _, number, child in held.owed:
            self.sent_down[child] = number
        if entry.from_parent:
            self.from_parent += 1
        elif entry.source != self.site:
            self.from_origin[entry.source] = self.from_origin.get(entry.source, 0) + 1
        if held.mine:
            self.position = held.position
            if batch.requests is not None and not self.marks.keeps(batch):
                self.folded_copies.append(entry.placed.key)
            self.logged[batch.group] = entry.placed.number + batch.count - 1
            stream = (batch.origin, batch.incarnation, batch.group)
            self.log_seqs[stream] = batch.seq + batch.count - 1
            if self.remember is not None:
                self.remember(entry.placed)
            if batch.members:
                self.implicit[batch.group] = batch.members

    # --- the state that a checkpoint carries ------------------------------------------------------

    def _state(self) -> FoldedPast:
        return FoldedPast(
            ordering=plain(self.ordering.journal()),
            position=self.position,
            logged=dict(self.logged),
            implicit=dict(self.implicit),
            sent_down=dict(self.sent_down),
            sent_up=dict(self.sent_up),
            from_parent=self.from_parent,
            from_origin=dict(self.from_origin),
            own_seqs=dict(self.own_seqs),
            own_stable=self.own.stable_seqs(),
            log_seqs=stream_seqs(self.log_seqs),
            # The past of a forgotten batch may have messages of other groups that are not stable.
            past=self.own.past(),
            final_seqs={origin: dict(seqs) for origin, seqs in self._final_seqs.items()},
            marks=self.marks.all() or UNSET,
        )

    def load(self, state: FoldedPast) -> None:
        self.position = state.position
        self.logged = dict(state.logged)
        self.implicit = dict(state.implicit)
        self.sent_down = dict(state.sent_down)
        self.sent_up = dict(state.sent_up)
        self.from_parent = state.from_parent
        self.from_origin = dict(state.from_origin)
        self.own_seqs = dict(state.own_seqs)
        self.log_seqs = by_stream(state.log_seqs)
        self._final_seqs = {origin: dict(seqs) for origin, seqs in state.final_seqs.items()}
        self.marks = ProducerMarks(NO_MARKS if state.marks is UNSET else state.marks)

    def held(self) -> int:
        """How many batches are needed, after forgetting the others."""
        self._fold_all()
        if self._forgotten >= self._look_at or self._forgotten_bytes >= self._look_at_bytes:
            # folding makes room, so `batches` itself may never become so long
            self.due = True
        return len(self.batches)
