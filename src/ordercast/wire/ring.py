"""Items of `ring`, besides offers and answers ([TOM] §4.2.1).

All of it goes on the lane UP: a site's numbers reach its successor before the token does.
"""

from typing import Annotated, ClassVar

from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Ordinal, check_site
from ordercast.model.groups import Site
from ordercast.model.limits import VECTOR_ENTRIES
from ordercast.wire.items import BatchItem, LaneItem, SmallItem

RepairRange = tuple[Site, Ordinal, Ordinal]
"""A repair request: the site lacks the numbers from the first to the last."""


class Numbered(BatchItem, frozen=True, tag="u"):
    """The sender, which held the token, gave a batch for the receiver its number."""

    beside: ClassVar[int] = 16

    number: Ordinal


class Header(SmallItem, frozen=True, tag="v"):
    """The sender gave this number to a batch that is not for the receiver."""

    number: Ordinal


class Token(LaneItem, frozen=True, tag="i"):
    """`turn` counts its hops, so that a repeat is recognised. `number` is the last that was given.
    Every site has passed the numbers up to `floor`. Every site visited in this rotation has passed
    those up to `least`. For `idle` hops nothing was given."""

    turn: Ordinal
    number: Natural
    floor: Natural
    least: Natural
    idle: Natural
    missing: Annotated[tuple[RepairRange, ...], Meta(max_length=VECTOR_ENTRIES)] = ()

    def weight(self) -> int:
        return 192 + 96 * len(self.missing)

    def check(self) -> None:
        for site, first, last in self.missing:
            check_site(site, "missing")
            if last < first:
                raise FrameError(f"missing: {site!r} lacks {first} to {last}")


class Call(SmallItem, frozen=True, tag="l"):
    """The token is wanted: by the sender, which last saw it at this turn, or by one behind it."""

    turn: Natural
