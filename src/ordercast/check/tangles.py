"""Tangles: the strongly connected parts of the union of the sites' orders.

Only neighbours in a site's order are linked: the relation they generate is the same, so the parts
are too, and there are no more links than rows. Every cycle, and so every pair of messages that two
sites order differently (a cycle of two), lies inside one tangle. A history in order has none, and
that is found by merging the orders, without a search.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

SiteNumber: TypeAlias = int
MessageNumber: TypeAlias = int
SiteOrders: TypeAlias = Sequence[Sequence[MessageNumber]]
Deliverers: TypeAlias = Sequence[Sequence[SiteNumber]]


def find_tangles(orders: SiteOrders, deliverers: Deliverers) -> list[list[MessageNumber]]:
    """The parts of two messages or more. `deliverers` are the sites that have each message."""
    starts = _merge(orders, deliverers)
    if starts == [len(order) for order in orders]:
        return []
    # The same from the other end takes away what merely follows a tangle.
    rests = [order[start:] for order, start in zip(orders, starts, strict=True)]
    tails = _merge([rest[::-1] for rest in rests], deliverers)
    rests = [rest[: len(rest) - tail] for rest, tail in zip(rests, tails, strict=True)]
    return [part for part in _parts(rests) if len(part) > 1]


def _merge(orders: SiteOrders, deliverers: Deliverers) -> list[int]:
    """Take messages that are next at every site that has them, as long as there are any.

    Returns how many were taken at each site. A message is either taken at all its sites or stays
    at all of them, so the same works on what is left, from either end.
    """
    taken = [0] * len(orders)
    blocked = [len(sites) for sites in deliverers]
    ready: list[MessageNumber] = []
    for order in orders:
        if order:
            blocked[order[0]] -= 1
            if not blocked[order[0]]:
                ready.append(order[0])
    while ready:
        for site in deliverers[ready.pop()]:
            taken[site] += 1
            order = orders[site]
            if taken[site] < len(order):
                following = order[taken[site]]
                blocked[following] -= 1
                if not blocked[following]:
                    ready.append(following)
    return taken


def _parts(orders: SiteOrders) -> Iterator[list[MessageNumber]]:
    messages = list(dict.fromkeys(message for order in orders for message in order))
    node = {message: i for i, message in enumerate(messages)}
    links: list[list[int]] = [[] for _ in messages]
    for order in orders:
        nodes = [node[message] for message in order]
        for i in range(len(nodes) - 1):
            links[nodes[i]].append(nodes[i + 1])
    for part in strong_parts(links):
        yield [messages[i] for i in part]


def strong_parts(links: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Tarjan's strongly connected components, without recursion.

    A part comes after every part that it links to.
    """
    unseen, done = -1, len(links)
    index = [unseen] * len(links)  # `done` once its part is known
    low = [0] * len(links)
    found: list[int] = []  # seen, and not yet in a part
    counter = 0
    for root in range(len(links)):
        if index[root] != unseen:
            continue
        path = [(root, iter(links[root]))]
        index[root] = low[root] = counter
        counter += 1
        found.append(root)
        while path:
            node, rest = path[-1]
            for following in rest:
                if index[following] == unseen:
                    index[following] = low[following] = counter
                    counter += 1
                    found.append(following)
                    path.append((following, iter(links[following])))
                    break
                if index[following] < low[node]:
                    low[node] = index[following]
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == index[node]:
                    part = []
                    while True:
                        member = found.pop()
                        index[member] = done
                        part.append(member)
                        if member == node:
                            break
                    yield part


class Knot:
    """A tangle with the sites' orders restricted to it; `places` are those in the whole orders."""

    def __init__(
        self,
        messages: Sequence[MessageNumber],
        orders: SiteOrders,
        places: Sequence[Mapping[MessageNumber, int]],
        deliverers: Deliverers,
    ) -> None:
        self.messages = messages
        self.deliverers = {message: deliverers[message] for message in messages}
        rows: dict[SiteNumber, list[int]] = {}
        for message in messages:
            for site in self.deliverers[message]:
                rows.setdefault(site, []).append(places[site][message])
        self.orders = {
            site: [orders[site][place] for place in sorted(found)]
            for site, found in sorted(rows.items())
        }
        self.places = {
            site: {message: i for i, message in enumerate(order)}
            for site, order in self.orders.items()
        }

    def shortest_cycle_through(
        self, start: MessageNumber, shorter_than: int
    ) -> tuple[list[tuple[MessageNumber, SiteNumber]] | None, int]:
        """A shortest cycle from `start`, as (message, site at which the next one follows it).

        Breadth first: a message reaches everything behind it at each of its sites, so per site
        the reached messages are a suffix, and no message is looked at twice. Also returns how
        much was looked at.
        """
        reached = {start: (start, -1)}
        suffix = {site: len(order) for site, order in self.orders.items()}
        ring = deque([(start, 1)])
        looked = 0
        while ring:
            message, length = ring.popleft()
            if length + 1 >= shorter_than:
                break
            for site in self.deliverers[message]:
                order = self.orders[site]
                behind = self.places[site][message] + 1
                for following in order[behind : suffix[site]]:
                    looked += 1
                    if following in reached:
                        continue
                    reached[following] = (message, site)
                    back = self._way_back(following, start)
                    if back is not None:
                        return self._cycle(reached, following, back), looked
                    ring.append((following, length + 1))
                suffix[site] = min(suffix[site], behind)
        return None, looked

    def _way_back(self, message: MessageNumber, start: MessageNumber) -> SiteNumber | None:
        for site in self.deliverers[message]:
            places = self.places[site]
            if start in places and places[message] < places[start]:
                return site
        return None

    def _cycle(
        self,
        reached: dict[MessageNumber, tuple[MessageNumber, SiteNumber]],
        last: MessageNumber,
        back: SiteNumber,
    ) -> list[tuple[MessageNumber, SiteNumber]]:
        cycle = [(last, back)]
        while reached[cycle[-1][0]][1] >= 0:
            cycle.append(reached[cycle[-1][0]])
        return cycle[::-1]
