"""Cuts: at which positions each site's history is divided into parts.

A site's parts are numbered upwards from `first[site]`; `after[row[site]]` are the positions after
which the next part begins. Any cuts give the right verdict (docs/audit.md); good ones are crossed
by few messages.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ordercast.pipeline.audits.numbers import Ints

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Cuts:
    parts: int
    first: Ints  # by site: its first part
    last: Ints  # by site: its last part
    row: Ints  # by site: its row of `after`, -1 for none
    after: Ints  # each row sorted; NEVER where a site has fewer cuts than others
    merged: Ints  # by part: the number that it goes by

    def part_of(self, sites: Ints, positions: Ints) -> Ints:
        """The part of each row: how many cuts of its site lie below its position."""
        part = self.first[sites]
        rows = self.row[sites]
        if self.after.size and (cut := rows >= 0).any():
            part[cut] += count_below(self.after, rows[cut], positions[cut])
        return self.merged[part]

    def last_part(self, sites: Ints) -> Ints:
        return self.merged[self.last[sites]]

    def merge(self, ranges: Iterable[tuple[int, int]]) -> "Cuts":
        """All parts from the first to the last of each range become one."""
        glued = np.zeros(self.parts, bool)  # to the part before
        for first, last in ranges:
            glued[first + 1 : last + 1] = True
        number = np.cumsum(~glued) - 1
        return replace(
            self, parts=int(number[-1]) + 1 if self.parts else 0, merged=number[self.merged]
        )


def no_cuts(sites: int) -> Cuts:
    """Everything in one part."""
    zeros = np.zeros(sites, np.int64)
    return Cuts(1, zeros, zeros, zeros - 1, np.empty((0, 0), np.int64), np.zeros(1, np.int64))


def count_below(table: Ints, rows: Ints, values: Ints) -> Ints:
    """Per value, how many entries of its row of the table are below it: bisection, all at once."""
    low = np.zeros(len(values), np.int64)
    high = np.full(len(values), table.shape[1], np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        below = table[rows, np.minimum(middle, table.shape[1] - 1)] < values
        below &= low < high
        low = np.where(below, middle + 1, low)
        high = np.where(below, high, np.minimum(middle, high))
    return low
