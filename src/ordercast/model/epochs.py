"""What the voters decide: edits of the layout, and the records of their log (docs/epochs.md).

Frames carry these, and stores keep them. A store must read whatever its site once wrote, so lengths
of what a site gathers itself, and texts, are for `check` alone, which frames call.
"""

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Final, TypeAlias

from ordercast.model.errors import ConfigError, FrameError
from ordercast.model.features import check_features
from ordercast.model.fields import (
    KNOWN_NAMES,
    Natural,
    Ordinal,
    Packed,
    StoreNumber,
    check_each,
    check_group,
    check_length,
    check_named_group,
    check_site,
    check_sites,
    check_text,
    plain_text,
)
from ordercast.model.grants import MOST_ACTS, MOST_LINES, GrantText, grant_line, subject_named
from ordercast.model.groups import Group, Site
from ordercast.model.limits import LASTS, MEMBERS, PLACES, RECORDS, VOTERS

FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class _OfMember(Packed, frozen=True):
    group: Group
    site: Site

    def check(self) -> None:
        check_named_group(self.group, "group")
        check_site(self.site, "site")


class JoinGroup(_OfMember, frozen=True, tag="j"):
    """The site becomes a member of the group."""


class LeaveGroup(_OfMember, frozen=True, tag="l"):
    """The site is a member of the group no longer."""


class AddGroup(Packed, frozen=True, tag="g"):
    group: Group
    members: tuple[Site, ...]

    def check(self) -> None:
        check_named_group(self.group, "group")
        check_length(self.members, 0, MEMBERS, "members")
        check_sites(self.members, "members")


class RemoveGroup(Packed, frozen=True, tag="h"):
    group: Group

    def check(self) -> None:
        check_named_group(self.group, "group")


class AddSite(Packed, frozen=True, tag="s"):
    site: Site
    address: str = ""

    def check(self) -> None:
        check_site(self.site, "site")
        check_text(self.address, "address")


class _OfSite(Packed, frozen=True):
    site: Site

    def check(self) -> None:
        check_site(self.site, "site")


class RetireSite(_OfSite, frozen=True, tag="r"):
    """The site leaves all its groups, and the roster."""


class UseBuilder(Packed, frozen=True, tag="b"):
    """Of the domain that has the site; of all, if none is named."""

    builder: str
    site: Site = ""

    def check(self) -> None:
        check_text(self.builder, "builder", least=1)
        if self.site:
            check_site(self.site, "site")


class UseProtocol(Packed, frozen=True, tag="p"):
    """Of the domain that has the site; of all, if none is named."""

    protocol: str
    site: Site = ""

    def check(self) -> None:
        check_text(self.protocol, "protocol", least=1)
        if self.site:
            check_site(self.site, "site")


class AddVoter(_OfSite, frozen=True, tag="v"):
    """Let a site of the roster decide with the others; no domain is closed for it."""


class RemoveVoter(_OfSite, frozen=True, tag="w"):
    """Let a voter decide no longer; no domain is closed for it."""


class _OfProducer(Packed, frozen=True):
    producer: str

    def check(self) -> None:
        if self.producer not in WINDOWS:
            check_site(self.producer, "producer")


class AddProducer(_OfProducer, frozen=True, tag="m"):
    """The producer may send to the group; no domain is closed for it."""

    group: Group

    def check(self) -> None:
        super().check()
        _check_remembering(self.producer, self.group)


class RemoveProducer(_OfProducer, frozen=True, tag="n"):
    """Forget the producer's mark at the group; at all groups, if none is named."""

    group: Group = ""

    def check(self) -> None:
        super().check()
        if self.group:
            _check_remembering(self.producer, self.group)


def _check_remembering(producer: str, group: Group) -> None:
    """A list of sites remembers clients, and nothing else."""
    (check_group if producer == CLIENT_WINDOW else check_named_group)(group, "group")


