"""The end of a site's ordered log, and how a flush replaces it ([GS] §5.2.1).

When epochs end without their Close, a site's log must become the agreed past: batches at its end
may be removed, and missing ones are added. The deliveries of the outbox show which. They come
before the records of the epoch that opens after them.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch, Placed

LogItem: TypeAlias = DeliveredBatch | EpochOpened | Rollback
BatchPlace: TypeAlias = tuple[int, Group, int]
"""Epoch, group and number: no two batches have the same."""


def place_of(epoch: int, placed: Placed) -> BatchPlace:
    return epoch, placed.batch.group, placed.number


class DeliveryQueue:
    """The deliveries of an outbox. They are taken in parts, each up to the opening of an epoch."""

    def __init__(self, items: Iterable[LogItem]) -> None:
        self._items = deque(items)
        self._opening = [item.epoch for item in self._items if isinstance(item, EpochOpened)]

    def opens(self, epoch: int) -> bool:
        """Whether the opening of the epoch is still in the queue."""
        return epoch in self._opening

    def upto(self, epoch: int) -> Iterable[LogItem]:
        """Take the deliveries up to the opening of the epoch."""
        while self._items:
            item = self._items.popleft()
            if isinstance(item, EpochOpened):
                self._opening.remove(item.epoch)
            yield item
            if isinstance(item, EpochOpened) and item.epoch == epoch:
                return

    def rest(self) -> Iterable[LogItem]:
        return self.upto(0)


class Cut(NamedTuple):
    """Remove from the log the rows after `position`. `n` counts the rows on disk plus the `added`
    rows of this commit. The removed rows up to position `annulled` were delivered, and are rolled
    back."""

    n: int
    added: int
    position: int
    annulled: int


class Floor(NamedTuple):
    """The rollback to `attempt` left the earlier attempts up to this position."""

    attempt: int
    position: int


def not_rolled_back(position: int, attempt: int, floors: Sequence[Floor]) -> int:
    """The last position up to `position` that no rollback after `attempt` has taken back."""
    if not floors or floors[-1].attempt <= attempt:  # the common case
        return position
    return min(position, *(floor.position for floor in floors if floor.attempt > attempt))
