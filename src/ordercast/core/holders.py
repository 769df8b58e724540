"""Who holds a site's window: whose silence keeps its own messages from being stable.

A message that its primary has not dealt with waits for the primary (or, where this site is the
primary, for the child whose lane is full); one that has its place waits for the members whose
durable logs are the shortest. An origin that is no member hears
from the primary only, and names that. A direct protocol says itself whose word is missing.
"""

from typing import TYPE_CHECKING

from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.wire.frames import DOWN, UP, Submit

if TYPE_CHECKING:
    from ordercast.core.site import Site


def holders(site: "Site") -> list[SiteName]:
    """Sorted; empty when nothing of this site's own is under way."""
    found: dict[SiteName, None] = {}
    if not site.own.unstable:
        return []
    if site.direct is not None:
        return sorted(
            dict.fromkeys(
                holder
                for batch in site.own.kept
                for holder in site.direct.waits_for(batch) or site.stability.behind(batch.group)
            )
        )
    unplaced = _unplaced(site)
    seen: dict[Group, None] = {}
    for batch in site.own.kept:
        if batch.group in seen:
            continue
        seen[batch.group] = None
        primary = site.structure.primary(batch.group, batch.members)
        if batch.group in unplaced:
            found[primary] = None
            continue
        lagging = site.stability.behind(batch.group)
        if not lagging and primary == site.name:
            lagging = _waited_for(site)
        found.update(dict.fromkeys(lagging or [primary]))
    return sorted(found)


def untold(site: "Site") -> list[SiteName]:
    """Sorted: who keeps what this site has logged, whoever sent it, from being known as final."""
    found: dict[SiteName, None] = {}
    for group in site.stability.open():
        found.update(dict.fromkeys(site.stability.behind(group)))
    return sorted(found)


def _unplaced(site: "Site") -> dict[Group, None]:
    """The groups of submissions that their primaries have not dealt with."""
    return {
        item.batch.group: None
        for link in site.links.values()
        for item in link.outgoing[UP].items
        if type(item) is Submit
    }


def _waited_for(site: "Site") -> list[SiteName]:
    """The children for whom most is waiting."""
    waiting = {peer: len(link.outgoing[DOWN].items) for peer, link in site.links.items()}
    most = max(waiting.values(), default=0)
    return [peer for peer, count in waiting.items() if count == most] if most else []
