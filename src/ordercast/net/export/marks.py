"""How far the stores of a cluster are in a history that grows: what an append leaves for the next.

Rows of a store are numbered without holes and never renumbered, so a number says how much of a
table was read. A store has a number of its own: another store is another count.
"""

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from ordercast.history.rows import EpochRow, GroupRow
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, Site


class SeqSpans:
    """Ranges of seqs; a batch is the same range at every site."""

    def __init__(self, starts: Iterable[int] = (), ends: Iterable[int] = ()) -> None:
        self._starts: list[int] = list(starts)
        self._ends: list[int] = list(ends)

    def ranges(self) -> tuple[list[int], list[int]]:
        """Where they start and end."""
        return self._starts, self._ends

    def has(self, seq: int) -> bool:
        at = bisect_right(self._starts, seq)
        return bool(at) and self._ends[at - 1] >= seq

    def add(self, first: int, last: int) -> bool:
        """Whether it is news; ranges that touch are joined."""
        at = bisect_right(self._starts, first)
        if at and self._ends[at - 1] >= first:
            return False
        starts, ends = self._starts, self._ends
        if at and ends[at - 1] == first - 1:
            at -= 1
            ends[at] = last
        else:
            starts.insert(at, first)
            ends.insert(at, last)
        if at + 1 < len(starts) and starts[at + 1] == last + 1:
            ends[at] = ends[at + 1]
            del starts[at + 1], ends[at + 1]
        return True


Streams = dict[tuple[Site, int, Group], SeqSpans]
"""By origin, incarnation and group."""


class SiteMark(msgspec.Struct):
    """How much of a site's store is in the history.

    `log_row`, `annulled_row`, `sent_row`, `event_row`: the last rows that were read. `position`:
    the last that was written. `events`: the last number of an event. `ended`: the last event is an
    `end`. `excluded`: the epoch of an exclusion that the store did not know of. `joined`: its
    base is told. `latest_ns`: the time of the last send. `undecided`: rows before `sent_row` that
    may still be refused, with their times.
    """

    store: int
    log_row: int = 0
    annulled_row: int = 0
    sent_row: int = 0
    event_row: int = 0
    position: int = 0
    events: int = 0
    ended: bool = False
    excluded: int = 0
    joined: bool = False
    latest_ns: int = 0
    undecided: dict[int, int] = {}


class _Kept(msgspec.Struct):
    sites: dict[Site, SiteMark]
    sent: list[tuple[Site, int, Group, list[int], list[int]]]


class ExportMarks:
    """Of all sites. `sent`: the messages whose rows of `sent` are there. `groups`, `epochs`: the
    rows of these small tables that are there; they are read from the history."""

    def __init__(self) -> None:
        self.sites: dict[Site, SiteMark] = {}
        self.sent: Streams = {}
        self.groups: set[GroupRow] = set()
        self.epochs: dict[int, EpochRow] = {}

    def of(self, site: Site, store: int, path: object) -> SiteMark:
        mark = self.sites.setdefault(site, SiteMark(store))
        if mark.store != store:
            raise ConfigError(
                f"{path}: is another store of site {site!r} than the lake was written from, and"
                " its positions began anew: append to a new lake"
            )
        return mark

    def encode(self) -> bytes:
        sent = [(*stream, *spans.ranges()) for stream, spans in sorted(self.sent.items())]
        return msgspec.msgpack.encode(_Kept(dict(sorted(self.sites.items())), sent))

    @staticmethod
    def decode(data: bytes, path: object) -> "ExportMarks":
        marks = ExportMarks()
        if data:
            try:
                kept = msgspec.msgpack.decode(data, type=_Kept)
            except msgspec.DecodeError as error:
                raise ConfigError(f"{path}: its marks cannot be read: {error}") from None
            marks.sites = kept.sites
            marks.sent = {(o, i, g): SeqSpans(first, last) for o, i, g, first, last in kept.sent}
        return marks
