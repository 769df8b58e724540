"""One packet to many along a tree: each site passes it on to a few others.

Each origin has a tree over the members of the epoch. The members are sorted, and turned so that the
origin is at place 0; the children of place i are the `WIDTH` places from `WIDTH` · i + 1 on. So
every site knows the tree, and a packet takes one way to each member: packets of one origin do not
overtake each other.
"""

from collections.abc import Sequence
from typing import Final

from ordercast.core.dissemination.settings import StreamTimes
from ordercast.model.groups import Site

WIDTH: Final = 2


def parent_in(origin: Site, members: Sequence[Site], site: Site) -> Site | None:
    """The site from which `site` gets the origin's packets; None for the origin and for a site that
    is no member."""
    order = _order(origin, members)
    if site not in order or site == origin:
        return None
    return order[(order.index(site) - 1) // WIDTH]


def branches(origin: Site, members: Sequence[Site], site: Site) -> dict[Site, tuple[Site, ...]]:
    """The sites to which `site` passes the origin's packets, each with all sites that it serves,
    itself included."""
    order = _order(origin, members)
    if site not in order:
        return {}
    first = WIDTH * order.index(site) + 1
    return {
        order[place]: tuple(_below(order, place))
        for place in range(first, min(first + WIDTH, len(order)))
    }


def _order(origin: Site, members: Sequence[Site]) -> list[Site]:
    order = sorted(members)
    if origin not in order:
        return []
    start = order.index(origin)
    return order[start:] + order[:start]


def _below(order: list[Site], place: int) -> list[Site]:
    found, level = [], [place]
    while level:
        found += [order[each] for each in level]
        level = [
            child
            for each in level
            for child in range(WIDTH * each + 1, min(WIDTH * each + WIDTH + 1, len(order)))
        ]
    return found


class Reach:
    """The sites that said lately that this site's packets reach them."""

    def __init__(self, times: StreamTimes) -> None:
        self._times = times
        self._until: dict[Site, int] = {}

    def answered(self, now: int, peer: Site) -> None:
        self._until[peer] = now + self._times.reached_for

    def lost(self, peer: Site) -> None:
        self._until.pop(peer, None)

    def begin(self) -> None:
        """A new stream begins: no site has heard it."""
        self._until = {}

    def reached(self, now: int) -> dict[Site, None]:
        return {peer: None for peer, until in self._until.items() if until > now}
