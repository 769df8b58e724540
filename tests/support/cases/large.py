"""Histories of thousands of rows: in order, with a message moved, and rings without a pair."""

import random
from collections import Counter

from msgspec.structs import replace

from ordercast.history.rows import END, Delivered, EpochRow, Event, GroupRow, History, Sent


def steady(messages: int, seed: int = 1, sites: int = 6) -> History:
    """A history in order: groups of three that overlap, every site up at the end."""
    rng = random.Random(seed)
    names = [f"s{i}" for i in range(sites)]
    groups = {f"g{i}": [names[(i + j) % sites] for j in range(3)] for i in range(sites)}
    history = _started()
    history.groups = [GroupRow(1, g, site) for g, own in groups.items() for site in own]
    position = dict.fromkeys(names, 0)
    seqs: Counter[tuple[str, str]] = Counter()
    for time in range(messages):
        origin, group = rng.choice(names), rng.choice(list(groups))
        seqs[origin, group] += 1
        seq = seqs[origin, group]
        history.sent.append(Sent(origin, 1, group, seq, 0, 0, time, 1, seq))
        for site in groups[group]:
            position[site] += 1
            row = Delivered(site, position[site], 1, 1, group, origin, 1, seq, time, seq)
            history.deliveries.append(row)
    history.events = [Event(site, 1, END, last, 1, 1, 0) for site, last in position.items()]
    return history


def rows_at(history: History, site: str) -> list[int]:
    """Where the rows of a site are, in its order."""
    own = [i for i, row in enumerate(history.deliveries) if row.site == site]
    return sorted(own, key=lambda i: history.deliveries[i].position)


def move(history: History, site: str, source: int, target: int) -> None:
    """A site delivers its message at one place at another place instead."""
    at = rows_at(history, site)
    rows = [history.deliveries[i] for i in at]
    rows.insert(target, rows.pop(source))
    for position, (i, row) in enumerate(zip(at, rows, strict=True), 1):
        history.deliveries[i] = replace(row, position=position)


def wide_ring(messages: int) -> History:
    """Three sites share one message pairwise, early at one and late at the other; else nothing."""
    orders: dict[str, list[tuple[str, int]]] = {}
    for site, early, late in (("a", "ab", "ca"), ("b", "bc", "ab"), ("c", "ca", "bc")):
        own = [(site, seq) for seq in range(1, messages + 1)]
        orders[site] = [*own[:5], (early, 1), *own[5:-5], (late, 1), *own[-5:]]
    return _ordered(orders)


def ring_of_four(messages: int) -> History:
    """Four sites share a group pairwise, and each has all of one group before all of the other.

    No two sites disagree; a shortest cycle has four messages, and all of them must be looked at to
    be sure that none has three.
    """
    seqs = range(1, messages + 1)
    return _ordered(
        {
            site: [(group, seq) for group in groups for seq in seqs]
            for site, groups in (
                ("a", ("ab", "da")),
                ("b", ("bc", "ab")),
                ("c", ("cd", "bc")),
                ("d", ("da", "cd")),
            )
        }
    )


def _started() -> History:
    return History(epochs=[EpochRow(1, "d", "safe", "exclude", "none", "start", 0)])


def _ordered(orders: dict[str, list[tuple[str, int]]]) -> History:
    """Sites deliver these messages, (group, seq), all of `a`; a group's name is its members."""
    history = _started()
    every = sorted({message for own in orders.values() for message in own})
    for group in sorted({group for group, _ in every}):
        history.groups += [GroupRow(1, group, site) for site in group]
    history.sent = [Sent("a", 1, group, seq, 0, 0, seq, 1) for group, seq in every]
    for site, order in orders.items():
        history.deliveries += [
            Delivered(site, position, 1, 1, group, "a", 1, seq, 0)
            for position, (group, seq) in enumerate(order, 1)
        ]
    return history
