"""Places that are limited, and the share of each subject: connections to a daemon, names of readers
at its site, producers in the cluster.

The share of a subject depends on the places that are left: docs/security.md#places-among-subjects
has the rule, and why it leaves some for the next subject.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Generic, Protocol, TypeVar

from ordercast.model.epochs import WINDOWS
from ordercast.model.errors import ConfigError
from ordercast.model.grants import SOCKET, ClientSubject
from ordercast.model.groups import Group
from ordercast.model.limits import TICKETS
from ordercast.net.site.permits import Permits
from ordercast.net.store.reader_rows import MOST_READERS

KEPT: Final = 4  # one place in this many is kept for new subjects
READER: Final = "reader"  # counted as an act, as CONNECT is: to make a named reader
PRODUCER: Final = "producer"

T = TypeVar("T")


def has_place(held: int, subjects: int, free: int, most: int, wanted: int = 1) -> bool:
    """Whether a subject that has taken `held` places may have `wanted` more, while `subjects` have
    some and `free` of `most` are left."""
    if not held and wanted == 1:
        return free > 0
    k = max(1, subjects) if held else 1
    return (held + wanted) * k <= free - most // KEPT - wanted


class SubjectPlaces(Generic[T]):
    """Names that clients make, and that stay until somebody removes them. State: the names that
    each subject has made since the daemon started, or is making now. The owner of the socket has no
    limit."""

    def __init__(
        self, act: str, what: str, most: int, there: Callable[[], Collection[T]], permits: Permits
    ) -> None:
        self._act = act
        self._what = what
        self._most = most
        self._there = there
        self._permits = permits
        self._made: dict[ClientSubject, dict[T, None]] = {}
        self._making: dict[ClientSubject, list[T]] = {}

    @contextmanager
    def making(self, subject: ClientSubject, names: Iterable[T]) -> Iterator[None]:
        """The block makes these names, unless they are there. Raises ConfigError if the subject may
        not have this many more, and counts the refusal."""
        there = self._there()
        new = [name for name in dict.fromkeys(names) if name not in there]
        if not new or subject.kind == SOCKET:
            yield
            return
        self._require(subject, len(new))
        under_way = self._making.setdefault(subject, [])
        under_way += new
        try:
            yield
        finally:
            for name in new:
                under_way.remove(name)
            if not under_way:
                self._making.pop(subject, None)
            there = self._there()
            made = dict.fromkeys(name for name in new if name in there)
            if made:
                self._made.setdefault(subject, {}).update(made)

    def _require(self, subject: ClientSubject, wanted: int) -> None:
        there = self._there()
        self._made = {
            one: left
            for one, names in self._made.items()
            if (left := {name: None for name in names if name in there})
        }
        held = len(self._made.get(subject, ())) + len(self._making.get(subject, ()))
        free = self._most - len(there) - sum(map(len, self._making.values()))
        subjects = len(self._made.keys() | self._making.keys())
        if has_place(held, subjects, free, self._most, wanted):
            return
        self._permits.count(subject, self._act)
        raise ConfigError(
            f"{subject} has made {held:,} {self._what} through this daemon, and {max(free, 0):,} of"
            f" {self._most:,} places are left: it may not make {wanted:,} more; remove those that"
            f" are done ('ordercast {self._act} remove')"
        )


class _Readers(Protocol):
    @property
    def names(self) -> Collection[str]: ...


class _Layout(Protocol):
    @property
    def producers(self) -> Mapping[tuple[str, Group], int]: ...


class MadeByClients:
    """The readers that clients have made at a site, and their producers in the cluster, by
    subject."""

    def __init__(self, permits: Permits, readers: _Readers, layout: Callable[[], _Layout]) -> None:
        self.readers = SubjectPlaces(
            READER, "readers", MOST_READERS, lambda: readers.names, permits
        )
        self._producers = SubjectPlaces(
            PRODUCER, "producers", TICKETS, lambda: layout().producers.keys(), permits
        )

    def producers(
        self, subject: ClientSubject, pairs: Iterable[tuple[str, Group]]
    ) -> AbstractContextManager[None]:
        """The block adds these pairs of a producer and a group. Windows of ids and clients are
        counted by group and not by subject."""
        named = [(name, group) for name, group in pairs if name not in WINDOWS]
        return self._producers.making(subject, named)