class Grant(Packed, frozen=True, tag="a"):
    """The subjects of this name, or pattern, may do this too: acts with patterns of groups."""

    subject: str
    acts: tuple[str, ...]

    def check(self) -> None:
        check_grant((self.subject, self.acts), "acts")
        check_length(self.acts, 1, MOST_ACTS, "acts")


class Withdraw(Packed, frozen=True, tag="u"):
    """Take grants back from the line of these subjects; all of the line, if no acts are named."""

    subject: str
    acts: tuple[str, ...] = ()

    def check(self) -> None:
        check_grant((self.subject, self.acts), "acts")


class UseGrants(Packed, frozen=True, tag="t"):
    """The table of the cluster file. The manager asks for it, while the log has no table."""

    lines: tuple[GrantText, ...]

    def check(self) -> None:
        check_length(self.lines, 0, MOST_LINES, "lines")
        for line in self.lines:
            check_grant(line, "lines")
        if sum(len(acts) for _, acts in self.lines) > MOST_ACTS:
            raise FrameError(f"lines: more than {MOST_ACTS:,} grants")


class RevokeCertificate(Packed, frozen=True, tag="x"):
    """Refuse this certificate from now on. `fingerprint`: the SHA-256 of it, in hexadecimal digits.
    `subject`: the name in it, for people who read the list."""

    subject: str
    fingerprint: str

    def check(self) -> None:
        try:
            subject_named(self.subject)
        except ConfigError as error:
            raise FrameError(plain_text(str(error))) from None
        if FINGERPRINT.fullmatch(self.fingerprint) is None:
            raise FrameError("fingerprint: must be 64 hexadecimal digits")


def check_grant(line: GrantText, field: str) -> None:
    check_length(line[1], 0, MOST_ACTS, field)
    try:
        grant_line(line[0], list(line[1]), "subject")
    except ConfigError as error:
        raise FrameError(plain_text(str(error))) from None


Edit: TypeAlias = (
    JoinGroup
    | LeaveGroup
    | AddGroup
    | RemoveGroup
    | AddSite
    | RetireSite
    | UseBuilder
    | UseProtocol
    | AddVoter
    | RemoveVoter
    | Grant
    | Withdraw
    | UseGrants
    | RevokeCertificate
    | AddProducer
    | RemoveProducer
)


def check_edits(change: str, edits: Sequence[Edit]) -> None:
    """Raise FrameError unless a change has a name, and its edits have names and are not too many.
    One without edits stands in old logs: it passes here, and the layout refuses it."""
    check_text(change, "change", least=1)
    check_length(edits, 0, RECORDS, "edits")
    check_each(edits, "edits")
    members = sum(len(edit.members) for edit in edits if isinstance(edit, AddGroup))
    if members > MEMBERS:
        raise FrameError(f"edits: {members:,} members of new groups, at most {MEMBERS:,}")


# --- what several records and frames have ---------------------------------------------------------


Included: TypeAlias = tuple[tuple[Site, Ordinal, Group, Ordinal], ...]
"""(origin, incarnation, group, last seq that the closed epochs include). Of a producer:
(`PRODUCERS`, its ticket, the group, its last number). Of an id in a group's window: (`PRODUCERS`
and a digest of the id, the ticket of the window, the group, its number there). Of a client in a
group's window: (`PRODUCERS` and its digest and last number, the ticket, the group, its value)."""

PRODUCERS: Final[Site] = "+"
"""In the place of an origin, where a producer's mark stands among the last seqs. No site's name
begins so."""

ID_WINDOW: Final = "+ids"
"""In the place of a producer's name: who has the ticket of a group's window of ids."""

CLIENT_WINDOW: Final = "+clients"
"""The same, of a group's window of clients."""

WINDOWS: Final = (ID_WINDOW, CLIENT_WINDOW)

_ID_MARK: Final = re.compile(r"\+[A-Za-z0-9_-]{15}", re.ASCII)
_CLIENT_MARK: Final = re.compile(r"\+[A-Za-z0-9_-]{20}", re.ASCII)


