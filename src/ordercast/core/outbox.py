"""What a site asks of its driver after a burst of calls, and the driver's duties.

After feeding a burst (any number of frames, submissions, an alarm) a driver drains once and then,
for each drained outbox, in the order in which they were drained:

1. `persist` — write the records, in order, in one group commit (of one burst, or of several).
2. `send` — at once, without waiting for 1: frames that promise nothing.
3. When 1 and every earlier outbox's 1 are durable: `then_send` (acknowledgements, submissions,
   reports, forwarding under `wait`), then `deliver` to the application, then `receipts`. With
   something `counted`, `stored` is called: reports that waited behind it may go with data now.
4. `forget` — if given, write this checkpoint durably; then everything persisted by this outbox
   and earlier ones may be dropped. The checkpoint, followed by the records of later outboxes,
   restores the site.
5. `mistakes` — drop the connection to each of these peers, and say why in one line.
6. `alarm` — call `alarm` at that time (the latest drain's word counts; None: no alarm).

A driver may crash between any two duties. It must not reorder within a duty, must not do 3 before
1, and must hand frames to the peer they name; the network may lose, double, delay and reorder them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from ordercast.model.epochs import Included
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, DeliveredBatch, Placed
from ordercast.model.options import NEVER
from ordercast.wire.frames import Frame, Offer
from ordercast.wire.ring import Token
from ordercast.wire.swap import Count, Counted, CountValue, Follows, Swap


class Accepted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="a"):
    """The application's batch, before anybody else hears of it."""

    batch: Batch


class Passed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="p"):
    """A placed batch that this site ordered (`source` is the origin) or got from its parent. Where
    there is no tree `from_parent` says that another member tells the origin what is final."""

    placed: Placed
    source: Site
    from_parent: bool


class Promised(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="o"):
    """`two_phase`: this member's number for a batch is (clock, this site)."""

    batch: Batch
    clock: int


class Decided(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="d"):
    """`two_phase`: the number of a batch is fixed."""

    origin: Site
    incarnation: int
    group: Group
    seq: int
    clock: int
    site: Site


class Stamped(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="m"):
    """`symmetric`: a batch has the timestamp (clock, site), given here or received. `ring`: its
    number is `clock`, given here; 0: it has none yet, and its origin, outside, has been told that
    it is here."""

    batch: Batch
    clock: int
    site: Site


class Clocked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="c"):
    """`symmetric`: no timestamp up to this one is given after a restart."""

    clock: int


class Visited(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="r"):
    """`ring`: the token is here, or (not `held`) was sent on as it is; up to `passed` all numbers
    have passed here."""

    token: Token
    held: bool
    passed: int


class Headed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="h"):
    """`tom`: a header that passed, as `Passed`, while its batch or one before it lacks its body."""

    placed: Placed
    source: Site
    from_parent: bool


class SwapNote(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="x"):
    """The swap family: an item of a peer's, or (number 0) this site's own request."""

    peer: Site
    item: Swap | Count | CountValue | Follows | Counted | Offer


class Turned(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="y"):
    """The swap family: what had gathered at this site was combined, and went on."""


Note: TypeAlias = Promised | Decided | Stamped | Clocked | Visited | Headed | SwapNote | Turned
"""What an ordering object must know after a restart beside what passed. A checkpoint has what is
still needed of it in its state, so the notes before one are never asked for again."""

NOTES = (Promised, Decided, Stamped, Clocked, Visited, Headed, SwapNote, Turned)

Record: TypeAlias = Accepted | Passed | Note


Stream: TypeAlias = tuple[Site, int, Group]
"""Origin, incarnation and group: whose messages have seqs in one line."""

StreamSeqs: TypeAlias = tuple[tuple[Site, int, Group, int], ...]
"""A seq for each stream."""


def stream_seqs(seqs: Mapping[Stream, int]) -> StreamSeqs:
    return tuple([(*stream, seq) for stream, seq in seqs.items()])


def by_stream(seqs: StreamSeqs) -> dict[Stream, int]:
    return {(origin, incarnation, group): seq for origin, incarnation, group, seq in seqs}


