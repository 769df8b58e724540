"""The checks that follow the sites' orders, one part at a time: FIFO, positions, order.

A part holds the rows of every site between two cuts. It tells its borders: which positions it has
and how far each family has come, which is folded over all parts before the driver sees it; and,
when messages cross cuts, which border or message reaches which (docs/audit.md).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from ordercast.pipeline.audits.evidence import Evidence
from ordercast.pipeline.audits.facts import Facts
from ordercast.pipeline.audits.numbers import Bools, Columns, Ints, StreamArrays
from ordercast.pipeline.audits.places import PlaceColumns, starts
from ordercast.pipeline.audits.survey import families
from ordercast.pipeline.audits.tangles import (
    Orders,
    components,
    find_inversions,
    graph,
    links,
    shortest_cycle,
    sort_orders,
)

FIRST, CROSSES, SEND = 1, 2, 4  # flags of a row
MOST_LOOKED = 1_000_000  # messages looked at in a part's search for a shortest cycle
MOST_KNOT_ROWS = 20_000  # of a tangle over several parts that each part shows to the driver


@dataclass(frozen=True)
class PartRows:
    """Live rows by site and place."""

    site: Ints
    place: PlaceColumns
    flag: Ints
    family: Ints


@dataclass(frozen=True)
class Carry:
    """FIFO across borders: per (site, family), the highest before this part, with its place."""

    keys: Ints
    message: Ints
    position: Ints


@dataclass(frozen=True)
class Hubs:
    """Tangles over several parts: which borders and crossing messages of a part belong to which."""

    entry_site: Ints
    entry_hub: Ints
    exit_site: Ints
    exit_hub: Ints
    message: Ints
    message_hub: Ints


@dataclass(frozen=True)
class Crossing:
    """The rows of the crossing messages that are tangled, at all their sites and in all parts."""

    part: Ints
    orders: Orders


def read_part(columns: Columns, streams: StreamArrays) -> PartRows:
    """Rows sorted by site and place; positions alone suffice unless two are equal."""
    rows = np.flatnonzero((columns["flag"] & SEND) == 0)
    site, position = columns["site"][rows], columns["position"][rows]
    order = np.lexsort((position, site))
    same = (site[order][1:] == site[order][:-1]) & (position[order][1:] == position[order][:-1])
    if same.any():
        rest = (columns[name][rows] for name in ("message", "epoch", "attempt"))
        order = np.lexsort((*rest, position, site))
    rows = rows[order]
    names = ("position", "attempt", "epoch", "message")
    place = PlaceColumns(*(columns[name][rows] for name in names))
    family = streams.family[streams.of(place.message)]
    return PartRows(site[order], place, columns["flag"][rows], family)


def judge_fifo(
    rows: PartRows,
    streams: StreamArrays,
    part: int,
    carry: Carry | None,
    tell_border: bool,
    evidence: Evidence,
) -> Ints:
    """Rows whose site has delivered a later message of the same family before."""
    if not len(rows.site):
        return np.empty(0, np.int64)
    keys = rows.site * families(streams.family) + rows.family
    order = np.argsort(keys, kind="stable")
    keys, messages = keys[order], rows.place.message[order]
    begins = starts(keys)
    segment = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(keys))))
    _, rank = np.unique(messages, return_inverse=True)
    width = len(messages) + 1
    running = np.maximum.accumulate(segment * width + rank + 1)
    before = np.concatenate(([0], running[:-1])) - segment * width
    before[begins] = 0
    wrong = rank + 1 < before
    carried = np.full(len(begins), -1, np.int64)
    if carry is not None:
        hit = np.searchsorted(keys[begins], carry.keys)
        carried[hit] = np.arange(len(carry.keys))
        has = carried[segment] >= 0
        wrong[has] |= messages[has] < carry.message[carried[segment[has]]]
    if tell_border:
        ends = np.append(begins[1:], len(keys)) - 1
        top = running[ends] - np.arange(len(begins)) * width - 1
        # The last row with the highest message; equal ones are repeats and stand together.
        is_top = rank == top[segment]
        last = np.maximum.reduceat(np.where(is_top, np.arange(len(keys)), -1), begins)
        evidence.border(
            "fifo",
            keys[begins],
            np.full(len(begins), part),
            messages[begins],
            messages[last],
            rows.place.position[order[last]],
        )
    bad = order[wrong]
    key = shown = None
    if len(bad):
        row = int(bad.min())
        place = [int(column[row]) for column in rows.place]
        key = [int(rows.site[row]), *place]
        shown = [*key, *_after(rows, row, carry, families(streams.family))]
    evidence.check("fifo").see(len(bad), key, shown or [])
    return bad


def _after(rows: PartRows, row: int, carry: Carry | None, count: int) -> list[int]:
    """Position and message of the highest delivery before a row; of two equal ones, the last."""
    own = np.flatnonzero(
        (rows.site[:row] == rows.site[row]) & (rows.family[:row] == rows.family[row])
    )
    found: list[tuple[int, int]] = []
    if len(own):
        messages = rows.place.message[own]
        last = own[len(own) - 1 - int(np.argmax(messages[::-1]))]
        found.append((int(rows.place.message[last]), int(rows.place.position[last])))
    if carry is not None:
        key = int(rows.site[row]) * count + int(rows.family[row])
        at = np.flatnonzero(carry.keys == key)
        found += zip(carry.message[at].tolist(), carry.position[at].tolist(), strict=True)
    message, position = max(found)
    return [position, message]


def tell_positions(rows: PartRows, facts: Facts, evidence: Evidence) -> None:
    """Each site's positions as ranges without holes, and the first that is there twice.

    No more ranges are told than gaps and bases could explain, and a few: enough to find the first
    that nothing explains.
    """
    site, position = rows.site, rows.place.position
    if not len(site):
        return
    same = site[1:] == site[:-1]
    twice = np.flatnonzero(same & (position[1:] == position[:-1])) + 1
    twice = twice[starts(site[twice])]
    evidence.table("twice", site[twice], position[twice])
    begins = np.flatnonzero(np.concatenate(([True], ~same | (position[1:] > position[:-1] + 1))))
    ends = np.append(begins[1:], len(site)) - 1
    sites = site[begins]
    of_site = starts(sites)
    nth = np.arange(len(begins)) - np.repeat(of_site, np.diff(np.append(of_site, len(begins))))
    allowed = np.array([facts.gap_counts.get(int(s), 0) + 3 for s in sites[of_site]], np.int64)
    told = nth <= np.repeat(allowed, np.diff(np.append(of_site, len(begins))))
    evidence.border("ranges", sites[told], position[begins[told]], position[ends[told]])


def judge_order(
    rows: PartRows,
    streams: StreamArrays,
    sites_run: Ints,
    part: int,
    hubs: Hubs | None,
    crossing: Crossing | None,
    evidence: Evidence,
) -> Ints:
    """Messages on a cycle, pairs of sites that disagree, and the shortest cycle seen here.

    Returns the messages, without those that cross cuts.
    """
    first = np.flatnonzero(rows.flag & FIRST)
    orders = Orders(rows.site[first], rows.place.take(first))
    messages, node = np.unique(orders.place.message, return_inverse=True)
    crosses = np.zeros(len(messages), bool)
    crosses[node] = (rows.flag[first] & CROSSES) != 0
    labels, hub_of = _label(orders, node, messages, hubs)
    sizes = np.bincount(labels[: len(messages)], minlength=1)
    tangled = (sizes[labels[: len(messages)]] > 1) | (hub_of[labels[: len(messages)]] >= 0)
    evidence.check("acyclic_order").count += int(np.count_nonzero(tangled & ~crosses))
    evidence.table("tangled_crossing", messages[tangled & crosses])
    listed: Ints = messages[tangled & ~crosses]
    if not tangled.any() and crossing is None:
        return listed
    inside = np.flatnonzero(tangled[node])
    own = orders.take(inside)
    _judge_pairs(own, part, crossing, evidence)
    knots = labels[node[inside]]
    wide = np.flatnonzero(hub_of[knots] >= 0)
    if len(wide):
        _tell_knot(own, hub_of[knots], _shared(own, crosses[node[inside]], wide), evidence)
    local = np.flatnonzero(hub_of[knots] < 0)
    if len(local) and "inversions" not in evidence.tables:
        cycle, stopped = shortest_cycle(own.take(local), knots[local], streams, MOST_LOOKED)
        evidence.count("stopped", int(stopped))
        show_cycle(own, cycle, sites_run, evidence)
    return listed


def _label(orders: Orders, node: Ints, messages: Ints, hubs: Hubs | None) -> tuple[Ints, Ints]:
    """The components of the graph. Its nodes are the messages, then what stands for the rest of the
    history: the hubs, and the borders that belong to a hub. Also, per component, its hub; -1:
    none."""
    source, target = links(node, orders.site)
    count = len(messages)
    if hubs is None:
        labels = components(count, source, target)
        return labels, np.full(int(labels.max()) + 1 if count else 1, -1, np.int64)
    heads = starts(orders.site)
    tails = np.append(heads[1:], len(orders)) - 1 if len(heads) else heads
    names = np.unique(np.concatenate([hubs.entry_hub, hubs.exit_hub, hubs.message_hub]))
    hub = count + np.arange(len(names))
    by_entry = np.searchsorted(orders.site[heads], hubs.entry_site)
    by_exit = np.searchsorted(orders.site[heads], hubs.exit_site)
    crossing = np.searchsorted(messages, hubs.message)
    entry_hub, exit_hub, message_hub = (
        hub[np.searchsorted(names, own)]
        for own in (hubs.entry_hub, hubs.exit_hub, hubs.message_hub)
    )
    source = np.concatenate([source, entry_hub, node[tails[by_exit]], message_hub, crossing])
    target = np.concatenate([target, node[heads[by_entry]], exit_hub, crossing, message_hub])
    labels = components(count + len(names), source, target)
    hub_of = np.full(int(labels.max()) + 1, -1, np.int64)
    hub_of[labels[count:]] = names
    return labels, hub_of


def _judge_pairs(own: Orders, part: int, crossing: Crossing | None, evidence: Evidence) -> None:
    """Compare the sites' orders. Messages that cross a cut come in at their place at each site,
    before or after all rows of this part."""
    if crossing is not None:
        here = np.isin(crossing.orders.site, own.site) & (crossing.part != part)
        more = crossing.orders.take(np.flatnonzero(here))
        columns = zip(own.place, more.place, strict=True)
        place = PlaceColumns(*(np.concatenate(pair) for pair in columns))
        own = sort_orders(np.concatenate([own.site, more.site]), place)
    tell_inversions(own, evidence)


def tell_inversions(orders: Orders, evidence: Evidence) -> None:
    found = find_inversions(orders)
    (one, one_after), (other, other_after) = found.one, found.other
    evidence.table(
        "inversions",
        orders.site[one],
        orders.site[other],
        orders.place.message[one],
        orders.place.message[one_after],
        *(orders.place.position[rows] for rows in (one, one_after, other, other_after)),
    )


def _tell_knot(own: Orders, hubs: Ints, rows: Ints, evidence: Evidence) -> None:
    """Tell rows of tangles over several parts: the driver looks for a cycle in them."""
    if len(rows) > MOST_KNOT_ROWS:
        evidence.count("stopped", 1)
        rows = rows[:MOST_KNOT_ROWS]
    evidence.table("knot", hubs[rows], own.site[rows], *own.place.take(rows))


def _shared(own: Orders, crosses: Bools, rows: Ints) -> Ints:
    """Drop messages that only one site has: no shortest cycle needs them."""
    _, node, count = np.unique(own.place.message, return_inverse=True, return_counts=True)
    return rows[(count[node[rows]] > 1) | crosses[rows]]


def show_cycle(
    orders: Orders, cycle: list[tuple[int, int]], sites_run: Ints, evidence: Evidence
) -> None:
    if not cycle:
        return
    shown = []
    for (message, site), (after, _) in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        at = [
            int(orders.place.position[(orders.site == site) & (orders.place.message == one)][0])
            for one in (message, after)
        ]
        shown.append([message, site, *at])
    run = int(sites_run[cycle[0][1]])
    evidence.check("acyclic_order").see(0, [len(cycle), run, *(m for m, _ in cycle)], shown)


def tell_reach(rows: PartRows, part: int, evidence: Evidence) -> None:
    """What reaches what: from each site's entry and each crossing message to exits and others.

    Sites are coded as they are, a crossing message as -1 - message.
    """
    first = np.flatnonzero(rows.flag & FIRST)
    orders = Orders(rows.site[first], rows.place.take(first))
    messages, node = np.unique(orders.place.message, return_inverse=True)
    heads = starts(orders.site)
    tails = np.append(heads[1:], len(orders)) - 1 if len(heads) else heads
    sites = orders.site[heads]
    crossing = np.unique(node[(rows.flag[first] & CROSSES) != 0])
    exits = len(messages) + np.arange(len(sites))
    source, target = links(node, orders.site)
    source = np.concatenate([source, node[tails]])
    target = np.concatenate([target, exits])
    whole = graph(len(messages) + len(sites), source, target)
    code = np.zeros(len(messages) + len(sites), np.int64)
    code[crossing] = -1 - messages[crossing]
    code[exits] = sites
    counts: Bools = np.zeros(len(code), bool)
    counts[crossing] = counts[exits] = True
    found_from, found_to = [], []
    begins = [(int(node[head]), int(site)) for head, site in zip(heads, sites, strict=True)]
    begins += [(int(one), -1 - int(messages[one])) for one in crossing]
    for start, name in begins:
        reached = breadth_first_order(whole, start, return_predecessors=False)
        reached = reached[counts[reached]]
        if name < 0:
            reached = reached[reached != start]
        found_from.append(np.full(len(reached), name))
        found_to.append(code[reached])
    evidence.table("entries", np.full(len(sites), part), sites)
    if found_from:
        every_from = np.concatenate(found_from)
        evidence.table(
            "reach", np.full(len(every_from), part), every_from, np.concatenate(found_to)
        )
