"""Lost: accepted messages that nobody delivered although everybody had the time."""

from ordercast.check.base import Bases
from ordercast.check.tangles import MessageNumber, SiteNumber
from ordercast.check.verdict import Verdict, Witness, plain
from ordercast.check.view import View
from ordercast.model.groups import Group


def check_lost(view: View) -> Verdict:
    """Messages without a live row whose origin, and some live member, were up at the end.

    A member that was told of a gap, or whose base may lie above the message, does not count.
    """
    bases = Bases(view)
    ended = _ended_members(view)
    delivered = bytearray(len(view.messages))  # 1: in unagreed rows only; 2: in others too
    for site in view.sites:
        for row, message in zip(site.rows, site.numbers, strict=True):
            delivered[message] |= 1 if row.epoch in site.unagreed_epochs else 2
    count = pending = 0
    smallest: tuple[MessageNumber, SiteNumber] | None = None
    for message, sent in enumerate(view.sent):
        if sent is None or delivered[message] & 2:
            continue
        candidates = ended.get(sent.group_name, [])
        if delivered[message] or not candidates or not _has_ended(view, sent.origin):
            pending += 1
            continue
        member = next((m for m in candidates if _owes(view, bases, m, message)), None)
        if member is None:
            continue
        count += 1
        if smallest is None or view.messages[message] < view.messages[smallest[0]]:
            smallest = (message, member)
    return Verdict("lost", count, _witness(view, smallest), pending)


def _has_ended(view: View, name: str) -> bool:
    return view.sites[view.site_number[name]].ended


def _ended_members(view: View) -> dict[Group, list[SiteNumber]]:
    """Per group, the live members of its last epoch that were up and quiet at the end."""
    return {
        group: [
            site
            for site, live in view.members[epoch, group].items()
            if live and view.sites[site].ended
        ]
        for group, epoch in view.last_epoch.items()
    }


def _owes(view: View, bases: Bases, member: SiteNumber, message: MessageNumber) -> bool:
    if view.messages[message] in view.sites[member].gaps:
        return False
    return not bases.cover_unplaced(member, message)


def _witness(view: View, smallest: tuple[MessageNumber, SiteNumber] | None) -> Witness | None:
    if smallest is None:
        return None
    message, member = smallest
    return {"message": plain(view.messages[message]), "member": view.sites[member].name}
