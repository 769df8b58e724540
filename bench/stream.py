"""Rows per second through the format `ordercast`, beside two other ways to the same Parquet rows.

    python bench/stream.py --rows 2000000

One session reads one history: by the source, as a batch and as a stream of several batches; by a
plain data source in Python, which gives the same columns of the files as Arrow batches and does
nothing else; and by Spark's own reader. Every way goes to Spark's sink `noop`, with as many tasks
as there are sites, once to warm up and `--repeat` times by turns; the best counts. Prints one JSON
object, with the processor time of all processes and the machine's load.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ordercast.history.rows import History
from ordercast.history.writer import write_history
from ordercast.pipeline import open_session

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


class PlainSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "plain"

    def schema(self) -> str:
        return _COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return PlainReader(self.options["path"])


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

    def stream() -> None:
        most = str(rows // 5)
        with tempfile.TemporaryDirectory(prefix="stream-bench-") as checkpoint:
            reading = spark.readStream.format("ordercast").option("maxOffsetsPerTrigger", most)
            query = (
                reading.load(history)
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

    return {
        "source": lambda: batch(spark.read.format("ordercast").load(history)),
        "source, stream of 5 batches": stream,
        "plain data source": lambda: batch(spark.read.format("plain").load(table)),
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
    ratio = found["plain data source"]["seconds"] / found["source"]["seconds"]
    told = {
        "rows": options.rows, "sites": options.sites, "spark": version, "ways": found,
        "source_of_plain": round(ratio, 3), "load": round(load, 1),
        "cpu_s": round(times.children_user + times.children_system, 1),
    }  # fmt: skip
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
