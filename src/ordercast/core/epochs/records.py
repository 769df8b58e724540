"""The outbox of a member (`core.outbox`): records of all its epochs, and the openings of epochs.

The duties are the same. `Anew`, as `forget`, replaces everything persisted up to its outbox: a
restart begins there. Until then a restart repeats a change of epochs, from the records before it
and the record that finished it: deliveries in between may not have reached the application.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, cast

import msgspec

from ordercast.core.epochs.layout import Domain, Layout, living
from ordercast.core.epochs.log_tail import Rollback, Tail, last_number
from ordercast.core.epochs.voters_log import Appendix, Ballot, LogSnapshot, VoterRecord
from ordercast.core.outbox import Accepted, Checkpoint, Note, Outbox, Passed, Record
from ordercast.core.producers import positions_in
from ordercast.model.epochs import Counts, EpochRecord
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, DeliveredBatch, Placed
from ordercast.wire.epochs import InEpoch, SiteFrame
from ordercast.wire.frames import Frame

REFUSED = "refused"
"""The stage of a receipt for messages that no epoch will take: their group is gone."""


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="K"):
    """A batch that passed, in its epoch. `mine`: it has positions in this site's own log. `copy`:
    it is in the log without positions. `known`: then it repeats what is delivered; otherwise it had
    expired, or was fenced."""

    epoch: int
    passed: Passed
    mine: bool
    copy: bool = False
    known: bool = False


class Noted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="N"):
    """A note of an epoch's ordering object."""

    epoch: int
    note: Note


class Folded(msgspec.Struct, frozen=True, array_like=True, tag="O"):
    """A record of the voters' log that was folded into the layout, and its term. Stores that are
    older than the hashes have no terms."""

    record: EpochRecord
    term: int = 0


class Caught(msgspec.Struct, frozen=True, array_like=True, tag="C"):
    """The layout in one piece, fed to a site that was many records behind."""

    layout: bytes


class Filled(msgspec.Struct, frozen=True, array_like=True, tag="P"):
    """A batch that was fetched from another site, of an epoch that is closed or closing."""

    epoch: int
    placed: Placed


class Confirmed(msgspec.Struct, frozen=True, array_like=True, tag="Y"):
    """This site has all of the past that a flush asks of it."""

    flush: int
    epochs: tuple[int, ...]
    counts: Counts
    lapsed: bool = False  # it was absent for too long, and has only its old log


def unasked(tail: Tail) -> Confirmed:
    """The record of a site that was let back without confirming. The site keeps its deliveries, and
    delivers nothing more of its log."""
    counts, position = dict[Group, int](), tail.position
    for placed, taken in zip(tail.log, positions_in(tail.log, tail.marks), strict=True):
        position += taken
        if position <= tail.delivered:
            counts[placed.batch.group] = last_number(placed)
    told = tuple((tail.epoch, group, number, ()) for group, number in counts.items())
    return Confirmed(0, (tail.epoch,), told, lapsed=True)


class Aside(msgspec.Struct, frozen=True, array_like=True):
    """The durable state of a member beside its engines (`flush.Flusher`)."""

    attempt: int
    tail: Tail | None
    fetched: tuple[Filled, ...]
    history: tuple[Filled, ...]
    holds: tuple[tuple[int, Group], ...]
    parked: tuple[Batch, ...]
    confirmed: Confirmed | None
    given: dict[Group, int] = {}  # as in `window.Window`


NOTHING_ASIDE = Aside(1, None, (), (), (), (), None)


class EngineState(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    checkpoint: Checkpoint


class Anew(msgspec.Struct, frozen=True, array_like=True, tag="W"):
    """The whole state of a member. A restart delivers nothing again up to `position`."""

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


def in_epoch(
    epoch: int, records: Sequence[Record], in_log: Callable[[Placed], tuple[bool, bool, bool]]
) -> list[MemberRecord]:
    """The records of an engine as records of its member. `in_log`: whether a batch that passed has
    positions in the log, whether it is a copy there, and whether that repeats what is delivered."""
    made: list[MemberRecord] = []
    for record in records:
        if type(record) is Passed:
            made.append(Kept(epoch, record, *in_log(record.placed)))
        elif type(record) is Accepted:
            made.append(record)
        else:
            made.append(Noted(epoch, cast(Note, record)))
    return made


class EpochOpened(msgspec.Struct, frozen=True, array_like=True):
    """In the stream of deliveries: the next deliveries are of this epoch."""

    epoch: int
    position: int  # of the last delivery before
    protocol: str
    builder: str
    groups: tuple[Group, ...]  # those of this site
    joined: tuple[Group, ...]  # the ones that it was not in before
    members: tuple[tuple[Group, tuple[Site, ...]], ...]  # of all groups of the domain
    after: tuple[int, ...]  # the epochs that were closed for it
    arrived: tuple[tuple[Group, tuple[Site, ...]], ...] = ()  # joiners of groups that went on


Shown: TypeAlias = DeliveredBatch | EpochOpened | Rollback
"""An item of the stream of deliveries."""

MemberBox: TypeAlias = Outbox[MemberRecord, SiteFrame, Shown, Anew, tuple[int, Site]]
"""The outbox of a member. Peers in `counted` come with the epoch."""


def nothing(alarm_at: int) -> MemberBox:
    """The outbox of a burst in which an epoch had no part."""
    return Outbox((), (), (), (), (), None, alarm_at)


def in_frames(epoch: int, sends: list[tuple[Site, Frame]]) -> list[tuple[Site, SiteFrame]]:
    return [(peer, InEpoch(epoch, frame)) for peer, frame in sends]


def joined(one: MemberBox, other: MemberBox) -> MemberBox:
    """One outbox for two epochs that had parts in one burst."""
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


class _Opening(Protocol):
    """A site that opens an epoch."""

    name: Site
    incarnation: int
    position: int


def epoch_opened(site: _Opening, before: Layout, domain: Domain) -> EpochOpened:
    """What the application is told when an epoch opens. A site that returns without its store, or
    after too long, joins its groups anew: it lacks some or all of their past."""
    structure = domain.structure
    fresh: tuple[Site, ...] = ()
    if before.flushing is not None:
        back = [one for one in before.lapsed if one in before.flushing.members]
        fresh = (*before.flushing.fresh, *back)
    if before.roster.get(site.name, site.incarnation) != site.incarnation:
        fresh = (*fresh, site.name)
    known = living(before.groups, dict.fromkeys(fresh, 0))
    groups = tuple(structure.groups_at(site.name))
    # There may be very many groups. Skip groups whose members are the same tuple object as before.
    now = tuple(structure.groups.items())
    were = map(known.get, structure.groups)
    other = {group: was for (group, s), was in zip(now, were, strict=True) if was is not s}
    arrived = [
        (group, tuple(one for one in structure.groups[group] if one not in (was or ())))
        for group, was in other.items()
        if group in before.groups
    ]
    return EpochOpened(
        domain.epoch, site.position, domain.protocol, domain.builder, groups,
        tuple([g for g in groups if g in other and site.name not in (other[g] or ())]),
        now, domain.after,
        tuple((group, members) for group, members in arrived if members),
    )  # fmt: skip
