"""Copies: messages that were dropped, because another one of their request was delivered before."""

from ordercast.check.tangles import MessageNumber, SiteNumber
from ordercast.check.view import View
from ordercast.history.rows import DUPLICATE, ONCE_CLIENT, PRODUCER_CLIENT
from ordercast.model.groups import Group
from ordercast.model.messages import MessageId

NUMBERED = (PRODUCER_CLIENT, ONCE_CLIENT)
"""Clients whose copies have the request of the first message. One with an id may have another."""


def told_copies(view: View) -> dict[MessageId, SiteNumber | None]:
    """Messages of which every site that dropped them says that they are copies, each with the first
    member that shows it to be lost if nothing like it was delivered. None: nobody can tell."""
    outcomes: dict[MessageId, set[str]] = {}
    for site in view.sites:
        for message, outcome in site.dropped.items():
            outcomes.setdefault(message, set()).add(outcome)
    told = [message for message, said in outcomes.items() if said == {DUPLICATE}]
    members = {group: _who_can_tell(view, group) for group in {one.group for one in told}}
    return {
        one: members[one.group] if _has_ended(view, one.origin) else None for one in sorted(told)
    }


def copies_of_nothing(view: View) -> dict[MessageNumber, SiteNumber | None]:
    """Of these, those whose request has no live row at all."""
    told = told_copies(view)
    if not told:
        return {}
    delivered = {
        (row.client, row.request, row.part)
        for site in view.sites
        for row in site.rows
        if row.client is not None and row.client.startswith(NUMBERED)
    }
    found = {}
    for number, sent in enumerate(view.sent):
        if sent is None or sent.client is None or not sent.client.startswith(NUMBERED):
            continue
        message = view.messages[number]
        if message in told and (sent.client, sent.request, sent.part) not in delivered:
            found[number] = told[message]
    return found


def _has_ended(view: View, site: str) -> bool:
    number = view.site_number.get(site)
    return number is not None and view.sites[number].ended


def _who_can_tell(view: View, group: Group) -> SiteNumber | None:
    """The first live member of the last epoch that was up at the end. Nobody, if the first message
    may be below a base, or in a gap, of some member of any epoch."""
    by_epoch = {epoch: own for (epoch, name), own in view.members.items() if name == group}
    if not by_epoch:
        return None
    for number in {number for own in by_epoch.values() for number in own}:
        site = view.sites[number]
        if site.gap_positions or any(base.position > 0 for base in site.bases):
            return None
    last = by_epoch[view.last_epoch[group]]
    return next((n for n, live in last.items() if live and view.sites[n].ended), None)
