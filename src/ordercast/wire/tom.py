"""What sites say to each other in `tom` beside submissions and (body-less) relays.

All of it goes on the lane CONTROL: it can be told again, by the origin (a bid) or by the ordering
node (a body), so nobody needs to remember across a restart that it was sent.
"""

import msgspec

from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch

MessageName = tuple[Site, int, Group, int]
"""(origin, incarnation, group, first seq) of a batch."""


class Body(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="b"
):
    """A batch for the receiver, straight from its origin, or asked for from its ordering node."""

    batch: Batch


class Bid(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="h"
):
    """The header of a batch on its way to the ordering node `to`: from hop to hop by labels."""

    origin: Site
    incarnation: int
    group: Group
    seq: int
    to: Site


class Fetch(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="g"
):
    """A receiver has the final headers of these batches, and asks their ordering node for them."""

    wanted: tuple[MessageName, ...]
