"""The requests of clients that a site has taken. A retry after a broken connection is not sent
again.

The table is bounded by counts, not by a clock, which may jump. A client says up to which number it
has its answers, and may have a limited number open. Of the clients with open requests, those heard
last are kept.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeAlias

from ordercast.model.groups import Group
from ordercast.net.store.box import StoreBox

BatchName: TypeAlias = tuple[Group, int, int]
"""(group, first seq, count) of the batch that a request became."""

MOST_OPEN = 20_000  # the most per client, at least: twice what may be under way
MOST_CLIENTS = 1_024  # with open requests; sixteen times as many as may be connected
FOREVER = (1 << 62) - 1


class _Client:
    __slots__ = ("given", "highest", "mixed")

    def __init__(self) -> None:
        # In the order in which they were taken.
        self.given: OrderedDict[int, BatchName] = OrderedDict()
        self.highest = 0
        self.mixed = False  # numbers are out of order, because one waited for absent sites

    def add(self, number: int, given: BatchName) -> None:
        self.mixed = self.mixed or number < self.highest
        self.highest = max(self.highest, number)
        self.given[number] = given

    def drop(self, upto: int) -> None:
        if self.mixed:
            for number in [number for number in self.given if number <= upto]:
                del self.given[number]
            return
        while self.given and (first := next(iter(self.given))) <= upto:
            del self.given[first]


class RequestTable:
    """The table is used by the thread that hands over boxes; the table on disk follows with their
    commits. `heard` counts the boxes with requests. Rows carry it, so their order is known after a
    restart."""

    def __init__(self, rows: Iterable[tuple[bytes, int, Group, int, int, int]]) -> None:
        """`rows` are in the order of their last column, `heard`."""
        self._most_open = MOST_OPEN
        # The one not heard for longest comes first.
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()
        self.heard = 0
        for client, number, group, seq, count, heard in rows:
            self._hear(client).add(number, (group, seq, count))
            self.heard = heard

    def allow(self, under_way: int) -> None:
        """Forget none of the requests under way. A client has at most this many."""
        self._most_open = max(MOST_OPEN, 2 * under_way)

    def given(self, client: bytes, number: int) -> BatchName | None:
        known = self._clients.get(client)
        return None if known is None else known.given.get(number)

    def note(self, box: StoreBox) -> None:
        """Enter the requests of a box. Write into the box which requests must be deleted on
        disk."""
        gone = [(client, 0, number) for client, number in box.answered]
        for client, number in box.answered:
            if client in self._clients:
                known = self._hear(client)
                known.drop(number)
                if not known.given:
                    del self._clients[client]
        for client, number, group, seq, count in box.requests:
            known = self._hear(client)
            known.add(number, (group, seq, count))
            if len(known.given) > self._most_open:
                oldest = next(iter(known.given))
                del known.given[oldest]
                gone.append((client, oldest, oldest))
        while len(self._clients) > MOST_CLIENTS:
            client, _ = self._clients.popitem(last=False)
            gone.append((client, 0, FOREVER))
        self.heard += 1
        box.heard, box.gone = self.heard, gone

    def __len__(self) -> int:
        return sum(len(client.given) for client in self._clients.values())

    def _hear(self, client: bytes) -> _Client:
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client()
        else:
            self._clients.move_to_end(client)
        return known
