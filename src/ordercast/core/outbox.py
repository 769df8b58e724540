"""What a site asks of its driver after a burst of calls, and the driver's duties.

After feeding a burst (any number of frames, submissions, an alarm) a driver drains once and then,
for each drained outbox, in the order in which they were drained:

1. `persist` — write the records, in order, in one group commit (of one burst, or of several).
2. `send` — at once, without waiting for 1: frames that promise nothing.
3. When 1 and every earlier outbox's 1 are durable: `then_send` (acknowledgements, reports; under
   `wait` submissions and relays too), then `deliver` to the application, then `receipts`. With
   something `counted`, `stored` is called: reports that waited behind it may go with data now.
4. `forget` — if given, write this checkpoint durably; then everything persisted by this outbox
   and earlier ones may be dropped. The checkpoint, followed by the records of later outboxes,
   restores the site.
5. `mistakes` — drop the connection to each of these peers, and say why in one line.
6. `alarm` — call it at the earlier of `epochs_alarm` and `voters_alarm` (those of the latest drain
   count; NEVER: no alarm).

A driver may crash between any two duties. It must not reorder within a duty, must not do 3 before
1, and must hand frames to the peer they name; the network may lose, double, delay and reorder them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from ordercast.model.epochs import Included
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, DeliveredBatch, Placed, Vector
from ordercast.model.options import NEVER
from ordercast.wire.frames import Frame, Offer
from ordercast.wire.ring import Token
from ordercast.wire.swap import ChainMark, Count, Counted, CountValue, Follows, MarkValue, Swap


class Accepted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="a"):
    """The application's batch. No receipt tells of it before it is durable."""

    batch: Batch


class Passed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="p"):
    """A placed batch that this site ordered (`source` is the origin) or got from its parent.
    Without a tree, `from_parent` says that another member tells the origin what is final."""

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
    number is `clock`, given here; 0: it has none yet, and its origin, which is outside the domain,
    knows that it is here."""

    batch: Batch
    clock: int
    site: Site


class Clocked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="c"):
    """`symmetric`: no timestamp up to this one is given after a restart."""

    clock: int


class Visited(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="r"):
    """`ring`: the token is here (`held`), or was sent on as it is. All numbers up to `passed` have
    passed here."""

    token: Token
    held: bool
    passed: int


class Headed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="h"):
    """`tom`: a header passed (as in `Passed`), and its batch or an earlier one has no body."""

    placed: Placed
    source: Site
    from_parent: bool


class SwapNote(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="x"):
    """The swap family: an item of a peer, or (number 0) this site's own request."""

    peer: Site
    item: Swap | Count | CountValue | ChainMark | MarkValue | Follows | Counted | Offer


class Turned(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="y"):
    """The swap family: the requests gathered at this site were combined and sent on."""


Note: TypeAlias = Promised | Decided | Stamped | Clocked | Visited | Headed | SwapNote | Turned
"""What an ordering object must know after a restart, beside the batches that passed. The state of a
checkpoint has all that is needed of the notes before it, so they are not replayed."""

NOTES = (Promised, Decided, Stamped, Clocked, Visited, Headed, SwapNote, Turned)

Record: TypeAlias = Accepted | Passed | Note


Stream: TypeAlias = tuple[Site, int, Group]
"""Origin, incarnation and group: the messages of a stream are numbered by their seqs."""

StreamSeqs: TypeAlias = tuple[tuple[Site, int, Group, int], ...]
"""A seq for each stream."""


def stream_seqs(seqs: Mapping[Stream, int]) -> StreamSeqs:
    return tuple([(*stream, seq) for stream, seq in seqs.items()])


def included(seqs: Mapping[Stream, int], inherited: Mapping[Stream, int]) -> Included:
    """The seqs that are above those that an epoch began with."""
    return tuple(
        (*stream, seq) for stream, seq in sorted(seqs.items()) if seq > inherited.get(stream, 0)
    )


