"""Broken variants of changing epochs that the schedules must catch: each takes one argument of
docs/epochs.md away. A mutant is a set of replacements, in force while a schedule runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from ordercast.core import outbox as outbox_module
from ordercast.core.engine import Engine
from ordercast.core.epochs import changes
from ordercast.core.epochs import manager as manager_module
from ordercast.core.epochs import member as member_module
from ordercast.core.epochs.layout import Closing, Layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.raft import Raft
from ordercast.core.epochs.records import Folded, Kept, MemberBox, MemberRecord
from ordercast.core.epochs.streams.closings import ClosingReports
from ordercast.core.order.interface import CLOSING
from ordercast.core.outbox import Checkpoint, Passed
from ordercast.core.states import CLOSED, OPEN, SEALED
from ordercast.model.epochs import Entry, Finish, Included
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch
from ordercast.wire.epochs import Fed, InEpoch, SiteFrame
from ordercast.wire.frames import Item

Patches = list[tuple[Any, str, Any]]

MUTANTS: dict[str, Callable[[], Patches]] = {}


def mutant(make: Callable[[], Patches]) -> Callable[[], Patches]:
    MUTANTS[make.__name__] = make
    return make


@contextmanager
def broken(name: str) -> Iterator[None]:
    with ExitStack() as parts:
        for owner, attribute, replacement in MUTANTS[name]():
            parts.enter_context(patch.object(owner, attribute, replacement))
        yield


# --- deciding -------------------------------------------------------------------------------------


@mutant
def no_majority() -> Patches:
    """A leader needs nobody's word but its own."""
    return [(Raft, "_enough", lambda _, having: bool(having))]


@mutant
def fed_before_it_is_committed() -> Patches:
    def fold_all(self: Member, raft: Raft) -> None:
        while raft.log.snapshot.upto <= self.layout.count < raft.log.last:
            self._fold(raft.log.entry(self.layout.count + 1))

    return [(Member, "fold_committed", fold_all)]


@mutant
def two_changes_at_once() -> Patches:
    """A change is begun although another closes the same domain."""

    plain = changes.plan_change

    def careless(now: Layout, edits: Any) -> Closing:
        return plain(replace(now, closing={}), edits)

    return [(changes, "plan_change", careless), (manager_module, "plan_change", careless)]


# --- closing --------------------------------------------------------------------------------------


@mutant
def close_not_ordered() -> Patches:
    """A site is sealed when it is told of the change: nothing is placed at a common place."""

    def seal(self: Member) -> None:
        for closing in self.layout.closing.values():
            for epoch in closing.epochs:
                if epoch in self.engines:
                    self.engines[epoch].epoch_state = SEALED

    return [(Member, "_close_down", seal)]


@mutant
def finish_before_all_have_closed() -> Patches:
    """One report is enough."""
    return [(manager_module, "all", any)]


@mutant
def reports_leave_out_a_group() -> Patches:
    """What a site that is not the root has placed is not reported."""
    plain = ClosingReports.closed

    def closed(self: ClosingReports, change: str) -> Included:
        name = self._member.name
        return tuple(entry for entry in plain(self, change) if entry[0] == name)

    return [(ClosingReports, "closed", closed)]


@mutant
def report_before_it_is_durable() -> Patches:
    plain = Member.drain

    def drain(self: Member) -> MemberBox:
        box = plain(self)
        early = [send for send in box.then_send if isinstance(send[1], Fed)]
        box.then_send = [send for send in box.then_send if not isinstance(send[1], Fed)]
        box.send = [*box.send, *early]
        return box

    return [(Member, "drain", drain)]


@mutant
def goes_on_after_the_close() -> Patches:
    """Sealed, a primary still takes what comes up."""
    plain = Engine._take

    def take(self: Engine, peer: Site, lane: int, item: Item) -> bool:
        state = self.epoch_state
        self.epoch_state = OPEN if state is CLOSED else state
        try:
            return plain(self, peer, lane, item)
        finally:
            self.epoch_state = state if self.epoch_state is OPEN else self.epoch_state

    return [(Engine, "_take", take)]


