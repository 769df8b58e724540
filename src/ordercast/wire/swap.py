"""What sites say to each other in the swap family ([SWAP]), all of it on the lane UP.

Requests and answers between two sites (`Swap`, `Count`, `Told`) bear a `number` that goes on
through restarts, so that one told again is recognised; headers are recognised by what they head.
"""

import msgspec

from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.tom import MessageName

NOBODY: MessageName = ("", 0, "", 0)
"""The value of a swap object before the first swap: the first message has no predecessor."""


class Swap(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="x"
):
    """swap(batch … last) on its way: combined behind the batch are others, up to `last`."""

    number: int
    batch: Batch
    last: MessageName
    issuer: Site


class Count(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="y"
):
    """The sender asks its parent for so many places in the count."""

    number: int
    count: int


class Told(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="z"
):
    """The count goes on: the batch of this name has `value`; of nobody: the first of those places
    that the receiver has asked for."""

    number: int
    name: MessageName
    value: int


class Follows(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="k"
):
    """The batch comes right after the one of this name. Who is no member gets it without body."""

    batch: Batch
    after: MessageName


class Counted(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="j"
):
    """The batch has this number in the domain's chain. Who is no member gets it without body."""

    batch: Batch
    place: int


class Reached(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="e"
):
    """The sender has chained so many batches: their origins may go on."""

    place: int
