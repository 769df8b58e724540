"""The audit's steps on Spark: dividing the tables, the two shuffles of a pass, looking for cuts.

Rows are packed: Spark sees a few values per share or part, and NumPy judges their rows. No
`sparkContext` here: Spark Connect has none.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import StorageLevel

from ordercast.pipeline.arrow_steps import map_batches, map_groups
from ordercast.pipeline.audits.borders import divide_borders, fold_borders
from ordercast.pipeline.audits.cuts import (
    BORDER_ROWS,
    ROWS_PER_PART,
    Cuts,
    Guesses,
    Sections,
    Shares,
    Windows,
    close,
    place_sections,
    plan_sections,
    settle,
    whole,
    windows,
)
from ordercast.pipeline.audits.evidence import Evidence, decode, encode
from ordercast.pipeline.audits.facts import Facts
from ordercast.pipeline.audits.files import RowGroup, bundle
from ordercast.pipeline.audits.glossary import (
    SAMPLE,
    SAMPLE_EVERY,
    Translation,
    fold_glossaries,
    scatter,
)
from ordercast.pipeline.audits.listing import DDL, Namer
from ordercast.pipeline.audits.numbers import Columns, Ints, mix
from ordercast.pipeline.audits.packing import divide, join, pack, unpack
from ordercast.pipeline.audits.places import starts
from ordercast.pipeline.audits.requests import Clients
from ordercast.pipeline.audits.rows import DELIVERED, SENT, is_live
from ordercast.pipeline.audits.tasks import PART_COLUMNS, JudgingTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_SHARE = 300_000
ROWS_PER_BATCH = 400_000  # scattered at a time
_ASIDE = -1  # the key under which evidence travels; shares of requests have keys below it
_BYTES = pa.schema([("key", pa.int32()), ("value", pa.binary())])
_BYTES_DDL = "key int, value binary"

Batches = Iterator[pa.RecordBatch]


def _in_batches(frame: "DataFrame", step: Callable[[Batches], Batches]) -> "DataFrame":
    return map_batches(frame, step, _BYTES_DDL)


def _by_key(frame: "DataFrame", step: Callable[[pa.Table], pa.Table]) -> "DataFrame":
    return map_groups(frame, "key", step, _BYTES_DDL)


class Divided:
    """Both tables, divided by message and packed, kept on the executors' disks until closed."""

    def __init__(self, pieces: "DataFrame", shares: int) -> None:
        self.frame = pieces.repartition(shares, "key").persist(StorageLevel.DISK_ONLY)

    def glossaries(self) -> list[bytes]:
        """Divides the tables. Each bucket of names is folded where it is."""
        told = self.frame.where(f"key < 0 and key > {SAMPLE}")
        found: list[bytes] = _by_key(told, _fold_names).toArrow()["value"].to_pylist()
        return found

    def close(self) -> None:
        self.frame.unpersist()

    @property
    def pieces(self) -> "DataFrame":
        return self.frame.where("key >= 0")

    @property
    def sample(self) -> "DataFrame":
        return self.frame.where(f"key <= {SAMPLE}")


def divide_frames(deliveries: "DataFrame", sent: "DataFrame", rows: int) -> Divided:
    """Spark reads, whatever the frames are."""
    shares = _shares(rows)
    one, other = (
        _in_batches(frame, _scatter_step(kind, shares))
        for frame, kind in ((deliveries, DELIVERED), (sent, SENT))
    )
    return Divided(one.unionAll(other), shares)


def divide_files(
    spark: "SparkSession", groups: Sequence[RowGroup], runs: Sequence[str] | None
) -> Divided:
    """The workers read, a bundle of row groups each."""
    rows = sum(group.rows for group in groups)
    shares, bundles = _shares(rows), bundle(groups)
    tasks = spark.range(0, len(bundles), 1, len(bundles))
    return Divided(_in_batches(tasks, _read_step(bundles, shares, runs)), shares)


