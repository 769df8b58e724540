"""Producers: of several copies of a message, the first in the log is delivered (docs/producers.md).

A producer numbers its messages to a group with growing numbers. Its *mark* is the last number in
the log of the group. A copy at or below the mark stays in the log, in all counts and in what is
stable, but has no position: nobody is given it.

A mark is a function of the group's log, so all members of the group have the same, wherever they
are in it. It begins an epoch as the layout tells it, goes on with every batch that is logged, and
is told at the end of the epoch, as the last seqs of sites are.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ordercast.core.outbox import Stream, StreamSeqs, stream_seqs
from ordercast.model.epochs import PRODUCERS
from ordercast.model.groups import Group
from ordercast.model.messages import Batch, Placed, ticket_in

NO_MARKS: Final[StreamSeqs] = ()


class ProducerMarks:
    """State: by stream (`PRODUCERS`, the ticket, the group), the last number in the log."""

    __slots__ = ("marks",)

    def __init__(self, marks: StreamSeqs = NO_MARKS) -> None:
        self.marks: dict[Stream, int] = {
            (origin, ticket, group): number for origin, ticket, group, number in marks
        }

    def keeps(self, batch: Batch) -> bool:
        """Take the next batch of the log. False: it is a copy of an earlier one."""
        requests = batch.requests
        if requests is None or not (ticket := ticket_in(requests.client)):
            return True
        stream, number = (PRODUCERS, ticket, batch.group), requests.numbers[-1][0]
        if number <= self.marks.get(stream, 0):
            return False
        self.marks[stream] = number
        return True

    def all(self) -> StreamSeqs:
        return stream_seqs(self.marks)

    def of(self, has: Callable[[Group], bool]) -> StreamSeqs:
        """The marks at groups for which `has` is true."""
        return tuple((*stream, n) for stream, n in self.marks.items() if has(stream[2]))


def marks_in(lasts: Mapping[Stream, int], groups: Iterable[Group]) -> StreamSeqs:
    """The marks at these groups, out of the last numbers that a layout has."""
    if not any(origin == PRODUCERS for origin, _, _ in lasts):
        return NO_MARKS
    wanted = dict.fromkeys(groups)
    return tuple(
        (*stream, number)
        for stream, number in lasts.items()
        if stream[0] == PRODUCERS and stream[2] in wanted
    )


def positions_in(log: Iterable[Placed], marks: StreamSeqs) -> list[int]:
    """How many positions each batch of a log has, if the log begins with these marks."""
    table = ProducerMarks(marks)
    return [placed.batch.count if table.keeps(placed.batch) else 0 for placed in log]
