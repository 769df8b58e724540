"""What a member needs to begin again: all of it in one record, and back.

A restart takes the last `Anew` and what was persisted after it; each change of epochs writes one,
so what follows it belongs to epochs that are open still.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordercast.core.epochs.engine import opening
from ordercast.core.epochs.layout import Domain, fold
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.epochs.records import Anew, EngineState, Folded, Kept, MemberRecord
from ordercast.core.epochs.voters_log import Appendix, Ballot, VoterRecord
from ordercast.core.outbox import Accepted, Checkpoint, Record
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch

if TYPE_CHECKING:
    from ordercast.core.epochs.member import Member


def restore(member: "Member", records: Sequence[MemberRecord]) -> list[VoterRecord]:
    """Make the engines of a member; what its voter had. Without records, all begins."""
    start = max((i for i, r in enumerate(records) if isinstance(r, Anew)), default=-1)
    states: dict[int, Checkpoint] = {}
    voter: list[VoterRecord] = []
    if start >= 0:
        anew = records[start]
        assert isinstance(anew, Anew)
        member.layout = unpack_layout(anew.layout, member.build)
        member.position, member.incarnation = anew.position, anew.incarnation
        states = {state.epoch: state.checkpoint for state in anew.engines}
        voter.extend(anew.voter)
    later: dict[int, list[Record]] = {}
    for record in records[start + 1 :]:
        if isinstance(record, Kept):
            later.setdefault(record.epoch, []).append(record.passed)
        elif isinstance(record, Accepted):
            domain = member.domain(record.batch.group, record.batch.members)
            later.setdefault(domain.epoch, []).append(record)
        elif isinstance(record, Folded):
            member.layout = fold(member.layout, record.record, member.build)
        elif not isinstance(record, Anew):
            voter.append(record)
    home = member.layout.home(member.name)
    for epoch, domain in member.layout.domains.items():
        if epoch in states or epoch in later or domain is home:
            checkpoint = states.get(epoch) or first_checkpoint(member, domain)
            member.make(domain, checkpoint, later.get(epoch, []))
    if home is not None:
        member.position = member.engines[home.epoch].gate.logged
    return voter


def first_checkpoint(
    member: "Member", domain: Domain, unplaced: Sequence[Batch] = ()
) -> Checkpoint:
    """What an engine starts an epoch with; own batches that no epoch includes are sent again."""
    groups = domain.structure.groups
    position = member.position if member.name in domain.sites else 0
    lasts: list[tuple[Site, int, Group, int]] = []
    own: dict[Group, int] = {}
    for (origin, incarnation, group), seq in member.layout.lasts.items():
        if group in groups or group.startswith("@"):
            lasts.append((origin, incarnation, group, seq))
            if origin == member.name and incarnation == member.incarnation:
                own[group] = seq
    return opening(position, tuple(lasts), own, unplaced)


def whole(member: "Member") -> Anew:
    """Everything, as of now: what was persisted before is done with."""
    raft = member.raft
    log = raft.log
    voter: tuple[VoterRecord, ...] = (
        Ballot(raft.term, raft.vote, raft.entitled),
        log.snapshot,
        Appendix(log.snapshot.upto + 1, tuple(log.entries)),
    )
    engines = tuple(
        EngineState(epoch, engine.retention.whole()) for epoch, engine in member.engines.items()
    )
    layout = pack_layout(member.layout)
    return Anew(layout, member.position, member.incarnation, engines, voter)
