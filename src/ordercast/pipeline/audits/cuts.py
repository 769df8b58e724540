"""Cuts: at which positions each site's history is divided into parts.

A site's parts are numbered upwards from `first[site]`; `after[row[site]]` are the positions after
which the next part begins. Any cuts give the right verdict (docs/audit.md); good ones are crossed
by few messages.

Where to cut is guessed from a sample of the messages and then closed on the rows around it. No
clock is asked: the sample (all rows of some messages) is merged as in `check.tangles`, and a
message's *depth*, one more than that of the messages just before it, is a logical clock. The rows
up to a depth are closed in the sample: no message is on both sides. Other messages may lie between
two sampled rows; the rows around a cut show them, and the cut is pulled down below each.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ordercast.pipeline.audits.numbers import Columns, Ints
from ordercast.pipeline.audits.places import spread, starts

ROWS_PER_PART = 250_000
SAMPLE_ROWS = 200_000
_MARGIN = 8  # so many sampled rows on either side of a cut are looked at
_MOST_FORCED = 20_000
_LOWEST = np.iinfo(np.int64).min
_HIGHEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Cuts:
    parts: int
    first: Ints  # by site: its first part
    last: Ints  # by site: its last part
    row: Ints  # by site: its row of `after`, -1 for none
    after: Ints  # each row sorted; _HIGHEST where a site has fewer cuts than others
    merged: Ints  # by part: its number after merging

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


@dataclass(frozen=True)
class Shares:
    """How many parts and cuts each run gets, before the cuts have places."""

    first: Ints  # by site
    cuts: Ints  # by site: how many cuts its run has
    parts: int


def share(rows: Sequence[int], sites_run: Ints, per_part: int) -> Shares:
    """`rows` by run. Small runs go together into a part, large ones are cut."""
    first, cuts, part, filled = [], [], 0, 0
    for count in rows:
        wanted = max(1, round(count / per_part))
        if filled and (wanted > 1 or filled + count > per_part):
            part, filled = part + 1, 0
        first.append(part)
        cuts.append(wanted - 1)
        if wanted > 1:
            part += wanted
        else:
            filled += max(count, 1)
    own = np.array([first, cuts], np.int64).reshape(2, len(rows))[:, sites_run]
    return Shares(own[0], own[1], part + (filled > 0))


@dataclass(frozen=True)
class Windows:
    """Per site that is cut (a row) and cut: the guess, and the range of positions to look at."""

    row: Ints  # by site: its row, -1 for none
    low: Ints
    guess: Ints
    high: Ints

    def around(self, columns: Columns) -> Columns:
        """The rows in any window, once for each window: `cut` is its number."""
        rows = self.row[columns["site"]]
        mine = np.flatnonzero(rows >= 0)
        rows, position = rows[mine], columns["position"][mine]
        first = count_below(self.high, rows, position)
        owner, nth = spread(count_below(self.low, rows, position) - first)
        names = ("site", "position", "message")
        return {
            "cut": first[owner] + nth,
            **{name: columns[name][mine[owner]] for name in names},
        }


def guess(sample: Columns, shares: Shares, sites_run: Ints) -> Windows:
    """`sample` holds first deliveries of some messages at cut sites, sorted by site and place."""
    depth = _depths(sample["site"], sample["message"])
    most = int(shares.cuts.max())
    cut_sites = np.flatnonzero(shares.cuts > 0)
    row = np.full(len(shares.first), -1, np.int64)
    row[cut_sites] = np.arange(len(cut_sites))
    shape = (len(cut_sites), most)
    low = np.full(shape, _LOWEST, np.int64)
    at = np.full(shape, _HIGHEST, np.int64)
    high = np.full(shape, _HIGHEST, np.int64)
    levels = _levels(sample, depth, shares, sites_run)
    begins = starts(sample["site"])
    for own in np.split(np.arange(len(depth)), begins[1:]) if len(depth) else ():
        site = int(sample["site"][own[0]])
        count = int(shares.cuts[site])
        position, mine = sample["position"][own], depth[own]
        taken = np.flatnonzero(mine >= 0)
        position, mine = position[taken], mine[taken]
        if not len(mine):
            continue
        inside = np.searchsorted(mine, levels[int(sites_run[site])], side="right")
        padded = np.concatenate([[_LOWEST] * (_MARGIN + 1), position, [_HIGHEST] * (_MARGIN + 1)])
        beyond = padded[inside + _MARGIN + 1]
        at[row[site], :count] = np.where(beyond == _HIGHEST, _HIGHEST, beyond - 1)
        low[row[site], :count] = padded[np.maximum(inside, 0)]
        high[row[site], :count] = padded[np.minimum(inside + 2 * _MARGIN + 1, len(padded) - 1)]
    return Windows(row, low, at, high)


def _levels(sample: Columns, depth: Ints, shares: Shares, sites_run: Ints) -> dict[int, Ints]:
    """Per run, the depths that divide its sampled rows into equal shares."""
    runs = sites_run[sample["site"]]
    found = {}
    for run in np.unique(sites_run[shares.cuts > 0]).tolist():
        count = int(shares.cuts[sites_run == run][0])
        own = np.sort(depth[(runs == run) & (depth >= 0)])
        at = np.arange(1, count + 1) * len(own) // (count + 1)
        found[run] = own[at] if len(own) else np.zeros(count, np.int64)
    return found


def _depths(sites: Ints, messages: Ints) -> Ints:
    """The depth of the message of each row; -1 where the message was taken before its turn.

    When nothing can be taken, the history is in a tangle, or a message comes very late somewhere:
    then the head that has waited longest is taken at the sites where it is next, and left out
    where it comes later.
    """
    _, number = np.unique(messages, return_inverse=True)
    orders = [own.tolist() for own in np.split(number, starts(sites)[1:])] if len(sites) else []
    waits = np.bincount(number, minlength=1).tolist()
    heads: dict[int, list[int]] = defaultdict(list)  # message: sites where it is next
    depths: list[list[int]] = [[] for _ in orders]
    gone: set[int] = set()
    reached = [0] * len(orders)
    ready: list[int] = []

    def advance(site: int) -> None:
        while len(depths[site]) < len(orders[site]):
            following: int = orders[site][len(depths[site])]
            if following not in gone:
                heads[following].append(site)
                if len(heads[following]) == waits[following]:
                    ready.append(following)
                return
            depths[site].append(-1)

    def take(message: int) -> None:
        own = heads.pop(message)
        depth = 1 + max(reached[site] for site in own)
        if len(own) < waits[message]:
            gone.add(message)
        for site in own:
            reached[site] = depth
            depths[site].append(depth)
        for site in own:
            advance(site)

    for site in range(len(orders)):
        advance(site)
    for _ in range(_MOST_FORCED):
        while ready:
            take(ready.pop())
        if not heads:
            break
        waiting = min((reached[site], site) for own in heads.values() for site in own)[1]
        take(orders[waiting][len(depths[waiting])])
    for own, order in zip(depths, orders, strict=True):
        own.extend([-1] * (len(order) - len(own)))
    return np.array([depth for own in depths for depth in own], np.int64)


def close(columns: Columns, windows: Windows, cut: int) -> Ints:
    """A cut by site, pulled down until no message in `columns` is on both sides."""
    at: Ints = windows.guess[:, cut].copy()
    rows = windows.row[columns["site"]]
    _, message = np.unique(columns["message"], return_inverse=True)
    while True:
        below = columns["position"] <= at[rows]
        above = np.zeros(int(message.max()) + 1, bool)
        above[message[~below]] = True
        torn = below & above[message]
        if not torn.any():
            return at
        np.minimum.at(at, rows[torn], columns["position"][torn] - 1)


def settle(shares: Shares, windows: Windows, closed: Ints) -> Cuts:
    """`closed` has the guesses as they were closed. Each cut lies at or above the one before: the
    union of closed sets is closed."""
    after = np.maximum.accumulate(closed, axis=1)
    last = shares.first + shares.cuts
    return Cuts(shares.parts, shares.first, last, windows.row, after, np.arange(shares.parts))


def whole(shares: Shares) -> Cuts:
    """No run is cut."""
    none = np.full(len(shares.first), -1, np.int64)
    return Cuts(
        shares.parts,
        shares.first,
        shares.first,
        none,
        np.empty((0, 0), np.int64),
        np.arange(shares.parts),
    )
