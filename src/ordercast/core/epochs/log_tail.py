"""A site's log of a closed epoch, compared with the past that was chosen ([GS] §5.2.1, the
rollback).

A site has the first messages of each group in the epoch, as every member has: more than the past
has, or fewer. It keeps the longest prefix of its log that is also a prefix of its past, in key
order. Deliveries after that prefix are rolled back, and missing messages are delivered.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from ordercast.core.engine import Engine
from ordercast.core.producers import positions_in
from ordercast.model.epochs import Included
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, DeliveredBatch, MessageId, Placed

Counted: TypeAlias = Mapping[tuple[int, Group], int]
"""By epoch and group, the number of the last message in the past."""


class Tail(msgspec.Struct, frozen=True, array_like=True):
    """What a site has of an epoch that it has left: the end of its log, and its own messages."""

    epoch: int
    position: int  # of the last message before `log`
    delivered: int  # the last position handed to the application
    log: tuple[Placed, ...]
    counts: dict[Group, tuple[int, tuple[Site, ...]]]  # of the whole log
    lasts: Included
    kept: tuple[Batch, ...]
    marks: Included = ()  # of producers, before `log`


def tail_of(engine: Engine, epoch: int) -> Tail:
    log, marks = tuple(engine.log()), engine.retention.marks.all()
    position = engine.gate.logged - sum(positions_in(log, marks))
    return Tail(
        epoch, position, engine.gate.delivered, log, engine.counts(), engine.log_seqs(),
        tuple(engine.own.kept), marks,
    )  # fmt: skip


class Rollback(msgspec.Struct, frozen=True, array_like=True):
    """In the stream of deliveries: the deliveries after `position` are taken back. The next ones
    are of another `attempt`. A restart may repeat a rollback, with the same attempt."""

    position: int
    attempt: int
    epoch: int
    annulled: tuple[tuple[int, MessageId], ...]  # positions and messages, all of them


class Agreed(msgspec.Struct, frozen=True):
    """The past at a site: its last position and attempt, the items to deliver, and the log."""

    position: int
    attempt: int
    items: tuple[Rollback | DeliveredBatch, ...]
    log: tuple[tuple[int, Placed], ...]  # by epoch, in order


def last_number(placed: Placed) -> int:
    return placed.number + placed.batch.count - 1


def in_order(placed: Iterable[Placed]) -> list[Placed]:
    return sorted(placed, key=lambda one: one.key)


def agree(
    tail: Tail, counts: Counted, fetched: Mapping[int, Sequence[Placed]], attempt: int
) -> Agreed:
    """Compare the site's log with the past. `fetched`: batches of other sites, by epoch."""
    within = [
        placed
        for placed in tail.log
        if last_number(placed) <= counts.get((tail.epoch, placed.batch.group), 0)
    ]
    past = in_order([*within, *_chosen(tail.epoch, counts, fetched)])
    # A batch without positions was not shown to anybody, so it may differ.
    had, has = _shown(tail.log, tail.marks), _shown(past, tail.marks)
    same = 0
    while same < min(len(has), len(had)) and has[same].key == had[same].key:
        same += 1
    position = tail.position + sum(placed.batch.count for placed in had[:same])
    items: list[Rollback | DeliveredBatch] = []
    delivered = tail.delivered
    if delivered > position:
        attempt += 1
        annulled = tuple(_ids(had[same:], position, delivered))
        items.append(Rollback(position, attempt, tail.epoch, annulled))
        delivered = position
    log = [(tail.epoch, placed) for placed in past]
    for epoch in sorted(epoch for epoch in fetched if epoch > tail.epoch):
        log += [(epoch, placed) for placed in in_order(_chosen(epoch, counts, fetched))]
    position = tail.position
    taken = positions_in([placed for _, placed in log], tail.marks)
    for (epoch, placed), count in zip(log, taken, strict=True):
        if position >= delivered and count:
            items.append(DeliveredBatch(position + 1, epoch, placed, attempt))
        position += count
    return Agreed(position, attempt, tuple(items), tuple(log))


def _shown(log: Sequence[Placed], marks: Included) -> list[Placed]:
    """The batches of a log that have positions."""
    counts = positions_in(log, marks)
    return [placed for placed, count in zip(log, counts, strict=True) if count]


def reached(
    tail: Tail, counts: Counted, log: Iterable[tuple[int, Placed]]
) -> list[tuple[int, Group]]:
    """The groups, with their epochs, whose past this site has to the end. If it was lost with
    stores, the site may lack the end."""
    last = {(tail.epoch, group): number for group, (number, _) in tail.counts.items()}
    for epoch, placed in log:
        place = (epoch, placed.batch.group)
        last[place] = max(last_number(placed), last.get(place, 0))
    return [place for place, number in counts.items() if last.get(place, 0) >= number]


def _chosen(
    epoch: int, counts: Counted, fetched: Mapping[int, Sequence[Placed]]
) -> Iterable[Placed]:
    for placed in fetched.get(epoch, ()):
        if last_number(placed) <= counts.get((epoch, placed.batch.group), 0):
            yield placed


def _ids(log: Iterable[Placed], position: int, delivered: int) -> Iterable[tuple[int, MessageId]]:
    for placed in log:
        batch = placed.batch
        for seq in range(batch.seq, batch.seq + batch.count):
            position += 1
            if position <= delivered:
                yield position, MessageId(batch.origin, batch.incarnation, batch.group, seq)
