"""Tangles of a part: strongly connected components of "next at some site", with SciPy.

Also what is inside them: pairs of sites that disagree, and a shortest cycle.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ordercast.check.tangles import Knot
from ordercast.pipeline.audits.numbers import Ints, StreamArrays
from ordercast.pipeline.audits.places import PlaceColumns, starts

Cycle = list[tuple[int, int]]  # (message, the site at which the next one follows it)


@dataclass(frozen=True)
class Orders:
    """First deliveries by site and place: what makes the order."""

    site: Ints
    place: PlaceColumns

    def __len__(self) -> int:
        return len(self.site)

    def take(self, rows: Ints) -> "Orders":
        return Orders(self.site[rows], self.place.take(rows))


def sort_orders(site: Ints, place: PlaceColumns) -> Orders:
    order = np.lexsort((*place[::-1], site))
    return Orders(site[order], place.take(order))


def links(nodes: Ints, sites: Ints) -> tuple[Ints, Ints]:
    """From each row's node to that of the next row of its site."""
    same = np.flatnonzero(sites[1:] == sites[:-1])
    return nodes[same], nodes[same + 1]


def components(count: int, source: Ints, target: Ints) -> Ints:
    """The strongly connected component of each node, by number."""
    if not count:
        return np.empty(0, np.int64)
    _, labels = connected_components(graph(count, source, target), connection="strong")
    return np.asarray(labels, np.int64)


def graph(count: int, source: Ints, target: Ints) -> csr_array:
    """SciPy keeps an edge that is named twice, which does no harm."""
    ones = np.ones(len(source), np.int8)
    return csr_array((ones, (source, target)), shape=(count, count))


@dataclass(frozen=True)
class Inversions:
    """Pairs of sites that disagree: rows of the first at `one`, of the second at `other`.

    `one[0]` comes before `one[1]` there; `other` are the same messages at the other site.
    """

    one: tuple[Ints, Ints]
    other: tuple[Ints, Ints]


def find_inversions(orders: Orders) -> Inversions:
    """Per pair of sites, the first neighbours in their common order that the second has reversed.

    If no neighbours in the common order of one site are inverted at the other, nothing is.
    """
    begins = np.append(starts(orders.site), len(orders))
    _, message = np.unique(orders.place.message, return_inverse=True)
    at = np.full(int(message.max()) + 1 if len(message) else 0, -1, np.int64)
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    for start, end in pairwise(begins.tolist()):
        at[message[start:end]] = np.arange(start, end)
        rest = np.arange(end, len(orders))
        rest = rest[at[message[rest]] >= 0]
        here = at[message[rest]]
        order = np.lexsort((here, orders.site[rest]))
        rest, here = rest[order], here[order]
        same = orders.site[rest[1:]] == orders.site[rest[:-1]]
        inverted = np.flatnonzero(same & (rest[1:] < rest[:-1]))
        inverted = inverted[starts(orders.site[rest[inverted]])]
        found.append((here[inverted], here[inverted + 1], rest[inverted], rest[inverted + 1]))
        at[message[start:end]] = -1
    if not found:
        empty = np.empty(0, np.int64)
        return Inversions((empty, empty), (empty, empty))
    one_x, one_y, other_x, other_y = map(np.concatenate, zip(*found, strict=True))
    return Inversions((one_x, one_y), (other_x, other_y))


def shortest_cycle(
    orders: Orders, knots: Ints, streams: StreamArrays, most_looked: int
) -> tuple[Cycle, bool]:
    """A shortest cycle in the knots of these rows (one number per row), and whether we stopped.

    Two sites that disagree are a cycle of two and need no search. So three is the least here,
    and the first cycle of three ends the search.
    """
    best: Cycle = []
    looked = 0
    for number in np.unique(knots):
        own = orders.take(np.flatnonzero(knots == number))
        knot, messages, sites = _knot(own, streams)
        for message in range(len(messages)):
            limit = len(best) if best else len(messages) + 1
            cycle, more = knot.shortest_cycle_through(message, limit)
            if cycle:
                best = [(int(messages[m]), int(sites[s])) for m, s in cycle]
            looked += more
            if len(best) == 3:
                return best, False
            if looked > most_looked:
                return best, True
    return best, False


def _knot(orders: Orders, streams: StreamArrays) -> tuple[Knot, Ints, Ints]:
    """The knot with messages numbered by their ids and sites by their names."""
    messages = np.unique(orders.place.message)
    rank, seq = streams.id_order(messages)
    messages = messages[np.lexsort((seq, rank))]
    number = {int(message): i for i, message in enumerate(messages)}
    sites = np.unique(orders.site)
    rows: list[list[int]] = [[] for _ in sites]
    for site, message in zip(
        np.searchsorted(sites, orders.site), orders.place.message, strict=True
    ):
        rows[site].append(number[int(message)])
    deliverers: list[list[int]] = [[] for _ in messages]
    for site, own in enumerate(rows):
        for one in own:
            deliverers[one].append(site)
    places = [{one: i for i, one in enumerate(own)} for own in rows]
    return Knot(range(len(messages)), rows, places, deliverers), messages, sites