def is_id_mark(origin: Site) -> bool:
    """Whether it stands for an id in a group's window."""
    return _ID_MARK.fullmatch(origin) is not None


def is_client_mark(origin: Site) -> bool:
    """Whether it stands for a client in a group's window."""
    return _CLIENT_MARK.fullmatch(origin) is not None


def is_mark(origin: Site) -> bool:
    """Whether no site stands in the place of an origin, but a producer's mark, an id or a
    client."""
    return origin.startswith(PRODUCERS)


Counts: TypeAlias = tuple[tuple[Ordinal, Group, Natural, tuple[Site, ...]], ...]
"""(epoch, group, number of the group's last message in it, members of an implicit group)."""

Stores: TypeAlias = tuple[tuple[Site, StoreNumber], ...]
"""Voters and the numbers of their stores: each store is given one, drawn at random, when made."""


_ORIGIN, _GROUP = itemgetter(0), itemgetter(2)  # of an entry of what is included


def check_included(included: Included, field: str) -> None:
    check_length(included, 0, LASTS, field)
    for origin in dict.fromkeys(map(_ORIGIN, included)):
        if origin != PRODUCERS and not (is_id_mark(origin) or is_client_mark(origin)):
            check_site(origin, field)
    for group in dict.fromkeys(map(_GROUP, included)):
        if group not in KNOWN_NAMES:
            check_group(group, field)


def check_counts(counts: Counts) -> None:
    check_length(counts, 0, LASTS, "counts")
    for _, group, _, members in counts:
        check_group(group, "counts")
        check_length(members, 0, MEMBERS, "counts: members")


def check_stores(stores: Stores, field: str) -> None:
    check_length(stores, 1, VOTERS, field)
    check_sites((voter for voter, _ in stores), field)


class ForestMoves(Packed, frozen=True):
    """The forest of a domain that opens: what differs from the forests of the closed epochs. Sites
    and groups are numbered as they sort within the domain, from 1."""

    builder: str  # of the forest; "": none could be built
    parents: tuple[tuple[Ordinal, Natural], ...] = ()  # (site, parent); 0: it is the root
    primaries: tuple[tuple[Ordinal, Ordinal], ...] = ()  # (group, site)
    age: Natural = 0  # the changes that it was adapted to since it was built

    def check(self) -> None:
        check_text(self.builder, "builder")


def check_forests(forests: Sequence[ForestMoves] | None) -> None:
    if forests is None:
        return
    check_length(forests, 0, PLACES, "forests")
    check_each(forests, "forests")
    places = sum(len(moves.parents) + len(moves.primaries) for moves in forests)
    if places > PLACES:
        raise FrameError(f"forests: {places:,} sites and groups, at most {PLACES:,}")


# --- records of the voters' log -------------------------------------------------------------------


class Begin(Packed, frozen=True, tag="B"):
    """Close the domains that the edits touch; `change` names it for the one who asked. `refused`:
    why the manager could build no forest for it. None, in logs of earlier versions: each site finds
    that out itself."""

    change: str
    edits: tuple[Edit, ...]
    refused: str | None = None

    def check(self) -> None:
        check_edits(self.change, self.edits)
        check_text(self.refused or "", "refused")


class Finish(Packed, frozen=True, tag="F"):
    """Every site of the closing epochs has closed: do the edits, open the next epochs. `forests`:
    the forests of these, in the order in which they open. None, in logs of earlier versions: each
    site builds them itself. `refused`: why there are none."""

    change: str
    lasts: Included
    counts: Counts = ()  # what absent sites will be compared with
    forests: tuple[ForestMoves, ...] | None = None
    refused: str = ""

    def check(self) -> None:
        check_text(self.change, "change", least=1)
        check_included(self.lasts, "lasts")
        check_counts(self.counts)
        check_forests(self.forests)
        check_text(self.refused, "refused")


