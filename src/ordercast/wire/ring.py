"""What sites say to each other in `ring`, beside offers and answers ([TOM] §4.2.1).

All of it goes on the lane UP: a site's numbers reach its successor before the token does.
"""

import msgspec

from ordercast.model.groups import Site
from ordercast.model.messages import Batch

Missing = tuple[Site, int, int]
"""A repair request: the site lacks the numbers from the first to the last."""


class Numbered(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="u"
):
    """The sender, which held the token, gave a batch for the receiver its number."""

    batch: Batch
    number: int


class Header(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="v"
):
    """The same; the batch is not for the receiver, which has to know that much."""

    number: int


class Token(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="i"
):
    """`turn` counts its hops, so that a repeat is recognised. `number` is the last that was given;
    all sites have let pass those up to `floor`, and those visited since the first site of the ring
    those up to `least`. For `idle` hops nothing was given."""

    turn: int
    number: int
    floor: int
    least: int
    idle: int
    missing: tuple[Missing, ...] = ()


class Call(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="l"
):
    """The token is wanted: by the sender, which last saw it at this turn, or by one behind it."""

    turn: int