class OrderingState(msgspec.Struct, frozen=True, kw_only=True):
    """What an ordering object needs of the records that were dropped. In a new epoch this is all:
    what the closed epochs include. Each protocol adds fields of its own, in a class below."""

    inherited: StreamSeqs


S = TypeVar("S", bound=msgspec.Struct)


def typed(packed: Any, kinds: Sequence[type[S]]) -> S:
    """The state as one of these classes: of what a store has read, the one with these fields."""
    if isinstance(packed, msgspec.Struct):
        return cast(S, packed)
    for kind in kinds:
        if packed.keys() == {*kind.__struct_fields__}:
            return msgspec.convert(packed, kind)
    raise ValueError(f"no state of an ordering object: {', '.join(sorted(packed))}")


class EngineFold(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's durable state, folded from the records that were dropped."""

    ordering: Any  # an `OrderingState`; read from a store: its fields, for `typed`
    position: int
    logged: dict[Group, int]
    implicit: dict[Group, tuple[Site, ...]]
    sent_down: dict[Site, int]
    sent_up: dict[Site, int]
    from_parent: int
    from_origin: dict[Site, int]
    own_seqs: dict[Group, int]
    own_stable: dict[Group, int] | msgspec.UnsetType = msgspec.UNSET  # not in a new epoch
    log_seqs: StreamSeqs
    past: tuple[tuple[Group, int, tuple[Site, ...]], ...]
    final_seqs: dict[Site, dict[Group, int]]


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """An engine's state up to some point, and the records still needed after it."""

    state: EngineFold
    records: tuple[Record, ...]


def opening(
    position: int, lasts: Included, own: Mapping[Group, int], unplaced: Iterable[Batch]
) -> Checkpoint:
    """What a site starts an epoch with: positions go on; the rest begins anew."""
    state = EngineFold(
        ordering=OrderingState(inherited=lasts),
        position=position,
        logged={},
        implicit={},
        sent_down={},
        sent_up={},
        from_parent=0,
        from_origin={},
        own_seqs=dict(own),
        log_seqs=(),
        past=(),
        final_seqs={},
    )
    return Checkpoint(state, tuple(Accepted(batch) for batch in unplaced))


FIRST_OPENING = opening(0, (), {}, ())
"""Of a cluster's first epochs: nothing has happened."""


class StageReached(msgspec.Struct, frozen=True, gc=False):
    """`stage` is accepted, ordered or stable, for this site's messages seq … seq+count-1."""

    stage: str
    group: Group
    seq: int
    count: int


RecordT = TypeVar("RecordT")
FrameT = TypeVar("FrameT")
ShownT = TypeVar("ShownT")
WholeT = TypeVar("WholeT")
CountedT = TypeVar("CountedT")


class Outbox(msgspec.Struct, Generic[RecordT, FrameT, ShownT, WholeT, CountedT]):
    """One per burst, so made cheaply: a struct, not a dataclass. An engine's is filled with what
    concerns its epoch; a member passes it on with more in it."""

    persist: Sequence[RecordT]
    send: Sequence[tuple[Site, FrameT]]
    then_send: Sequence[tuple[Site, FrameT]]
    deliver: Sequence[ShownT]
    receipts: Sequence[StageReached]
    forget: WholeT | None
    epochs_alarm: int = NEVER  # when an epoch wants to be called
    counted: Sequence[CountedT] = ()  # peers to whom this burst has more to tell of its records
    mistakes: Sequence[tuple[Site, str]] = ()  # peers that said what they may not, and what
    voters_alarm: int = NEVER  # when the rest wants to be called: changes, and the voters' log
    outcomes: Sequence[tuple[str, str]] = ()  # of changes asked for here: "" or why not

    @property
    def alarm(self) -> int | None:
        at = min(self.epochs_alarm, self.voters_alarm)
        return None if at >= NEVER else at


EngineBox: TypeAlias = Outbox[Record, Frame, DeliveredBatch, Checkpoint, Site]
