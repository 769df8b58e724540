"""From the names that the tables hold to the numbers of the audit.

A batch of a table's rows is divided into shares by message before names have numbers. Names are
numbered within the batch; the batch tells them once, as a *glossary*, whose digest the packed rows
carry. When all glossaries are known, everything gets its number, and the translation reads the rows
with it. So the tables themselves are read only once.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ordercast.check.runs import split_runs
from ordercast.history.rows import EpochRow, Event, GroupRow, History, Sent, no_request
from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits.numbers import Columns, Ints, Numbers, Run, StreamSpan, number
from ordercast.pipeline.audits.packing import by_key, pack, unpack
from ordercast.pipeline.audits.requests import Clients, read_requests, unasked
from ordercast.pipeline.audits.rows import DELIVERED, SENT

StreamName = tuple[Run, str, str, int]  # run, group, origin, incarnation
Site = tuple[Run, str]
GLOSSARY, SAMPLE = -1, -2  # instead of a share
_PLACED = ("stream", "seq", "site", "position", "attempt", "epoch")
_PACKED = (*_PLACED, "ns", "digest", "has_digest")
_OPTIONAL = {
    column.name
    for table in ("deliveries", "sent")
    for column in TABLES[table].columns
    if column.optional
}
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MOST = np.iinfo(np.int64).max

# Where the columns of a row come from, by kind: a send stands at its origin, after a row of it.
_SOURCES: Mapping[int, Mapping[str, str]] = {
    DELIVERED: {
        "site": "site", "position": "position", "attempt": "attempt", "epoch": "epoch",
        "ns": "delivered_ns",
    },
    SENT: {
        "site": "origin", "position": "after_position", "attempt": "after_attempt",
        "ns": "sent_ns",
    },
}  # fmt: skip


class Glossary(msgspec.Struct):
    """The names of a batch in order, with the rows at each site and the seqs of each stream."""

    digest: int
    kind: int
    sites: list[Site]
    rows: list[int]
    streams: list[StreamName]
    first: list[int]
    last: list[int]
    null: str = ""  # a column with a null where there may be none
    asked: int = 0  # rows that name a client
    no_request: str = ""  # a column with a null in a row that names a client


def scatter(
    table: pa.Table, kind: int, shares: int, sample_every: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Shares with their packed rows; before them the glossary, and the places of all deliveries of
    one message in so many."""
    if not table.num_rows:
        return
    null = _first_null(table)
    if null:
        glossary = Glossary(0, kind, [], [], [], [], [], null)
        yield GLOSSARY, msgspec.msgpack.encode(glossary)
        return
    columns = {
        name: table.column(source).to_numpy()
        for name, source in _SOURCES[kind].items()
        if name != "site"
    }
    columns.setdefault("epoch", np.zeros(table.num_rows, np.int64))
    columns["seq"] = table.column("seq").to_numpy()
    columns["has_digest"] = columns["digest"] = np.zeros(table.num_rows, np.int64)
    if "digest" in table.column_names:
        digests = table.column("digest")
        columns["has_digest"] = digests.is_valid().to_numpy().astype(np.int64)
        columns["digest"] = digests.fill_null(0).to_numpy()
    if "run" not in table.column_names:
        table = table.append_column("run", pa.nulls(table.num_rows, pa.string()))
    sites, columns["site"] = _number(table, ("run", _SOURCES[kind]["site"]))
    streams, columns["stream"] = _number(table, ("run", "group_name", "origin", "incarnation"))
    requests = read_requests(table)
    columns |= requests.columns
    glossary = Glossary(
        digest=_digest([kind, sites, streams]),
        kind=kind,
        sites=sites,
        rows=np.bincount(columns["site"], minlength=len(sites)).tolist(),
        streams=streams,
        first=_extremes(np.minimum, _MOST, columns["stream"], columns["seq"], len(streams)),
        last=_extremes(np.maximum, -_MOST, columns["stream"], columns["seq"], len(streams)),
        asked=requests.rows,
        no_request=requests.null,
    )
    yield GLOSSARY, msgspec.msgpack.encode(glossary)
    mixed = _mixed(streams, columns["stream"], columns["seq"])
    if sample_every and kind == DELIVERED:
        rows = np.flatnonzero((mixed >> np.uint64(8)) % np.uint64(sample_every) == 0)
        sample = pack({name: columns[name][rows] for name in _PLACED})
        yield SAMPLE, msgspec.msgpack.encode((glossary.digest, sample, []))
    names = (*_PACKED, *requests.columns)
    for share, rows in by_key((mixed % np.uint64(shares)).astype(np.int64)):
        own = {name: columns[name][rows] for name in names}
        clients = requests.renumber(own)
        yield share, msgspec.msgpack.encode((glossary.digest, pack(own), clients))


