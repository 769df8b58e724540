"""What a member needs to begin again: all of it in one record, and back; what it takes along from
epoch to epoch.

A restart takes the last `Anew` and what was persisted after it, changes of epochs included.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ordercast.core.epochs.adopting import adopt, first_checkpoint, sort_out
from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.records import (
    Anew,
    Caught,
    Confirmed,
    EngineState,
    Filled,
    Folded,
    Kept,
    MemberRecord,
    Noted,
)
from ordercast.core.epochs.voters_log import Appendix, Ballot, VoterRecord
from ordercast.core.outbox import Accepted, Checkpoint, Record
from ordercast.model.epochs import Finish, Open
from ordercast.model.errors import Error

if TYPE_CHECKING:
    from ordercast.core.epochs.member import Member


def restore(member: "Member", records: Sequence[MemberRecord]) -> list[VoterRecord]:
    """Make the engines of a member; what its voter had. Without records, all begins."""
    past = _Past(member)
    voter: list[VoterRecord] = []
    for record in records:
        if isinstance(record, Kept):
            past.later.setdefault(record.epoch, []).append(record.passed)
        elif isinstance(record, Noted):
            past.later.setdefault(record.epoch, []).append(record.note)
        elif isinstance(record, Accepted):
            past.accepted(record)
        elif isinstance(record, Filled):
            member.flush.fill(record)
        elif isinstance(record, Confirmed):
            member.flush.confirmed = record
        elif isinstance(record, Folded):
            layout = member.folds.fold(member.layout, record.record)
            if isinstance(record.record, (Finish, Open)):
                past.change(layout)
            else:
                member.layout = layout
        elif isinstance(record, Caught):
            past.change(member.folds.unpack(record.layout))
        elif isinstance(record, Anew):
            past.begin(record)
            voter = list(record.voter)
        else:
            voter.append(record)
    past.make_engines()
    return voter


class _Past:
    """Of each open epoch: the state that an engine had, and the records since."""

    def __init__(self, member: "Member") -> None:
        self.member = member
        self.states: dict[int, Checkpoint] = {}
        self.later: dict[int, list[Record]] = {}

    def begin(self, anew: Anew) -> None:
        member = self.member
        member.layout = member.folds.unpack(anew.layout)
        member.position, member.incarnation = anew.position, anew.incarnation
        member.flush.restore(anew.aside)
        self.states = {state.epoch: state.checkpoint for state in anew.engines}
        self.later = {}

    def accepted(self, record: Accepted) -> None:
        """A change that came in the same burst, and left its epoch open, may stand before it."""
        batch = record.batch
        try:
            epoch = self.member.domain(batch.group, batch.members).epoch
        except Error:
            sort_out(self.member, [batch])
        else:
            self.later.setdefault(epoch, []).append(record)

    def make_engines(self) -> None:
        member = self.member
        home = member.layout.home(member.name)
        for epoch, domain in member.layout.domains.items():
            if epoch in self.states or epoch in self.later or domain is home:
                if epoch not in self.states:  # kept: positions go on from where it began
                    self.states[epoch] = first_checkpoint(member, domain)
                member.make(domain, self.states[epoch], self.later.get(epoch, []))
        if home is not None:
            member.position = member.engines[home.epoch].gate.logged

    def change(self, layout: Layout) -> None:
        """What was decided then happens again: the same, because it depends on records only."""
        self.make_engines()
        openings = adopt(self.member, layout)
        self.member.engines.clear()  # those that go on have later records too
        self.states = {e: s for e, s in self.states.items() if e in layout.domains} | openings
        self.later = {e: r for e, r in self.later.items() if e in layout.domains}
        for epoch, batches in self.member.into_open.items():
            self.later.setdefault(epoch, []).extend(Accepted(batch) for batch in batches)


def whole(member: "Member", made: Mapping[int, Checkpoint]) -> Anew:
    """Everything, as of now: what was persisted before is done with. `made`: the checkpoints that
    some engines have just made of themselves."""
    raft = member.raft
    log = raft.log
    voter: tuple[VoterRecord, ...] = (
        Ballot(raft.term, raft.vote),
        log.snapshot,
        Appendix(log.snapshot.upto + 1, tuple(log.entries)),
    )
    engines = tuple(
        EngineState(epoch, made.get(epoch) or engine.retention.whole())
        for epoch, engine in member.engines.items()
    )
    home = member.layout.home(member.name)
    position = member.position if home is None else member.engines[home.epoch].retention.position
    layout, aside = member.folds.pack(member.layout), member.flush.aside()
    return Anew(layout, position, member.incarnation, engines, voter, aside)
