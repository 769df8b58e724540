"""From the names that the tables hold to the numbers of the audit.

A batch of a table's rows is divided into shares by message before names have numbers: packed rows
carry ids of their sites and streams. The batch says in *glossaries*, divided by id, which name each
id stands for. Workers fold the glossaries of all batches, so that the driver sees each name once.
When all names are known, everything gets its number, and the packed rows are translated. So the
tables themselves are read only once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa

from ordercast.check.runs import split_runs
from ordercast.history.rows import EpochRow, Event, GroupRow, History, Sent, no_request
from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits.numbers import (
    STREAM,
    Columns,
    Hashes,
    Ids,
    Ints,
    Numbers,
    Run,
    StreamArrays,
    ids_of,
    mix,
    number,
    two_names,
)
from ordercast.pipeline.audits.packing import by_key, pack, unpack
from ordercast.pipeline.audits.requests import Clients, read_requests, unasked
from ordercast.pipeline.audits.rows import DELIVERED, SENT

Site = tuple[Run, str]
SAMPLE = -(1 << 24)  # sampled rows have keys up to this one, glossaries the other negative keys
SAMPLE_EVERY = 40  # of this many messages, one is looked at for cuts
_STREAMS_PER_GLOSSARY = 1_024
_PLACED = ("stream", "seq", "site", "position", "attempt", "epoch")
_PACKED = (*_PLACED, "ns", "digest", "has_digest")
_OPTIONAL = {
    column.name
    for table in ("deliveries", "sent")
    for column in TABLES[table].columns
    if column.optional
}
_NAMES = ["id", *STREAM]

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
_TABLE = {DELIVERED: "deliveries", SENT: "sent"}


class Glossary(msgspec.Struct):
    """Names of one batch or of several: sites with their deliveries, and streams as an Arrow table
    (`id`, the columns of STREAM, `first`, `last`)."""

    sites: list[Site] = []
    rows: list[int] = []
    streams: bytes = b""
    asked: int = 0  # rows that name a client
    wrong: str = ""  # what is wrong with a table


def scatter(
    table: pa.Table, kind: int, shares: int, sample: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Shares with their packed rows; before them glossaries and, if wanted, the places of all
    deliveries of one message in SAMPLE_EVERY, both with negative keys."""
    if not table.num_rows:
        return
    wrong = _first_null(table, kind)
    requests = read_requests(table)
    if not wrong and requests.null:
        wrong = str(no_request(_TABLE[kind], requests.null))
    if wrong:
        yield _key(1, 0), msgspec.msgpack.encode(Glossary(wrong=wrong))
        return
    columns = _numeric(table, kind) | requests.columns
    if "run" not in table.column_names:
        table = table.append_column("run", pa.nulls(table.num_rows, pa.string()))
    site_source = ("run", _SOURCES[kind]["site"])
    site_ids, site_rows, columns["site"] = ids_of(table, site_source)
    stream_ids, stream_rows, columns["stream"] = ids_of(table, STREAM)
    names = table.select(site_source).take(site_rows)
    sites = list(zip(*(names.column(i).to_pylist() for i in (0, 1)), strict=True))
    counts = np.bincount(columns["site"], minlength=len(sites))
    told = Glossary(sites, (counts * (kind == DELIVERED)).tolist(), asked=requests.rows)
    streams = table.select(STREAM).take(stream_rows)
    streams = streams.add_column(0, "id", pa.array(stream_ids))
    for name, extreme in (("first", np.minimum), ("last", np.maximum)):
        found = columns["seq"][stream_rows]
        extreme.at(found, columns["stream"], columns["seq"])
        streams = streams.append_column(name, pa.array(found))
    yield from _divide_names(told, streams, stream_ids)
    mixed = _mixed(stream_ids.view(np.uint64), columns["stream"], columns["seq"])
    piece = _Piece(kind, columns, site_ids, stream_ids)
    if sample and kind == DELIVERED:
        rows = np.flatnonzero((mixed >> np.uint64(8)) % np.uint64(SAMPLE_EVERY) == 0)
        share = int(mixed[rows[0]] % np.uint64(shares)) if len(rows) else 0
        yield SAMPLE - share, piece.packed(rows, _PLACED, [])
    for share, rows in by_key((mixed % np.uint64(shares)).astype(np.int64)):
        own = {name: columns[name][rows] for name in requests.columns}
        clients = requests.renumber(own)
        yield share, piece.packed(rows, _PACKED, clients, own)


def _first_null(table: pa.Table, kind: int) -> str:
    names = (name for name in table.column_names if name not in _OPTIONAL)
    null = next((name for name in names if table.column(name).null_count), None)
    return f"{_TABLE[kind]}: field {null!r}: null in some row" if null else ""


def _numeric(table: pa.Table, kind: int) -> Columns:
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
    return columns


def _mixed(hashes: Hashes, stream: Ints, seq: Ints) -> Hashes:
    """A hash of the name and the seq, the same wherever a message appears."""
    return mix(hashes[stream] + seq.astype(np.uint64))


def _key(buckets: int, bucket: int) -> int:
    """The key of a glossary: every bucket of every division has its own."""
    return -(buckets + bucket)


