"""What sites say to each other in the rounds of a stability protocol ([STAB] §3 and §4).

All of it goes on the lane CONTROL. Arrays are by group and go as differences: `base` counts the
arrays of the same kind that went to the same site before, since either side started; 0: this one is
whole. Who has had another number of them drops the message. An array that is too long for one
message goes in several, all but the last of which say that there is `more`.
"""

from typing import TypeAlias

import msgspec

from ordercast.model.groups import Group, Site

Entry: TypeAlias = tuple[Group, int, int, int, Site]
"""Of a group: the least number of its messages in the durable ordered logs of so many members, and
in their settled prefixes; how many members these are; one of those with the shortest log."""


class RoundStart(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="S"
):
    """The round begins."""

    round: int


class RoundAck(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="K"
):
    """On its way in: the least of the arrays of those that the sender speaks for."""

    round: int
    base: int
    more: bool
    counts: tuple[Entry, ...]


class RoundInfo(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="I"
):
    """On its way out: the least of all arrays (in `full_dist` the array of its sender)."""

    round: int
    base: int
    more: bool
    counts: tuple[Entry, ...]


class RoundAsk(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="Q"
):
    """A round later than this one is wanted."""

    round: int


class RoundMissing(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="M"
):
    """The round has waited long, for these sites as far as the sender knows."""

    round: int
    sites: tuple[Site, ...]


ROUNDS = (RoundStart, RoundAck, RoundInfo, RoundAsk, RoundMissing)
COUNTLESS = (RoundStart, RoundAsk, RoundMissing)  # they tell of no log
RoundItem: TypeAlias = RoundStart | RoundAck | RoundInfo | RoundAsk | RoundMissing