def _first_null(table: pa.Table) -> str:
    names = (name for name in table.column_names if name not in _OPTIONAL)
    return next((name for name in names if table.column(name).null_count), "")


def _number(table: pa.Table, columns: tuple[str, ...]) -> tuple[list[Any], Ints]:
    """The distinct combinations of these columns in order, and which of them each row has."""
    names: list[tuple[Any, ...]] = [()]
    code = np.zeros(table.num_rows, np.int64)
    for column in columns:
        encoded = table.column(column).combine_chunks().dictionary_encode(null_encoding="encode")
        values = encoded.dictionary.to_pylist()
        code = code * len(values) + encoded.indices.to_numpy()
        encoded = pa.array(code).dictionary_encode()
        combined = (divmod(number, len(values)) for number in encoded.dictionary.to_pylist())
        names = [(*names[before], values[own]) for before, own in combined]
        code = encoded.indices.to_numpy().astype(np.int64)
    order = sorted(range(len(names)), key=lambda i: _sortable(names[i]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return [names[i] for i in order], place[code]


def _sortable(name: tuple[Any, ...]) -> tuple[Any, ...]:
    """A missing run before all others."""
    return (name[0] is not None, name[0] or "", *name[1:])


def _digest(names: object) -> int:
    digest = hashlib.blake2b(msgspec.msgpack.encode(names), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _extremes(which: np.ufunc, start: int, streams: Ints, seqs: Ints, count: int) -> list[int]:
    found = np.full(count, start, np.int64)
    which.at(found, streams, seqs)
    return list(found.tolist())


def _mixed(streams: list[StreamName], stream: Ints, seq: Ints) -> npt.NDArray[np.uint64]:
    """A hash of the name and the seq, the same wherever a message appears."""
    hashes = np.array([_digest(name) for name in streams], np.uint64)
    mixed = (hashes[stream] + seq.astype(np.uint64)) * _MIX
    mixed ^= mixed >> np.uint64(32)
    return mixed


@dataclass(frozen=True)
class Translation:
    """By glossary: what to add to a seq to get the message, and the numbers of the sites. `asked`:
    whether any row names a client."""

    bases: Mapping[int, Ints]
    sites: Mapping[int, Ints]
    kinds: Mapping[int, int]
    asked: bool

    def read(self, data: bytes, clients: Clients) -> Columns:
        """All columns of a piece; its clients get their numbers from `clients`."""
        columns, names = self._read(data, None)
        columns["has_digest"] = columns["has_digest"] != 0
        if names:
            columns["client"] = clients.numbers(names)[columns["client"]]
        elif self.asked:  # no client in this piece, but in others
            columns |= unasked(len(columns["message"]))
        return columns

    def read_places(self, data: bytes) -> Columns:
        """The places of the deliveries; nothing of the sends."""
        columns, _ = self._read(data, _PLACED)
        rows = columns["kind"] == DELIVERED
        return columns if rows.all() else {name: c[rows] for name, c in columns.items()}

    def _read(self, data: bytes, names: Sequence[str] | None) -> tuple[Columns, list[str | None]]:
        digest, packed, clients = _PIECE.decode(data)
        if digest not in self.kinds:
            raise ConfigError("the tables change while they are read: cache or write them first")
        columns = unpack(packed, names)
        stream, seq = columns.pop("stream"), columns.pop("seq")
        columns["message"] = self.bases[digest][stream] + seq
        columns["site"] = self.sites[digest][columns["site"]]
        columns["kind"] = np.full(len(seq), self.kinds[digest], np.int64)
        return columns, clients


_PIECE = msgspec.msgpack.Decoder(tuple[int, bytes, list[str | None]])


_TABLE = {DELIVERED: "deliveries", SENT: "sent"}


class Contents:
    """What the big tables hold, by name: sites with their rows, streams with their seqs."""

    def __init__(self, glossaries: Iterable[Glossary]) -> None:
        self.site_rows: dict[Site, int] = {}
        self.seqs: dict[StreamName, tuple[int, int]] = {}
        self.asked = 0  # rows that name a client
        for glossary in glossaries:
            if glossary.null:
                table = _TABLE[glossary.kind]
                raise ConfigError(f"{table}: field {glossary.null!r}: null in some row")
            if glossary.no_request:
                raise no_request(_TABLE[glossary.kind], glossary.no_request)
            self.asked += glossary.asked
            for site, rows in zip(glossary.sites, glossary.rows, strict=True):
                counted = rows if glossary.kind == DELIVERED else 0
                self.site_rows[site] = self.site_rows.get(site, 0) + counted
            seqs = zip(glossary.first, glossary.last, strict=True)
            for stream, (first, last) in zip(glossary.streams, seqs, strict=True):
                known = self.seqs.get(stream, (first, last))
                self.seqs[stream] = (min(first, known[0]), max(last, known[1]))

    @property
    def runs(self) -> list[Run]:
        return list(dict.fromkeys(run for run, _ in self.site_rows))

    def rows_by_run(self, runs: Sequence[Run]) -> list[int]:
        """Deliveries, in the order of the runs."""
        found = dict.fromkeys(runs, 0)
        for (run, _), rows in self.site_rows.items():
            found[run] += rows
        return list(found.values())


def split_small(
    groups: list[GroupRow], events: list[Event], epochs: list[EpochRow], big_runs: Sequence[Run]
) -> dict[Run, History]:
    """The small tables by run, as `check.runs` divides them; runs of the big ones have a place."""
    stand_in = [Sent("", 0, "", 0, 0, 0, 0, 0, None, run) for run in big_runs]
    whole = History(groups=groups, events=events, epochs=epochs, sent=stand_in)
    return {
        run: History(groups=own.groups, events=own.events, epochs=own.epochs)
        for run, own in split_runs(whole)
    }


def number_names(histories: Mapping[Run, History], contents: Contents) -> Numbers:
    runs = list(histories)
    place = {run: i for i, run in enumerate(runs)}
    sites = [(place[run], site) for run, site in contents.site_rows]
    groups = []
    for run, history in histories.items():
        sites += [(place[run], row.site) for row in history.groups]
        sites += [(place[run], event.site) for event in history.events]
        groups += [(place[run], row.group_name) for row in history.groups]
    streams = (
        StreamSpan(place[run], group, origin, incarnation, first, last)
        for (run, group, origin, incarnation), (first, last) in contents.seqs.items()
    )
    return number(runs, sites, groups, streams)


def translation(numbers: Numbers, glossaries: Iterable[Glossary]) -> Translation:
    place = {run: i for i, run in enumerate(numbers.runs)}
    base = {
        stream[:4]: int(offset) - stream.first_seq
        for offset, stream in zip(numbers.arrays.offsets[:-1], numbers.streams, strict=True)
    }
    bases, sites, kinds = {}, {}, {}
    asked = False
    for glossary in glossaries:
        asked = asked or glossary.asked > 0
        if glossary.digest in kinds:
            continue
        kinds[glossary.digest] = glossary.kind
        bases[glossary.digest] = np.array(
            [
                base[place[run], group, origin, incarnation]
                for run, group, origin, incarnation in glossary.streams
            ],
            np.int64,
        )
        sites[glossary.digest] = np.array(
            [numbers.site_number[place[run], name] for run, name in glossary.sites], np.int64
        )
    return Translation(bases, sites, kinds, asked)
