"""When a run has come to rest: everything is delivered, and no site has anything left to do."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordercast.sim.world import World


def all_quiet(world: "World") -> bool:
    """Under `exclude` those that stay down are done without, if there is a majority of voters."""
    places = list(world.places.values())
    untaken, gone = world.untaken, list[str]()
    if world.excludes and world.epochs is not None:
        untaken -= sum(len(place.waiting) for place in places if place.site is None)
        gone = [place.name for place in places if place.site is None]
        places = [place for place in places if place.site is not None]
        if not world.epochs.has_majority([place.name for place in places]):
            return False
    return not untaken and all(
        place.site is not None and not place.unsynced and place.site.quiet(gone) for place in places
    )


def is_away(site: Any) -> bool:
    """Whether a member is absent, restarted or not admitted yet: its application must wait."""
    member = getattr(site, "member", None)
    return member is not None and (
        member.name in member.layout.absent
        or not member.flush.takes_part()
        or member.flush.stopped()
    )
