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

from ordercast.pipeline.audits.cuts import (
    SAMPLE_ROWS,
    Cuts,
    Shares,
    Windows,
    close,
    guess,
    settle,
    whole,
)
from ordercast.pipeline.audits.evidence import Evidence, decode, encode
from ordercast.pipeline.audits.facts import Facts
from ordercast.pipeline.audits.files import RowGroup, bundle
from ordercast.pipeline.audits.glossary import SAMPLE, Glossary, Translation, scatter
from ordercast.pipeline.audits.listing import DDL, Namer
from ordercast.pipeline.audits.numbers import Columns, Ints
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


class Divided:
    """Both tables, divided by message and packed, kept on the executors' disks until closed."""

    def __init__(self, pieces: "DataFrame", shares: int) -> None:
        self.frame = pieces.repartition(shares, "key").persist(StorageLevel.DISK_ONLY)
        self.sample: list[bytes] = []

    def glossaries(self) -> list[Glossary]:
        """Divides the tables; the sample comes with the glossaries."""
        told = self.frame.where("key < 0").toArrow()
        values = told.column("value").to_pylist()
        found = []
        for key, value in zip(told.column("key").to_pylist(), values, strict=True):
            if key == SAMPLE:
                self.sample.append(value)
            else:
                found.append(msgspec.msgpack.decode(value, type=Glossary))
        return found

    def close(self) -> None:
        self.frame.unpersist()

    @property
    def pieces(self) -> "DataFrame":
        return self.frame.where("key >= 0")


def divide_frames(deliveries: "DataFrame", sent: "DataFrame", rows: int) -> Divided:
    """Spark reads, whatever the frames are."""
    shares, every = _shares(rows), _every(rows)
    one, other = (
        frame.mapInArrow(_scatter_step(kind, shares, every), _BYTES_DDL)
        for frame, kind in ((deliveries, DELIVERED), (sent, SENT))
    )
    return Divided(one.unionAll(other), shares)


def divide_files(spark: "SparkSession", groups: Sequence[RowGroup]) -> Divided:
    """The workers read, a bundle of row groups each."""
    rows = sum(group.rows for group in groups)
    shares, bundles = _shares(rows), bundle(groups)
    tasks = spark.range(0, len(bundles), 1, len(bundles))
    step = _read_step(bundles, shares, _every(rows))
    return Divided(tasks.mapInArrow(step, _BYTES_DDL), shares)


def _shares(rows: int) -> int:
    return max(2, -(-rows // ROWS_PER_SHARE))


def _every(rows: int) -> int:
    return max(1, rows // SAMPLE_ROWS)


def _read_step(
    bundles: Sequence[Sequence[RowGroup]], shares: int, every: int
) -> Callable[[Batches], Batches]:
    kinds = {"deliveries": DELIVERED, "sent": SENT}

    def step(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for group in bundles[number]:
                    for table in group.tables(ROWS_PER_BATCH):
                        yield from _batches(scatter(table, kinds[group.table], shares, every))

    return step


def _scatter_step(kind: int, shares: int, every: int) -> Callable[[Batches], Batches]:
    def step(batches: Batches) -> Batches:
        for table in _in_tables(batches, ROWS_PER_BATCH):
            yield from _batches(scatter(table, kind, shares, every))

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
        shares = self._divided.pieces.groupBy("key")
        found = shares.applyInArrow(_message_step(task, self._legend), _BYTES_DDL)
        if not task.needs_parts:
            return found
        keys = task.cuts.parts + 1 + task.request_shares
        parts = found.repartition(keys, "key").groupBy("key")
        return parts.applyInArrow(_part_step(task), _BYTES_DDL)

    def list_violations(self, task: JudgingTask, namer: Namer) -> "DataFrame":
        """The violations that a listing task finds, with names; nothing runs before it is read."""
        return self._plan(task).mapInArrow(_naming_step(namer), DDL)

    def find_cuts(self, shares: Shares, sites_run: Ints, facts: Facts) -> Cuts:
        """Guess from the sample, close; nothing to do when no run is cut."""
        if not shares.cuts.any():
            return whole(shares)
        pieces, translation = self._divided.pieces, self._legend
        sample = join(map(translation.read_places, self._divided.sample))
        windows = guess(_sorted(sample, facts), shares, sites_run)
        near = pieces.mapInArrow(_near_step(translation, windows), _BYTES_DDL)
        found = near.groupBy("key").applyInArrow(_close_step(windows), _BYTES_DDL).toArrow()
        closed = windows.guess.copy()
        keys = found.column("key").to_pylist()
        for cut, value in zip(keys, found.column("value").to_pylist(), strict=True):
            closed[:, cut] = unpack(value)["at"]
        return settle(shares, windows, closed)


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
        return _table([(_ASIDE, encode(task.judge_part(join(map(unpack, values)))))])

    return step


def _naming_step(namer: Namer) -> Callable[[Batches], Batches]:
    def step(batches: Batches) -> Batches:
        for batch in batches:
            for value in batch.column("value").to_pylist():
                yield namer.rows(decode(value))

    return step


def _table(values: Sequence[tuple[int, bytes]]) -> pa.Table:
    keys, packed = zip(*values, strict=True)
    return pa.table({"key": pa.array(keys, pa.int32()), "value": pa.array(packed, pa.binary())})


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
