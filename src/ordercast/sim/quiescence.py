"""When a run has come to rest: everything is delivered, and no site has anything left to do."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ordercast.core.batches import packed_body
from ordercast.core.epochs.absence import fold_flush
from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.member import Member
from ordercast.model.epochs import Flush
from ordercast.model.errors import NotInMajority
from ordercast.model.groups import Group, Site
from ordercast.sim.place import Place

Joined: TypeAlias = Callable[[Site, Site], bool]
"""Whether two sites hear each other."""


def all_quiet(
    places: Sequence[Place],
    untaken: int,
    has_majority: Callable[[list[Site]], bool] | None,
    joined: Joined | None = None,
) -> bool:
    """`untaken`: how many submissions no site has taken. `has_majority` is given under `exclude`.
    If it says yes to the sites that are up, the run does not wait for the sites that are down, nor
    for submissions behind messages to them that fill a window. `joined` is given if links are cut
    for good: the run does not wait for sites that are excluded for that."""
    gone = list[Site]()
    if has_majority is not None:
        untaken -= sum(len(place.waiting) for place in places if place.site is None)
        gone = [place.name for place in places if place.site is None]
        up = [place.name for place in places if place.site is not None]
        if not has_majority(up):  # a site that is stuck still votes
            return False
        members = [place.site for place in places if place.site is not None]
        stuck = cut_off(members, joined) if joined is not None else []
        gone += stuck  # messages to them stay at their senders
        stuck = [*stuck, *_stuck(members, stuck)]
        untaken -= sum(len(place.waiting) for place in places if place.name in stuck)
        places = [p for p in places if p.name in up and p.name not in stuck]
        untaken -= sum(len(place.waiting) for place in places if _has_no_room(place))
        last = latest_layout(members).count
        if any(place.site is not None and place.site.layout.count < last for place in places):
            return False  # a site has yet to hear what was decided, perhaps about itself
    return not untaken and all(
        place.site is not None and not place.unsynced and place.site.quiet(gone) for place in places
    )


def latest_layout(members: Sequence[Member]) -> Layout:
    return max((member.layout for member in members), key=lambda one: one.count)


def cut_off(members: Sequence[Member], joined: Joined) -> list[Site]:
    """The absent members that cannot return because they do not hear the manager, or a site that
    is there and that they would share an epoch with. Under `two_phase` members wait for the word of
    origins outside their domain, too."""
    layout = latest_layout(members)
    up = [member.name for member in members]
    awaits = any(domain.protocol == "two_phase" for domain in layout.domains.values())
    heard = up if awaits else [other.name for other in members if other.manager.leads]
    found = []
    for member in members:
        if member.name not in layout.absent or layout.flushing is not None:
            continue
        back = ((member.name, layout.roster[member.name], member.flush.store),)
        trial = fold_flush(replace(layout, count=layout.count + 1), Flush((), back)).flushing
        company = [site for site in trial.members if site in up] if trial is not None else []
        company += heard
        if not all(site == member.name or joined(member.name, site) for site in company):
            found.append(member.name)
    return found


def _stuck(members: list[Member], gone: Sequence[Site]) -> list[Site]:
    """The absent members that cannot return, even all together: only sites that are down, or gone,
    have what they need."""
    layout = latest_layout(members)
    if layout.flushing is not None:
        return []
    back = []
    for member in members:
        if member.name in layout.absent and member.name not in gone:
            lost = layout.stores.get(member.name, 0) != member.flush.store
            back.append((member.name, layout.roster[member.name] + lost, member.flush.store))
    trial = fold_flush(replace(layout, count=layout.count + 1), Flush((), tuple(back))).flushing
    return [name for name, _, _ in back if trial is None or name in trial.absent]


def _has_no_room(place: Place) -> bool:
    """Whether messages that wait for absent sites leave no room for the next submission. It is
    asked of sites that have nothing else to do: then all of the window is such messages."""
    member = place.site
    if member is None or not place.waiting or not member.flush.parked:
        return False
    if not all(_waits(member, batch.group, batch.members) for batch in member.flush.parked):
        return False
    limits, payloads = member.options.limits, place.waiting[0].payloads()
    extras = place.waiting[0].extras()
    sent_ns = member.now if extras.headers else 0
    messages, size = member.window.unstable_both()
    return (
        messages + len(payloads) > limits.window_messages
        or size + len(packed_body(payloads, sent_ns, extras.headers, ())) > limits.window_bytes
    )


def _waits(member: Member, group: Group, members: Sequence[Site]) -> bool:
    """Whether a message to the group, or to these sites, waits for absent sites."""
    try:
        member.domain(group, members)
    except NotInMajority:
        return True
    return False


def is_away(member: Member) -> bool:
    """Whether a member is absent, restarted or not admitted yet: its application must wait."""
    return (
        member.name in member.layout.absent
        or not member.flush.takes_part()
        or member.flush.stopped()
    )
