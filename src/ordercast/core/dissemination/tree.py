"""One packet to many along a tree: each site passes it to a few, whoever it comes from.

The tree of an origin is laid over the members of the epoch: sorted, turned so that the origin is
first, each site the parent of the next `WIDTH` places. So every site knows it, a packet takes one
way to each member, and overtakes nothing of the same origin on it.
"""

from collections.abc import Sequence
from typing import Final

from ordercast.core.dissemination.settings import StreamTimes
from ordercast.model.groups import Site

WIDTH: Final = 2


def parent_in(origin: Site, members: Sequence[Site], site: Site) -> Site | None:
    """From whom the site gets the origin's packets; None at the origin, and for a stranger."""
    order = _order(origin, members)
    if site not in order or site == origin:
        return None
    return order[(order.index(site) - 1) // WIDTH]


def branches(origin: Site, members: Sequence[Site], site: Site) -> dict[Site, tuple[Site, ...]]:
    """To whom the site passes the origin's packets, and all that are served through each."""
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
    """Who said lately that what we send gets to it."""

    def __init__(self, times: StreamTimes) -> None:
        self._times = times
        self._until: dict[Site, int] = {}

    def answered(self, now: int, peer: Site) -> None:
        self._until[peer] = now + self._times.reached_for

    def lost(self, peer: Site) -> None:
        self._until.pop(peer, None)

    def begin(self) -> None:
        """Another stream: nobody has heard it."""
        self._until = {}

    def reached(self, now: int) -> dict[Site, None]:
        return {peer: None for peer, until in self._until.items() if until > now}
