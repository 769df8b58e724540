"""Items of a lane: each kind says how much it weighs, and which batch it carries.

An item is the unit that a link numbers, sends again and acknowledges.
"""

from collections.abc import Iterable
from typing import ClassVar

from ordercast.model.fields import Packed
from ordercast.model.messages import Batch

SMALL = 192
"""The weight of an item of a few numbers and names."""


class LaneItem(Packed, frozen=True):
    """Base of all items. A kind of item cannot be defined without its weight."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.weight is LaneItem.weight:
            raise TypeError(f"{cls.__name__} does not say what it weighs")

    def weight(self) -> int:
        """Roughly its bytes, so that a frame of many stays below what the wire takes."""
        raise NotImplementedError

    def carried(self) -> Batch | None:
        """The batch in it, if there is one."""
        return None


def total_weight(items: Iterable[LaneItem]) -> int:
    total = 0
    for item in items:  # quicker than `sum`: a call from Python to Python
        total += item.weight()
    return total


class SmallItem(LaneItem, frozen=True):
    """An item of a few numbers and names."""

    def weight(self) -> int:
        return SMALL


class BatchItem(LaneItem, frozen=True):
    """An item that begins with a batch."""

    beside: ClassVar[int] = 0  # the weight of the other fields

    batch: Batch

    def weight(self) -> int:
        return self.batch.weight() + self.beside

    def carried(self) -> Batch:
        return self.batch

    def check(self) -> None:
        self.batch.check()
