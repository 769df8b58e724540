"""Rows per second through the format `ordercast`, beside other ways to the same Parquet rows.

    python bench/stream.py --rows 2000000

One session reads one history: by the source, as a batch and as a stream of several batches; by a
plain data source in Python, which gives the same columns of the files as Arrow batches and does
nothing else, as a batch and as a stream of as many batches; and by Spark's own reader. Every way
goes to Spark's sink `noop`, with as many tasks as there are sites, once to warm up and `--repeat`
times by turns; the best counts. Prints one JSON object, with the processor time of all processes
and the machine's load.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ordercast.history.rows import History
from ordercast.history.writer import write_history
from ordercast.pipeline import open_session

BATCHES = 5  # of each stream
SOURCE, SOURCE_STREAM = "source", "source, stream"
PLAIN, PLAIN_STREAM = "plain data source", "plain data source, stream"
_COLUMNS = (
    "site string, position bigint, attempt bigint, epoch bigint, group_name string, origin string,"
    " incarnation bigint, seq bigint, delivered_ns bigint, digest bigint, sent_ns bigint"
)


class PlainFile(InputPartition):
    """One file."""


class PlainReader(DataSourceReader):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def partitions(self) -> list[InputPartition]:
        return [PlainFile(str(path)) for path in sorted(Path(self.folder).glob("*.parquet"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(partition.value) as file:
            yield from file.iter_batches(65_536)


@dataclass
class PlainRange(InputPartition):
    """Rows of one file."""

    path: str
    start: int
    end: int


class PlainStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The same rows of every file in each batch, by their numbers; nothing is looked at or left
    out."""

    def __init__(self, folder: str, each: int) -> None:
        self.paths = [str(path) for path in sorted(Path(folder).glob("*.parquet"))]
        self.each = each // len(self.paths)
        with pq.ParquetFile(self.paths[0]) as file:
            self.rows = file.metadata.num_rows

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.each * len(self.paths))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """No rows come any more."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        return {"row": min(self.rows, start["row"] + self.each)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [PlainRange(path, start["row"], end["row"]) for path in self.paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PlainRange)
        at = 0
        with pq.ParquetFile(partition.path) as file:
            for batch in file.iter_batches(65_536):
                low, high = max(partition.start - at, 0), min(partition.end - at, len(batch))
                if low < high:
                    yield batch.slice(low, high - low)
                at += len(batch)
                if at >= partition.end:
                    return


class PlainSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "plain"

    def schema(self) -> str:
        return _COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return PlainReader(self.options["path"])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return PlainStream(self.options["path"], int(self.options["each"]))


def make(folder: Path, rows: int, sites: int) -> None:
    """A history with one file for each site."""
    write_history(History(), folder)
    for path in (folder / "deliveries").glob("*.parquet"):
        path.unlink()
    each = rows // sites
    rng = np.random.default_rng(7)
    numbers = np.arange(1, each + 1)
    ones = np.ones(each, dtype=np.int64)
    for n in range(sites):
        names = {
            "site": pa.array([f"s{n}"]).take(pa.array(ones - 1)),
            "position": numbers, "attempt": ones, "epoch": ones,
            "group_name": pa.array(["alpha", "beta"]).take(pa.array(rng.integers(0, 2, each))),
            "origin": pa.array(["s0", "s1"]).take(pa.array(rng.integers(0, 2, each))),
            "incarnation": ones, "seq": numbers, "delivered_ns": numbers * 1_000,
            "digest": rng.integers(-(2**62), 2**62, each), "sent_ns": numbers * 999,
        }  # fmt: skip
        table = pa.table({name: pa.array(values) for name, values in names.items()})
        pq.write_table(table, folder / "deliveries" / f"part-{n}.parquet", compression="zstd")


def ways(spark: SparkSession, folder: Path, rows: int) -> dict[str, Callable[[], None]]:
    history, table = str(folder), str(folder / "deliveries")

    def batch(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def stream(name: str, option: str, path: str) -> None:
        with tempfile.TemporaryDirectory(prefix="stream-bench-") as checkpoint:
            reading = spark.readStream.format(name).option(option, str(rows // BATCHES))
            query = (
                reading.load(path)
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            done = [progress["numInputRows"] for progress in query.recentProgress]
            assert (len(done), sum(done)) == (BATCHES, rows), done

    return {
        SOURCE: lambda: batch(spark.read.format("ordercast").load(history)),
        SOURCE_STREAM: lambda: stream("ordercast", "maxOffsetsPerTrigger", history),
        PLAIN: lambda: batch(spark.read.format("plain").load(table)),
        PLAIN_STREAM: lambda: stream("plain", "each", table),
        "Spark's own reader": lambda: batch(spark.read.parquet(table)),
    }


def measure(spark: SparkSession, folder: Path, rows: int, repeat: int) -> dict[str, Any]:
    spark.dataSource.register(PlainSource)
    found = ways(spark, folder, rows)
    best: dict[str, float] = {}
    for turn in range(repeat + 1):
        for name, run in found.items():
            begun = time.perf_counter()
            run()
            seconds = time.perf_counter() - begun
            if turn:
                best[name] = min(seconds, best.get(name, seconds))
    return {
        name: {"seconds": round(s, 3), "rows_per_s": round(rows / s)} for name, s in best.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream-bench-") as place:
        folder = Path(place) / "history"
        make(folder, options.rows, options.sites)
        load = os.getloadavg()[0]
        with open_session("bench", master="local[2]", memory="2g", progress=False) as spark:
            found = measure(spark, folder, options.rows, options.repeat)
            version = spark.version
    times = os.times()
    batches = found[PLAIN]["seconds"] / found[SOURCE]["seconds"]
    streams = found[PLAIN_STREAM]["seconds"] / found[SOURCE_STREAM]["seconds"]
    told = {
        "rows": options.rows, "sites": options.sites, "spark": version, "ways": found,
        "source_of_plain": round(batches, 3), "stream_of_plain_stream": round(streams, 3),
        "load": round(load, 1),
        "cpu_s": round(times.children_user + times.children_system, 1),
    }  # fmt: skip
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
