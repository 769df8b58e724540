"""What a site tells the manager: how far it has folded the records, and what it has closed."""

from typing import TYPE_CHECKING

from ordercast.model.epochs import Included
from ordercast.model.groups import Group, Site
from ordercast.wire.epochs import Fed

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
            if not engine.all_logged:
                return None
            included += [entry for entry in engine.ordering.placed_here() if entry[1]]
    return tuple(included)
