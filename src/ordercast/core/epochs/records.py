"""What a member asks of its driver beyond `core.outbox`: records of all its epochs, epochs opened.

Duties are the same. `Anew`, as `forget`, stands for everything persisted up to its outbox, and is
where a restart then begins. A change of epochs is repeated by a restart from the records before it
and the record that finished it, until an `Anew` has taken their place: not earlier, because what
was delivered in between may not have reached the application.
"""

from collections.abc import Callable
from typing import TypeAlias, cast

import msgspec

from ordercast.core.epochs.returning import Rollback, Tail, last_number
from ordercast.core.epochs.voters_log import Appendix, Ballot, LogSnapshot, VoterRecord
from ordercast.core.outbox import Accepted, Checkpoint, Note, Outbox, Passed, Record
from ordercast.model.epochs import Counts, EpochRecord
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, DeliveredBatch, Placed
from ordercast.wire.epochs import InEpoch, SiteFrame
from ordercast.wire.frames import Frame

REFUSED = "refused"
"""The stage of a receipt for messages that no epoch will take: their group is gone."""


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="K"):
    """A batch that passed, in its epoch; `mine`: it is of this site's own ordered log."""

    epoch: int
    passed: Passed
    mine: bool


class Noted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="N"):
    """What an epoch's ordering object must know after a restart beside what passed."""

    epoch: int
    note: Note


class Folded(msgspec.Struct, frozen=True, array_like=True, tag="O"):
    """A record of the voters' log that was fed."""

    record: EpochRecord


class Caught(msgspec.Struct, frozen=True, array_like=True, tag="C"):
    """What the records fold to, fed in one piece to a site that was far behind."""

    layout: bytes


class Filled(msgspec.Struct, frozen=True, array_like=True, tag="P"):
    """A batch of an epoch that is being closed, or is, fetched from another site."""

    epoch: int
    placed: Placed


class Confirmed(msgspec.Struct, frozen=True, array_like=True, tag="Y"):
    """All of the past that a flush asks of this site is here."""

    flush: int
    epochs: tuple[int, ...]
    counts: Counts
    lapsed: bool = False  # the site was absent for too long, and has only what it had


def unasked(tail: Tail) -> Confirmed:
    """Of a site that was let back without its word: it keeps what it has delivered, and delivers
    no more of what it has."""
    counts, position = dict[Group, int](), tail.position
    for placed in tail.log:
        position += placed.batch.count
        if position <= tail.delivered:
            counts[placed.batch.group] = last_number(placed)
    told = tuple((tail.epoch, group, number, ()) for group, number in counts.items())
    return Confirmed(0, (tail.epoch,), told, lapsed=True)


class Aside(msgspec.Struct, frozen=True, array_like=True):
    """What a member has beside its engines (`flush.Flusher`)."""

    attempt: int
    tail: Tail | None
    fetched: tuple[Filled, ...]
    history: tuple[Filled, ...]
    holds: tuple[tuple[int, Group], ...]
    parked: tuple[Batch, ...]
    confirmed: Confirmed | None
    given: dict[Group, int] = {}  # numbers of own messages, above those that epochs include


NOTHING_ASIDE = Aside(1, None, (), (), (), (), None)


class EngineState(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    checkpoint: Checkpoint


class Anew(msgspec.Struct, frozen=True, array_like=True, tag="W"):
    """`position`: up to there, a restart delivers nothing again."""

    layout: bytes
    position: int
    incarnation: int
    engines: tuple[EngineState, ...]
    voter: tuple[VoterRecord, ...]
    aside: Aside = NOTHING_ASIDE


MemberRecord: TypeAlias = (
    Accepted
    | Kept
    | Noted
    | Folded
    | Caught
    | Filled
    | Confirmed
    | Anew
    | Ballot
    | Appendix
    | LogSnapshot
)


def in_epoch(epoch: int, record: Record, is_mine: Callable[[Batch], bool]) -> MemberRecord:
    """What a member keeps of an epoch's record."""
    if type(record) is Passed:
        return Kept(epoch, record, is_mine(record.placed.batch))
    return record if type(record) is Accepted else Noted(epoch, cast(Note, record))


class EpochOpened(msgspec.Struct, frozen=True, array_like=True):
    """In the stream of deliveries: what follows is of this epoch."""

    epoch: int
    position: int  # of the last delivery before
    protocol: str
    builder: str
    groups: tuple[Group, ...]  # those of this site
    joined: tuple[Group, ...]  # those of them that it was not in before
    members: tuple[tuple[Group, tuple[Site, ...]], ...]  # of all groups of the domain
    after: tuple[int, ...]  # the epochs that were closed for it
    arrived: tuple[tuple[Group, tuple[Site, ...]], ...] = ()  # joiners of groups that went on


Shown: TypeAlias = DeliveredBatch | EpochOpened | Rollback
"""What comes in the stream of deliveries."""

MemberBox: TypeAlias = Outbox[MemberRecord, SiteFrame, Shown, Anew, tuple[int, Site]]
"""What a member asks of its driver; `counted` with the epoch."""


def nothing(alarm_at: int) -> MemberBox:
    """Of a burst in which an epoch had no part."""
    return Outbox((), (), (), (), (), None, alarm_at)


def in_frames(epoch: int, sends: list[tuple[Site, Frame]]) -> list[tuple[Site, SiteFrame]]:
    if len(sends) == 1:  # the common case
        ((peer, frame),) = sends
        return [(peer, InEpoch(epoch, frame))]
    return [(peer, InEpoch(epoch, frame)) for peer, frame in sends]


def joined(one: MemberBox, other: MemberBox) -> MemberBox:
    """Of two epochs in one burst."""
    return Outbox(
        [*one.persist, *other.persist],
        [*one.send, *other.send],
        [*one.then_send, *other.then_send],
        [*one.deliver, *other.deliver],
        [*one.receipts, *other.receipts],
        None,
        min(one.epochs_alarm, other.epochs_alarm),
        counted=[*one.counted, *other.counted],
        mistakes=tuple({**dict(one.mistakes), **dict(other.mistakes)}.items()),
    )