def _shares(rows: int) -> int:
    return max(2, -(-rows // ROWS_PER_SHARE))


def _read_step(
    bundles: Sequence[Sequence[RowGroup]], shares: int, runs: Sequence[str] | None
) -> Callable[[Batches], Batches]:
    kinds = {"deliveries": DELIVERED, "sent": SENT}

    def step(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for group in bundles[number]:
                    for table in group.tables(ROWS_PER_BATCH, runs):
                        yield from _batches(scatter(table, kinds[group.table], shares, sample=True))

    return step


def _scatter_step(kind: int, shares: int) -> Callable[[Batches], Batches]:
    def step(batches: Batches) -> Batches:
        for table in _in_tables(batches, ROWS_PER_BATCH):
            yield from _batches(scatter(table, kind, shares, sample=True))

    return step


def _in_tables(batches: Batches, rows: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)


def _batches(values: Iterator[tuple[int, bytes]]) -> Batches:
    """One batch per value: values are large."""
    for key, value in values:
        yield pa.RecordBatch.from_arrays(
            [pa.array([key], pa.int32()), pa.array([value], pa.binary())], schema=_BYTES
        )


class SparkWork:
    """Runs tasks: a step over the shares, a shuffle by part, a step over the parts."""

    def __init__(self, divided: Divided, translation: Translation) -> None:
        self._divided = divided
        self._legend = translation

    def run(self, task: JudgingTask) -> list[Evidence]:
        return [decode(value) for value in self._plan(task).toArrow().column("value").to_pylist()]

    def _plan(self, task: JudgingTask) -> "DataFrame":
        found = _by_key(self._divided.pieces, _message_step(task, self._legend))
        if not task.needs_parts:
            return found
        keys = task.cuts.parts + 1 + task.request_shares
        judged = _by_key(found.repartition(keys, "key"), _part_step(task))
        if task.cuts.parts == 1 or task.reach:
            return judged
        return _by_key(judged.repartition(task.cuts.parts + 1, "key"), _fold)

    def list_violations(self, task: JudgingTask, namer: Namer) -> "DataFrame":
        """The violations that a listing task finds, with names; nothing runs before it is read."""
        return map_batches(self._plan(task), _naming_step(namer), DDL)

    def find_cuts(self, shares: Shares, sites_run: Ints, facts: Facts) -> Cuts:
        """Guess from the sample, close; nothing to do when no run is cut."""
        if not shares.cuts.any():
            return whole(shares)
        legend = self._legend
        sections = self._sections(plan_sections(shares, sites_run), sites_run, facts)
        sample = _in_batches(self._divided.sample, _section_step(legend, sections))
        found = _by_key(sample, _guess_step(sections, facts))
        looked = windows(shares, _as_guesses(found.toArrow()))
        near = _in_batches(self._divided.pieces, _near_step(legend, looked))
        found = _by_key(near, _close_step(looked)).toArrow()
        closed = looked.guess.copy()
        keys = found.column("key").to_pylist()
        for cut, value in zip(keys, found.column("value").to_pylist(), strict=True):
            closed[:, cut] = unpack(value)["at"]
        return settle(shares, looked, closed)

    def _sections(self, sections: Sections, sites_run: Ints, facts: Facts) -> Sections:
        """The driver sees a part of the sample, and only if there are several sections in a run."""
        if sections.count.max() < 2:
            return sections
        rows = int(sections.parts.max()) * ROWS_PER_PART // SAMPLE_EVERY
        step = _thin_step(self._legend, -(-rows // BORDER_ROWS))
        thin = _in_batches(self._divided.sample, step).toArrow()
        rows_of = join(map(unpack, thin["value"].to_pylist()))
        return place_sections(sections, _sorted(rows_of, facts), sites_run)


def _message_step(task: JudgingTask, translation: Translation) -> Callable[[pa.Table], pa.Table]:
    def step(table: pa.Table) -> pa.Table:
        clients = Clients()
        pieces = (translation.read(value, clients) for value in table.column("value").to_pylist())
        columns = join(pieces)
        rows, evidence = task.judge_messages(columns)
        found = [(_ASIDE, encode(evidence))]
        if rows:
            found += divide(rows, "part", PART_COLUMNS)
        for share, packed in task.divide_requests(columns, clients):
            found.append((_ASIDE - 1 - share, packed))
        return _table(found)

    return step


def _part_step(task: JudgingTask) -> Callable[[pa.Table], pa.Table]:
    def step(table: pa.Table) -> pa.Table:
        key = table.column("key")[0].as_py()
        if key == _ASIDE:
            return table
        values = table.column("value").to_pylist()
        if key < _ASIDE:
            return _table([(_ASIDE, encode(task.judge_requests(values)))])
        evidence = task.judge_part(join(map(unpack, values)))
        borders = list(divide_borders(evidence, task.cuts.parts))
        if task.cuts.parts == 1:
            borders = [(_ASIDE, fold_borders([border])) for _, border in borders]
        told = [(_ASIDE, evidence), *borders]
        return _table([(bucket, encode(one)) for bucket, one in told])

    return step


def _fold(table: pa.Table) -> pa.Table:
    if table.column("key")[0].as_py() == _ASIDE:
        return table
    borders = map(decode, table.column("value").to_pylist())
    return _table([(_ASIDE, encode(fold_borders(borders)))])


def _fold_names(table: pa.Table) -> pa.Table:
    folded = fold_glossaries(table.column("value").to_pylist())
    return _table([(_ASIDE, msgspec.msgpack.encode(folded))])


def _naming_step(namer: Namer) -> Callable[[Batches], Batches]:
    def step(batches: Batches) -> Batches:
        for batch in batches:
            for value in batch.column("value").to_pylist():
                yield namer.rows(decode(value))

    return step


def _table(values: Sequence[tuple[int, bytes]]) -> pa.Table:
    keys, packed = zip(*values, strict=True) if values else ((), ())
    return pa.table({"key": pa.array(keys, pa.int32()), "value": pa.array(packed, pa.binary())})


_SAMPLED = ("site", "position", "attempt", "epoch", "message")


def _thin_step(translation: Translation, every: int) -> Callable[[Batches], Batches]:
    """One message in this many is sampled."""

    def step(batches: Batches) -> Batches:
        for columns in _read(batches, translation):
            mixed = mix(columns["message"].astype(np.uint64))
            rows = np.flatnonzero(mixed % np.uint64(every) == 0)
            yield from _batches(iter([(0, pack({n: columns[n][rows] for n in _SAMPLED}))]))

    return step


def _section_step(translation: Translation, sections: Sections) -> Callable[[Batches], Batches]:
    def step(batches: Batches) -> Batches:
        for columns in _read(batches, translation):
            yield from _batches(iter(divide(sections.divide(columns), "section", _SAMPLED)))

    return step


def _guess_step(sections: Sections, facts: Facts) -> Callable[[pa.Table], pa.Table]:
    def step(table: pa.Table) -> pa.Table:
        section = table.column("key")[0].as_py()
        sample = _sorted(join(map(unpack, table.column("value").to_pylist())), facts)
        if not len(sample["site"]):
            return _table([])
        begin, found = sections.guess(sample, section)
        columns = {name: getattr(found, name).ravel() for name in ("low", "at", "high")}
        packed = (begin, pack({"site": found.sites}), pack(columns))
        return _table([(section, msgspec.msgpack.encode(packed))])

    return step


_GUESSES = msgspec.msgpack.Decoder(tuple[int, bytes, bytes])


def _as_guesses(table: pa.Table) -> Iterator[tuple[int, Guesses]]:
    for value in table.column("value").to_pylist():
        begin, packed, columns = _GUESSES.decode(value)
        sites = unpack(packed)["site"]
        tables = unpack(columns)
        shaped = (tables[name].reshape(len(sites), -1) for name in ("low", "at", "high"))
        yield begin, Guesses(sites, *shaped)


def _near_step(translation: Translation, windows: Windows) -> Callable[[Batches], Batches]:
    def step(batches: Batches) -> Batches:
        for columns in _read(batches, translation):
            near = windows.around(columns)
            yield from _batches(iter(divide(near, "cut", ("site", "position", "message"))))

    return step


def _read(batches: Batches, translation: Translation) -> Iterator[Columns]:
    """The places of the deliveries in each packed value."""
    for batch in batches:
        for value in batch.column("value").to_pylist():
            yield translation.read_places(value)


def _close_step(windows: Windows) -> Callable[[pa.Table], pa.Table]:
    def step(table: pa.Table) -> pa.Table:
        cut = table.column("key")[0].as_py()
        columns = join(map(unpack, table.column("value").to_pylist()))
        return _table([(cut, pack({"at": close(columns, windows, cut)}))])

    return step


def _sorted(sample: Columns, facts: Facts) -> Columns:
    """First live deliveries by site and place."""
    live = is_live(facts, sample["site"], sample["position"], sample["attempt"])
    own = {name: column[live] for name, column in sample.items()}
    keys = own["message"] * facts.sites + own["site"]
    order = np.lexsort((own["epoch"], own["attempt"], own["position"], keys))
    first = order[starts(keys[order])]
    own = {name: column[first] for name, column in own.items()}
    by = ("message", "epoch", "attempt", "position", "site")
    order = np.lexsort([own[name] for name in by])
    return {name: column[order] for name, column in own.items()}
