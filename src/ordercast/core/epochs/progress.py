"""What a site tells the manager: how far it has folded the records, and what it has closed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordercast.model.epochs import Included
from ordercast.model.groups import Group, Site
from ordercast.wire.epochs import Fed, SiteFrame

if TYPE_CHECKING:
    from ordercast.core.epochs.member import Member


def progress(member: "Member") -> Fed:
    closed_here = [(change, member.closed(change)) for change in member.layout.closing]
    told = tuple((change, lasts) for change, lasts in closed_here if lasts is not None)
    return Fed(member.layout.count, told, *member.flush.news())


def closed(member: "Member", change: str) -> Included | None:
    """What this site reports for a change; None: it has yet to pass a Close."""
    included: list[tuple[Site, int, Group, int]] = []
    for epoch in member.layout.closing[change].epochs:
        if member.name in member.layout.domains[epoch].sites:
            engine = member.engines[epoch]
            if not engine.epoch_state.closed:
                return None
            included += [entry for entry in engine.ordering.placed_here() if entry[1]]
    return tuple(included)


def report_closed(
    member: "Member", told: dict[str, None], late: list[tuple[Site, SiteFrame]]
) -> dict[str, None]:
    """Tell the manager as soon as a Close has passed; it asks again if this is lost. Changes whose
    closing was reported, with `told` those that were before."""
    for change in member.layout.closing:
        if change not in told and member.closed(change) is not None:
            told[change] = None
            if member.manager_at is not None:
                late.append((member.manager_at, progress(member)))
    return {change: None for change in told if change in member.layout.closing}


def is_quiet(member: "Member", apart_from: Sequence[Site], *, busy: bool) -> bool:
    """Nothing is outstanding here; `busy`: a change is that was asked for here."""
    layout, engines = member.layout, member.engines.values()
    if member.name not in layout.roster:
        # Retired: no word of what became stable is owed to it, but of what no epoch takes.
        return all(engine.own.all_placed() for engine in engines) and not member.flush.waiting()
    peers = [peer for engine in engines for peer in engine.links]
    gone = [*apart_from, *(peer for peer in peers if peer not in layout.roster)]
    return (
        not (busy or layout.closing)
        and member.flush.quiet()
        and all(engine.quiet(gone) for engine in engines)
    )
