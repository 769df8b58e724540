"""A site within one epoch: as `core.site`, and it can be closed ([GS] §5.1).

The Close is a message of incarnation 0, which no application has, from the root of the domain's
tree to all its sites. Who has passed it is sealed: it places and takes nothing more (a direct
protocol goes on answering, but lets nothing pass); what its application sends is accepted and kept
for the next epoch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ordercast.core.observe import Observation
from ordercast.core.order.interface import CLOSING
from ordercast.core.outbox import Accepted, Checkpoint, Outbox, Passed, Record
from ordercast.core.restart import restore
from ordercast.core.retention import Held
from ordercast.core.site import Site
from ordercast.core.structure import Structure
from ordercast.model.epochs import Included
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.implicit import implicit_group
from ordercast.model.messages import Batch, Placed, pack_payloads
from ordercast.model.options import NEVER, Options
from ordercast.wire.frames import UP, Frame, Item

__all__ = ["CLOSING", "Engine", "opening"]


class Engine(Site):
    sealed = False  # also while the constructor replays
    all_logged = False  # up to the Close
    frozen = False  # for a flush, or since a restart: nothing more happens in this epoch

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
        attempt: int = 1,
        remember: Callable[[Placed], None] | None = None,
        frozen: bool = False,
        inside: bool = True,
    ) -> None:
        super().__init__(
            name, structure, options, protocol=protocol, incarnation=incarnation, boot=boot
        )
        self._counts: dict[Group, tuple[int, tuple[SiteName, ...]]] | None = None
        self.frozen = frozen  # from the start: own messages are sent again at the end of a replay
        # Of an epoch that it is no part of, an origin is never excluded: a restart goes on.
        self.resumes = self.resumes or not inside
        self.gate.attempt = attempt
        self.retention.remember = remember
        if options.causal and options.on_failure == "exclude":
            self.own.one_group_at_a_time()
        restore(self, checkpoint, records)

    def close(self, now: int, sites: tuple[SiteName, ...]) -> None:
        """This site is the root: order the Close, once."""
        self.now = now
        if not (self.sealed or self.frozen):
            body = pack_payloads([b""])
            group = implicit_group(sites)
            self.ordering.submit(Batch(self.name, CLOSING, group, 1, 1, body, (), sites))

    def end(self, lasts: Mapping[Group, int]) -> None:
        """Everybody has closed: all that was logged is stable, and of this site's own messages
        those up to `lasts`."""
        for placed in self.gate.settle_all():
            if self.gate.safe:
                self._deliver(placed)
        for group, seq in lasts.items():
            self.own.included(group, seq)

    def unplaced(self) -> list[Batch]:
        """Own batches that no closed epoch includes, in the order in which they were sent."""
        stable = self.own.stable_seq
        return [batch for batch in self.own.kept if batch.seq > stable(batch.group)]

    def part_from(self, peer: SiteName) -> None:
        """The peer, an origin outside, is retired: nothing is owed to it, unless a direct protocol
        waits for its word. What it was accepted for is still taken, by the numbers it has: it may
        be there until that has its place. What came too early it sends again if it is."""
        link = self.links[peer]
        if self.direct is None:
            link.forget_early()
            self._blocked.pop(peer, None)
        elif peer in self.direct.awaited():
            return
        lasts = [out.last for out in link.outgoing]
        self._acknowledged(link, self.boot, tuple((lane, n, n) for lane, n in enumerate(lasts)))

    def take_over(self, batch: Batch) -> None:
        """An own batch that was accepted in an epoch that is gone."""
        self.own.replay(Accepted(batch))
        self.own.send_again(batch)

    def is_mine(self, batch: Batch) -> bool:
        """Whether a batch that passes here is of this site's own log; the Close never is."""
        if batch.incarnation == CLOSING:
            return False
        if batch.members:
            return self.name in batch.members
        return batch.group in self.structure.groups_of[self.name]

    # --- what sealing changes ---------------------------------------------------------------------

    def passed(self, entry: Passed, children: Sequence[SiteName], *, mine: bool) -> None:
        if entry.placed.batch.incarnation == CLOSING:
            if not self.heads.were_held():
                self.hold_close(entry, children)
            self.all_logged = True
        else:
            super().passed(entry, children, mine=mine)

    def hold_close(self, entry: Passed, children: Sequence[SiteName]) -> Held:
        """Kept: a restart must be sealed again."""
        self.sealed = True
        return self.retention.hold(entry, self.heads.owed(children), NEVER)

    def ordered(self, batch: Batch) -> None:
        if batch.incarnation != CLOSING:
            super().ordered(batch)

    def room(self) -> bool:
        return not (self.sealed or self.frozen) and super().room()

    def may_log(self) -> bool:
        return not (self.sealed or self.frozen) and super().may_log()

    def observations(self) -> list[Observation]:
        """The Close, which is never refused, comes on top of what the limits bound."""
        close = 1 if self.sealed else 0
        return [
            (name, value, limit + close if name.startswith(("held", "down to")) else limit)
            for name, value, limit in super().observations()
        ]

    def _may_accept(self) -> bool:
        return self.sealed or self.frozen or super().room()

    def _order(self, batch: Batch) -> None:
        """Sealed, a direct protocol that resumes still tells again what others may wait for."""
        again = self.direct is not None and self.resuming and self.resumes
        if not self.frozen and (not self.sealed or again):
            super()._order(batch)

    def _take(self, peer: SiteName, lane: int, item: Item) -> bool:
        refused = self.sealed and lane == UP and self.direct is None
        return not refused and super()._take(peer, lane, item)

    # --- what freezing changes --------------------------------------------------------------------

    def freeze(self) -> None:
        self.frozen = True

    def receive(self, now: int, peer: SiteName, frame: Frame) -> None:
        if not self.frozen:
            super().receive(now, peer, frame)

    def alarm(self, now: int) -> None:
        if not self.frozen:
            super().alarm(now)

    def hold(self, now: int, *, held: bool) -> None:
        """What waited for the application has come too late: this site has told its log."""
        if self.frozen:
            self.flow.held = held
        else:
            super().hold(now, held=held)

    def drain(self) -> Outbox:
        """Frozen, a site still accepts what its application sends, and keeps it."""
        if not self.frozen:
            return super().drain()
        persist, deliveries, receipts = self._persist, self._deliveries, self.own.receipts
        self._persist, self._deliveries, self.own.receipts = [], [], []
        return Outbox(persist, (), (), deliveries, receipts, None, None)

    def quiet(self, apart_from: Sequence[SiteName] = ()) -> bool:
        return not self.frozen and super().quiet(apart_from)

    def log(self) -> list[Placed]:
        """What is still held of the ordered log."""
        return [p for p in self.ordering.log() if p.batch.incarnation != CLOSING]

    def counts(self) -> dict[Group, tuple[int, tuple[SiteName, ...]]]:
        """Of each group: the number of its last message in the log, and the members of a list."""
        if self._counts is not None:
            return self._counts
        found = {
            group: (number, self.retention.implicit.get(group, ()))
            for group, number in self.retention.logged.items()
        }
        for placed in self.log():
            batch = placed.batch
            found[batch.group] = (placed.number + batch.count - 1, batch.members)
        if self.frozen:  # nothing more comes
            self._counts = found
        return found

    def log_seqs(self) -> Included:
        """Per origin and group, the last seq in the log."""
        found = dict(self.retention.log_seqs)
        for placed in self.log():
            batch = placed.batch
            found[batch.origin, batch.incarnation, batch.group] = batch.seq + batch.count - 1
        return tuple((*stream, seq) for stream, seq in found.items())


def opening(
    position: int, lasts: Included, own: Mapping[Group, int], unplaced: Iterable[Batch]
) -> Checkpoint:
    """What a site starts an epoch with: positions go on; the rest begins anew."""
    state: dict[str, Any] = {
        "ordering": {"inherited": lasts},
        "position": position,
        "logged": {},
        "implicit": {},
        "sent_down": {},
        "sent_up": {},
        "from_parent": 0,
        "from_origin": {},
        "own_seqs": dict(own),
        "log_seqs": (),
        "past": (),
        "final_seqs": {},
    }
    return Checkpoint(state, tuple(Accepted(batch) for batch in unplaced))
