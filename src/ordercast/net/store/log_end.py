"""Where an outbox replaces the end of a site's ordered log, seen from a store ([GS] §5.2.1).

When epochs end without their Close, a site's log becomes what the past says: some of its end may
go, and what it lacked comes. The outbox tells it by what it delivers; this puts that in its place
among the records, whose batches of a new epoch stand behind it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ordercast.core.epochs.records import EpochOpened
from ordercast.core.epochs.returning import Rollback
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch, Placed

Item: TypeAlias = DeliveredBatch | EpochOpened | Rollback
Place: TypeAlias = tuple[int, Group, int]
"""Epoch, group and number: no two batches have the same."""


def place_of(epoch: int, placed: Placed) -> Place:
    return epoch, placed.batch.group, placed.number


class Told:
    """What an outbox delivers, to be taken piece by piece."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = deque(items)
        self._opening = [item.epoch for item in self._items if isinstance(item, EpochOpened)]

    def opens(self, epoch: int) -> bool:
        """Whether the epoch is opened by something that was not taken yet."""
        return epoch in self._opening

    def upto(self, epoch: int) -> Iterable[Item]:
        """Up to where the epoch opens."""
        while self._items:
            item = self._items.popleft()
            if isinstance(item, EpochOpened):
                self._opening.remove(item.epoch)
            yield item
            if isinstance(item, EpochOpened) and item.epoch == epoch:
                return

    def rest(self) -> Iterable[Item]:
        return self.upto(0)


class Cut(NamedTuple):
    """Rows up to `n`, which are those there and so many `added` ones, are no more of the log where
    they lie behind `position`; those of them up to `annulled` were delivered, and rolled back."""

    n: int
    added: int
    position: int
    annulled: int


class Floor(NamedTuple):
    """What a rollback left of the attempts before it."""

    attempt: int
    position: int


def still(position: int, attempt: int, floors: Sequence[Floor]) -> int:
    """How much of what was seen in an attempt no later rollback has taken back."""
    if not floors or floors[-1].attempt <= attempt:  # the common case
        return position
    return min(position, *(floor.position for floor in floors if floor.attempt > attempt))
