"""Which of a client's requests a site has taken: a retry after a broken connection is not sent
twice. Bounded by counts, never by a clock, which may jump: a client names the number up to which it
has its answers, and may have so many open; of clients with open ones the last heard are kept.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeAlias

from ordercast.model.groups import Group
from ordercast.net.store.written import Written

Given: TypeAlias = tuple[Group, int, int]
"""(group, first seq, count): what a request was given."""

MOST_OPEN = 20_000  # requests per client, at least: twice what may be under way
MOST_CLIENTS = 1_024  # with open requests; sixteen times as many as may be connected
FOREVER = (1 << 62) - 1


class _Client:
    __slots__ = ("given", "highest", "mixed")

    def __init__(self) -> None:
        self.given: OrderedDict[int, Given] = OrderedDict()  # in the order in which they were taken
        self.highest = 0
        self.mixed = False  # one waited for absent sites, and others have passed it

    def add(self, number: int, given: Given) -> None:
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


class Requests:
    """Used by the thread that writes boxes; the table on disk follows with their commits. `heard`
    counts boxes with requests: rows bear it, and so are in order after a restart too."""

    def __init__(self, rows: Iterable[tuple[bytes, int, Group, int, int, int]]) -> None:
        """`rows` in the order of their last column, which is what `heard` was."""
        self._most_open = MOST_OPEN
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()  # the longest unheard first
        self.heard = 0
        for client, number, group, seq, count, heard in rows:
            self._hear(client).add(number, (group, seq, count))
            self.heard = heard

    def allow(self, under_way: int) -> None:
        """So many may be under way of one client: none of them is forgotten."""
        self._most_open = max(MOST_OPEN, 2 * under_way)

    def given(self, client: bytes, number: int) -> Given | None:
        known = self._clients.get(client)
        return None if known is None else known.given.get(number)

    def note(self, box: Written) -> None:
        """Take what the box tells, and let it carry what is to be deleted on disk."""
        if not (box.requests or box.answered):
            return
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
