"""The driver joins what the parts tell about their borders.

Positions: ranges without holes are put together. FIFO: the highest so far is carried into the next
part. Order: when messages cross cuts, the parts are contracted to what reaches what, and tangles
that go through several parts become hubs (docs/audit.md).
"""

from collections.abc import Mapping

import numpy as np

from ordercast.pipeline.audits.by_part import Carry, Crossing, Hubs
from ordercast.pipeline.audits.evidence import Total
from ordercast.pipeline.audits.facts import SiteLog
from ordercast.pipeline.audits.numbers import Ints
from ordercast.pipeline.audits.places import PlaceColumns, starts
from ordercast.pipeline.audits.tangles import components, sort_orders


def carries(total: Total) -> dict[int, Carry]:
    """Per part, the families of which an earlier part has a later message: nearly always none."""
    part, key, first, top, position = total.table("fifo_border", 5)
    found: dict[int, list[tuple[int, int, int]]] = {}
    order = np.lexsort((part, key))
    highest: tuple[int, int, int] | None = None  # key, message, position
    for row in order.tolist():
        if highest is not None and highest[0] == key[row]:
            if first[row] < highest[1]:
                found.setdefault(int(part[row]), []).append(highest)
            if top[row] < highest[1]:
                continue
        highest = (int(key[row]), int(top[row]), int(position[row]))
    return {
        number: Carry(*(np.array(column, np.int64) for column in zip(*own, strict=True)))
        for number, own in found.items()
    }


def position_faults(total: Total, logs: Mapping[int, SiteLog]) -> dict[int, tuple[int, bool]]:
    """Sites with a missing or doubled position: (the first one, whether it is doubled)."""
    site, low, high = total.table("ranges", 3)
    order = np.lexsort((low, site))
    doubled = dict(
        sorted(zip(*(c.tolist() for c in total.table("twice", 2)), strict=True), reverse=True)
    )
    faults: dict[int, tuple[int, bool]] = {}
    ranges: dict[int, list[tuple[int, int]]] = {number: [] for number in logs}
    for row in order.tolist():
        ranges.setdefault(int(site[row]), []).append((int(low[row]), int(high[row])))
    for number, own in sorted(ranges.items()):
        fault = _first_hole(own, logs.get(number, SiteLog()))
        if fault is not None:
            faults[number] = (fault, False)
        elif number in doubled:
            faults[number] = (doubled[number], True)
    return faults


def _first_hole(ranges: list[tuple[int, int]], log: SiteLog) -> int | None:
    """The first position whose predecessor is missing."""
    delivered: list[list[int]] = []
    for low, high in ranges:
        if delivered and low <= delivered[-1][1] + 1:
            delivered[-1][1] = max(high, delivered[-1][1])
        else:
            delivered.append([low, high])
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
