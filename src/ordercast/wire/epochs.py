"""What sites say to each other about epochs, beside the frames within one (DESIGN §7)."""

from typing import Annotated, TypeAlias

import msgspec

from ordercast.model.epochs import Counts, Edit, EpochRecord, Included
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Placed
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
    """A site has folded `count` records, and has closed what these changes ask of it. `store` is
    its store's number; `stopped`: it has restarted and waits for the next epoch; `fetched`: batches
    of the past that it has got so far; `counts`: how far its log reaches in what it has closed;
    `slow`: for whom its own messages have waited for too long; `awaited`: sites outside its epoch
    whose word alone lets others' messages go on here; `shelved`: bytes that it keeps for absent
    sites."""

    count: int
    closed: tuple[tuple[str, Included], ...]
    store: int = 0
    stopped: bool = False
    fetched: int = 0
    counts: Counts = ()
    slow: tuple[Site, ...] = ()
    awaited: tuple[Site, ...] = ()
    shelved: int = 0


class Ask(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="3"):
    """A site wants a change; it learns the outcome from the records."""

    change: str
    edits: tuple[Edit, ...]


class Logged(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="7"):
    """A sealed site's report: how far its log reaches in each group, the last seq of each origin
    in it, and of which groups it has what was delivered in epochs that are closed."""

    flush: int
    counts: Counts
    lasts: Included
    holds: tuple[tuple[int, Group], ...]


Need: TypeAlias = tuple[int, Group, int, tuple[Site, ...], Site]
"""(epoch, group, number of its last message, members of an implicit group, who has them all)."""


class Past(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="8"):
    """The manager tells a site what it must have before the next epoch opens."""

    flush: int
    needs: tuple[Need, ...]


class Fetch(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="9"):
    epoch: int
    group: Group
    after: int  # number


class Pages(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="a"):
    """The first batches of a group after those asked for."""

    epoch: int
    group: Group
    after: int
    batches: tuple[Placed, ...]


class Whole(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="b"):
    """The site has all of the past, durably."""

    flush: int


FlushFrame: TypeAlias = Logged | Past | Fetch | Pages | Whole
SiteFrame: TypeAlias = InEpoch | Feed | Fed | Ask | FlushFrame | Voting
