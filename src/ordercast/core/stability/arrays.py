"""The arrays that stability protocols pass around, and the few operations that protocols need.

[STAB] §3.1 indexes an array by sender: R_i[j] is the last message that member i has from member j.
The studies use that form, as NumPy vectors. Where groups overlap it has no meaning; there arrays
are indexed by group (`LogCounts`).
"""

from collections.abc import Iterable
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


class LogCounts:
    """Arrays by group, with both counts of a site (log and settled prefix), and the name of the
    member that is furthest behind. A site's array does not name groups that the site is no member
    of, so the site holds up nobody there. Every member adds itself once, so an entry shows whether
    all members are in it; an entry without all of them counts for nothing."""

    def least(self, arrays: Iterable[LogArray]) -> LogArray:
        found: LogArray = {}
        for array in arrays:
            for group, entry in array.items():
                before = found.get(group)
                found[group] = entry if before is None else _lesser(before, entry)
        return found

    def size(self, array: LogArray) -> int:
        return sum(len(group) + len(e[3]) + 3 * COUNT_BYTES for group, e in array.items())


def _lesser(
    one: tuple[int, int, int, Site], other: tuple[int, int, int, Site]
) -> tuple[int, int, int, Site]:
    slowest = one[3] if one[:2] <= other[:2] else other[3]
    return (min(one[0], other[0]), min(one[1], other[1]), one[2] + other[2], slowest)
