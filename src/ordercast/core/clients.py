"""Clients that a group remembers: a request that is repeated through another member, or after a
restart, is delivered once (docs/requests.md).

A client numbers its requests, and stamps each with a *mark* of the group: how far its clients were
when the request was first sent. A group remembers its last `CLIENTS` clients, each with the number
of its last request in the log and with a *value*, which is above the stamps of all its requests
that were delivered. So the requests of a client that is forgotten have stamps below the values of
all that are remembered. A request with a lower stamp is not delivered: the group cannot know
whether it was delivered before.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping

from ordercast.core.outbox import Stream
from ordercast.model.epochs import PRODUCERS, is_client_mark
from ordercast.model.groups import Group, Site
from ordercast.model.limits import CLIENTS
from ordercast.model.messages import MARK_BITS, Requests, digest_in, stamp_in

REMEMBERED = CLIENTS  # of a group
_NUMBER_BYTES = 8


class ClientWindow:
    """State: by client, its value and its last number; and `horizon`, the lowest stamp of what is
    delivered. All of it is a function of the entries."""

    __slots__ = ("entries", "horizon")

    def __init__(self, marks: Iterable[tuple[Site, int]] = ()) -> None:
        """`marks`: as `marks` has told them. Of several for one client the last one counts."""
        self.entries: dict[bytes, tuple[int, int]] = {}
        for origin, value in marks:
            packed = urlsafe_b64decode(origin[len(PRODUCERS) :])
            name, number = packed[:-_NUMBER_BYTES], int.from_bytes(packed[-_NUMBER_BYTES:])
            self.entries[name] = max((value, number), self.entries.get(name, (0, 0)))
        self._forget()

    @property
    def last(self) -> int:
        """The greatest value."""
        return max((value for value, _ in self.entries.values()), default=0)

    def keeps(self, requests: Requests) -> bool:
        """Take the next request of the log. False: it is a copy, or its stamp is too old."""
        name, (number, _) = digest_in(requests.client), requests.numbers[-1]
        stamp = stamp_in(requests.client, number)
        if stamp < self.horizon:
            return False
        value, last = self.entries.get(name, (0, 0))
        if number <= last:
            return False
        self.entries[name] = (max(value, stamp + 1), number)
        # Only these can move the horizon: the last client before it, a new one, a new window.
        if value <= self.horizon or not value or stamp >> MARK_BITS > self.horizon >> MARK_BITS:
            self._forget()
        return True

    def knows(self, requests: Requests) -> bool:
        """Whether this request is in the log, as far as is remembered."""
        name, (number, _) = digest_in(requests.client), requests.numbers[-1]
        in_log = number <= self.entries.get(name, (0, 0))[1]
        return in_log and stamp_in(requests.client, number) >= self.horizon

    def marks(self) -> list[tuple[Site, int]]:
        """What stands for each client in the place of an origin, and its value."""
        return [
            (_mark(name + number.to_bytes(_NUMBER_BYTES)), value)
            for name, (value, number) in self.entries.items()
        ]

    def is_crowded(self) -> bool:
        """Whether all clients that are remembered were heard of just now: then many more than that
        send, and what they repeat would come too late."""
        return len(self.entries) >= REMEMBERED and self.last - self.horizon < 3

    def _forget(self) -> None:
        """Forget clients of earlier windows, and the oldest ones beyond the limit."""
        entries = self.entries
        begin = self.last >> MARK_BITS << MARK_BITS
        if any(value < begin for value, _ in entries.values()):
            entries = self.entries = {n: e for n, e in entries.items() if e[0] >= begin}
        while len(entries) > REMEMBERED:
            del entries[min(entries, key=lambda name: (entries[name][0], name))]
        full = len(entries) == REMEMBERED
        self.horizon = min(value for value, _ in entries.values()) if full else begin


def _mark(packed: bytes) -> Site:
    return PRODUCERS + urlsafe_b64encode(packed).decode()


def remembered_clients(lasts: Mapping[Stream, int]) -> dict[Stream, int]:
    """The last seqs of a layout, without clients that their groups have forgotten, and without
    earlier numbers of clients that they remember."""
    marks: dict[Group, list[tuple[Site, int]]] = {}
    for (origin, _, group), value in lasts.items():
        if is_client_mark(origin):
            marks.setdefault(group, []).append((origin, value))
    if not marks:
        return dict(lasts)
    kept = {(group, *mark) for group, of in marks.items() for mark in ClientWindow(of).marks()}
    return {
        stream: value
        for stream, value in lasts.items()
        if not is_client_mark(stream[0]) or (stream[2], stream[0], value) in kept
    }
