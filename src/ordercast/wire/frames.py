"""What travels between two sites.

A link has three lanes per direction, each a numbered stream: UP carries submissions from an
origin to a primary, DOWN propagation from parent to child, CONTROL everything else. Protocols
without a tree send bodies, and what must not overtake them, UP and answers DOWN. A frame holds
consecutive items of one lane and, where it may promise, acknowledgements of the other direction and
a few small items of CONTROL that ride along.
Every frame carries the sender's `boot` (how often it has started on this store) and, as `of`, the
receiver's that it knows: what an earlier start sent late is recognised. On a tree UP and DOWN are
numbered through restarts, by what is durable; all else starts again at 1 when either side does.
"""

from typing import TypeAlias

import msgspec

from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Placed
from ordercast.wire.ring import Call, Header, Numbered, Token
from ordercast.wire.stability import RoundAck, RoundAsk, RoundInfo, RoundMissing, RoundStart
from ordercast.wire.swap import Count, Counted, Follows, Reached, Swap, Told
from ordercast.wire.tom import Bid, Body, Fetch

UP, DOWN, CONTROL = 0, 1, 2
LANES = (UP, DOWN, CONTROL)


class Submit(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="s"
):
    """An origin asks a primary to place a batch."""

    batch: Batch


class Relay(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="r"
):
    """A parent hands a placed batch to a child."""

    placed: Placed


class Report(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="c"
):
    """Per group: how many of its messages are in the sender's durable ordered log, and how many
    of those are in its settled prefix (all of it known to be in every member's log)."""

    counts: tuple[tuple[Group, int, int], ...]


class Settled(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="t"
):
    """A primary tells an origin: per group, its messages up to this seq are stable."""

    seqs: tuple[tuple[Group, int], ...]


# --- `two_phase` -------------------------------------------------------------------------------


class Offer(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="o"
):
    """An origin hands a batch to a site that gives it a number above `clock`, its own."""

    batch: Batch
    clock: int


class Proposal(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="p"
):
    """A member's number for the receiver's batch is (clock, the sender)."""

    incarnation: int
    group: Group
    seq: int
    clock: int


class Final(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="f"
):
    """A batch's number is fixed: the sender's batch, or (of who passes it on) the receiver's."""

    incarnation: int
    group: Group
    seq: int
    clock: int
    site: Site


# --- `symmetric` -------------------------------------------------------------------------------


class Timed(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="m"
):
    """A batch with the sender's timestamp; all its later ones are higher."""

    batch: Batch
    clock: int


class Null(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="n"
):
    """All later timestamps of the sender are above this one."""

    clock: int


class Wanted(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="w"
):
    """The sender waits for a timestamp of the receiver's above (clock, site)."""

    clock: int
    site: Site


Item: TypeAlias = (
    Submit
    | Relay
    | Report
    | Settled
    | Offer
    | Proposal
    | Final
    | Timed
    | Null
    | Wanted
    | Body
    | Bid
    | Fetch
    | RoundStart
    | RoundAck
    | RoundInfo
    | RoundAsk
    | RoundMissing
    | Numbered
    | Header
    | Token
    | Call
    | Swap
    | Count
    | Told
    | Follows
    | Counted
    | Reached
)

Acks: TypeAlias = tuple[tuple[int, int, int], ...]
"""(lane, got, done): received in order up to `got`; durable and dealt with up to `done`."""


class Rider(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Items `number`, number+1, … of the lane CONTROL, in a frame of another."""

    number: int
    items: tuple[Item, ...]


class Data(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="D"
):
    """Items `number`, number+1, … of a lane."""

    boot: int
    of: int
    lane: int
    number: int
    items: tuple[Item, ...]
    acks: Acks = ()
    rider: Rider | None = None


class Ack(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="A"
):
    """Acknowledgements alone; with none, just a sign of life that tells the sender's boot."""

    boot: int
    of: int
    acks: Acks


class Repair(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="R"
):
    """Send items first … last of the lane again."""

    boot: int
    of: int
    lane: int
    first: int
    last: int


Frame: TypeAlias = Data | Ack | Repair
