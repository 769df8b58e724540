"""A layout as bytes: in checkpoints, in snapshots of the voters' log, for a site far behind."""

from dataclasses import replace

import msgspec

from ordercast.core.epochs.chain import HASH_BYTES, UNKNOWN
from ordercast.core.epochs.forests import Before, FromRecord, moves_of
from ordercast.core.epochs.layout import (
    NO_EDIT,
    Build,
    Closing,
    Domain,
    Flushing,
    Layout,
    living,
    reopened,
    sites_of,
)
from ordercast.core.order.registry import is_protocol
from ordercast.model.epochs import (
    CLIENT_WINDOW,
    WINDOWS,
    Counts,
    Edit,
    EndPart,
    ForestMoves,
    Included,
)
from ordercast.model.errors import ConfigError, FrameError
from ordercast.model.features import are_features
from ordercast.model.fields import IMPLICIT_PATTERN
from ordercast.model.grants import GrantText, grants_told
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.names import is_name


class _Domain(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    groups: tuple[Group, ...]
    builder: str
    protocol: str
    after: tuple[int, ...]
    usual: str = ""
    forest: ForestMoves | None = None  # None in stores of earlier versions: then it is built again
    refused: str = ""


class _Closing(msgspec.Struct, frozen=True, array_like=True):
    change: str
    edits: tuple[Edit, ...]
    epochs: tuple[int, ...]
    sites: tuple[Site, ...]
    number: int
    parts: tuple[EndPart, ...] = ()


class _Flushing(msgspec.Struct, frozen=True, array_like=True):
    number: int
    epochs: tuple[int, ...]
    members: tuple[Site, ...]
    absent: dict[Site, int]
    fresh: dict[Site, tuple[int, int]]
    parts: tuple[EndPart, ...] = ()


class _Layout(msgspec.Struct, frozen=True, array_like=True):
    count: int
    roster: dict[Site, int]
    voters: tuple[Site, ...]
    groups: dict[Group, tuple[Site, ...]]
    domains: tuple[_Domain, ...]
    last_epoch: int
    closing: tuple[_Closing, ...]
    outcomes: dict[str, str]
    lasts: Included
    addresses: dict[Site, str]
    founding: str
    whole: bool
    open: bool
    stores: dict[Site, int]
    absent: dict[Site, int]
    frozen: dict[Group, tuple[int, tuple[Site, ...]]]
    pasts: Counts
    counted: dict[int, tuple[Site, ...]]
    flushing: _Flushing | None
    lapsed: tuple[Site, ...]
    rejoining: dict[Site, int]
    manners: dict[Group, tuple[str, str]] = {}
    causal: bool = False
    term: int = 0
    chain: bytes = UNKNOWN
    lost: tuple[tuple[Site, int], ...] = ()
    floors: tuple[tuple[Site, int, int], ...] = ()
    told_at: int = 0
    look_at: int = 0
    features: tuple[str, ...] = ()
    grants: tuple[GrantText, ...] | None = None
    revoked: dict[str, str] = {}
    producers: tuple[tuple[str, Group, int], ...] = ()
    last_ticket: int = 0
    opening_marks: dict[int, Included] = {}
    withdrawn: tuple[tuple[str, str, int], ...] = ()
    bygone: tuple[tuple[Site, int, int], ...] = ()


_decode = msgspec.msgpack.Decoder(_Layout).decode


def pack_layout(layout: Layout) -> bytes:
    flush = layout.flushing
    return msgspec.msgpack.encode(
        _Layout(
            layout.count,
            dict(layout.roster),
            layout.voters,
            dict(layout.groups),
            tuple(_packed(domain) for domain in layout.domains.values()),
            layout.last_epoch,
            tuple(
                _Closing(change, c.edits, c.epochs, tuple(sorted(c.at)), c.number, c.parts)
                for change, c in layout.closing.items()
            ),
            dict(layout.outcomes),
            tuple((*stream, seq) for stream, seq in layout.lasts.items()),
            dict(layout.addresses),
            layout.founding,
            layout.whole,
            layout.open,
            dict(layout.stores),
            dict(layout.absent),
            dict(layout.frozen),
            tuple((*place, *count) for place, count in layout.pasts.items()),
            dict(layout.counted),
            None
            if flush is None
            else _Flushing(
                flush.number,
                flush.epochs,
                flush.members,
                dict(flush.absent),
                dict(flush.fresh),
                flush.parts,
            ),
            layout.lapsed,
            dict(layout.rejoining),
            dict(layout.manners),
            layout.causal,
            layout.term,
            layout.chain,
            layout.lost,
            tuple((*origin, seq) for origin, seq in layout.floors.items()),
            layout.told_at,
            layout.look_at,
            layout.features,
            layout.grants.told(),
            dict(layout.revoked),
            tuple((*pair, ticket) for pair, ticket in layout.producers.items()),
            layout.last_ticket,
            dict(layout.opening_marks),
            tuple((*pair, epoch) for pair, epoch in layout.withdrawn.items()),
            tuple((*origin, seq) for origin, seq in layout.bygone.items()),
        )
    )


def _packed(domain: Domain) -> _Domain:
    structure = domain.structure
    table = replace(structure.table, sites=sites_of(structure.groups))
    return _Domain(
        domain.epoch, tuple(structure.groups), domain.builder, domain.protocol, domain.after,
        domain.usual, moves_of(table, structure.forest, Before()), domain.refused,
    )  # fmt: skip


def included_in(data: bytes) -> Included:
    """The last seqs that closed epochs include, out of a packed layout."""
    return _read(data).lasts


def floor_in(data: bytes, site: Site, incarnation: int) -> int:
    """The last seq that the site may have given in streams which the layout has forgotten."""
    read = _read(data)
    told = (*read.floors, *read.bygone)
    return max((n for s, i, n in told if (s, i) == (site, incarnation)), default=0)


def absences_in(data: bytes) -> dict[int, dict[Group, list[Site]]]:
    """By open epoch, the absent members of its groups, where there are any."""
    packed = _read(data)
    found: dict[int, dict[Group, list[Site]]] = {}
    for domain in packed.domains:
        for group in domain.groups:
            away = [site for site in packed.groups[group] if site in packed.absent]
            if away:
                found.setdefault(domain.epoch, {})[group] = away
    return found


def absent_in(data: bytes) -> dict[Site, int]:
    """The absent sites, and the epoch that was closed without each."""
    return _read(data).absent


def _read(data: bytes) -> _Layout:
    """Raises FrameError if it is no layout, or contradicts itself: a peer may have sent it."""
    try:
        packed = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"not a layout: {ascii(str(error))[1:200]}") from None
    epochs = dict.fromkeys(domain.epoch for domain in packed.domains)
    placed = [group for domain in packed.domains for group in domain.groups]
    members = [site for sites in packed.groups.values() for site in sites]
    closing = [epoch for closing in packed.closing for epoch in closing.epochs]
    flush = packed.flushing
    if (
        packed.count < -1
        or not all(is_name(site) for site in packed.roster)
        or not all(is_name(group) and sites for group, sites in packed.groups.items())
        or not all(site in packed.roster for site in members)
        or not all(domain.groups for domain in packed.domains)
        or sorted(placed) != sorted(living(packed.groups, packed.absent))
        or len(epochs) != len(packed.domains)
        or any(not 0 < epoch <= packed.last_epoch for epoch in epochs)
        or any(epoch not in epochs for epoch in closing)
        or any(not is_protocol(domain.usual) for domain in packed.domains if domain.usual)
        or any(not is_protocol(domain.protocol) for domain in packed.domains)
        or not all(is_name(voter) for voter in packed.voters)
        or not all(site in packed.absent for site in packed.lapsed)
        or any(epoch not in epochs for epoch in (flush.epochs if flush else ()))
        or not all(is_protocol(protocol) for _, protocol in packed.manners.values())
        or len(packed.chain) not in (0, HASH_BYTES)
        or not are_features(packed.features)
        or not all(is_name(name) or name in WINDOWS for name, _, _ in packed.producers)
        or not all(
            group in packed.groups or (name == CLIENT_WINDOW and IMPLICIT_PATTERN.fullmatch(group))
            for name, group, _ in packed.producers
        )
        or not all(0 < ticket <= packed.last_ticket for _, _, ticket in packed.producers)
    ):
        raise FrameError("not a layout: its parts contradict each other")
    return packed


