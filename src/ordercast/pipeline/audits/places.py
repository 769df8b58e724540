"""Places in a site's order: (position, attempt, epoch, message) sorts the rows of one site.

Positions alone decide in a right history; the rest makes wrong ones come out the same each time
(docs/checks.md). Columns of places are compared and gathered here, so that nothing else has to
know that a place is four numbers.
"""

from typing import NamedTuple

import numpy as np

from ordercast.pipeline.audits.numbers import Bools, Ints


class PlaceColumns(NamedTuple):
    position: Ints
    attempt: Ints
    epoch: Ints
    message: Ints

    def take(self, rows: Ints | Bools) -> "PlaceColumns":
        return PlaceColumns(*(column[rows] for column in self))

    def before(self, other: "PlaceColumns") -> Bools:
        """Row by row, whether this place comes before the other one."""
        before = np.zeros(len(self.position), bool)
        equal = np.ones(len(self.position), bool)
        for one, two in zip(self, other, strict=True):
            before |= equal & (one < two)
            equal &= one == two
        return before


class Extremes(NamedTuple):
    """The first or the last place for each of some keys, which are sorted."""

    keys: Ints
    places: PlaceColumns

    def look_up(self, keys: Ints) -> tuple[Bools, PlaceColumns]:
        """Which keys are known, and their places (undefined for the others)."""
        if not len(self.keys):
            zeros = np.zeros(len(keys), np.int64)
            return np.zeros(len(keys), bool), PlaceColumns(zeros, zeros, zeros, zeros)
        found = np.searchsorted(self.keys, keys)
        found[found == len(self.keys)] = 0
        return np.asarray(self.keys[found] == keys), self.places.take(found)


def first_places(keys: Ints, places: PlaceColumns) -> Extremes:
    order = np.lexsort((*places[::-1], keys))
    keys = keys[order]
    return Extremes(keys[starts(keys)], places.take(order[starts(keys)]))


def last_places(keys: Ints, places: PlaceColumns) -> Extremes:
    order = np.lexsort((*places[::-1], keys))
    keys = keys[order]
    ends = np.append(starts(keys)[1:], len(keys)) - 1 if len(keys) else starts(keys)
    return Extremes(keys[ends], places.take(order[ends]))


def starts(keys: Ints) -> Ints:
    """Where each run of equal keys begins."""
    if not len(keys):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))


def spread(lengths: Ints) -> tuple[Ints, Ints]:
    """For runs of these lengths laid end to end: which run each place is in, and where in it."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.cumsum(lengths)
    return owner, np.arange(len(owner)) - np.repeat(ends - lengths, lengths)
