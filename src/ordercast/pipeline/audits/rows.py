"""A share of the rows, sorted by message and site, and what is true of each row by itself.

The share holds all rows of some messages: whatever is asked of a message can be answered here.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from ordercast.pipeline.audits.facts import Facts
from ordercast.pipeline.audits.numbers import Bools, Columns, Ints, StreamArrays
from ordercast.pipeline.audits.places import PlaceColumns, starts

DELIVERED, SENT = 0, 1


@dataclass(frozen=True)
class DeliveryRows:
    """Live rows by (message, site, place); `messages` are the distinct ones."""

    site: Ints
    place: PlaceColumns
    digest: Ints
    has_digest: Bools
    keys: Ints  # message * sites + site
    message_starts: Ints
    messages: Ints
    index: Ints  # per row, its message in `messages`
    stream: Ints  # per message
    group: Ints  # per message
    member: Bools  # per row: its site is a nominal member then
    repeated: Bools
    agreed: Bools
    first: Bools  # the first agreed delivery: the row counts for the order
    annulled: int

    def __len__(self) -> int:
        return len(self.site)


@dataclass(frozen=True)
class SendRows:
    """Accepted messages, each once; of several rows the smallest by (time, attempt, position)."""

    message: Ints
    site: Ints
    after_position: Ints
    after_attempt: Ints
    sent_ns: Ints
    digest: Ints
    has_digest: Bools
    other_digests: dict[int, set[int | None]]  # of ids that appear twice, by message

    def find(self, messages: Ints) -> tuple[Bools, Ints]:
        """Which of these were sent, and their places here (undefined for the others)."""
        if not len(self.message):
            return np.zeros(len(messages), bool), np.zeros(len(messages), np.int64)
        found = np.searchsorted(self.message, messages)
        found[found == len(self.message)] = 0
        return np.asarray(self.message[found] == messages), found


def read_deliveries(columns: Columns, facts: Facts, streams: StreamArrays) -> DeliveryRows:
    rows = np.flatnonzero(columns["kind"] == DELIVERED)
    own = {name: column[rows] for name, column in columns.items()}
    live = is_live(facts, own["site"], own["position"], own["attempt"])
    annulled = len(rows) - int(np.count_nonzero(live))
    if annulled:
        own = {name: column[live] for name, column in own.items()}
    own["key"] = own["message"] * facts.sites + own["site"]
    order = np.argsort(own["key"], kind="stable")
    ordered = own["key"][order]
    repeated = np.zeros(len(ordered), bool)
    if len(ordered):
        repeated[1:] = ordered[1:] == ordered[:-1]
    if repeated.any():
        by = ("digest", "has_digest", "ns", "epoch", "attempt", "position", "key")
        order = np.lexsort([own[name] for name in by])
    own = {name: column[order] for name, column in own.items()}
    message_starts = starts(own["message"])
    messages = own["message"][message_starts]
    counts = np.diff(np.append(message_starts, len(order)))
    index = np.repeat(np.arange(len(messages)), counts)
    stream = streams.of(messages)
    group = streams.group[stream]
    pair = _pairs(facts, group, index, own["epoch"])
    agreed = ~is_unagreed(facts, own["site"], own["epoch"])
    return DeliveryRows(
        site=own["site"],
        place=PlaceColumns(own["position"], own["attempt"], own["epoch"], own["message"]),
        digest=own["digest"],
        has_digest=own["has_digest"],
        keys=own["key"],
        message_starts=message_starts,
        messages=messages,
        index=index,
        stream=stream,
        group=group,
        member=facts.are_members(pair, own["site"]),
        repeated=repeated,
        agreed=agreed,
        first=_first(own["key"], agreed),
        annulled=annulled,
    )


def is_live(facts: Facts, sites: Ints, positions: Ints, attempts: Ints) -> Bools:
    """Rows that no rollback of their site annuls."""
    live = np.ones(len(sites), bool)
    for site, own in _rows_of(facts.rollbacks, sites, facts.sites):
        for attempt, position in facts.rollbacks[site]:
            live[own[(attempts[own] < attempt) & (positions[own] > position)]] = False
    return live


def is_unagreed(facts: Facts, sites: Ints, epochs: Ints) -> Bools:
    """Rows of an epoch that was closed without their site."""
    found = np.zeros(len(sites), bool)
    for site, own in _rows_of(facts.unagreed, sites, facts.sites):
        found[own] = np.isin(epochs[own], facts.unagreed[site])
    return found


def _rows_of(chosen: Collection[int], sites: Ints, count: int) -> Iterator[tuple[int, Ints]]:
    """Each chosen site that has rows, with their places."""
    if not chosen:
        return
    is_chosen = np.zeros(count, bool)
    is_chosen[list(chosen)] = True
    rows = np.flatnonzero(is_chosen[sites])
    rows = rows[np.argsort(sites[rows], kind="stable")]
    for own in np.split(rows, starts(sites[rows])[1:]) if len(rows) else ():
        yield int(sites[own[0]]), own


def _first(keys: Ints, agreed: Bools) -> Bools:
    first = np.zeros(len(keys), bool)
    rows = np.flatnonzero(agreed)
    first[rows[starts(keys[rows])]] = True
    return first


def _pairs(facts: Facts, group: Ints, index: Ints, epochs: Ints) -> Ints:
    """Looked up once for neighbouring rows with the same message and epoch."""
    if not len(epochs):
        return np.empty(0, np.int64)
    changes = np.concatenate(([True], (index[1:] != index[:-1]) | (epochs[1:] != epochs[:-1])))
    at = np.flatnonzero(changes)
    found: Ints = facts.pairs(group[index[at]], epochs[at])[np.cumsum(changes) - 1]
    return found


def read_sends(columns: Columns) -> SendRows:
    rows = np.flatnonzero(columns["kind"] == SENT)
    own = {name: column[rows] for name, column in columns.items()}
    order = np.lexsort((own["position"], own["attempt"], own["ns"], own["message"]))
    own = {name: column[order] for name, column in own.items()}
    kept = starts(own["message"])
    others: dict[int, set[int | None]] = {}
    if len(kept) < len(order):
        ends = np.append(kept[1:], len(order))
        for start, end in zip(kept, ends, strict=True):
            if end - start > 1:
                others[int(own["message"][start])] = {
                    int(own["digest"][row]) if own["has_digest"][row] else None
                    for row in range(start, end)
                }
    own = {name: column[kept] for name, column in own.items()}
    return SendRows(
        message=own["message"],
        site=own["site"],
        after_position=own["position"],
        after_attempt=own["attempt"],
        sent_ns=own["ns"],
        digest=own["digest"],
        has_digest=own["has_digest"],
        other_digests=others,
    )
