"""What sites say to each other about epochs, beside the frames within one."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from msgspec import Meta

from ordercast.model.epochs import (
    Counts,
    Edit,
    Entry,
    Included,
    check_counts,
    check_edits,
    check_included,
)
from ordercast.model.errors import ConfigError, FrameError
from ordercast.model.features import check_features
from ordercast.model.fields import (
    Natural,
    Ordinal,
    Packed,
    StoreNumber,
    check_each,
    check_group,
    check_length,
    check_site,
    check_sites,
    check_text,
    plain_text,
)
from ordercast.model.grants import subject_named
from ordercast.model.groups import Group, Site
from ordercast.model.limits import (
    FOLDED_BYTES,
    ITEMS,
    LARGEST_NUMBER,
    LASTS,
    MEMBERS,
    PARTS,
    RECORDS,
)
from ordercast.model.messages import Placed
from ordercast.wire.frames import Frame
from ordercast.wire.voting import ChainHash, Voting

FewSites: TypeAlias = Annotated[tuple[Site, ...], Meta(max_length=MEMBERS)]


class InEpoch(Packed, frozen=True, tag="E"):
    """A frame for the object of one epoch, and of no other."""

    epoch: Ordinal
    frame: Frame

    def check(self) -> None:
        self.frame.check()


class Feed(Packed, frozen=True, tag="1"):
    """The manager tells the committed records after the first `count`, whose hash is `chain`. A
    site that lacks a record that is no longer kept is told what all of them fold to. `wanted`: the
    changes that the manager wants reports for. `doubted`: the sites that the receiver is to knock
    at."""

    count: Natural
    records: Annotated[tuple[Entry, ...], Meta(max_length=RECORDS)]
    committed: Natural
    wanted: Annotated[tuple[str, ...], Meta(max_length=RECORDS)]
    folded: Annotated[bytes, Meta(max_length=FOLDED_BYTES)] = b""
    chain: ChainHash = b""
    doubted: FewSites = ()

    def check(self) -> None:
        check_sites(self.doubted, "doubted")
        for change in self.wanted:
            check_text(change, "wanted", least=1)
        check_each(self.records, "records")
        if self.folded and self.records:
            raise FrameError("records stand beside what they fold to")


class Fed(Packed, frozen=True, tag="2"):
    """A site has folded `count` records (-1: not even the founding layout), and has closed what
    these changes ask of it. `store` is its store's number. `stopped`: it has restarted and waits
    for the next epoch. `fetched`: batches of the past that it has got so far. `counts`: how far its
    log reaches in what it has closed. `slow`: sites that its own messages have waited for too long.
    `awaited`: sites outside its epoch whose word alone lets others' messages go on here. `shelved`:
    bytes that it keeps for absent sites. `silent`: sites that do not answer its knocks. `detoured`:
    sites that it reaches through a third one only. `features`: those of its program that its layout
    has not adopted."""

    count: Annotated[int, Meta(ge=-1, le=LARGEST_NUMBER)]
    closed: Annotated[tuple[tuple[str, Included], ...], Meta(max_length=RECORDS)]
    store: StoreNumber = 0
    stopped: bool = False
    fetched: Natural = 0
    counts: Counts = ()
    slow: FewSites = ()
    awaited: FewSites = ()
    shelved: Natural = 0
    silent: FewSites = ()
    detoured: FewSites = ()
    features: tuple[str, ...] = ()

    def check(self) -> None:
        streams = 0
        for change, included in self.closed:
            check_text(change, "closed", least=1)
            check_included(included, "closed")
            streams += len(included)
        if streams > LASTS:
            raise FrameError(f"closed has {streams} streams, at most {LASTS:,}")
        check_counts(self.counts)
        check_sites(self.slow, "slow")
        check_sites(self.awaited, "awaited")
        check_sites(self.silent, "silent")
        check_sites(self.detoured, "detoured")
        check_features(self.features)


class Knock(Packed, frozen=True, tag="0"):
    """A site asks a peer for a sign of life, or gives it (`back`)."""

    back: bool


class ClosedPart(Packed, frozen=True, tag="c"):
    """A part of what a site has closed for a change, where one frame cannot have all. `begun`: the
    number of the record that began the change."""

    begun: Ordinal
    included: Included
    part: Annotated[int, Meta(ge=0, lt=PARTS)]
    parts: Annotated[int, Meta(ge=1, le=PARTS)]

    def check(self) -> None:
        check_included(self.included, "included")
        check_part(self.part, self.parts)


def check_part(part: int, parts: int) -> None:
    if part >= parts:
        raise FrameError(f"part is {part}, of {parts}")


class ChangeRequest(Packed, frozen=True, tag="3"):
    """A site wants a change; it learns the outcome from the records."""

    change: str
    edits: tuple[Edit, ...]

    def check(self) -> None:
        check_change(self.change, self.edits)


class ClientChange(Packed, frozen=True, tag="q"):
    """As `ChangeRequest`, for a client of the site's daemon. `subject`: whom the client speaks
    for."""

    change: str
    edits: tuple[Edit, ...]
    subject: str

    def check(self) -> None:
        check_change(self.change, self.edits)
        try:
            subject_named(self.subject)
        except ConfigError as error:
            raise FrameError(plain_text(str(error))) from None


def check_change(change: str, edits: Sequence[Edit]) -> None:
    """Raise FrameError unless this change may be asked for at all: its names, and its size."""
    check_edits(change, edits)
    if not edits:
        raise FrameError("change: there is no edit in it")


# --- a flush --------------------------------------------------------------------------------------


class LogReport(Packed, frozen=True, tag="7"):
    """A sealed site's report: how far its log reaches in each group, the last seq of each origin
    in it, and the groups of closed epochs whose deliveries it still has."""

    flush: Ordinal
    counts: Counts
    lasts: Included
    holds: Annotated[tuple[tuple[Ordinal, Group], ...], Meta(max_length=LASTS)]
    part: Annotated[int, Meta(ge=0, lt=PARTS)] = 0
    parts: Annotated[int, Meta(ge=1, le=PARTS)] = 1

    def check(self) -> None:
        check_part(self.part, self.parts)
        check_counts(self.counts)
        check_included(self.lasts, "lasts")
        for _, group in self.holds:
            check_group(group, "holds")


Need: TypeAlias = tuple[Ordinal, Group, Natural, tuple[Site, ...], Site]
"""(epoch, group, number of its last message, members of an implicit group, who has them all)."""


class PastNeeded(Packed, frozen=True, tag="8"):
    """The manager tells a site what it must have before the next epoch opens."""

    flush: Ordinal
    needs: Annotated[tuple[Need, ...], Meta(max_length=LASTS)]
    part: Annotated[int, Meta(ge=0, lt=PARTS)] = 0
    parts: Annotated[int, Meta(ge=1, le=PARTS)] = 1

    def check(self) -> None:
        check_part(self.part, self.parts)
        for _, group, _, members, holder in self.needs:
            check_group(group, "needs")
            check_length(members, 0, MEMBERS, "needs: members")
            if holder:
                check_site(holder, "needs")


class Fetch(Packed, frozen=True, tag="9"):
    """A site asks for the messages of a group after this number."""

    epoch: Ordinal
    group: Group
    after: Natural

    def check(self) -> None:
        check_group(self.group, "group")


class Pages(Packed, frozen=True, tag="a"):
    """The first batches of a group after the number that was asked for."""

    epoch: Ordinal
    group: Group
    after: Natural
    batches: Annotated[tuple[Placed, ...], Meta(max_length=ITEMS)]

    def check(self) -> None:
        check_group(self.group, "group")
        check_each(self.batches, "batches")


class Whole(Packed, frozen=True, tag="b"):
    """The site has all of the past, durably."""

    flush: Ordinal


FlushFrame: TypeAlias = LogReport | PastNeeded | Fetch | Pages | Whole
SiteFrame: TypeAlias = (
    InEpoch | Feed | Fed | ClosedPart | Knock | ChangeRequest | ClientChange | FlushFrame | Voting
)
