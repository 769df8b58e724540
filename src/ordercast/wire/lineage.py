"""How far a site's store has come: what sites tell each other so that an older copy is noticed.

The core knows nothing of these frames: they are between the drivers of two sites (docs/store.md,
"An older copy").
"""

from collections.abc import Collection, Sequence
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
        went on beside the store that was there. Another store is not judged. A start before those
        that are listed is judged by the row alone: the store had no more when they began."""
        if point.store != self.store:
            return True
        if point.boot < self.starts[0].boot:
            return point.row <= self.starts[0].row
        for n, start in enumerate(self.starts):
            if start.boot == point.boot:
                end = self.starts[n + 1].row if n + 1 < len(self.starts) else self.row
                return start.mark == point.mark and point.row <= end
        return False


def kept_starts(starts: Sequence[StoreStart], disputed: Collection[int]) -> tuple[StoreStart, ...]:
    """The starts to keep of a store: the last ones. `disputed`: boots of points where the store has
    not been, as others said. These points must be told from its past for ever, however often an
    older copy is started. So the start with that boot stays, or the last before it, and the start
    that follows it."""
    if len(starts) <= STARTS:
        return tuple(starts)
    pinned: dict[int, None] = {}
    for boot in disputed:
        at = sum(start.boot <= boot for start in starts) - 1
        pinned |= {n: None for n in (at, at + 1) if 0 <= n < len(starts)}
    others = [n for n in range(len(starts)) if n not in pinned]
    kept = sorted([*pinned, *others[len(starts) - STARTS :]])
    return tuple(starts[n] for n in kept)


class StoredRow(Packed, frozen=True, tag="N"):
    """Before frames that promise something: the sender's store has this row, durably."""

    row: Natural


LineageFrame: TypeAlias = Lineage | StoredRow
