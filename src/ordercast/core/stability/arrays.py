"""The arrays that stability protocols pass around, as far as the protocols know them.

[STAB] §3.1 indexes them by sender: R_i[j] is the last message that member i has from member j. That
form lives in the simulator, as NumPy vectors. Where groups overlap such an array means nothing, and
it is indexed by group instead: `GroupCounts`. The protocols only take least arrays.
"""

from collections.abc import Iterable
from typing import Protocol, TypeAlias, TypeVar

from ordercast.model.groups import Group, Site

A = TypeVar("A")

COUNT_BYTES = 4  # [STAB] §2.1: of one sequence number


class Arrays(Protocol[A]):
    """What can be done with arrays. None of it changes an array that it is given."""

    def least(self, arrays: Iterable[A], /) -> A:
        """`ArrayMin`: entry by entry the least of all; of one or more."""
        ...

    def difference(self, new: A, old: A, /) -> A:
        """What of `new` a peer must be told that has `old`: `changed` gives it back."""
        ...

    def changed(self, old: A, difference: A, /) -> A: ...

    def size(self, array: A, /) -> int:
        """Its bytes in a message."""
        ...


GroupArray: TypeAlias = dict[Group, tuple[int, int]]
"""Of each group: a count, and how many members of the group it is the least of."""


class GroupCounts:
    """Arrays by group. A group that an array does not name holds nobody up: the site that the array
    comes from is no member. Since every member adds itself once, an entry shows whether all of them
    have been asked; until then it counts for nothing."""

    def least(self, arrays: Iterable[GroupArray]) -> GroupArray:
        found: GroupArray = {}
        for array in arrays:
            for group, (count, members) in array.items():
                least, before = found.get(group, (count, 0))
                found[group] = (min(least, count), before + members)
        return found

    def difference(self, new: GroupArray, old: GroupArray) -> GroupArray:
        return {group: entry for group, entry in new.items() if old.get(group) != entry}

    def changed(self, old: GroupArray, difference: GroupArray) -> GroupArray:
        return {**old, **difference}

    def size(self, array: GroupArray) -> int:
        return sum(len(group) + 2 * COUNT_BYTES for group in array)

    @staticmethod
    def stable(array: GroupArray, group: Group, members: int) -> int:
        """How many messages of the group are stable by a finished round's array."""
        count, asked = array.get(group, (0, 0))
        return count if asked == members else 0


LogArray: TypeAlias = dict[Group, tuple[int, int, int, Site]]
"""Of each group: the least of the members' logs and of their settled prefixes, of how many members,
and one whose log is the shortest of them."""


class LogCounts:
    """`GroupCounts` with both counts of a site (`interface`), and a name for who is behind."""

    def least(self, arrays: Iterable[LogArray]) -> LogArray:
        found: LogArray = {}
        for array in arrays:
            for group, entry in array.items():
                before = found.get(group)
                found[group] = entry if before is None else _lesser(before, entry)
        return found

    def difference(self, new: LogArray, old: LogArray) -> LogArray:
        """Another name alone, of those that are equally far, need not be told."""
        nothing = (-1, -1, -1)
        return {g: entry for g, entry in new.items() if entry[:3] != old.get(g, nothing)[:3]}

    def changed(self, old: LogArray, difference: LogArray) -> LogArray:
        return {**old, **difference}

    def size(self, array: LogArray) -> int:
        return sum(len(group) + len(e[3]) + 3 * COUNT_BYTES for group, e in array.items())


def _lesser(
    one: tuple[int, int, int, Site], other: tuple[int, int, int, Site]
) -> tuple[int, int, int, Site]:
    slowest = one[3] if one[:2] <= other[:2] else other[3]
    return (min(one[0], other[0]), min(one[1], other[1]), one[2] + other[2], slowest)
