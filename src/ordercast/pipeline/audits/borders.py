"""What the parts tell about their borders, joined.

Positions: ranges without holes are put together. FIFO: the highest so far is carried into the next
part. Both grow with the history (parts by sites, or by families at each site), so they are divided
by site and family and folded by workers. The driver gets the rest: a range per site, and the
families that go down at a border. Order: when messages cross cuts, the driver contracts the parts
to what reaches what, and tangles that go through several parts become hubs (docs/audit.md).
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ordercast.pipeline.audits.by_part import Carry, Crossing, Hubs
from ordercast.pipeline.audits.causal import fold_sends
from ordercast.pipeline.audits.evidence import Evidence, Total
from ordercast.pipeline.audits.facts import SiteLog
from ordercast.pipeline.audits.numbers import Ints, mix
from ordercast.pipeline.audits.packing import by_key
from ordercast.pipeline.audits.places import PlaceColumns, starts
from ordercast.pipeline.audits.tangles import components, sort_orders


def divide_borders(evidence: Evidence, buckets: int) -> Iterator[tuple[int, Evidence]]:
    """Take the borders out of the evidence, divided by their keys into buckets."""
    found: dict[int, Evidence] = {}
    for name, columns in evidence.borders.items():
        arrays = [np.frombuffer(column, np.int64) for column in columns]
        bucket = mix(arrays[0].view(np.uint64)) % np.uint64(buckets)
        for number, rows in by_key(bucket.astype(np.int64)):
            found.setdefault(number, Evidence()).table(name, *(c[rows] for c in arrays))
    evidence.borders = {}
    yield from found.items()


def fold_borders(pieces: Iterable[Evidence]) -> Evidence:
    """Fold a bucket: all that any part told under its keys."""
    told, evidence = Total(pieces), Evidence()
    _fold_fifo(told, evidence)
    site, low, high = told.table("ranges", 3)
    evidence.table("ranges", *join_ranges(site, low, high))
    fold_sends(told, evidence)
    return evidence


def _fold_fifo(told: Total, evidence: Evidence) -> None:
    """The families of which an earlier part has a later message: nearly always none."""
    key, part, first, top, position = told.table("fifo", 5)
    if not len(key):
        return
    order = np.lexsort((part, key))
    key, part, first, top, position = (c[order] for c in (key, part, first, top, position))
    begins = starts(key)
    segment = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(key))))
    _, rank = np.unique(top, return_inverse=True)
    value = segment * (len(key) + 1) + rank
    is_highest = value == np.maximum.accumulate(value)
    highest = np.maximum.accumulate(np.where(is_highest, np.arange(len(key)), 0))
    before = np.concatenate(([0], highest[:-1]))
    regresses = first < top[before]
    regresses[begins] = False
    rows = np.flatnonzero(regresses)
    before = before[rows]
    evidence.table("carry", part[rows], key[rows], top[before], position[before])


def join_ranges(site: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """The same positions in as few ranges as can be, in order."""
    order = np.lexsort((low, site))
    site, low, high = site[order], low[order], high[order]
    begins = starts(site)
    segment = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(site))))
    values, rank = np.unique(high, return_inverse=True)
    width = len(values) + 1
    reached = np.maximum.accumulate(segment * width + rank) - segment * width
    new = np.ones(len(site), bool)
    new[1:] = low[1:] > values[reached[:-1]] + 1
    new[begins] = True
    at = np.flatnonzero(new)
    ends = np.append(at[1:], len(site)) - 1 if len(at) else at
    return site[at], low[at], values[reached[ends]]


def carries(total: Total) -> dict[int, Carry]:
    """Per part, the families of which an earlier part has a later message."""
    part, *columns = total.table("carry", 4)
    order = np.argsort(part, kind="stable")
    found = np.split(order, starts(part[order])[1:]) if len(part) else []
    return {int(part[own[0]]): Carry(*(c[own] for c in columns)) for own in found}


def position_faults(total: Total, logs: Mapping[int, SiteLog]) -> dict[int, tuple[int, bool]]:
    """Sites with a missing or doubled position: (the first one, whether it is doubled)."""
    site, low, high = join_ranges(*total.table("ranges", 3))
    doubled = dict(
        sorted(zip(*(c.tolist() for c in total.table("twice", 2)), strict=True), reverse=True)
    )
    faults: dict[int, tuple[int, bool]] = {}
    ranges: dict[int, list[tuple[int, int]]] = {number: [] for number in logs}
    for row in range(len(site)):
        ranges.setdefault(int(site[row]), []).append((int(low[row]), int(high[row])))
    for number, own in sorted(ranges.items()):
        fault = _first_hole(own, logs.get(number, SiteLog()))
        if fault is not None:
            faults[number] = (fault, False)
        elif number in doubled:
            faults[number] = (doubled[number], True)
    return faults


def _first_hole(delivered: list[tuple[int, int]], log: SiteLog) -> int | None:
    """The first position whose predecessor is missing; ranges in order that do not touch."""
    lows = np.array([low for low, _ in delivered], np.int64)
    filled = {0, *log.bases}
    top = max(filled)

    def is_filled(position: int) -> bool:
        if position in filled:
            return True
        at = int(np.searchsorted(lows, position, side="right")) - 1
        return at >= 0 and delivered[at][1] >= position

    for gap in log.gaps:
        if is_filled(gap - 1):
            filled.add(gap)
    needed = sorted({*lows.tolist(), *(gap for gap in log.gaps if gap > top)})
    return next((position for position in needed if not is_filled(position - 1)), None)


def hubs(total: Total, crossing: Crossing) -> tuple[dict[int, Hubs], Crossing, Ints]:
    """Tangles over several parts: per part, its borders and messages in them; and all messages.

    The nodes are crossing messages and borders: the exit of a site from a part is its entry to the
    next part in which it has rows.
    """
    part, site = total.table("entries", 2)
    order = np.lexsort((part, site))
    part, site = part[order], site[order]
    nth = np.arange(len(site)) - np.repeat(
        starts(site), np.diff(np.append(starts(site), len(site)))
    )
    entry = {(p, s): i for i, (p, s) in enumerate(zip(part.tolist(), site.tolist(), strict=True))}
    # Border i of a site lies before its i-th part; it has one more than it has parts.
    border = np.arange(len(site)) + np.cumsum(nth == 0) - 1
    messages = np.unique(crossing.orders.place.message)
    first_message = len(site) + len(starts(site))
    where, source, target = total.table("reach", 3)

    def nodes(codes: Ints, exits: int) -> Ints:
        found = np.empty(len(codes), np.int64)
        is_message = codes < 0
        found[is_message] = first_message + np.searchsorted(messages, -1 - codes[is_message])
        at = [
            entry[p, s]
            for p, s in zip(where[~is_message].tolist(), codes[~is_message].tolist(), strict=True)
        ]
        found[~is_message] = border[np.array(at, np.int64)] + exits
        return found

    labels = components(first_message + len(messages), nodes(source, 0), nodes(target, 1))
    sizes = np.bincount(labels)
    tangled = sizes[labels] > 1
    own_hub = np.where(tangled, labels, -1)
    found = {}
    message_part, message_number = crossing.part, crossing.orders.place.message
    message_hub = own_hub[first_message + np.searchsorted(messages, message_number)]
    for number in np.unique(part).tolist():
        mine = np.flatnonzero(part == number)
        enters, leaves = own_hub[border[mine]], own_hub[border[mine] + 1]
        here = np.flatnonzero((message_part == number) & (message_hub >= 0))
        _, once = np.unique(message_number[here], return_index=True)
        if (enters >= 0).any() or (leaves >= 0).any() or len(here):
            found[number] = Hubs(
                site[mine][enters >= 0],
                enters[enters >= 0],
                site[mine][leaves >= 0],
                leaves[leaves >= 0],
                message_number[here][once],
                message_hub[here][once],
            )
    rows = np.flatnonzero(message_hub >= 0)
    kept = Crossing(message_part[rows], crossing.orders.take(rows))
    return found, kept, messages[own_hub[first_message:] >= 0]


def read_crossing(total: Total) -> Crossing:
    part, site, *place = total.table("crossing", 6)
    order = np.lexsort((*place[::-1], site))
    return Crossing(part[order], sort_orders(site, PlaceColumns(*place)))
