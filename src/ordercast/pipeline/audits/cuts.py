"""Cuts: at which positions each site's history is divided into parts.

A site's parts are numbered upwards from `first[site]`; `after[row[site]]` are the positions after
which the next part begins. Any cuts give the right verdict (docs/audit.md); good ones are crossed
by few messages.

Where to cut is guessed from a sample of the messages and then closed on the rows around it. No
clock is asked: the sample (all rows of some messages) is merged as in `check.tangles`, and a
message's *depth*, one more than that of the messages just before it, is a logical clock. The rows
up to a depth are closed in the sample: no message is on both sides. Other messages may lie between
two sampled rows; the rows around a cut show them, and the cut is pulled down below each.

The sample is a fixed fraction of the history, so that the rows around a cut are as many however
long the history is. It is merged by workers, a *section* of a few parts at a time; where sections
begin is guessed in the same way at the driver, from a part of the sample that does not grow.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ordercast.pipeline.audits.numbers import Columns, Ints
from ordercast.pipeline.audits.places import spread, starts

ROWS_PER_PART = 250_000
PARTS_PER_SECTION = 32
BORDER_ROWS = 100_000  # in the sample; the driver estimates the sections' borders from it
_MARGIN = 8  # sampled rows on either side of a cut that are looked at
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


@dataclass(frozen=True)
class Guesses:
    """Guesses at the cuts of a section of a run: by site (sorted) and cut."""

    sites: Ints
    low: Ints
    at: Ints
    high: Ints


def guess(
    sample: Columns, count: int, parts: int, limits: tuple[Ints, Ints, Ints] | None = None
) -> Guesses:
    """The first `count` cuts of a section that is divided into `parts` parts.

    `sample` holds first deliveries of some messages of one run, sorted by site and place. `limits`,
    if it is one of several sections: per row, the positions of its site after which the section
    begins and up to which it goes, and the last one to look at. Rows on either side of a section
    are in its sample, too: depths are right only after some rows of every site.
    """
    depth = _depths(sample["site"], sample["message"])
    begins = starts(sample["site"])
    ends = np.append(begins[1:], len(depth))
    if limits is None:
        unlimited = np.full(len(depth), _HIGHEST)
        limits = (np.full(len(depth), _LOWEST), unlimited, unlimited)
    floor, _, ceiling = (limit[begins] for limit in limits)
    taken = depth >= 0
    before = int(np.count_nonzero(taken & (sample["position"] <= limits[0])))
    within = int(np.count_nonzero(taken & (sample["position"] <= limits[1]))) - before
    every = np.sort(depth[taken])
    at = np.minimum(before + np.arange(1, count + 1) * within // parts, max(len(every) - 1, 0))
    levels = every[at] if len(every) else np.zeros(count, np.int64)
    found = np.empty((3, len(begins), count), np.int64)
    for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        own = begin + np.flatnonzero(taken[begin:end])
        inside = np.searchsorted(depth[own], levels, side="right")
        position = sample["position"][own]
        padded = np.concatenate([[_LOWEST] * (_MARGIN + 1), position, [_HIGHEST] * (_MARGIN + 1)])
        beyond = padded[inside + _MARGIN + 1]
        found[1, row] = np.minimum(np.where(beyond == _HIGHEST, beyond, beyond - 1), ceiling[row])
        low = padded[inside]
        found[0, row] = np.where(low == _LOWEST, np.minimum(floor[row], found[1, row]), low)
        found[2, row] = np.minimum(padded[inside + 2 * _MARGIN + 1], ceiling[row])
    return Guesses(sample["site"][begins], *found)


@dataclass(frozen=True)
class Sections:
    """How each run is divided for the search, and about where. A run that is not cut has none."""

    first: Ints  # by site: the number of its run's first section, -1 for none
    count: Ints  # by site: how many sections its run has
    parts: Ints  # by site: how many parts its run has
    row: Ints  # by site: its row of the tables, -1 for none
    lows: Ints  # after these positions rows are in the sample of the next section, too
    borders: Ints  # the positions up to which sections go
    highs: Ints  # up to these positions rows of the next section are in this one's sample, too
    size: int = PARTS_PER_SECTION

    def divide(self, sample: Columns) -> Columns:
        """Each row once for every section that it is in: the section is in the column `section`."""
        rows = np.flatnonzero(self.first[sample["site"]] >= 0)
        site, position = sample["site"][rows], sample["position"][rows]
        least, most = np.zeros((2, len(rows)), np.int64)
        cut = np.flatnonzero(self.row[site] >= 0)
        if len(cut):
            at = (self.row[site[cut]], position[cut])
            least[cut], most[cut] = count_below(self.highs, *at), count_below(self.lows, *at)
        owner, nth = spread(most - least + 1)
        found = {name: column[rows[owner]] for name, column in sample.items()}
        found["section"] = self.first[site[owner]] + least[owner] + nth
        return found

    def guess(self, sample: Columns, section: int) -> tuple[int, Guesses]:
        """The number of its first cut, and the guesses; from all sampled rows of the section."""
        site = int(sample["site"][0])
        nth, parts = section - int(self.first[site]), int(self.parts[site])
        begin = nth * self.size
        own = min(self.size, parts - begin)
        count = own if begin + own < parts else own - 1
        sites = np.flatnonzero(self.first == self.first[site])
        floor, top, ceiling = self._limits(sites, nth)
        at = np.searchsorted(sites, sample["site"])
        found = guess(sample, count, own, (floor[at], top[at], ceiling[at]))
        # A site without a sampled row has few rows in the section: all of them are looked at.
        low, cut, high = (np.repeat(c[:, None], count, axis=1) for c in (floor, top, ceiling))
        known = np.searchsorted(sites, found.sites)
        low[known], cut[known], high[known] = found.low, found.at, found.high
        return begin, Guesses(sites, low, cut, high)

    def _limits(self, sites: Ints, nth: int) -> tuple[Ints, Ints, Ints]:
        """By site: after which position the section begins, how far it goes, and how far rows of
        the next one are in the sample."""
        floor, top, ceiling = (
            np.full(len(sites), limit, np.int64) for limit in (_LOWEST, _HIGHEST, _HIGHEST)
        )
        rows = self.row[sites]
        if (rows >= 0).all() and len(rows):
            if nth:
                floor = self.borders[rows, nth - 1]
            if nth < int(self.count[sites[0]]) - 1:
                top, ceiling = self.borders[rows, nth], self.highs[rows, nth]
        return floor, top, ceiling


def plan_sections(shares: Shares, sites_run: Ints, size: int = PARTS_PER_SECTION) -> Sections:
    """Sections without places; where every run has one, they need none."""
    parts = shares.cuts + 1
    count = np.where(parts > 1, -(-parts // size), 0)
    runs, at = np.unique(sites_run, return_index=True)
    ends = np.cumsum(count[at])
    first = (ends - count[at])[np.searchsorted(runs, sites_run)]
    none = np.full(len(parts), -1, np.int64)
    empty = np.empty((0, 0), np.int64)
    return Sections(np.where(count > 0, first, -1), count, parts, none, empty, empty, empty, size)


def place_sections(sections: Sections, sample: Columns, sites_run: Ints) -> Sections:
    """Guess where sections begin, from first deliveries of some messages, as `guess` wants them."""
    row = np.full(len(sections.first), -1, np.int64)
    wide = np.flatnonzero(sections.count > 1)
    row[wide] = np.arange(len(wide))
    shape = (len(wide), int(sections.count.max()) - 1)
    lows, borders, highs = (np.full(shape, _HIGHEST, np.int64) for _ in range(3))
    runs = sites_run[sample["site"]]
    for run in np.unique(sites_run[wide]).tolist():
        own = {name: column[runs == run] for name, column in sample.items()}
        count = int(sections.count[sites_run == run][0])
        if not len(own["site"]):
            continue
        found = guess(own, count - 1, count)
        for table, guessed in ((lows, found.low), (borders, found.at), (highs, found.high)):
            table[row[found.sites], : count - 1] = np.maximum.accumulate(guessed, axis=1)
    return replace(sections, row=row, lows=lows, borders=borders, highs=highs)


def windows(shares: Shares, guesses: Iterable[tuple[int, Guesses]]) -> Windows:
    """All guesses in one table. Windows never go down, so a wide one may make others wider."""
    cut_sites = np.flatnonzero(shares.cuts > 0)
    row = np.full(len(shares.first), -1, np.int64)
    row[cut_sites] = np.arange(len(cut_sites))
    shape = (len(cut_sites), int(shares.cuts.max()))
    low, at, high = (np.full(shape, unknown, np.int64) for unknown in (_LOWEST, _HIGHEST, _HIGHEST))
    for begin, found in guesses:
        span = slice(begin, begin + found.at.shape[1])
        for table, own in ((low, found.low), (at, found.at), (high, found.high)):
            table[row[found.sites], span] = own
    low = np.minimum.accumulate(low[:, ::-1], axis=1)[:, ::-1]
    return Windows(row, low, at, np.maximum.accumulate(high, axis=1))


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