def _divide_names(told: Glossary, streams: pa.Table, ids: Ints) -> Iterator[tuple[int, bytes]]:
    """The streams in glossaries of their own, none of them large. Their number is a power of two;
    the id of a stream chooses one."""
    buckets = 1
    while buckets * _STREAMS_PER_GLOSSARY < len(ids) and buckets < 1 << 20:
        buckets *= 2
    for bucket, rows in by_key((ids.view(np.uint64) % np.uint64(buckets)).astype(np.int64)):
        told.streams = _as_bytes(streams.take(pa.array(rows)))
        yield _key(buckets, bucket), msgspec.msgpack.encode(told)
        told = Glossary()


def _as_bytes(streams: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, streams.schema) as writer:
        writer.write_table(streams.combine_chunks())
    return bytes(sink.getvalue())


def _as_table(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


@dataclass(frozen=True)
class _Piece:
    """A batch, of which packed rows are made."""

    kind: int
    columns: Columns
    site_ids: Ints
    stream_ids: Ints

    def packed(
        self,
        rows: Ints,
        names: Sequence[str],
        clients: Sequence[str | None],
        asked: Columns | None = None,
    ) -> bytes:
        own = {name: self.columns[name][rows] for name in names} | (asked or {})
        ids = []
        for name, every in (("site", self.site_ids), ("stream", self.stream_ids)):
            used, own[name] = np.unique(own[name], return_inverse=True)
            ids.append(every[used].tobytes())
        return msgspec.msgpack.encode((self.kind, *ids, pack(own), clients))


_PIECE = msgspec.msgpack.Decoder(tuple[int, bytes, bytes, bytes, list[str | None]])


@dataclass(frozen=True)
class Translation:
    """From the ids in packed rows to numbers. `asked`: whether any row names a client."""

    site_ids: Ids
    stream_ids: Ids
    streams: StreamArrays
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

    @cached_property
    def _bases(self) -> Ints:
        """By stream: what to add to a seq to get the message."""
        return self.streams.offsets[:-1] - self.streams.first_seq

    def _read(self, data: bytes, names: Sequence[str] | None) -> tuple[Columns, list[str | None]]:
        kind, sites, streams, packed, clients = _PIECE.decode(data)
        columns = unpack(packed, names)
        stream, seq = columns.pop("stream"), columns.pop("seq")
        site_numbers = _known(self.site_ids, sites)
        columns["message"] = self._bases[_known(self.stream_ids, streams)][stream] + seq
        columns["site"] = site_numbers[columns["site"]]
        columns["kind"] = np.full(len(seq), kind, np.int64)
        return columns, clients


def _known(ids: Ids, wanted: bytes) -> Ints:
    found = ids.find(np.frombuffer(wanted, np.int64))
    if (found < 0).any():
        raise ConfigError("the tables change while they are read: cache or write them first")
    return found


def fold_glossaries(values: Iterable[bytes]) -> Glossary:
    """Several glossaries as one: each site and each stream once."""
    every = [msgspec.msgpack.decode(value, type=Glossary) for value in values]
    rows: dict[Site, int] = {}
    for glossary in every:
        for site, count in zip(glossary.sites, glossary.rows, strict=True):
            rows[site] = rows.get(site, 0) + count
    wrong = min((glossary.wrong for glossary in every if glossary.wrong), default="")
    streams = [_as_table(glossary.streams) for glossary in every if glossary.streams]
    return Glossary(
        list(rows),
        list(rows.values()),
        _as_bytes(_each_once(streams)) if streams else b"",
        sum(glossary.asked for glossary in every),
        wrong,
    )


def _each_once(pieces: Sequence[pa.Table]) -> pa.Table:
    extremes = [("first", "min"), ("last", "max")]
    found = pa.concat_tables(pieces).group_by(_NAMES).aggregate(extremes)
    found = found.rename_columns([*found.column_names[:-2], "first", "last"])
    if len(np.unique(found.column("id").to_numpy())) < found.num_rows:
        raise two_names(STREAM)
    return found.select([*_NAMES, "first", "last"])


class Contents:
    """What the big tables hold, by name: sites with their deliveries, streams with their seqs."""

    def __init__(self, glossaries: Iterable[bytes]) -> None:
        folded = fold_glossaries(glossaries)
        if folded.wrong:
            raise ConfigError(folded.wrong)
        self.site_rows = dict(zip(folded.sites, folded.rows, strict=True))
        self.streams = _as_table(folded.streams) if folded.streams else _NO_STREAMS
        self.asked = folded.asked  # rows that name a client

    @property
    def runs(self) -> list[Run]:
        return list(dict.fromkeys(run for run, _ in self.site_rows))

    def rows_by_run(self, runs: Sequence[Run]) -> list[int]:
        """Deliveries, in the order of the runs."""
        found = dict.fromkeys(runs, 0)
        for (run, _), rows in self.site_rows.items():
            found[run] += rows
        return list(found.values())


_NO_STREAMS = pa.table(
    {
        name: pa.array([], pa.string() if name in STREAM[:3] else pa.int64())
        for name in (*_NAMES, "first", "last")
    }
)


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
    return number(runs, sites, groups, contents.streams)


def translation(numbers: Numbers, contents: Contents) -> Translation:
    return Translation(
        numbers.site_ids, numbers.stream_ids, numbers.arrays, asked=contents.asked > 0
    )
