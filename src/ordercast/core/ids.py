"""Ids of senders' own: each group remembers the last ones in its log (docs/ids.md).

The first message of an id in the log is delivered, and has the next *number* among the group's ids.
A group remembers the ids of its last `IDS` numbers. A message carries the *mark* that its sender
knew when it was first sent: a number up to which all is stable. So all its copies stand behind that
number. If the window begins behind it, the group has forgotten whether another copy was delivered,
and the message is not delivered.
"""

from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from ordercast.core.outbox import Stream
from ordercast.model.epochs import PRODUCERS, is_id_mark
from ordercast.model.groups import Group, Site
from ordercast.model.limits import IDS
from ordercast.model.messages import BY_ID, MARK_BITS

REMEMBERED = IDS  # ids of a group


def id_mark(client: bytes) -> Site:
    """What stands for an id in the place of an origin; `client`: as `by_id` has made it."""
    return PRODUCERS + urlsafe_b64encode(client[len(BY_ID) :]).decode().rstrip("=")


class IdWindow:
    """State: the ids of one group that are remembered, by number, and the last number."""

    __slots__ = ("last", "numbers")

    def __init__(self, numbers: Iterable[tuple[Site, int]] = ()) -> None:
        self.numbers = OrderedDict(sorted(numbers, key=lambda one: one[1]))
        self.last = next(reversed(self.numbers.values()), 0)
        self._forget()

    def keeps(self, name: Site, mark: int) -> bool:
        """Take the next message of the log. False: it is a copy, or its mark is too old."""
        if name in self.numbers or mark < self.last - REMEMBERED:
            return False
        self.last = next_number(self.last, mark)
        self.numbers[name] = self.last
        self._forget()
        return True

    def _forget(self) -> None:
        numbers, before = self.numbers, self.last - REMEMBERED
        while numbers and next(iter(numbers.values())) <= before:
            numbers.popitem(last=False)


def next_number(last: int, mark: int) -> int:
    """The number of an id behind the last one. It is above the mark, though what the mark counts
    may be lost with stores, or be of an earlier window."""
    return max(last, mark) + 1


def ticket_of_number(number: int) -> int:
    return number >> MARK_BITS


def remembered(lasts: Mapping[Stream, int]) -> dict[Stream, int]:
    """The last seqs of a layout without ids that their groups do not remember any more."""
    tops: dict[Group, int] = {}
    for (origin, _, group), number in lasts.items():
        if is_id_mark(origin):
            tops[group] = max(number, tops.get(group, 0))
    if not tops:
        return dict(lasts)
    return {
        (origin, incarnation, group): number
        for (origin, incarnation, group), number in lasts.items()
        if not is_id_mark(origin) or number > tops[group] - REMEMBERED
    }