class EndPart(Packed, frozen=True, tag="E"):
    """A part of the end of a change or of a flush. It comes before, where one record cannot have
    all. `begun`: the number of the record that began it."""

    begun: Ordinal
    counts: Counts
    lasts: Included

    def check(self) -> None:
        check_counts(self.counts)
        check_included(self.lasts, "lasts")


class Founded(Packed, frozen=True, tag="O"):
    """The first record: all voters were there, with these stores. `features`: those of the
    manager's program. A cluster begins with all of them."""

    voters: Stores
    features: tuple[str, ...] = ()

    def check(self) -> None:
        check_stores(self.voters, "voters")
        check_features(self.features)


class Adopt(Packed, frozen=True, tag="U"):
    """Every site of the roster has said that its program has these features: use them."""

    features: tuple[str, ...]

    def check(self) -> None:
        check_features(self.features)


class Admit(Packed, frozen=True, tag="A"):
    """A site came with a new store: it is a new incarnation. A voter is admitted twice: with
    `store` 0, from when on the word of its old store does not count, and with the new number, from
    when on the word of the new store does."""

    site: Site
    incarnation: Natural
    store: StoreNumber

    def check(self) -> None:
        check_site(self.site, "site")


class Voters(Packed, frozen=True, tag="V"):
    """One voter more or one less than before."""

    voters: Stores

    def check(self) -> None:
        check_stores(self.voters, "voters")


class Recovered(Packed, frozen=True, tag="R"):
    """An operator has declared voters lost for good. The others are the only voters from now on,
    and the stores of the lost ones may not come back."""

    voters: Stores
    lost: Stores

    def check(self) -> None:
        check_stores(self.voters, "voters")
        check_stores(self.lost, "lost")


class Stored(Packed, frozen=True, tag="T"):
    """A site came for the first time, with this store: it may take part."""

    site: Site
    store: StoreNumber

    def check(self) -> None:
        check_site(self.site, "site")


class Flush(Packed, frozen=True, tag="X"):
    """Close the epochs of these sites; the sites that are `out` do not take part. The past of what
    is closed is the union of the logs of all the others. `back`: (site, incarnation, store) of the
    sites that return or have restarted. An incarnation above the one before: the site lost its
    store."""

    out: tuple[Site, ...]
    back: tuple[tuple[Site, Ordinal, StoreNumber], ...]

    def check(self) -> None:
        check_length(self.out, 0, MEMBERS, "out")
        check_sites(self.out, "out")
        check_length(self.back, 0, MEMBERS, "back")
        check_sites((site for site, _, _ in self.back), "back")


class Open(Packed, frozen=True, tag="P"):
    """Every site of the flush has all of the past: open the next epochs, with these forests (as in
    `Finish`)."""

    flush: Ordinal  # the number of its record
    counts: Counts  # what absent sites will be compared with
    lasts: Included
    forests: tuple[ForestMoves, ...] | None = None

    def check(self) -> None:
        check_counts(self.counts)
        check_included(self.lasts, "lasts")
        check_forests(self.forests)


class Lapse(Packed, frozen=True, tag="L"):
    """These absent sites miss more than is kept: they return as joiners do."""

    sites: tuple[Site, ...]

    def check(self) -> None:
        check_length(self.sites, 1, MEMBERS, "sites")
        check_sites(self.sites, "sites")


class Nothing(Packed, frozen=True, tag="N"):
    """The first record of a new manager: when it is committed, all records before it are."""


EpochRecord: TypeAlias = (
    Begin
    | Finish
    | EndPart
    | Founded
    | Adopt
    | Admit
    | Voters
    | Recovered
    | Stored
    | Flush
    | Open
    | Lapse
    | Nothing
)


class Entry(Packed, frozen=True):
    """An entry of the voters' log."""

    term: Ordinal
    record: EpochRecord

    def check(self) -> None:
        self.record.check()
