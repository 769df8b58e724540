"""Which of a client's requests a site has taken: a retry after a broken connection is not sent
twice. Bounded: a client names the number up to which it has its answers, and may have so many
open; one that has been idle for an hour is forgotten.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ordercast.model.groups import Group
from ordercast.net.written import Written

Given: TypeAlias = tuple[Group, int, int]
"""(group, first seq, count): what a request was given."""

MOST_OPEN = 20_000  # requests per client, at least: twice what may be under way
IDLE_NS = 3_600_000_000_000
FOREVER = (1 << 62) - 1


class _Client:
    __slots__ = ("given", "heard_ns")

    def __init__(self, heard_ns: int) -> None:
        self.heard_ns = heard_ns
        self.given: OrderedDict[int, Given] = OrderedDict()


class Requests:
    """Used by the thread that writes boxes; the table on disk follows with their commits."""

    def __init__(self, rows: Iterable[tuple[bytes, int, Group, int, int, int]]) -> None:
        self._most_open = MOST_OPEN
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()  # the longest idle first
        for client, number, group, seq, count, at_ns in rows:
            self._heard(client, at_ns).given[number] = (group, seq, count)

    def allow(self, under_way: int) -> None:
        """So many may be under way of one client: none of them is forgotten."""
        self._most_open = max(MOST_OPEN, 2 * under_way)

    def given(self, client: bytes, number: int) -> Given | None:
        known = self._clients.get(client)
        return None if known is None else known.given.get(number)

    def note(self, box: Written) -> None:
        """Take what the box tells, and let it carry what is to be deleted on disk."""
        if not (box.requests or box.answered or self._clients):
            return
        answered = list(box.answered)
        for client, number in box.answered:
            _drop(self._heard(client, box.at_ns), number)
        for client, number, group, seq, count in box.requests:
            known = self._heard(client, box.at_ns)
            known.given[number] = (group, seq, count)
            if len(known.given) > self._most_open:
                oldest = next(iter(known.given))
                del known.given[oldest]
                answered.append((client, oldest))
        answered.extend(self._idle(box.at_ns))
        if len(answered) > len(box.answered):
            box.answered = answered

    def __len__(self) -> int:
        return sum(len(client.given) for client in self._clients.values())

    def _heard(self, client: bytes, at_ns: int) -> _Client:
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client(at_ns)
        elif at_ns > known.heard_ns:
            known.heard_ns = at_ns
            self._clients.move_to_end(client)
        return known

    def _idle(self, now_ns: int) -> Sequence[tuple[bytes, int]]:
        gone = []
        while self._clients:
            client, known = next(iter(self._clients.items()))
            if known.heard_ns > now_ns - IDLE_NS:
                break
            del self._clients[client]
            gone.append((client, FOREVER))
        return gone


def _drop(client: _Client, number: int) -> None:
    while client.given and (first := next(iter(client.given))) <= number:
        del client.given[first]
