"""The arrays that stability protocols pass around, and the few operations that protocols need.

[STAB] §3.1 indexes an array by sender: R_i[j] is the last message that member i has from member j.
The studies use that form, as NumPy vectors. Where groups overlap it has no meaning; there arrays
are indexed by group (`LogCounts`).

With thousands of groups an array is long, and from one round to the next little of it changes. So
arrays by group know the array that they were made from, and what has changed since (`Traced`).
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import chain
from typing import Protocol, TypeAlias, TypeVar

from ordercast.model.groups import Group, Site

A = TypeVar("A")

COUNT_BYTES = 4  # [STAB] §2.1: the size of one sequence number


class Arrays(Protocol[A]):
    """The operations on arrays. None of them changes its arguments."""

    def least(self, arrays: Iterable[A], /) -> A:
        """`ArrayMin`: entry by entry the least of one or more arrays."""
        ...

    def size(self, array: A, /) -> int:
        """The bytes of the array in a message."""
        ...


LogArray: TypeAlias = dict[Group, tuple[int, int, int, Site]]
"""Per group: the least count of the members' logs, the least count of their settled prefixes, how
many members are in it, and one member whose log is the shortest."""


class Traced(dict[Group, tuple[int, int, int, Site]]):
    """A `LogArray` that is not changed any more, and the groups whose entries may differ from those
    of the array `since` which it was made. It has all groups of that one."""

    __slots__ = ("changes", "mark", "since")

    def __init__(
        self, entries: LogArray, since: LogArray | None = None, changes: Iterable[Group] = ()
    ) -> None:
        super().__init__(entries)
        self.mark = object()  # instead of the array itself, which would hold the one before it
        self.since = since.mark if type(since) is Traced else None
        self.changes = tuple(changes)


def changes_between(old: LogArray, new: LogArray) -> Iterable[Group] | None:
    """The groups whose entries may differ. None: that is not known, it may be any."""
    if new is old:
        return ()
    if type(new) is Traced and type(old) is Traced and new.since is old.mark:
        return new.changes
    return None


class LogCounts:
    """Arrays by group, with both counts of a site (log and settled prefix), and the name of the
    member that is furthest behind. A site's array does not name groups of other sites, so the site
    delays nothing there. Every member adds itself once, so an entry shows whether all members are
    in it; an entry without all of them counts for nothing.

    State: the arrays whose least was last asked for, and that least."""

    def __init__(self) -> None:
        self._arrays: list[LogArray] = []
        self._least: LogArray = {}

    def least(self, arrays: Iterable[LogArray]) -> LogArray:
        given = list(arrays)
        changes = self._changes(given)
        found: Traced
        if changes is None:
            found = Traced(_least_of(given))
        else:
            found = Traced(self._least, self._least, changes)
            for group in changes:
                found[group] = reduce(_lesser, [array[group] for array in given if group in array])
        self._arrays, self._least = given, found
        return found

    def _changes(self, arrays: list[LogArray]) -> Mapping[Group, None] | None:
        """The groups of which the least may differ from the last one. None: any."""
        before, found = list(self._arrays), list[Iterable[Group]]()
        if len(before) != len(arrays):
            return None
        for array in arrays:
            since, changes = (array.since, array.changes) if type(array) is Traced else (None, ())
            for place, old in enumerate(before):  # `changes_between`, without a call for each pair
                if old is array:
                    del before[place]
                    break
                if since is not None and type(old) is Traced and old.mark is since:
                    found.append(changes)
                    del before[place]
                    break
            else:
                return None
        return dict.fromkeys(chain(*found))

    def size(self, array: LogArray) -> int:
        return sum(len(group) + len(e[3]) + 3 * COUNT_BYTES for group, e in array.items())


def _least_of(arrays: Iterable[LogArray]) -> LogArray:
    found: LogArray = {}
    for array in arrays:
        if not found:
            found = dict(array)
            continue
        for group, entry in array.items():
            before = found.get(group)
            if before is None:
                found[group] = entry
            elif before[0] == entry[0] and before[1] == entry[1]:  # as in all groups at first
                found[group] = (before[0], before[1], before[2] + entry[2], before[3])
            else:
                found[group] = _lesser(before, entry)
    return found


def _lesser(
    one: tuple[int, int, int, Site], other: tuple[int, int, int, Site]
) -> tuple[int, int, int, Site]:
    slowest = one[3] if one[:2] <= other[:2] else other[3]
    return (min(one[0], other[0]), min(one[1], other[1]), one[2] + other[2], slowest)
