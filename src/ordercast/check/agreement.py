"""Agreement: what one member delivers, every member that stays delivers."""

from collections.abc import Iterator, Mapping

from ordercast.check.bases import Bases
from ordercast.check.tangles import MessageNumber, SiteNumber
from ordercast.check.verdict import Verdict, Witness, plain
from ordercast.check.view import SiteView, View
from ordercast.model.groups import Group
from ordercast.model.messages import MessageId

ENDED = "the member's history closes with end"
LATER_EPOCH = "the member delivered a message of a later epoch"
LATER_MESSAGE = "the member delivered a later message of the group"


def check_agreement(view: View) -> Verdict:
    """(message, member) pairs that are missing although the member has passed their place."""
    passed = PassedPlaces(view)
    bases = Bases(view)
    count = pending = 0
    smallest: tuple[MessageId, SiteNumber] | None = None
    witness: Witness | None = None
    for message, epoch, member in missing(view):
        if view.messages[message] in view.sites[member].gaps:
            continue
        if view.sites[member].bases and bases.cover(member, message, epoch):
            continue
        reason = passed.reason(member, message, epoch)
        if reason is None:
            pending += 1
            continue
        count += 1
        if smallest is None or (view.messages[message], member) < smallest:
            smallest = (view.messages[message], member)
            witness = _witness(view, message, epoch, member, reason)
    return Verdict("agreement", count, witness, pending)


def missing(view: View) -> Iterator[tuple[MessageNumber, int, SiteNumber]]:
    """Messages that some member delivered, with their epoch, and each member that did not."""
    for message, epoch in enumerate(epochs_of(view)):
        if epoch is None or message in view.late:
            continue
        members = view.members[epoch, view.messages[message].group]
        deliverers = view.deliverers[message]
        if len(deliverers) == len(members) and all(site in members for site in deliverers):
            continue
        for member in members:
            if member not in deliverers and (member, message) not in view.unagreed_rows:
                yield message, epoch, member


def epochs_of(view: View) -> list[int | None]:
    """Per message, its lowest epoch among the agreed rows of sites that are members then."""
    found: list[int | None] = [None] * len(view.messages)
    for number, site in enumerate(view.sites):
        for message, i in zip(site.order, site.order_rows, strict=True):
            epoch = site.rows[i].epoch
            known = found[message]
            if (known is None or epoch < known) and number in view.members.get(
                (epoch, view.messages[message].group), ()
            ):
                found[message] = epoch
    return found


class PassedPlaces:
    """Whether a member has passed the place of a message that it lacks."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._last_epoch = [self._latest(site) for site in view.sites]
        self._last_common: dict[SiteNumber, Mapping[tuple[SiteNumber, Group], int]] = {}

    def _latest(self, site: SiteView) -> int:
        """The latest epoch of which the site has a first delivery."""
        condensed = self._view.before.last_epoch(site.name, site.unagreed_epochs)
        return max(condensed, max((site.rows[i].epoch for i in site.order_rows), default=0))

    def reason(self, member: SiteNumber, message: MessageNumber, epoch: int) -> str | None:
        view = self._view
        if view.sites[member].ended:
            return ENDED
        if self._last_epoch[member] > epoch:
            return LATER_EPOCH
        group = view.messages[message].group
        last_common = self._common(member)
        members = view.members[epoch, group]
        for other in view.deliverers[message]:
            place = view.places[other][message]
            if other in members and place < last_common.get((other, group), -1):
                return LATER_MESSAGE
        return None

    def any_later(self, member: SiteNumber, message: MessageNumber) -> bool:
        """Whether the member has delivered something, of any group, that a site delivered after
        the message."""
        places = self._view.places
        return any(
            places[other][message] < place
            for (other, _), place in self._common(member).items()
            if message in places[other]
        )

    def _common(self, member: SiteNumber) -> Mapping[tuple[SiteNumber, Group], int]:
        """Per site and group: the place, at that site, of its last message that the member has
        too."""
        if member not in self._last_common:
            view = self._view
            last: dict[tuple[SiteNumber, Group], int] = {}
            for message in view.sites[member].order:
                group = view.messages[message].group
                for other in view.deliverers[message]:
                    place = view.places[other][message]
                    last[other, group] = max(place, last.get((other, group), -1))
            self._last_common[member] = last
        return self._last_common[member]


def _witness(
    view: View, message: MessageNumber, epoch: int, member: SiteNumber, reason: str
) -> Witness:
    members = view.members[epoch, view.messages[message].group]
    other = next(site for site in view.deliverers[message] if site in members)
    return {
        "message": plain(view.messages[message]),
        "member": view.sites[member].name,
        "delivered": {"site": view.sites[other].name, "position": view.position(other, message)},
        "because": reason,
    }
