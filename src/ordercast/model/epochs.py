"""What the voters decide: edits of the layout, and the records of their log (docs/epochs.md)."""

from typing import TypeAlias

import msgspec

from ordercast.model.groups import Group, Site


class JoinGroup(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="j"):
    group: Group
    site: Site


class LeaveGroup(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="l"):
    group: Group
    site: Site


class AddGroup(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="g"):
    group: Group
    members: tuple[Site, ...]


class RemoveGroup(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="h"
):
    group: Group


class AddSite(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="s"):
    site: Site
    address: str = ""


class RetireSite(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="r"):
    site: Site


class UseBuilder(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="b"):
    """Of the domain that has the site; of all, if none is named."""

    builder: str
    site: Site = ""


class UseProtocol(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="p"
):
    protocol: str
    site: Site = ""


class AddVoter(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="v"):
    """Let a site of the roster decide with the others; no domain is closed for it."""

    site: Site


class RemoveVoter(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="w"
):
    site: Site


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
)

Included: TypeAlias = tuple[tuple[Site, int, Group, int], ...]
"""(origin, incarnation, group, last seq that the closed epochs include)."""


Counts: TypeAlias = tuple[tuple[int, Group, int, tuple[Site, ...]], ...]
"""(epoch, group, number of the group's last message in it, members of an implicit group)."""


class Begin(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="B"):
    """Close the domains that the edits touch; `change` names it for whoever asked."""

    change: str
    edits: tuple[Edit, ...]


class Finish(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="F"):
    """Every site of the closing epochs has closed: do the edits, open the next epochs."""

    change: str
    lasts: Included
    counts: Counts = ()  # what absent sites will be compared with


Stores: TypeAlias = tuple[tuple[Site, int], ...]
"""Voters and the numbers of their stores: each store is given one, drawn at random, when made."""


class Founded(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="O"):
    """The first record: all voters were there, with these stores."""

    voters: Stores


class Admit(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="A"):
    """A site came with a new store: it is a new incarnation. Of a voter: `store` 0, its old store's
    word counts no more; then, with the new number, that one's does."""

    site: Site
    incarnation: int
    store: int


class Voters(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="V"):
    """One voter more or one less than before."""

    voters: Stores


class Stored(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="T"):
    """A site came for the first time, with this store: it may take part."""

    site: Site
    store: int


class Flush(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="X"):
    """Close what these sites are in, without those that are `out`. The past of what is closed is
    the union of the logs of all the others. `back`: (site, incarnation, store) of those that
    return, or have restarted; a higher incarnation than before: without their store."""

    out: tuple[Site, ...]
    back: tuple[tuple[Site, int, int], ...]


class Open(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="P"):
    """Every site of the flush has all of the past: open the next epochs."""

    flush: int  # the number of its record
    counts: Counts  # what absent sites will be compared with
    lasts: Included


class Lapse(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="L"):
    """What these absent sites miss is more than is kept: they return as joiners do."""

    sites: tuple[Site, ...]


class Nothing(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="N"):
    """What a new manager commits first, to know what is committed."""


EpochRecord: TypeAlias = (
    Begin | Finish | Founded | Admit | Voters | Stored | Flush | Open | Lapse | Nothing
)


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An entry of the voters' log."""

    term: int
    record: EpochRecord
