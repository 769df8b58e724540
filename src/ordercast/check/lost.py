"""Lost: accepted messages that nobody delivered although everybody had the time."""

from ordercast.check.bases import Bases
from ordercast.check.copies import copies_of_nothing
from ordercast.check.tangles import MessageNumber, SiteNumber
from ordercast.check.verdict import Verdict, Witness, plain
from ordercast.check.view import View
from ordercast.model.groups import Group
from ordercast.model.messages import MessageId


def check_lost(view: View) -> Verdict:
    """Messages without a live row whose origin, and some live member, were up at the end."""
    groups = {group: _Group(view, group) for group in view.last_epoch}
    delivered = bytearray(len(view.messages))  # 1: in unagreed rows only; 2: in others too
    for site in view.sites:
        for row, message in zip(site.rows, site.numbers, strict=True):
            delivered[message] |= 1 if row.epoch in site.unagreed_epochs else 2
    bases = Bases(view)
    dropped = {message for site in view.sites for message in site.dropped}
    copies = copies_of_nothing(view) if view.is_whole else {}
    count = 0
    unagreed = {site.name: site.unagreed_epochs for site in view.sites}
    pending = view.before.only_unagreed(unagreed)
    smallest: tuple[MessageId, SiteNumber] | None = None
    for message, sent in enumerate(view.sent):
        if sent is None or delivered[message] & 2 or message in view.late:
            continue
        member = None
        if view.messages[message] in dropped and not delivered[message]:
            if message not in copies:
                continue  # another copy of it was delivered, or it came too late
            member = copies[message]
        elif not delivered[message] and view.sites[view.site_number[sent.origin]].ended:
            member = _who_lacks(view, groups.get(sent.group_name), bases, message)
        if member is None:
            pending += 1
            continue
        count += 1
        if smallest is None or (view.messages[message], member) < smallest:
            smallest = (view.messages[message], member)
    return Verdict("lost", count, _witness(view, smallest), pending)


class _Group:
    """The members that can show that a message to the group is lost."""

    def __init__(self, view: View, group: Group) -> None:
        by_epoch = {epoch: own for (epoch, name), own in view.members.items() if name == group}
        last = by_epoch[view.last_epoch[group]]
        self.ended = [site for site, live in last.items() if live and view.sites[site].ended]
        self.always = {site for site in last if all(site in own for own in by_epoch.values())}
        self.everyone = list(dict.fromkeys(site for own in by_epoch.values() for site in own))
        self.based = [site for site in self.everyone if view.sites[site].bases]


def _who_lacks(
    view: View, group: _Group | None, bases: Bases, message: MessageNumber
) -> SiteNumber | None:
    """The first member that was up at the end and would have the message were it not lost.

    A member that was told of a gap would not, nor one that may have it below its base. If there is
    such a member, of any epoch, the message was perhaps placed in an old one: then only a member of
    all epochs can tell.
    """
    if group is None:
        return None
    hidden = any(view.messages[message] in view.sites[site].gaps for site in group.everyone)
    hidden = hidden or any(bases.cover_unplaced(site, message) for site in group.based)
    for site in group.ended:
        told = view.messages[message] in view.sites[site].gaps
        if told or bases.cover_unplaced(site, message):
            continue
        if not hidden or site in group.always:
            return site
    return None


def _witness(view: View, smallest: tuple[MessageId, SiteNumber] | None) -> Witness | None:
    if smallest is None:
        return None
    message, member = smallest
    return {"message": plain(message), "member": view.sites[member].name}