def unpack_layout(data: bytes, build: Build) -> Layout:
    """Raises FrameError as `_read`, or if a builder or protocol is not available here."""
    try:
        return _unpacked(_read(data), build)
    except ConfigError as error:
        raise FrameError(f"not a layout: {error}") from None


def _unpacked(packed: _Layout, build: Build) -> Layout:
    sites = tuple(sorted(packed.roster))
    groups = living(packed.groups, packed.absent)
    flush = packed.flushing
    flushing = (
        None
        if flush is None
        else Flushing(
            flush.number, flush.epochs, flush.members, flush.absent, flush.fresh, flush.parts
        )
    )
    domains: dict[int, Domain] = {}
    for d in packed.domains:
        GroupTable.of({group: groups[group] for group in d.groups})  # a peer may have sent it
        forest = build if d.forest is None else FromRecord((d.forest,), ())
        domain = reopened(
            d.epoch, d.groups, groups, sites, d.builder, d.protocol, d.after, forest, d.usual
        )
        domains[d.epoch] = replace(domain, refused=d.refused)
    return Layout(
        packed.count,
        packed.roster,
        packed.voters,
        packed.groups,
        domains,
        packed.last_epoch,
        {
            c.change: Closing(c.edits, c.epochs, frozenset(c.sites), c.number, c.parts)
            for c in packed.closing
            if c.edits
        },
        # A change with no edit was once begun. It closes nothing, and can be refused at any time.
        packed.outcomes | {c.change: NO_EDIT for c in packed.closing if not c.edits},
        {(origin, incarnation, group): seq for origin, incarnation, group, seq in packed.lasts},
        packed.addresses,
        packed.founding,
        packed.whole,
        packed.open,
        packed.stores,
        packed.absent,
        packed.frozen,
        {(epoch, group): (number, members) for epoch, group, number, members in packed.pasts},
        packed.counted,
        flushing,
        packed.lapsed,
        packed.rejoining,
        packed.manners,
        packed.causal,
        packed.term,
        packed.chain,
        packed.lost,
        {(site, incarnation): seq for site, incarnation, seq in packed.floors},
        packed.told_at,
        packed.look_at,
        packed.features,
        grants_told(packed.grants),
        packed.revoked,
        {(sites, groups): epoch for sites, groups, epoch in packed.withdrawn},
        {(producer, group): ticket for producer, group, ticket in packed.producers},
        packed.last_ticket,
        packed.opening_marks,
        {(site, incarnation): seq for site, incarnation, seq in packed.bygone},
    )
