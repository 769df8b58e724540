"""A history as it comes to somebody who follows it: in portions with random borders.

By `in_order` every site's rows come as the site wrote them, but how far each site has come is
random: a delivery may be seen long before its send, an exclusion long after the others went on.
By `anyhow` all rows of all tables come in any order.
"""

import random
from collections.abc import Sequence

from ordercast.history.rows import Delivered, EpochRow, Event, GroupRow, History, Row, Sent

_TABLE = {
    GroupRow: "groups",
    Sent: "sent",
    Delivered: "deliveries",
    Event: "events",
    EpochRow: "epochs",
}


def in_order(rng: random.Random, history: History) -> list[History]:
    """The tables of groups and epochs are there when a row of the epoch is."""
    logs = _logs(history)
    portions: list[History] = []
    told: set[int] = set()
    while any(logs):
        rows: list[Row] = []
        for log in logs:
            count = min(len(log), rng.choice((0, 0, 1, 2, 3, 8)))
            rows += log[:count]
            del log[:count]
        epochs = {row.epoch for row in rows if not isinstance(row, Sent)}
        last = max(epochs, default=0)
        fresh = {epoch for epoch in _epochs(history) if epoch <= last} - told
        told |= fresh
        rows += _of_epochs(history, fresh)
        if rows:
            portions.append(_portion(rows))
    rest = _of_epochs(history, _epochs(history) - told)
    return [*portions, _portion(rest)] if rest or not portions else portions


def _epochs(history: History) -> set[int]:
    return {row.epoch for row in history.groups} | {row.epoch for row in history.epochs}


def _of_epochs(history: History, epochs: set[int]) -> list[Row]:
    groups: list[Row] = [row for row in history.groups if row.epoch in epochs]
    return groups + [row for row in history.epochs if row.epoch in epochs]


def anyhow(rng: random.Random, history: History) -> list[History]:
    rows = [row for table in history.tables().values() for row in table]
    rng.shuffle(rows)
    portions = []
    while rows:
        count = rng.randint(1, len(rows))
        portions.append(_portion(rows[:count]))
        del rows[:count]
    return portions


def joined(portions: Sequence[History]) -> History:
    whole = History()
    for portion in portions:
        for name, rows in portion.tables().items():
            getattr(whole, name).extend(rows)
    return whole


def _logs(history: History) -> list[list[Row]]:
    """Of every site: its deliveries, with each event after the row that it names; of every
    origin: its sends."""
    logs: dict[tuple[str, str], list[tuple[tuple[int, ...], Row]]] = {}
    ends: dict[str, int] = {}
    for row in history.deliveries:
        place = (row.attempt, row.position, 0, 0)
        logs.setdefault(("site", row.site), []).append((place, row))
        ends[row.site] = max(row.attempt, ends.get(row.site, 0))
    for event in sorted(history.events, key=lambda event: event.n):
        attempt = event.attempt if event.kind != "end" else max(ends.get(event.site, 0), 9)
        behind = event.position if event.kind != "rollback" else 0
        place = (attempt, behind, 1, event.n)
        logs.setdefault(("site", event.site), []).append((place, event))
    for n, sent in enumerate(history.sent):
        logs.setdefault(("origin", sent.origin), []).append(((n,), sent))
    return [[row for _, row in sorted(own, key=lambda one: one[0])] for own in logs.values()]


def _portion(rows: Sequence[Row]) -> History:
    history = History()
    for row in rows:
        getattr(history, _TABLE[type(row)]).append(row)
    return history
