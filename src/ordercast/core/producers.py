"""Producers, ids and clients: of several copies of a message, the first in the log is delivered
(docs/producers.md, docs/ids.md, docs/requests.md).

A producer numbers its messages to a group with growing numbers. Its *mark* is the last number in
the log of the group. A copy at or below the mark stays in the log and in all counts, and becomes
stable, but it has no position: no reader gets it. The highest bits of a number are the generation
of the producer, so nothing of an earlier generation is delivered behind a later one.

A group also remembers its last ids and its last clients. Copies of a message with an id of its
sender's own, and of a client's request, are treated alike.

All of this is a function of the group's log, so at the same place in the log all members have the
same. A member begins an epoch with what the layout says, goes on with every batch that is logged,
and reports the result at the end of the epoch, beside the last seqs of sites.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final

from ordercast.core.clients import ClientWindow
from ordercast.core.ids import IdWindow, id_mark, next_number, ticket_of_number
from ordercast.core.outbox import Stream, StreamSeqs, stream_seqs
from ordercast.model.epochs import PRODUCERS, is_id_mark, is_mark
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import is_implicit
from ordercast.model.messages import (
    Batch,
    Placed,
    generation_in,
    is_by_id,
    is_once,
    stamp_in,
    ticket_in,
)

NO_MARKS: Final[StreamSeqs] = ()
_ORIGIN = itemgetter(0)  # of a stream


class ProducerMarks:
    """State: by stream (`PRODUCERS`, the ticket, the group), the last number in the log; by group,
    the windows of its ids and of its clients, and the last settled number of each."""

    __slots__ = ("client_windows", "heard", "marks", "settled", "windows")

    def __init__(self, marks: StreamSeqs = NO_MARKS) -> None:
        self.marks: dict[Stream, int] = {}
        ids: dict[Group, list[tuple[Site, int]]] = {}
        clients: dict[Group, list[tuple[Site, int]]] = {}
        for origin, ticket, group, number in marks:
            if origin == PRODUCERS:
                self.marks[origin, ticket, group] = number
            elif is_id_mark(origin):
                ids.setdefault(group, []).append((origin, number))
            else:
                clients.setdefault(group, []).append((origin, number))
        self.windows = {group: IdWindow(numbers) for group, numbers in ids.items()}
        self.settled = {group: window.last for group, window in self.windows.items()}
        self.client_windows = {group: ClientWindow(values) for group, values in clients.items()}
        self.heard = {group: window.last for group, window in self.client_windows.items()}

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
        if is_once(client):
            clients = self.client_windows.get(batch.group)
            if clients is None:
                clients = self.client_windows[batch.group] = ClientWindow()
            return clients.keeps(requests)
        if not (ticket := ticket_in(client)):
            return True
        stream = (PRODUCERS, ticket, batch.group)
        if number <= self.marks.get(stream, 0):
            return False
        self.marks[stream] = number
        return True

    def knows(self, batch: Batch) -> bool:
        """Of a batch that was not kept: whether a message with its id, or the request that it is,
        is in the log, as far as is remembered; whether its producer is of the last generation."""
        requests = batch.requests
        if requests is None:
            return False
        if is_once(requests.client):
            clients = self.client_windows.get(batch.group)
            return clients is not None and clients.knows(requests)
        if ticket := ticket_in(requests.client):
            mark = self.marks.get((PRODUCERS, ticket, batch.group), 0)
            return generation_in(mark) == generation_in(requests.numbers[-1][0])
        window = self.windows.get(batch.group)
        return window is not None and id_mark(requests.client) in window.numbers

    def is_crowded(self, group: Group) -> bool:
        """Whether many more clients send to the group than it remembers."""
        window = self.client_windows.get(group)
        return window is not None and window.is_crowded()

    def settle(self, batch: Batch) -> None:
        """The next batch of the log that was kept is settled."""
        requests = batch.requests
        if requests is None:
            return
        client, number, group = requests.client, requests.numbers[-1][0], batch.group
        if is_by_id(client):
            self.settled[group] = next_number(self.settled.get(group, 0), number)
        elif is_once(client):
            self.heard[group] = max(self.heard.get(group, 0), stamp_in(client, number) + 1)

    def all(self) -> StreamSeqs:
        if not (self.windows or self.client_windows):
            return stream_seqs(self.marks)
        clients = self._clients(self.client_windows)
        return (*stream_seqs(self.marks), *self._ids(self.windows), *clients)

    def of(self, has: Callable[[Group], bool]) -> StreamSeqs:
        """The marks, ids and clients at groups for which `has` is true."""
        marks = tuple((*stream, n) for stream, n in self.marks.items() if has(stream[2]))
        ids = self._ids(group for group in self.windows if has(group))
        return (*marks, *ids, *self._clients(filter(has, self.client_windows)))

    def _ids(self, groups: Iterable[Group]) -> StreamSeqs:
        return tuple(
            (name, ticket_of_number(number), group, number)
            for group in groups
            for name, number in self.windows[group].numbers.items()
        )

    def _clients(self, groups: Iterable[Group]) -> StreamSeqs:
        return tuple(
            (name, ticket_of_number(value), group, value)
            for group in groups
            for name, value in self.client_windows[group].marks()
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


def opening_marks(lasts: Mapping[Stream, int], groups: Iterable[Group]) -> StreamSeqs:
    """The beginning of an epoch of these groups: their marks, and the clients of all lists of
    sites, because it is not known yet whose lists they are."""
    marked = marks_among(lasts)
    lists = (group for origin, _, group in lasts if origin in marked and is_implicit(group))
    return marks_in(lasts, [*groups, *lists]) if marked else NO_MARKS


def marks_among(streams: Iterable[Stream]) -> dict[Site, None]:
    """The marks that stand in the places of origins. There are few origins and many streams."""
    return {origin: None for origin in dict.fromkeys(map(_ORIGIN, streams)) if is_mark(origin)}


def positions_in(log: Iterable[Placed], marks: StreamSeqs) -> list[int]:
    """How many positions each batch of a log has, if the log begins with these marks."""
    table = ProducerMarks(marks)
    return [placed.batch.count if table.keeps(placed.batch) else 0 for placed in log]
