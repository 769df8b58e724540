"""What sites say to each other about epochs, beside the frames within one (DESIGN §7)."""

from typing import Annotated, TypeAlias

import msgspec

from ordercast.model.epochs import Edit, EpochRecord, Included
from ordercast.wire.frames import Frame
from ordercast.wire.limits import LARGEST_NUMBER
from ordercast.wire.voting import Voting


class InEpoch(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag="E"
):
    """A frame for the object of one epoch, and of no other."""

    epoch: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_NUMBER)]  # checked as it is parsed: quick
    frame: Frame


class Feed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="1"):
    """The manager tells committed records after the first `count`, or, where the site lacks what
    is no longer kept, all that they fold to; and which changes it wants reports for."""

    count: int
    records: tuple[EpochRecord, ...]
    committed: int
    wanted: tuple[str, ...]
    folded: bytes = b""


class Fed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="2"):
    """A site has folded `count` records, and has closed what these changes ask of it."""

    count: int
    closed: tuple[tuple[str, Included], ...]


class Ask(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="3"):
    """A site wants a change; it learns the outcome from the records."""

    change: str
    edits: tuple[Edit, ...]


SiteFrame: TypeAlias = InEpoch | Feed | Fed | Ask | Voting
