"""The frames of a link between two sites, and the items in them.

A link has three lanes per direction, each a numbered stream: UP carries submissions from an
origin to a primary, DOWN propagation from parent to child, CONTROL everything else. Protocols
without a tree send bodies, and what must not overtake them, UP and answers DOWN. A frame holds
consecutive items of one lane. Where it may promise, it also holds acknowledgements of the other
direction and a few small items of CONTROL that ride along.
Every frame carries the sender's `boot` (how often it has started on this store) and, as `of`, the
receiver's boot that the sender knows: so a late frame of an earlier start is recognised. On a tree
UP and DOWN are numbered through restarts, by what is durable; all else starts again at 1 when
either side does.
"""

from typing import Annotated, ClassVar, TypeAlias, get_args
from typing import Final as Constant

from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Ordinal, Packed, check_each, check_group, check_site
from ordercast.model.groups import Group, Site
from ordercast.model.limits import ACKS, ITEMS, RIDERS, VECTOR_ENTRIES
from ordercast.model.messages import BATCH_WEIGHT, Batch, Placed
from ordercast.wire.items import BatchItem, LaneItem, SmallItem
from ordercast.wire.ring import Call, Header, Numbered, Token
from ordercast.wire.stability import RoundAck, RoundAsk, RoundInfo, RoundMissing, RoundStart
from ordercast.wire.swap import (
    ChainMark,
    Count,
    Counted,
    CountValue,
    Follows,
    MarkValue,
    Reached,
    Swap,
)
from ordercast.wire.tom import Bid, Body, BodyRequest

UP, DOWN, CONTROL = 0, 1, 2
LANES = (UP, DOWN, CONTROL)


class Submit(BatchItem, frozen=True, tag="s"):
    """An origin asks a primary to place a batch."""


class Relay(LaneItem, frozen=True, tag="r"):
    """A parent hands a placed batch to a child."""

    placed: Placed

    def weight(self) -> int:
        placed = self.placed
        batch, path = placed.batch, 8 * len(placed.key.path)
        if batch.past or batch.members:
            return path + batch.weight()
        return path + BATCH_WEIGHT + len(batch.body)  # asked twice for each item: no second call

    def carried(self) -> Batch:
        return self.placed.batch

    def check(self) -> None:
        self.placed.check()


class DurableCounts(LaneItem, frozen=True, tag="c"):
    """Per group: how many of its messages are in the sender's durable ordered log, and how many
    of those are in its settled prefix (all of it known to be in every member's log)."""

    counts: Annotated[tuple[tuple[Group, Natural, Natural], ...], Meta(max_length=VECTOR_ENTRIES)]

    def weight(self) -> int:
        return 64 + 96 * len(self.counts)

    def check(self) -> None:
        for group, _, _ in self.counts:
            check_group(group, "counts")


class Settled(LaneItem, frozen=True, tag="t"):
    """A primary tells an origin: per group, its messages up to this seq are stable."""

    seqs: Annotated[tuple[tuple[Group, Natural], ...], Meta(max_length=VECTOR_ENTRIES)]

    def weight(self) -> int:
        return 64 + 96 * len(self.seqs)

    def check(self) -> None:
        for group, _ in self.seqs:
            check_group(group, "seqs")


# --- `two_phase` ----------------------------------------------------------------------------------


class Offer(BatchItem, frozen=True, tag="o"):
    """An origin hands a batch to a site that gives it a number above `clock`, the origin's."""

    beside: ClassVar[int] = 16

    clock: Natural


class Proposal(SmallItem, frozen=True, tag="p"):
    """A member's number for the receiver's batch is (clock, the sender)."""

    incarnation: Natural
    group: Group
    seq: Ordinal
    clock: Ordinal

    def check(self) -> None:
        check_group(self.group, "group")


class Final(SmallItem, frozen=True, tag="f"):
    """The number of a batch is fixed. The batch is the sender's; or the receiver's, if the sender
    passes on what another site fixed."""

    incarnation: Natural
    group: Group
    seq: Ordinal
    clock: Ordinal
    site: Site

    def check(self) -> None:
        check_group(self.group, "group")
        check_site(self.site, "site")


# --- `symmetric` ----------------------------------------------------------------------------------


