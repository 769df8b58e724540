"""When a run has come to rest: everything is delivered, and no site has anything left to do."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ordercast.core.epochs.absence import fold_flush
from ordercast.core.epochs.member import Member
from ordercast.model.epochs import Flush

if TYPE_CHECKING:
    from ordercast.sim.world import World


def all_quiet(world: "World") -> bool:
    """Under `exclude` those that stay down are done without, if there is a majority of voters."""
    places = list(world.places.values())
    untaken, gone = world.untaken, list[str]()
    if world.excludes:
        untaken -= sum(len(place.waiting) for place in places if place.site is None)
        gone = [place.name for place in places if place.site is None]
        up = [place.name for place in places if place.site is not None]
        if not world.epochs.has_majority(up):  # who is stuck still votes
            return False
        stuck = _stuck([place.site for place in places if place.site is not None])
        untaken -= sum(len(place.waiting) for place in places if place.name in stuck)
        places = [p for p in places if p.name in up and p.name not in stuck]
    return not untaken and all(
        place.site is not None and not place.unsynced and place.site.quiet(gone) for place in places
    )


def _stuck(members: list[Member]) -> list[str]:
    """Those that are absent and cannot return, all together: what they missed, or what a group
    waits to be told, only sites have that are not there."""
    layout = max((member.layout for member in members), key=lambda one: one.count)
    if layout.flushing is not None:
        return []
    back = []
    for member in members:
        if member.name in layout.absent:
            lost = layout.stores.get(member.name, 0) != member.flush.store
            back.append((member.name, layout.roster[member.name] + lost, member.flush.store))
    trial = fold_flush(replace(layout, count=layout.count + 1), Flush((), tuple(back))).flushing
    return [name for name, _, _ in back if trial is None or name in trial.absent]


def is_away(member: Member) -> bool:
    """Whether a member is absent, restarted or not admitted yet: its application must wait."""
    return (
        member.name in member.layout.absent
        or not member.flush.takes_part()
        or member.flush.stopped()
    )
