"""From one layout to the next: what a member ends, and what it begins ([GS] §5.1 and §5.2.1).

Both a running member and one that restarts from its records come through here, so nothing may
depend on more than the records say.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ordercast.core.epochs.layout import Domain, Layout
from ordercast.core.epochs.records import REFUSED, EpochOpened
from ordercast.core.epochs.returning import tail_of
from ordercast.core.outbox import Checkpoint, Receipt, opening
from ordercast.model.errors import Error, NotInMajority
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch

if TYPE_CHECKING:
    from ordercast.core.epochs.member import Member


def adopt(member: "Member", layout: Layout) -> dict[int, Checkpoint]:
    """End the engines of epochs that are gone; what those of the new ones start with."""
    before, member.layout = member.layout, layout
    mine = {
        group: seq
        for (origin, incarnation, group), seq in layout.lasts.items()
        if origin == member.name and incarnation == member.incarnation
    }
    parked, unplaced = member.flush.unpark(), list[Batch]()
    member.flush.admitted()
    for epoch in [epoch for epoch in member.engines if epoch not in layout.domains]:
        engine = member.engines.pop(epoch)
        member.window.ended(engine, mine)
        at_home = epoch in before.domains and member.name in before.domains[epoch].sites
        if at_home and _is_left_behind(member, before):
            member.flush.tail, member.position = tail_of(engine, epoch), engine.gate.logged
            continue
        if at_home and member.flush.leave(epoch, engine, mine, unplaced):
            continue
        engine.end(mine)
        member.collect(epoch, engine, engine.drain())
        unplaced.extend(engine.unplaced())
        if at_home:
            member.position = engine.gate.logged
            member.flush.closed(epoch, engine)
    unplaced = member.flush.come_back(unplaced, parked)
    for engine in member.engines.values():
        for peer in [peer for peer in engine.links if peer not in layout.roster]:
            engine.part_from(peer)
    again = sort_out(member, unplaced)
    openings: dict[int, Checkpoint] = {}
    member.into_open = {epoch: again[epoch] for epoch in again if epoch in member.engines}
    for epoch, domain in layout.domains.items():
        if epoch in before.domains and (epoch not in again or epoch in member.engines):
            continue
        at_home = member.name in domain.sites
        if at_home and epoch not in before.domains and not member.flush.stranger():
            member.delivering.append(_opened(member, before, domain))
        if at_home or epoch in again:
            openings[epoch] = first_checkpoint(member, domain, again.get(epoch, ()))
    return openings


def _is_left_behind(member: "Member", before: Layout) -> bool:
    """Who finds itself retired after a leap over many records does not know whether its epoch was
    closed with it: it delivers no more of what it has."""
    leap = member.layout.count - before.count
    return leap > 1 and member.flush.excludes and member.name not in member.layout.roster


def _opened(member: "Member", before: Layout, domain: Domain) -> EpochOpened:
    """What the application is told when the member opens an epoch. Who returns without its store,
    or after too long, joins its groups anew: it has nothing, or not all, of what was before."""
    structure = domain.structure
    fresh: tuple[Site, ...] = ()
    if before.flushing is not None:
        back = [site for site in before.lapsed if site in before.flushing.members]
        fresh = (*before.flushing.fresh, *back)
    if before.roster.get(member.name, member.incarnation) != member.incarnation:
        fresh = (*fresh, member.name)
    known = {
        group: tuple(site for site in sites if site not in fresh)
        for group, sites in before.groups.items()
    }
    groups = tuple(structure.groups_of[member.name])
    arrived = [
        (group, tuple(site for site in sites if site not in known[group]))
        for group, sites in structure.groups.items()
        if group in known
    ]
    return EpochOpened(
        domain.epoch, member.position, domain.protocol, domain.builder, groups,
        tuple(group for group in groups if member.name not in known.get(group, ())),
        tuple(structure.groups.items()), domain.after,
        tuple((group, sites) for group, sites in arrived if sites),
    )  # fmt: skip


def sort_out(member: "Member", unplaced: Sequence[Batch]) -> dict[int, list[Batch]]:
    """Own batches by the epoch that will take them; the others are refused. In causal order
    nothing overtakes one that waits for absent sites."""
    again: dict[int, list[Batch]] = {}
    for batch in unplaced:
        try:
            member.flush.require_nothing_waits()
            domain = member.domain(batch.group, batch.members)
        except NotInMajority:
            member.flush.parked.append(batch)
            continue
        except Error:
            member.receipts.append(Receipt(REFUSED, batch.group, batch.seq, batch.count))
            continue
        again.setdefault(domain.epoch, []).append(replace(batch, past=()))
    return again


def first_checkpoint(
    member: "Member", domain: Domain, unplaced: Sequence[Batch] = ()
) -> Checkpoint:
    """What an engine starts an epoch with; own batches that no epoch includes are sent again."""
    groups = domain.structure.groups
    position = member.position if member.name in domain.sites else 0
    lasts: list[tuple[Site, int, Group, int]] = []
    own: dict[Group, int] = {}
    for (origin, incarnation, group), seq in member.layout.lasts.items():
        if group in groups or group.startswith("@"):
            lasts.append((origin, incarnation, group, seq))
            if origin == member.name and incarnation == member.incarnation:
                own[group] = seq
    return opening(position, tuple(lasts), own, unplaced)