class Timed(BatchItem, frozen=True, tag="m"):
    """A batch with the sender's timestamp; all its later ones are higher."""

    beside: ClassVar[int] = 16

    clock: Natural


class Null(SmallItem, frozen=True, tag="n"):
    """All later timestamps of the sender are above this one."""

    clock: Ordinal


class Wanted(SmallItem, frozen=True, tag="w"):
    """The sender waits for a timestamp of the receiver's above (clock, site)."""

    clock: Ordinal
    site: Site

    def check(self) -> None:
        check_site(self.site, "site")


# --- the items of each lane -----------------------------------------------------------------------

UpItem: TypeAlias = (
    Submit
    | Offer
    | Timed
    | Null
    | Wanted
    | Numbered
    | Header
    | Token
    | Call
    | Swap
    | Count
    | CountValue
    | ChainMark
    | MarkValue
    | Follows
    | Counted
    | Reached
)
DownItem: TypeAlias = Relay | Proposal | Final
LightItem: TypeAlias = (
    DurableCounts | Settled | RoundStart | RoundAck | RoundInfo | RoundAsk | RoundMissing
)
"""An item of CONTROL that may ride in a frame of another lane."""
ControlItem: TypeAlias = LightItem | Body | Bid | BodyRequest
Item: TypeAlias = UpItem | DownItem | ControlItem

LANE_ITEMS: Constant[tuple[frozenset[type[Item]], ...]] = (
    frozenset(get_args(UpItem)),
    frozenset(get_args(DownItem)),
    frozenset(get_args(ControlItem)),
)
LIGHT_ITEMS: Constant[frozenset[type[Item]]] = frozenset(get_args(LightItem))


# --- frames ---------------------------------------------------------------------------------------

Lane: TypeAlias = Annotated[int, Meta(ge=UP, le=CONTROL)]
Acks: TypeAlias = tuple[tuple[Lane, Natural, Natural], ...]
"""(lane, got, done): received in order up to `got`; durable and dealt with up to `done`."""
FewAcks: TypeAlias = Annotated[Acks, Meta(max_length=ACKS)]


class Rider(Packed, frozen=True):
    """Items `number`, number+1, … of the lane CONTROL, in a frame of another."""

    number: Ordinal
    items: Annotated[tuple[LightItem, ...], Meta(min_length=1, max_length=RIDERS)]


class Data(Packed, frozen=True, tag="D"):
    """Items `number`, number+1, … of a lane."""

    boot: Ordinal
    of: Natural
    lane: Lane
    number: Ordinal
    items: Annotated[tuple[Item, ...], Meta(min_length=1, max_length=ITEMS)]
    acks: FewAcks = ()
    rider: Rider | None = None

    def check(self) -> None:
        lane = self.lane
        right = LANE_ITEMS[lane]
        for place, item in enumerate(self.items):  # one loop: this is most of what rules cost
            try:
                item.check()
            except FrameError as error:
                raise FrameError(f"items[{place}].{error}") from None
            if type(item) not in right:
                raise FrameError(
                    f"items[{place}]: a {type(item).__name__} does not go on lane {lane}"
                )
        for of_lane, got, done in self.acks:
            if got < done:
                raise FrameError(f"acks: got is {got} and done {done}, of lane {of_lane}")
        if self.rider is not None:
            if lane == CONTROL:
                raise FrameError(f"rider: in a frame of lane {lane}, its own")
            check_each(self.rider.items, "rider.items")


class Ack(Packed, frozen=True, tag="A"):
    """Acknowledgements alone; with none, just a sign of life that tells the sender's boot."""

    boot: Ordinal
    of: Natural
    acks: FewAcks

    def check(self) -> None:
        for lane, got, done in self.acks:
            if got < done:
                raise FrameError(f"acks: got is {got} and done {done}, of lane {lane}")


class Repair(Packed, frozen=True, tag="R"):
    """Send items first … last of the lane again."""

    boot: Ordinal
    of: Natural
    lane: Lane
    first: Ordinal
    last: Ordinal

    def check(self) -> None:
        if self.last < self.first:
            raise FrameError(f"last is {self.last}, below first, {self.first}")


Frame: TypeAlias = Data | Ack | Repair
