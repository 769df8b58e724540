"""What lies below a site's base: messages it need not show, because its rows start later.

A message that a site lacks has no position there, so its place is told by what the site did
deliver above the base. Where nothing tells, the message is given the benefit of the doubt.
"""

from collections.abc import Mapping

from ordercast.check.tangles import MessageNumber, SiteNumber
from ordercast.check.view import Base, SiteView, View


class Bases:
    """Answers for the sites of a view; what it works out about a base it keeps."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._first_above: dict[tuple[SiteNumber, Base], Mapping[SiteNumber, int]] = {}
        self._first_epoch: dict[tuple[SiteNumber, Base], int | None] = {}
        self._streams: dict[tuple[SiteNumber, Base], Mapping[tuple[str, str], tuple[int, int]]] = {}

    def cover(self, site: SiteNumber, message: MessageNumber, epoch: int) -> bool:
        """Whether a message that others delivered in `epoch` lies below a base of the site."""
        bases = self._view.sites[site].bases
        return any(self._is_below(site, base, message, epoch) for base in bases)

    def cover_unplaced(self, site: SiteNumber, message: MessageNumber) -> bool:
        """The same for a message that nobody delivered. Only FIFO order shows where it would
        stand."""
        origin, incarnation, group, seq = self._view.messages[message]
        for base in self._view.sites[site].bases:
            if base.position > 0:
                lowest = self._lowest_above(site, base).get((origin, group))
                if lowest is None or (incarnation, seq) < lowest:
                    return True
        return False

    def _is_below(self, site: SiteNumber, base: Base, message: MessageNumber, epoch: int) -> bool:
        if base.epoch > 0 and epoch != base.epoch:
            return epoch < base.epoch
        if base.position == 0:
            return False
        first_epoch, first_above = self._above(site, base)
        if first_epoch is not None and first_epoch < epoch:
            return False
        places = self._view.places
        return not any(
            first_above.get(other, places[other][message]) < places[other][message]
            for other in self._view.deliverers[message]
        )

    def _above(self, site: SiteNumber, base: Base) -> tuple[int | None, Mapping[SiteNumber, int]]:
        """The lowest epoch that the site delivered above the base; and, per site, the first place
        there of a message that this site delivered above the base."""
        key = (site, base)
        if key not in self._first_above:
            view = self._view
            one = view.sites[site]
            first, epochs = self._before(one, base)
            for message, i in zip(one.order, one.order_rows, strict=True):
                if one.rows[i].position > base.position:
                    epochs.append(one.rows[i].epoch)
                    for other in view.deliverers[message]:
                        place = view.places[other][message]
                        first[other] = min(place, first.get(other, place))
            self._first_above[key] = first
            self._first_epoch[key] = min(epochs, default=None)
        return self._first_epoch[key], self._first_above[key]

    def _before(self, site: SiteView, base: Base) -> tuple[dict[SiteNumber, int], list[int]]:
        """The same of condensed rows: they lie before all places."""
        first: dict[SiteNumber, int] = {}
        epochs = []
        for epoch, name in self._view.before.above.get((site.name, base.position), ()):
            other = self._view.site_number[name]
            if epoch not in site.unagreed_epochs:
                epochs.append(epoch)
                if epoch not in self._view.sites[other].unagreed_epochs:
                    first[other] = -1
        return first, epochs

    def _lowest_above(
        self, site: SiteNumber, base: Base
    ) -> Mapping[tuple[str, str], tuple[int, int]]:
        """Per origin and group, the lowest (incarnation, seq) delivered above the base."""
        key = (site, base)
        if key not in self._streams:
            own = (self._view.sites[site].name, base.position)
            lowest = dict(self._view.before.lowest.get(own, {}))
            for row in self._view.sites[site].rows:
                if row.position > base.position:
                    stream = (row.origin, row.group_name)
                    rank = (row.incarnation, row.seq)
                    lowest[stream] = min(rank, lowest.get(stream, rank))
            self._streams[key] = lowest
        return self._streams[key]
