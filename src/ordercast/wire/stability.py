"""Items of the rounds of a stability protocol ([STAB] §3 and §4).

All of it goes on the lane CONTROL. Arrays are by group and go as differences: `base` counts the
arrays of the same kind that went to the same site before, since either side started; with 0 the
array is whole. A site that has had another number of them drops the message. An array that is too
long for one message goes in several; all but the last say that there is `more`.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from ordercast.model.fields import (
    KNOWN_NAMES,
    Natural,
    Ordinal,
    check_group,
    check_site,
    check_sites,
)
from ordercast.model.groups import Group, Site
from ordercast.model.limits import MEMBERS, VECTOR_ENTRIES
from ordercast.wire.items import LaneItem, SmallItem

ArrayEntry: TypeAlias = tuple[Group, Natural, Natural, Ordinal, Site]
"""Of a group: the least number of its messages in the durable ordered logs of so many members, and
in their settled prefixes; how many members these are; one of those with the shortest log."""

Entries: TypeAlias = Annotated[tuple[ArrayEntry, ...], Meta(max_length=VECTOR_ENTRIES)]


class RoundStart(SmallItem, frozen=True, tag="S"):
    """The round begins."""

    round: Ordinal


class _RoundArray(LaneItem, frozen=True):
    round: Ordinal
    base: Natural
    more: bool
    counts: Entries

    def weight(self) -> int:
        return 64 + 176 * len(self.counts)

    def check(self) -> None:
        for group, _, _, _, slowest in self.counts:
            if group not in KNOWN_NAMES:
                check_group(group, "counts")
            if slowest not in KNOWN_NAMES:
                check_site(slowest, "counts")


class RoundAck(_RoundArray, frozen=True, tag="K"):
    """On its way in: the least of the arrays of those that the sender speaks for."""


class RoundInfo(_RoundArray, frozen=True, tag="I"):
    """On its way out: the least of all arrays (in `full_dist` the array of its sender)."""


class RoundAsk(SmallItem, frozen=True, tag="Q"):
    """A round later than this one is wanted."""

    round: Natural


class RoundMissing(LaneItem, frozen=True, tag="M"):
    """The round has waited long, for these sites as far as the sender knows."""

    round: Ordinal
    sites: Annotated[tuple[Site, ...], Meta(max_length=MEMBERS)]

    def weight(self) -> int:
        return 64 + 66 * len(self.sites)

    def check(self) -> None:
        check_sites(self.sites, "sites")


ROUNDS = (RoundStart, RoundAck, RoundInfo, RoundAsk, RoundMissing)
RoundItem: TypeAlias = RoundStart | RoundAck | RoundInfo | RoundAsk | RoundMissing
COUNTLESS = (RoundStart, RoundAsk, RoundMissing)  # they tell of no log
