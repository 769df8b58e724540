"""What travels between two sites.

A link has three lanes per direction, each a numbered stream: UP carries submissions from an
origin to a primary, DOWN propagation from parent to child, CONTROL everything else. A frame holds
consecutive items of one lane and, where it may promise, acknowledgements of the other direction.
Every frame carries the sender's `boot` (how often it has started on this store) and, as `of`, the
receiver's that it knows: what an earlier start sent late is recognised. UP and DOWN are numbered
through restarts, by what is durable; CONTROL starts again at 1 when either side does.
"""

from typing import TypeAlias

import msgspec

from ordercast.model.groups import Group
from ordercast.model.messages import Batch, Placed

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


Item: TypeAlias = Submit | Relay | Report | Settled

Acks: TypeAlias = tuple[tuple[int, int, int], ...]
"""(lane, got, done): received in order up to `got`; durable and dealt with up to `done`."""


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
