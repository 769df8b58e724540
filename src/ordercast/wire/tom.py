"""Items of `tom`, besides submissions and (body-less) relays.

All of it goes on the lane CONTROL. The origin can repeat a bid, and the ordering node a body, so
nobody needs to remember across a restart that it was sent.
"""

from typing import Annotated

from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Ordinal, check_group, check_site
from ordercast.model.groups import Group, Site
from ordercast.model.limits import ITEMS
from ordercast.wire.items import BatchItem, LaneItem, SmallItem

MessageName = tuple[Site, Natural, Group, Natural]
"""(origin, incarnation, group, first seq) of a batch."""


def check_message_name(name: MessageName, field: str) -> None:
    origin, _, group, seq = name
    check_site(origin, f"{field}.origin")
    check_group(group, f"{field}.group")
    if seq < 1:
        raise FrameError(f"{field}.seq is {seq}, not at least 1")


class Body(BatchItem, frozen=True, tag="b"):
    """A batch for the receiver: from its origin, or from its ordering node, which was asked."""


class Bid(SmallItem, frozen=True, tag="h"):
    """The header of a batch on its way to the ordering node `to`: from hop to hop by labels."""

    origin: Site
    incarnation: Natural
    group: Group
    seq: Ordinal
    to: Site

    def check(self) -> None:
        check_site(self.origin, "origin")
        check_group(self.group, "group")
        check_site(self.to, "to")


class BodyRequest(LaneItem, frozen=True, tag="g"):
    """A receiver has the final headers of these batches, and asks their ordering node for them."""

    wanted: Annotated[tuple[MessageName, ...], Meta(min_length=1, max_length=ITEMS)]

    def weight(self) -> int:
        return 64 + 160 * len(self.wanted)

    def check(self) -> None:
        for name in self.wanted:
            check_message_name(name, "wanted")
