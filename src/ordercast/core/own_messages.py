"""A site's own messages, from the application's call to the receipt `stable`.

Accepted batches have seqs per group and are kept until they are stable (errata GS-12). The window
bounds them, and so what every other site must keep on behalf of this one.

With causal order a batch carries the causal past of its origin. It leaves for another primary only
when all earlier batches are stable: another site would place it without knowing of them. Nothing
overtakes a batch that waits. So many leave that are not stable as fit into the past of one more:
the primary adds them. Direct protocols have clocks: it is enough that the earlier batches have
their places. Where sites may be excluded, a batch leaves for another group only when all earlier
ones are stable: a flush may keep it and leave out an earlier one of another group.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from ordercast.core.order.interface import DirectOrdering
from ordercast.core.outbox import DOUBTED, Accepted, StageReached
from ordercast.core.stability.interface import Stability
from ordercast.core.structure import Structure
from ordercast.model.errors import PeerMistake, TooLarge
from ordercast.model.groups import Group, Site
from ordercast.model.limits import PAST, PAST_NAMES
from ordercast.model.messages import Batch, Placed, Vector, may_expire
from ordercast.model.options import Limits

Seen: TypeAlias = tuple[Group, int, Sequence[Site]]
"""An entry of a causal past, as a checkpoint carries it."""


class OwnMessages:
    def __init__(
        self,
        structure: Structure,
        limits: Limits,
        stability: Stability,
        submit: Callable[[Batch], None],
        way: Callable[[Batch], str],
        *,
        causal: bool,
        direct: DirectOrdering | None = None,
    ) -> None:
        """`way`: `Ordering.way` of the ordering object. `direct`: that object, if it is direct."""
        self.structure = structure
        self.limits = limits
        self.stability = stability
        self.submit = submit
        self.way = way
        self.causal = causal
        self.carries_past = causal and direct is None
        self.direct = direct
        self._until_placed = direct is not None
        self.receipts: list[StageReached] = []
        self.last_seq: dict[Group, int] = {}
        self.unstable = 0  # messages
        self.unstable_bytes = 0
        # Messages and bytes that may exceed the window: one batch let in alone, or what a restart
        # brought back (it does not know yet which of that is stable).
        self.allowance = (0, 0)
        self.kept: deque[Batch] = deque()  # accepted batches; the oldest is not stable
        self.kept_bytes = 0
        self._ordered: dict[Group, deque[Batch]] = {}  # placed and not stable
        self._placed_seq: dict[Group, int] = {}  # the seq of the last batch that has a place
        self._stable_seq: dict[Group, int] = {}
        # Of batches that may expire, by (incarnation, group, seq): they, or messages that they are
        # copies of, are in the log.
        self._known: dict[tuple[int, Group, int], bool] = {}
        # Causal order only.
        self._past: dict[Group, tuple[int, tuple[Site, ...]]] = {}
        self._past_names = 0  # names in the lists of `_past`, at most
        self._by_group = False
        self._outbound: deque[Batch] = deque()
        self._released = 0  # batches released and not stable (direct: without a place)
        self._released_names = 0  # names in their lists of sites
        self._last_way = ""
        self.left = 0  # how many batches have left, in causal order

    def one_group_at_a_time(self) -> None:
        """Sites may be excluded (docs/epochs.md, causal order). Call it before anything is sent."""
        self._by_group, self._until_placed = True, False

    # --- sending ------------------------------------------------------------------------------

    def accept(self, batch: Batch) -> None:
        """Take a new batch. Its record is being persisted."""
        self._keep(batch)
        self.receipts.append(StageReached("accepted", batch.group, batch.seq, batch.count))
        if self.causal:
            self._leave(batch)
        else:
            self.submit(batch)

    def _keep(self, batch: Batch) -> None:
        self.last_seq[batch.group] = batch.seq + batch.count - 1
        if not self.unstable:
            self.allowance = (batch.count, len(batch.body))
        self.unstable += batch.count
        self.unstable_bytes += len(batch.body)
        self.kept.append(batch)
        self.kept_bytes += len(batch.body)

    def _leave(self, batch: Batch) -> None:
        if self.causal:
            self._outbound.append(batch)
            self._release()
        else:
            self.submit(batch)

    def _release(self) -> None:
        while self._outbound:
            batch = self._outbound[0]
            way = self._way(batch)
            if self._released and (way != self._last_way or self._is_much(batch)):
                return
            self._outbound.popleft()
            self._count_released(batch, way)
            self.left += 1
            self.submit(batch)

    def _is_much(self, batch: Batch) -> bool:
        """Whether the primary could not add this batch to the past of the next ones, together with
        those that are released and not stable."""
        names = self._released_names + len(batch.members)
        return self.carries_past and (self._released >= PAST or names > PAST_NAMES)

    def _count_released(self, batch: Batch, way: str) -> None:
        self._last_way = way
        self._released += 1
        self._released_names += len(batch.members)

    def _way(self, batch: Batch) -> str:
        return batch.group if self._by_group else self.way(batch)

    # --- receipts -----------------------------------------------------------------------------

    def placed(self, batch: Batch) -> None:
        self.receipts.append(StageReached("ordered", batch.group, batch.seq, batch.count))
        self._ordered.setdefault(batch.group, deque()).append(batch)
        self._released -= self._until_placed
        self._placed_seq[batch.group] = batch.seq
        if self.causal or batch.seq <= self._stable_seq.get(batch.group, 0):
            self._settle(batch.group)

    def logged(self, batch: Batch, *, known: bool) -> None:
        """An own batch is in the log here. `known`: it, or what it is a copy of, is delivered."""
        if known and may_expire(batch):
            self._known[_name(batch)] = True

    def check_stable(self, peer: Site, group: Group, seq: int) -> None:
        """Raise PeerMistake unless it is this peer that tells what is final of the group. For an
        implicit group this is known only while a message to it is kept, with its members."""
        if seq <= self._stable_seq.get(group, 0):
            return
        if group in self.structure.groups:
            teller = self.structure.primary(group)
        else:
            kept = next((batch for batch in self.kept if batch.group == group), None)
            teller = peer if kept is None else self.structure.primary(group, kept.members)
        if peer != teller:
            raise PeerMistake(f"it says what is stable of {group!r}, which {teller!r} tells")

    def stable(self, group: Group, seq: int) -> None:
        """Everything sent from here to the group up to `seq` is final."""
        if seq > self._stable_seq.get(group, 0):
            self._stable_seq[group] = seq
            if self.direct is not None:
                self.direct.final(group, seq)
            self._settle(group)

    def _settle(self, group: Group) -> None:
        upto = self._stable_seq.get(group, 0)
        waiting = self._ordered.get(group)
        while waiting and waiting[0].seq + waiting[0].count - 1 <= upto:
            batch = waiting.popleft()
            if batch.requests and may_expire(batch) and not self._known.pop(_name(batch), False):
                self.receipts.append(StageReached(DOUBTED, batch.group, batch.seq, batch.count))
            self.receipts.append(StageReached("stable", batch.group, batch.seq, batch.count))
            self.unstable -= batch.count
            self.unstable_bytes -= len(batch.body)
            if not self._until_placed:
                self._released -= 1
                self._released_names -= len(batch.members)
        if self.causal:
            self._release()

    def included(self, group: Group, upto: int) -> None:
        """The closed epochs include everything sent from here to the group up to `upto`."""
        waiting = self._ordered.setdefault(group, deque())
        # Not the stable seq: after a restart that is known first.
        known = self._placed_seq.get(group, 0)
        for batch in self.kept:
            if batch.group == group and known < batch.seq <= upto:
                self.receipts.append(StageReached("ordered", group, batch.seq, batch.count))
                waiting.append(batch)
        self._stable_seq[group] = max(upto, self._stable_seq.get(group, 0))
        self._settle(group)

    def stable_seq(self, group: Group) -> int:
        """The last seq of this site's to the group that is known here to be final."""
        return self._stable_seq.get(group, 0)

    def stable_seqs(self) -> dict[Group, int]:
        return dict(self._stable_seq)

    def forgettable(self) -> list[Batch]:
        """Batches, oldest first, that need no longer be kept. One that is stable is kept until its
        place is told, too: if the epoch ends first, `included` gives its receipts."""
        gone = []
        while self.kept:
            batch = self.kept[0]
            if batch.seq + batch.count - 1 > self._stable_seq.get(batch.group, 0):
                break
            if batch.seq > self._placed_seq.get(batch.group, 0):
                break
            gone.append(self.kept.popleft())
            self.kept_bytes -= len(batch.body)
        return gone

    def awaited(self) -> list[Site]:
        """The primaries that will tell this site what is stable of its messages."""
        return list(dict.fromkeys(self.structure.primary(b.group, b.members) for b in self.kept))

    # --- causal past --------------------------------------------------------------------------

    def past(self) -> Vector:
        """The past of a message sent now: what was delivered here and may not be stable."""
        if not self.carries_past:
            return ()
        self._drop_stable()
        return tuple((group, *self._past[group]) for group in sorted(self._past))

    def past_fits(self) -> bool:
        """Whether a message sent now can carry its past."""
        if len(self._past) <= PAST and self._past_names <= PAST_NAMES:  # the common case
            return True
        self._drop_stable()
        return len(self._past) <= PAST and self._past_names <= PAST_NAMES

    def require_past(self, site: Site) -> None:
        """Raises TooLarge if a message sent now cannot carry its past."""
        if not self.past_fits():
            raise TooLarge(
                f"{site} has delivered messages of {len(self._past):,} groups and lists that it"
                f" does not know to be stable; in causal order {PAST:,} is the limit"
                f" (and {PAST_NAMES:,} sites in lists)"
            )

    def _drop_stable(self) -> None:
        past = self._past
        for group in [g for g, entry in past.items() if self._is_stable(g, *entry)]:
            del past[group]
        self._past_names = sum(len(members) for _, members in past.values())

    def delivered(self, placed: Placed) -> None:
        batch = placed.batch
        mine = (batch.group, placed.number + batch.count - 1, batch.members)
        for group, number, members in (*batch.past, mine):
            known = self._past.get(group)
            if known is not None and known[0] >= number:
                continue
            if not self._is_stable(group, number, members):
                self._past[group] = (number, members)
                self._past_names += len(members)

    def _is_stable(self, group: Group, number: int, members: tuple[Site, ...]) -> bool:
        stability = self.stability
        return (
            stability.stable(group) >= number
            or stability.stable_elsewhere(group, members) >= number
        )

    # --- after a restart ----------------------------------------------------------------------

    def restore(
        self, last_seq: dict[Group, int], final_here: dict[Group, int], past: Iterable[Seen]
    ) -> None:
        """Own batches up to `last_seq` were forgotten, so they were stable. Batches up to
        `final_here` are final, but may still be kept behind an unstable one of another group."""
        self.last_seq = dict(last_seq)
        self._past = {group: (number, tuple(members)) for group, number, members in past}
        self._past_names = sum(len(members) for _, members in self._past.values())
        self._stable_seq = {**last_seq, **final_here}

    def replay(self, record: Accepted) -> None:
        self._keep(record.batch)

    def send_again(self, batch: Batch) -> None:
        self._leave(batch)

    def resume(self, placed_here: set[tuple[Group, int]]) -> None:
        """All records are replayed: send again the batches that this site has not placed itself."""
        self.allowance = (self.unstable, self.unstable_bytes)
        self._known = {name: True for name in map(_name, self.kept) if name in self._known}
        for batch in list(self.kept):  # a copy: placing a batch may drop final ones
            final = batch.seq + batch.count - 1 <= self._stable_seq.get(batch.group, 0)
            if final or (batch.group, batch.seq) in placed_here:
                self._count_released(batch, self._way(batch))
                self.placed(batch)
            elif self.direct is not None and self.direct.known(batch):
                self._released += 1
                self._last_way = self._way(batch)  # earlier batches had their places when it left
                self.submit(batch)
            else:
                self._leave(batch)

    def idle(self) -> bool:
        return not self.unstable

    def all_placed(self) -> bool:
        """Whether each kept batch has a place, stable or not."""
        known, stable = self._placed_seq, self._stable_seq
        return all(b.seq <= max(known.get(b.group, 0), stable.get(b.group, 0)) for b in self.kept)


def _name(batch: Batch) -> tuple[int, Group, int]:
    return batch.incarnation, batch.group, batch.seq