def by_stream(seqs: StreamSeqs) -> dict[Stream, int]:
    return {(origin, incarnation, group): seq for origin, incarnation, group, seq in seqs}


class OrderingState(msgspec.Struct, frozen=True, kw_only=True):
    """What an ordering object needs of the records that were dropped. In a new epoch this is all:
    what the closed epochs include. Each protocol has a class of its own below this one."""

    inherited: StreamSeqs


S = TypeVar("S", bound=msgspec.Struct)


def plain(state: msgspec.Struct) -> dict[str, Any]:
    """The state by the names of its fields, as a store keeps it."""
    fields: dict[str, Any] = msgspec.to_builtins(state, builtin_types=(bytes,))
    return fields


def typed(fields: dict[str, Any], kinds: Sequence[type[S]]) -> S:
    """The state again: of these classes, the one that has these fields."""
    for kind in kinds:
        if fields.keys() == {*kind.__struct_fields__}:
            return msgspec.convert(fields, kind)
    raise ValueError(f"no state of an ordering object: {', '.join(sorted(fields))}")


class FoldedPast(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the batches that a site has forgotten in an epoch, and the state of the ordering
    object. In the store it is a map with these names, in this order."""

    ordering: dict[str, Any]  # a `plain` `OrderingState`
    position: int  # of the last message before those that are still held
    logged: dict[Group, int]  # the number of a group's last message in the log
    implicit: dict[Group, tuple[Site, ...]]  # the members of implicit groups among these
    sent_down: dict[Site, int]  # the number of the last item to each child
    sent_up: dict[Site, int]  # how many submissions went to each primary
    from_parent: int
    from_origin: dict[Site, int]  # how many submissions of each were placed here
    own_seqs: dict[Group, int]  # the last own seq that was forgotten
    own_stable: dict[Group, int] | msgspec.UnsetType = msgspec.UNSET  # the last own final seq
    log_seqs: StreamSeqs  # per origin, the last seq in the log
    past: Vector  # the causal past of this site's next message
    final_seqs: dict[Site, dict[Group, int]]  # by origin, of batches that were placed here
    marks: StreamSeqs | msgspec.UnsetType = msgspec.UNSET  # of producers, if there are any


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """The site's durable state folded up to some point, and the records still needed after it."""

    state: FoldedPast
    records: tuple[Record, ...]


def opening(
    position: int, lasts: Included, own: Mapping[Group, int], unplaced: Iterable[Batch],
    marks: StreamSeqs = (),
) -> Checkpoint:  # fmt: skip
    """The checkpoint that begins an epoch: positions, seqs and the marks of producers go on, all
    else begins anew."""
    state = FoldedPast(
        ordering=plain(OrderingState(inherited=lasts)),
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
        marks=marks or msgspec.UNSET,
    )
    return Checkpoint(state, tuple(Accepted(batch) for batch in unplaced))


FIRST_OPENING = opening(0, (), {}, ())
"""The checkpoint that begins a cluster's first epochs: nothing has happened."""


DOUBTED: Final = "doubted"
"""Told just before `stable`, of a batch with an id: it is not known here to be delivered."""


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
    """One is made per burst: a struct is cheaper than a dataclass. An engine fills in what concerns
    its epoch; its member passes it on with more in it."""

    persist: Sequence[RecordT]
    send: Sequence[tuple[Site, FrameT]]
    then_send: Sequence[tuple[Site, FrameT]]
    deliver: Sequence[ShownT]
    receipts: Sequence[StageReached]
    forget: WholeT | None
    epochs_alarm: int = NEVER  # when an epoch wants to be called
    counted: Sequence[CountedT] = ()  # peers whose links wait for `stored`
    mistakes: Sequence[tuple[Site, str]] = ()  # peers' mistakes, one line each
    voters_alarm: int = NEVER  # when changes and the voters' log want to be called
    outcomes: Sequence[tuple[str, str]] = ()  # changes asked for here, and "" or why not


EngineBox: TypeAlias = Outbox[Record, Frame, DeliveredBatch, Checkpoint, Site]
