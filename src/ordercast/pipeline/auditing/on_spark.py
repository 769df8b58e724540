"""The audit's steps on Spark: numbering, the two shuffles of a pass, and looking for cuts.

All row-by-row work that Spark's own operators do is left to them (joins with the small tables of
numbers, the shuffles); the judging is NumPy over Arrow batches. No `sparkContext` here: Spark
Connect has none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

from ordercast.model.errors import ConfigError
from ordercast.pipeline.auditing.cuts import Cuts
from ordercast.pipeline.auditing.facts import Facts
from ordercast.pipeline.auditing.findings import Finding, decode, encode
from ordercast.pipeline.auditing.guess import (
    SAMPLE_ROWS,
    Shares,
    Windows,
    close,
    guess,
    settle,
    whole,
)
from ordercast.pipeline.auditing.numbers import Columns, Ints, Numbers, Run, Stream
from ordercast.pipeline.auditing.places import starts
from ordercast.pipeline.auditing.rows import DELIVERED, SENT, is_live
from ordercast.pipeline.auditing.tasks import PART_COLUMNS, Task

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_PER_SHARE = 300_000
_FINDINGS = -1  # the part that findings travel in
_ROWS = ("kind", "message", "site", "position", "attempt", "epoch", "ns", "digest")
_PART_SCHEMA = pa.schema(
    [
        ("part", pa.int32()),
        ("site", pa.int32()),
        ("position", pa.int64()),
        ("attempt", pa.int64()),
        ("epoch", pa.int64()),
        ("message", pa.int64()),
        ("flag", pa.int8()),
        ("finding", pa.binary()),
    ]
)
_PART_DDL = (
    "part int, site int, position long, attempt long, epoch long, message long, flag tinyint,"
    " finding binary"
)


@dataclass(frozen=True)
class Contents:
    """What the big tables hold, by name: the sites with their rows, and the streams."""

    runs: tuple[Run, ...]
    site_rows: dict[tuple[Run, str], int]
    origins: frozenset[tuple[Run, str]]
    streams: tuple[tuple[Run, Stream], ...]  # with the run's number still to be given
    rows: int  # of both tables


def survey_tables(deliveries: "DataFrame", sent: "DataFrame") -> Contents:
    """One look at every row of both tables."""
    seqs = (f.min("seq").alias("first"), f.max("seq").alias("last"), f.count("*").alias("rows"))
    stream = ("run", "group_name", "origin", "incarnation")
    found = deliveries.groupBy(*stream, "site").agg(*seqs, _nulls(deliveries))
    delivered = found.toArrow().to_pylist()
    found = sent.groupBy(*stream).agg(*seqs, _nulls(sent))
    accepted = found.toArrow().to_pylist()
    _refuse_nulls("deliveries", deliveries, delivered)
    _refuse_nulls("sent", sent, accepted)
    site_rows: dict[tuple[Run, str], int] = {}
    for row in delivered:
        key = (row["run"], row["site"])
        site_rows[key] = site_rows.get(key, 0) + row["rows"]
    return Contents(
        runs=tuple({row["run"]: None for row in (*delivered, *accepted)}),
        site_rows=site_rows,
        origins=frozenset((row["run"], row["origin"]) for row in accepted),
        streams=tuple(
            (
                row["run"],
                Stream(
                    0,
                    row["group_name"],
                    row["origin"],
                    row["incarnation"],
                    row["first"],
                    row["last"],
                ),
            )
            for row in (*delivered, *accepted)
        ),
        rows=sum(row["rows"] for row in (*delivered, *accepted)),
    )


_OPTIONAL = ("run", "digest")


def _nulls(frame: "DataFrame") -> "Column":
    """A bit per column that has a null where it may not."""
    bits = [
        f.when(f.col(name).isNull(), f.lit(1 << i).cast("long")).otherwise(f.lit(0).cast("long"))
        for i, name in enumerate(frame.columns)
        if name not in _OPTIONAL
    ]
    total = bits[0]
    for bit in bits[1:]:
        total = total + bit
    return f.bit_or(total).alias("nulls")


def _refuse_nulls(table: str, frame: "DataFrame", rows: Sequence[dict[str, Any]]) -> None:
    found = 0
    for row in rows:
        found |= row["nulls"]
    for i, name in enumerate(frame.columns):
        if found >> i & 1:
            raise ConfigError(f"{table}: field {name!r}: null in some row")


def encode_rows(
    spark: "SparkSession", deliveries: "DataFrame", sent: "DataFrame", numbers: Numbers
) -> "DataFrame":
    """Both tables as one of numbers; `site` of a send is its origin, `position` what it follows."""
    several = len(numbers.runs) > 1
    run = f.coalesce(f.concat(f.lit("="), f.col("run")), f.lit(""))
    names = ["" if name is None else f"={name}" for name in numbers.runs]
    streams = pa.table(
        {
            "run_key": [names[stream.run] for stream in numbers.streams],
            "group_name": [stream.group for stream in numbers.streams],
            "origin": [stream.origin for stream in numbers.streams],
            "incarnation": pa.array([s.incarnation for s in numbers.streams], pa.int64()),
            "base": pa.array(
                [
                    int(offset) - stream.first_seq
                    for offset, stream in zip(
                        numbers.arrays.offsets[:-1], numbers.streams, strict=True
                    )
                ],
                pa.int64(),
            ),
        }
    )
    sites = pa.table(
        {
            "run_key": [names[run_number] for run_number, _ in numbers.sites],
            "site": [name for _, name in numbers.sites],
            "number": pa.array(range(len(numbers.sites)), pa.int32()),
        }
    )
    if not several:
        streams, sites = streams.drop_columns(["run_key"]), sites.drop_columns(["run_key"])
    stream_frame = f.broadcast(spark.createDataFrame(streams))
    site_frame = f.broadcast(spark.createDataFrame(sites))

    def with_numbers(frame: "DataFrame", site: str) -> "DataFrame":
        if several:
            frame = frame.withColumn("run_key", run)
        stream_key = [*["run_key"] * several, "group_name", "origin", "incarnation"]
        frame = frame.join(stream_frame, stream_key)
        own = site_frame.withColumnRenamed("site", "site_name")
        frame = frame.withColumn("site_name", f.col(site))
        return frame.join(own, [*["run_key"] * several, "site_name"])

    message = (f.col("base") + f.col("seq")).alias("message")
    number = f.col("number").alias("site")
    delivered = with_numbers(deliveries, "site").select(
        f.lit(DELIVERED).cast("tinyint").alias("kind"),
        message,
        number,
        "position",
        "attempt",
        "epoch",
        f.col("delivered_ns").alias("ns"),
        "digest",
    )
    accepted = with_numbers(sent, "origin").select(
        f.lit(SENT).cast("tinyint").alias("kind"),
        message,
        number,
        f.col("after_position").alias("position"),
        f.col("after_attempt").alias("attempt"),
        f.lit(0).cast("long").alias("epoch"),
        f.col("sent_ns").alias("ns"),
        "digest",
    )
    return delivered.unionAll(accepted)


class SparkWork:
    """Runs tasks over the encoded rows: a shuffle by message, and one by part."""

    def __init__(self, encoded: "DataFrame", rows: int) -> None:
        self._encoded = encoded
        self._shares = max(2, -(-rows // ROWS_PER_SHARE))

    def run(self, task: Task) -> list[Finding]:
        by_message = self._encoded.repartition(self._shares, "message").mapInArrow(
            _message_step(task), _PART_DDL
        )
        if not task.needs_parts:
            found = by_message.select("finding")
        else:
            parted = by_message.repartition(task.cuts.parts + 1, "part")
            found = parted.groupBy("part").applyInArrow(_part_step(task), "finding binary")
        column = found.toArrow().column("finding")
        return [decode(value) for value in column.to_pylist() if value is not None]


def _message_step(
    task: Task,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        whole = list(batches)
        if not any(batch.num_rows for batch in whole):
            return
        rows, finding = task.judge_messages(as_columns(pa.Table.from_batches(whole)))
        yield _finding_batch(finding)
        if rows and len(rows["part"]):
            arrays = [
                pa.array(rows[name], type=_PART_SCHEMA.field(name).type, safe=False)
                for name in PART_COLUMNS
            ]
            arrays.append(pa.nulls(len(rows["part"]), pa.binary()))
            yield pa.RecordBatch.from_arrays(arrays, schema=_PART_SCHEMA)

    return step


def _part_step(task: Task) -> Callable[[pa.Table], pa.Table]:
    def step(table: pa.Table) -> pa.Table:
        if table.column("part")[0].as_py() == _FINDINGS:
            return table.select(["finding"])
        columns = as_columns(table.select(list(PART_COLUMNS)))
        finding = encode(task.judge_part(columns))
        return pa.table({"finding": pa.array([finding], pa.binary())})

    return step


def _finding_batch(finding: Finding) -> pa.RecordBatch:
    values: list[list[Any]] = [[_FINDINGS], *([0] for _ in range(6)), [encode(finding)]]
    arrays = [
        pa.array(value, field.type) for value, field in zip(values, _PART_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_PART_SCHEMA)


def as_columns(table: pa.Table) -> Columns:
    """Columns as NumPy arrays of 64 bits; a nullable digest becomes two."""
    columns: Columns = {}
    for name in table.column_names:
        column = table.column(name)
        if name == "digest":
            columns["has_digest"] = column.is_valid().to_numpy()
            column = column.fill_null(0)
        columns[name] = column.to_numpy().astype(np.int64, copy=False)
    return columns


def find_cuts(
    encoded: "DataFrame", shares: Shares, sites_run: Ints, facts: Facts, rows: int
) -> Cuts:
    """Sample, guess, close; nothing to do when no run is cut."""
    if not shares.cuts.any():
        return whole(shares)
    delivered = encoded.where(f.col("kind") == DELIVERED)
    every = max(1, rows // SAMPLE_ROWS)
    sample = delivered.where(f.pmod(f.xxhash64("message"), f.lit(every)) == 0)
    names = ("site", "position", "attempt", "epoch", "message")
    windows = guess(_sorted(as_columns(sample.select(*names).toArrow()), facts), shares, sites_run)
    closed = windows.guess.copy()
    near = delivered.select("site", "position", "message").mapInArrow(
        _near_step(windows), "cut int, site int, position long, message long"
    )
    found = near.groupBy("cut").applyInArrow(_close_step(windows), "cut int, site int, at long")
    columns = as_columns(found.toArrow())
    closed[windows.row[columns["site"]], columns["cut"]] = columns["at"]
    return settle(shares, windows, closed)


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


def _near_step(
    windows: Windows,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            near = windows.around(as_columns(pa.Table.from_batches([batch])))
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(near["cut"], pa.int32(), safe=False),
                    pa.array(near["site"], pa.int32(), safe=False),
                    pa.array(near["position"], pa.int64()),
                    pa.array(near["message"], pa.int64()),
                ],
                names=["cut", "site", "position", "message"],
            )

    return step


def _close_step(windows: Windows) -> Callable[[pa.Table], pa.Table]:
    def step(table: pa.Table) -> pa.Table:
        columns = as_columns(table)
        sites, at = close(columns, windows)
        cut = np.full(len(sites), columns["cut"][0])
        return pa.table(
            {
                "cut": pa.array(cut, pa.int32(), safe=False),
                "site": pa.array(sites, pa.int32(), safe=False),
                "at": pa.array(at, pa.int64()),
            }
        )

    return step
