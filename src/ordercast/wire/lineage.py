"""How far a site's store has come: what sites tell each other so that an older copy is noticed.

The core knows nothing of these frames: they are between the drivers of two sites (docs/store.md,
"An older copy").
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Ordinal, Packed, StoreNumber
from ordercast.model.limits import STARTS


class StoreStart(Packed, frozen=True):
    """A start of a site on its store. `mark` was drawn at random then, `row` was the last row."""

    boot: Ordinal
    mark: StoreNumber
    row: Natural


class StorePoint(Packed, frozen=True):
    """A store had row `row`, durably, in the start that is named by `boot` and `mark`."""

    store: StoreNumber
    boot: Ordinal
    mark: StoreNumber
    row: Natural


class Lineage(Packed, frozen=True, tag="L"):
    """The first frame to a peer on a connection. `starts`: the last starts of the store that has
    the number `store`; `row`: its last durable row. `heard`: the furthest point of the peer's store
    that the peer has told this site."""

    store: StoreNumber
    starts: Annotated[tuple[StoreStart, ...], Meta(min_length=1, max_length=STARTS)]
    row: Natural
    heard: StorePoint | None = None

    def check(self) -> None:
        before = None
        for start in self.starts:
            if before is not None and (start.boot <= before.boot or start.row < before.row):
                raise FrameError(f"starts: start {start.boot} comes after {before.boot}")
            before = start
        if before is not None and before.row > self.row:
            raise FrameError(f"row is {self.row}, start {before.boot} began with {before.row}")

    @property
    def point(self) -> StorePoint:
        last = self.starts[-1]
        return StorePoint(self.store, last.boot, last.mark, self.row)

    def has_been_at(self, point: StorePoint) -> bool:
        """Whether this store has the point in its past. False: it is an older copy, or one that
        went on beside the store that was there. Another store, or a start before those that are
        listed, is not judged."""
        if point.store != self.store or point.boot < self.starts[0].boot:
            return True
        for n, start in enumerate(self.starts):
            if start.boot == point.boot:
                end = self.starts[n + 1].row if n + 1 < len(self.starts) else self.row
                return start.mark == point.mark and point.row <= end
        return False


class StoredRow(Packed, frozen=True, tag="N"):
    """Before frames that promise something: the sender's store has this row, durably."""

    row: Natural


LineageFrame: TypeAlias = Lineage | StoredRow
