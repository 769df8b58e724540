"""Pieces of a stream put together: batches, and epochs that opened between two of them."""

from itertools import takewhile
from typing import TypeAlias

from ordercast.core.epochs.records import EpochOpened
from ordercast.model.messages import DeliveredBatch
from ordercast.net.site.gaps import GapBatch

Kept: TypeAlias = DeliveredBatch | GapBatch


def merged(batches: list[Kept], openings: list[EpochOpened]) -> list[Kept | EpochOpened]:
    """No batch is of two epochs, so each opening has its place between two batches."""
    merged: list[Kept | EpochOpened] = []
    for batch in batches:
        while openings and openings[0].position < batch.position:
            merged.append(openings.pop(0))
        merged.append(batch)
    last = batches[-1].last
    merged.extend(takewhile(lambda opened: opened.position <= last, openings))
    return merged


def is_of(attempt: int, batch: Kept) -> bool:
    """Not of a later attempt: a rollback comes first, and may not be told yet."""
    return isinstance(batch, GapBatch) or batch.attempt <= attempt


def is_above(position: int, batch: Kept) -> bool:
    return batch.last > position


def size_of(batch: Kept) -> int:
    return 0 if isinstance(batch, GapBatch) else len(batch.placed.batch.body)
