"""Names become numbers, so that rows are small and every order is an order of integers.

Sites are numbered by (run, name). Messages are numbered by (run, group, origin, incarnation, seq):
a *stream* is one incarnation of an origin sending to a group, its seqs are consecutive numbers; a
*family* is all its incarnations. So within a family numbers grow with (incarnation, seq), which is
what FIFO compares, and ties between rows at one place of a site are broken by number as by name.
Nothing else needs to know about runs: what is in different runs has different numbers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ordercast.model.errors import ConfigError
from ordercast.model.messages import MessageId

Run: TypeAlias = str | None
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Columns: TypeAlias = dict[str, npt.NDArray[Any]]

_ROOM = 1 << 62  # (message, site) pairs are single integers below this


class StreamSpan(NamedTuple):
    """One incarnation of an origin sending to a group, and which seqs of it appear."""

    run: int
    group: str
    origin: str
    incarnation: int
    first_seq: int
    last_seq: int


class StreamArrays(NamedTuple):
    """What the workers know of the streams, indexed by stream."""

    offsets: Ints  # of its first message; one more entry: the number of messages
    run: Ints
    incarnation: Ints
    family: Ints
    group: Ints
    origin: Ints  # the origin as a site, -1 when it is none
    rank: Ints  # by (run, origin, incarnation, group), the order of message ids

    def of(self, messages: Ints) -> Ints:
        return np.searchsorted(self.offsets, messages, side="right") - 1

    def id_order(self, messages: Ints) -> tuple[Ints, Ints]:
        """Two keys that sort messages as their ids do, runs first."""
        streams = self.of(messages)
        return self.rank[streams], messages - self.offsets[streams]


@dataclass(frozen=True)
class Numbers:
    """Both ways between names and numbers; stays on the driver."""

    runs: Sequence[Run]
    sites: Sequence[tuple[int, str]]
    groups: Sequence[tuple[int, str]]
    streams: Sequence[StreamSpan]
    arrays: StreamArrays

    @cached_property
    def site_number(self) -> dict[tuple[int, str], int]:
        return {site: number for number, site in enumerate(self.sites)}

    @cached_property
    def group_number(self) -> dict[tuple[int, str], int]:
        return {group: number for number, group in enumerate(self.groups)}

    @cached_property
    def _stream_number(self) -> dict[tuple[int, str, str, int], int]:
        return {stream[:4]: number for number, stream in enumerate(self.streams)}

    def stream_of(self, message: int) -> tuple[int, StreamSpan]:
        number = int(self.arrays.of(np.array([message], np.int64))[0])
        return number, self.streams[number]

    def message_id(self, message: int) -> MessageId:
        number, stream = self.stream_of(message)
        seq = message - int(self.arrays.offsets[number]) + stream.first_seq
        return MessageId(stream.origin, stream.incarnation, stream.group, seq)

    def message_number(self, run: int, message: MessageId) -> int | None:
        """None for a message that cannot be in `sent` or `deliveries`."""
        key = (run, message.group, message.origin, message.incarnation)
        number = self._stream_number.get(key)
        if number is None:
            return None
        stream = self.streams[number]
        if not stream.first_seq <= message.seq <= stream.last_seq:
            return None
        return int(self.arrays.offsets[number]) + message.seq - stream.first_seq

    def run_of_site(self, site: int) -> Run:
        return self.runs[self.sites[site][0]]

    def run_of_message(self, message: int) -> Run:
        return self.runs[self.stream_of(message)[1].run]


def number(
    runs: Sequence[Run],
    sites: Iterable[tuple[int, str]],
    groups: Iterable[tuple[int, str]],
    streams: Iterable[StreamSpan],
) -> Numbers:
    """`sites` and `groups` may repeat; `streams` may name a stream several times."""
    joined = _join(streams)
    named = {(stream.run, stream.group) for stream in joined}
    all_sites = sorted(set(sites))
    all_groups = sorted(named.union(groups))
    return Numbers(runs, all_sites, all_groups, joined, _arrays(all_sites, all_groups, joined))


def _join(streams: Iterable[StreamSpan]) -> list[StreamSpan]:
    found: dict[tuple[int, str, str, int], StreamSpan] = {}
    for stream in streams:
        known = found.get(stream[:4])
        if known is not None:
            first = min(stream.first_seq, known.first_seq)
            stream = stream._replace(first_seq=first, last_seq=max(stream.last_seq, known.last_seq))
        found[stream[:4]] = stream
    return sorted(found.values())


def _arrays(
    sites: Sequence[tuple[int, str]],
    groups: Sequence[tuple[int, str]],
    streams: Sequence[StreamSpan],
) -> StreamArrays:
    lengths = [stream.last_seq - stream.first_seq + 1 for stream in streams]
    if sum(lengths) >= _ROOM // (len(sites) + 1):
        widest = streams[lengths.index(max(lengths))]
        raise ConfigError(
            f"origin {widest.origin!r}, group {widest.group!r}: field 'seq': from"
            f" {widest.first_seq} to {widest.last_seq} is too wide a range"
        )
    site_number = {site: number for number, site in enumerate(sites)}
    group_number = {group: number for number, group in enumerate(groups)}
    families: dict[tuple[int, str, str], int] = {}
    by_id = sorted(
        range(len(streams)),
        key=lambda i: (streams[i].run, streams[i].origin, streams[i].incarnation, streams[i].group),
    )
    rank = np.empty(len(streams), np.int64)
    rank[by_id] = np.arange(len(streams))
    return StreamArrays(
        offsets=np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64),
        run=np.array([stream.run for stream in streams], np.int64),
        incarnation=np.array([stream.incarnation for stream in streams], np.int64),
        family=np.array(
            [families.setdefault(stream[:3], len(families)) for stream in streams], np.int64
        ),
        group=np.array([group_number[stream[:2]] for stream in streams], np.int64),
        origin=np.array(
            [site_number.get((stream.run, stream.origin), -1) for stream in streams], np.int64
        ),
        rank=rank,
    )
