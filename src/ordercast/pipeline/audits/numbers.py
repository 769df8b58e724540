"""Names become numbers, so that rows are small and every order is an order of integers.

Sites are numbered by (run, name). Messages are numbered by (run, group, origin, incarnation, seq):
a *stream* is one incarnation of an origin sending to a group, its seqs are consecutive numbers; a
*family* is all its incarnations. So within a family numbers grow with (incarnation, seq), which is
what FIFO compares, and ties between rows at one place of a site are broken by number as by name.
Nothing else needs to know about runs: what is in different runs has different numbers.

Numbers are known only when all names are. Before that a site and a stream go by an *id*, 64 bits
made of the names alone: it is the same in every batch and every history, whatever else is there.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ordercast.model.errors import ConfigError
from ordercast.model.messages import MessageId

Run: TypeAlias = str | None
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Columns: TypeAlias = dict[str, npt.NDArray[Any]]
Hashes: TypeAlias = npt.NDArray[np.uint64]

STREAM = ("run", "group_name", "origin", "incarnation")
_ROOM = 1 << 62  # (message, site) pairs are single integers below this


def mix(values: Hashes) -> Hashes:
    """Scatter 64 bits over 64 bits, one to one (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def name_hash(name: str | None) -> int:
    data = b"\0" if name is None else b"\1" + name.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def id_of(*names: str | int | None) -> int:
    """The id of a site (run, name) or a stream (run, group, origin, incarnation)."""
    mixed = np.zeros(1, np.uint64)
    for name in names:
        own = name + 1 if isinstance(name, int) else name_hash(name)
        mixed = mix(mixed + np.array([own % (1 << 64)], np.uint64))
    return int(mixed.view(np.int64)[0])


def ids_of(table: pa.Table, columns: Sequence[str]) -> tuple[Ints, Ints, Ints]:
    """Ids of the combinations of names in these columns: the distinct ids in order, a row that has
    each, and per row its place among them."""
    mixed = np.zeros(table.num_rows, np.uint64)
    codes = []
    for name in columns:
        column = table.column(name).combine_chunks()
        if pa.types.is_integer(column.type):
            own = column.to_numpy().astype(np.int64)
            mixed = mix(mixed + own.view(np.uint64) + np.uint64(1))
        else:
            encoded = column.dictionary_encode(null_encoding="encode")
            own = encoded.indices.to_numpy()
            hashes = [name_hash(value) for value in encoded.dictionary.to_pylist()]
            mixed = mix(mixed + np.array(hashes, np.uint64)[own])
        codes.append(own)
    ids, rows, index = np.unique(mixed.view(np.int64), return_index=True, return_inverse=True)
    for own in codes:
        if (own[rows][index] != own).any():
            raise two_names(columns)
    return ids, rows, index


def two_names(columns: Sequence[str]) -> ConfigError:
    """Of 400,000 streams two get one id once in 200 million histories."""
    return ConfigError(f"two names in {', '.join(columns)} have the same id: rename one of them")


@dataclass(frozen=True)
class StreamArrays:
    """What the workers know of the streams, indexed by stream.

    It travels packed, in as few bytes as the values need (docs/audit.md).
    """

    offsets: Ints  # of its first message; one more entry: the number of messages
    first_seq: Ints
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

    def __reduce__(self) -> tuple[Callable[..., "StreamArrays"], tuple[Any, ...]]:
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        columns["offsets"] = np.diff(self.offsets)
        columns["family"] = np.diff(self.family, prepend=0)
        return _unpacked, ({name: _narrow(column) for name, column in columns.items()},)


def _narrow(column: Ints) -> npt.NDArray[Any]:
    """With the smallest type that holds all values."""
    if not len(column):
        return column
    return column.astype(np.result_type(*map(np.min_scalar_type, (column.min(), column.max()))))


def _unpacked(columns: Columns) -> StreamArrays:
    whole = {name: column.astype(np.int64) for name, column in columns.items()}
    whole["offsets"] = np.concatenate(([0], np.cumsum(whole["offsets"]))).astype(np.int64)
    whole["family"] = np.cumsum(whole["family"])
    return StreamArrays(**whole)


@dataclass(frozen=True)
class Ids:
    """Ids in order, and the number of each."""

    ids: Ints
    numbers: Ints

    def find(self, ids: Ints) -> Ints:
        """The number of each id, -1 where there is none."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        at = np.searchsorted(self.ids, ids)
        at[at == len(self.ids)] = 0
        return np.where(self.ids[at] == ids, self.numbers[at], -1)

    def __reduce__(self) -> tuple[Callable[..., "Ids"], tuple[Any, ...]]:
        return _with_ids, (self.ids, _narrow(self.numbers))


def _with_ids(ids: Ints, numbers: npt.NDArray[Any]) -> Ids:
    return Ids(ids, numbers.astype(np.int64))


@dataclass(frozen=True)
class Numbers:
    """Both ways between names and numbers; stays on the driver."""

    runs: Sequence[Run]
    sites: Sequence[tuple[int, str]]
    groups: Sequence[tuple[int, str]]
    origins: Sequence[str]
    stream_origins: Ints  # by stream: its origin in `origins`
    arrays: StreamArrays
    stream_ids: Ids

    @cached_property
    def site_number(self) -> dict[tuple[int, str], int]:
        return {site: number for number, site in enumerate(self.sites)}

    @cached_property
    def group_number(self) -> dict[tuple[int, str], int]:
        return {group: number for number, group in enumerate(self.groups)}

    @cached_property
    def site_ids(self) -> Ids:
        ids = np.array([id_of(self.runs[run], site) for run, site in self.sites], np.int64)
        order = np.argsort(ids)
        return Ids(ids[order], order)

    def message_id(self, message: int) -> MessageId:
        number = int(self.arrays.of(np.array([message], np.int64))[0])
        origin = self.origins[int(self.stream_origins[number])]
        group = self.groups[int(self.arrays.group[number])][1]
        seq = message - int(self.arrays.offsets[number]) + int(self.arrays.first_seq[number])
        return MessageId(origin, int(self.arrays.incarnation[number]), group, seq)

    def message_number(self, run: int, message: MessageId) -> int | None:
        """None for a message that cannot be in `sent` or `deliveries`."""
        name = id_of(self.runs[run], message.group, message.origin, message.incarnation)
        number = int(self.stream_ids.find(np.array([name], np.int64))[0])
        if number < 0:
            return None
        first = int(self.arrays.offsets[number])
        found = first + message.seq - int(self.arrays.first_seq[number])
        if not first <= found < int(self.arrays.offsets[number + 1]):
            return None
        return found if self.message_id(found) == message else None

    def run_of_site(self, site: int) -> Run:
        return self.runs[self.sites[site][0]]

    def run_of_message(self, message: int) -> Run:
        number = self.arrays.of(np.array([message], np.int64))
        return self.runs[int(self.arrays.run[number][0])]


def number(
    runs: Sequence[Run],
    sites: Iterable[tuple[int, str]],
    groups: Iterable[tuple[int, str]],
    streams: pa.Table,
) -> Numbers:
    """`sites` and `groups` may repeat. `streams` has each stream once: its id, the columns of
    STREAM, and the `first` and `last` of its seqs."""
    place = {run: i for i, run in enumerate(runs)}
    run_names, run = _encoded(streams, "run")
    run = np.array([place[name] for name in run_names], np.int64)[run]
    group_names, group = _encoded(streams, "group_name")
    origin_names, origin = _encoded(streams, "origin")
    incarnation = streams.column("incarnation").to_numpy()
    order = np.lexsort((incarnation, origin, group, run))
    run, group, origin, incarnation = (c[order] for c in (run, group, origin, incarnation))
    first, last = (streams.column(name).to_numpy()[order] for name in ("first", "last"))
    all_sites = sorted(set(sites))
    in_runs = run * max(len(group_names), 1) + group
    pairs = np.unique(in_runs)
    named = [(int(p) // len(group_names), group_names[int(p) % len(group_names)]) for p in pairs]
    all_groups = sorted({*named, *groups})
    number_of = {pair: i for i, pair in enumerate(all_groups)}
    at_sites = run * max(len(origin_names), 1) + origin
    _check_room(all_sites, first, last, lambda i: (origin_names[origin[i]], group_names[group[i]]))
    new = np.ones(len(run), bool)
    new[1:] = (in_runs[1:] != in_runs[:-1]) | (origin[1:] != origin[:-1])
    rank = np.empty(len(run), np.int64)
    rank[np.lexsort((group, incarnation, origin, run))] = np.arange(len(run))
    arrays = StreamArrays(
        offsets=np.concatenate(([0], np.cumsum(last - first + 1))).astype(np.int64),
        first_seq=first,
        run=run,
        incarnation=incarnation,
        family=np.cumsum(new) - 1,
        group=np.array([number_of[pair] for pair in named], np.int64)[
            np.searchsorted(pairs, in_runs)
        ],
        origin=_site_of(all_sites, origin_names, at_sites),
        rank=rank,
    )
    ids = streams.column("id").to_numpy()[order]
    by_id = np.argsort(ids)
    found = Ids(ids[by_id], by_id)
    return Numbers(runs, all_sites, all_groups, origin_names, origin, arrays, found)


def _encoded(streams: pa.Table, column: str) -> tuple[list[Any], Ints]:
    """The distinct values in order, a missing one first, and which of them each stream has."""
    encoded = streams.column(column).combine_chunks().dictionary_encode(null_encoding="encode")
    names = encoded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=lambda i: (names[i] is not None, names[i] or ""))
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    return [names[i] for i in order], place[encoded.indices.to_numpy()]


def _site_of(sites: Sequence[tuple[int, str]], origins: Sequence[str], at_sites: Ints) -> Ints:
    known = {site: number for number, site in enumerate(sites)}
    pairs, index = np.unique(at_sites, return_inverse=True)
    named = ((int(p) // len(origins), origins[int(p) % len(origins)]) for p in pairs)
    return np.array([known.get(pair, -1) for pair in named], np.int64)[index]


def _check_room(
    sites: Sequence[tuple[int, str]],
    first: Ints,
    last: Ints,
    name: Callable[[int], tuple[str, str]],
) -> None:
    """Numbers have room for holes, not for random seqs."""
    lengths = last.astype(float) - first.astype(float) + 1
    if lengths.sum() >= _ROOM // (len(sites) + 1):
        widest = int(np.argmax(lengths))
        origin, group = name(widest)
        raise ConfigError(
            f"origin {origin!r}, group {group!r}: field 'seq': from"
            f" {first[widest]} to {last[widest]} is too wide a range"
        )