@mutant
def restart_forgets_the_seal() -> Patches:
    plain = Member._restore

    def is_close(record: Any) -> bool:
        return isinstance(record, Passed) and record.placed.batch.incarnation == CLOSING

    def restore(self: Member, records: Sequence[MemberRecord]) -> Any:
        kept = [r for r in records if not (isinstance(r, Kept) and is_close(r.passed))]
        return plain(self, kept)

    return [(Member, "_restore", restore)]


# --- opening --------------------------------------------------------------------------------------


@mutant
def in_two_epochs() -> Patches:
    """Nobody reads which messages the closed epochs include."""
    plain = outbox_module.opening
    plain_end = Engine.end

    def opening(position: int, _lasts: Included, own: Any, unplaced: Any) -> Checkpoint:
        return plain(position, (), own, unplaced)

    def end(self: Engine, _lasts: Mapping[Group, int]) -> None:
        plain_end(self, {})

    return [(member_module, "opening", opening), (Engine, "end", end)]


@mutant
def resent_before_it_is_known_what_was_included() -> Patches:
    """What an origin has no word of it sends again, as if Finish said nothing of it."""
    plain, plain_end = outbox_module.opening, Engine.end

    def opening(position: int, lasts: Included, own: Any, unplaced: Any) -> Checkpoint:
        batches = list(unplaced)
        least = {(b.origin, b.incarnation, b.group): b.seq - 1 for b in reversed(batches)}
        taken = tuple((o, i, g, min(seq, least.get((o, i, g), seq))) for o, i, g, seq in lasts)
        return plain(position, taken, own, batches)

    def end(self: Engine, lasts: Mapping[Group, int]) -> None:
        plain_end(self, {group: self.own.stable_seq(group) for group in lasts})

    return [(member_module, "opening", opening), (Engine, "end", end)]


@mutant
def resent_out_of_order() -> Patches:
    plain = Engine.unplaced

    def unplaced(self: Engine) -> list[Batch]:
        return plain(self)[::-1]

    return [(Engine, "unplaced", unplaced)]


@mutant
def what_came_while_closing_is_dropped() -> Patches:
    return [(Engine, "unplaced", lambda _: [])]


@mutant
def a_joiner_one_message_early() -> Patches:
    """A site's first position in an epoch is that of its last delivery before."""
    plain = outbox_module.opening

    def opening(position: int, *rest: Any) -> Checkpoint:
        return plain(max(position - 1, 0), *rest)

    return [(member_module, "opening", opening)]


@mutant
def frames_of_the_old_epoch_are_taken() -> Patches:
    plain = Member.receive

    def receive(self: Member, now: int, peer: Site, frame: SiteFrame) -> None:
        if not isinstance(frame, InEpoch):
            plain(self, now, peer, frame)
            return
        home = self.layout.home(self.name)
        engine = self.engines.get(frame.epoch)
        if engine is None and home is not None:
            engine = self.engines.get(home.epoch)
        if engine is not None:
            engine.receive(now, peer, frame.frame)

    return [(Member, "receive", receive)]


@mutant
def finish_is_not_persisted() -> Patches:
    """Neither the record nor the state after it: a restart is in the old epoch."""
    plain = Member._fold

    def fold(self: Member, entry: Entry) -> None:
        plain(self, entry)
        if isinstance(entry.record, Finish):
            written = Folded(entry.record, entry.term)
            self.persisting = [r for r in self.persisting if r != written]
            self._forget_due = False

    return [(Member, "_fold", fold)]


@mutant
def records_of_the_last_burst_come_too_late() -> Patches:
    """What an epoch asked for in the burst that ends it is written behind the record of its end."""
    return [(Member, "_end_engines", lambda *_: None)]
