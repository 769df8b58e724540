"""Producers and ids: of several copies of a message, the first in the log is delivered
(docs/producers.md, docs/ids.md).

A producer numbers its messages to a group with growing numbers. Its *mark* is the last number in
the log of the group. A copy at or below the mark stays in the log, in all counts and in what is
stable, but has no position: nobody is given it. So it is with copies of a message that has an id
of its sender's own; the group remembers its last ids (`core.ids`).

Marks and ids are a function of the group's log, so all members of the group have the same, wherever
they are in it. They begin an epoch as the layout tells them, go on with every batch that is logged,
and are told at the end of the epoch, as the last seqs of sites are.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final

from ordercast.core.ids import IdWindow, id_mark, next_number, ticket_of_number
from ordercast.core.outbox import Stream, StreamSeqs, stream_seqs
from ordercast.model.epochs import PRODUCERS, is_mark
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Placed, is_by_id, ticket_in

NO_MARKS: Final[StreamSeqs] = ()
_ORIGIN = itemgetter(0)  # of a stream


class ProducerMarks:
    """State: by stream (`PRODUCERS`, the ticket, the group), the last number in the log; by group,
    the window of its ids, and the last number of an id that is settled."""

    __slots__ = ("marks", "settled", "windows")

    def __init__(self, marks: StreamSeqs = NO_MARKS) -> None:
        self.marks: dict[Stream, int] = {}
        ids: dict[Group, list[tuple[Site, int]]] = {}
        for origin, ticket, group, number in marks:
            if origin == PRODUCERS:
                self.marks[origin, ticket, group] = number
            else:
                ids.setdefault(group, []).append((origin, number))
        self.windows = {group: IdWindow(numbers) for group, numbers in ids.items()}
        self.settled = {group: window.last for group, window in self.windows.items()}

    def keeps(self, batch: Batch) -> bool:
        """Take the next batch of the log. False: it is a copy of an earlier one, or is too old to
        know."""
        requests = batch.requests
        if requests is None:
            return True
        client, number = requests.client, requests.numbers[-1][0]
        if is_by_id(client):
            window = self.windows.get(batch.group)
            if window is None:
                window = self.windows[batch.group] = IdWindow()
            return window.keeps(id_mark(client), number)
        if not (ticket := ticket_in(client)):
            return True
        stream = (PRODUCERS, ticket, batch.group)
        if number <= self.marks.get(stream, 0):
            return False
        self.marks[stream] = number
        return True

    def knows(self, batch: Batch) -> bool:
        """Whether a message with the id of this batch is in the log, as far as is remembered."""
        window = self.windows.get(batch.group)
        return (
            window is not None
            and batch.requests is not None
            and id_mark(batch.requests.client) in window.numbers
        )

    def settle(self, batch: Batch) -> None:
        """The next batch of the log that was kept is settled."""
        requests = batch.requests
        if requests is not None and is_by_id(requests.client):
            last = self.settled.get(batch.group, 0)
            self.settled[batch.group] = next_number(last, requests.numbers[-1][0])

    def all(self) -> StreamSeqs:
        return (*stream_seqs(self.marks), *self._ids(self.windows))

    def of(self, has: Callable[[Group], bool]) -> StreamSeqs:
        """The marks and ids at groups for which `has` is true."""
        marks = tuple((*stream, n) for stream, n in self.marks.items() if has(stream[2]))
        return (*marks, *self._ids(group for group in self.windows if has(group)))

    def _ids(self, groups: Iterable[Group]) -> StreamSeqs:
        return tuple(
            (name, ticket_of_number(number), group, number)
            for group in groups
            for name, number in self.windows[group].numbers.items()
        )


def marks_in(lasts: Mapping[Stream, int], groups: Iterable[Group]) -> StreamSeqs:
    """The marks and ids at these groups, out of the last numbers that a layout has."""
    marked = marks_among(lasts)
    if not marked:
        return NO_MARKS
    wanted = dict.fromkeys(groups)
    return tuple(
        (*stream, number)
        for stream, number in lasts.items()
        if stream[0] in marked and stream[2] in wanted
    )


def marks_among(streams: Iterable[Stream]) -> dict[Site, None]:
    """Those in the places of origins that are marks. There are few origins and many streams."""
    return {origin: None for origin in dict.fromkeys(map(_ORIGIN, streams)) if is_mark(origin)}


def positions_in(log: Iterable[Placed], marks: StreamSeqs) -> list[int]:
    """How many positions each batch of a log has, if the log begins with these marks."""
    table = ProducerMarks(marks)
    return [placed.batch.count if table.keeps(placed.batch) else 0 for placed in log]
