"""The five tables of a history as one stream of Spark, and its batches as rows.

A query has one order of batches. So the rows of all tables go through one query, and a column names
the table.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql import types as t

from ordercast.history.reader import arrow_rows, check_epoch, check_event, refuse_partition
from ordercast.history.rows import History
from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits.files import UNUSED
from ordercast.pipeline.audits.frames import OURS, normal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE, FILE = "table_name", "file_path"
_FILES: Mapping[str, str] = {"recursiveFileLookup": "true", "pathGlobFilter": "*.parquet"}

files_per_batch = 64
"""The most files of each table in one batch."""


def read_streams(spark: "SparkSession", history: str) -> dict[str, "DataFrame"]:
    """The tables of a folder or URI, as streams of their files. A column names the file."""
    frames = {}
    for name in TABLES:
        reader = spark.readStream.schema(_schema(name)).options(**_FILES)
        reader = reader.option("maxFilesPerTrigger", str(files_per_batch))
        frames[name] = _with_files(reader.parquet(f"{history.rstrip('/')}/{name}"))
    return frames


def read_files(spark: "SparkSession", table: str, places: Sequence[str]) -> "DataFrame":
    """Some files or folders of a table. A column names the file."""
    return _with_files(spark.read.schema(_schema(table)).options(**_FILES).parquet(*places))


def _schema(table: str) -> t.StructType:
    columns = [t.StructField(column.name, OURS[column.type]) for column in TABLES[table].columns]
    return t.StructType(columns)


def _with_files(frame: "DataFrame") -> "DataFrame":
    return frame.withColumn(FILE, f.col("_metadata.file_path"))


def as_one(frames: Mapping[str, "DataFrame"]) -> "DataFrame":
    """All of them as one stream, with a column that names the table."""
    named = [
        normal(name, frame, FILE).withColumn(TABLE, f.lit(name)) for name, frame in frames.items()
    ]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), named)


def as_history(data: Any) -> History:
    """The rows of a batch that was collected as an Arrow table. Raises ConfigError if a value is
    wrong."""
    history = History()
    names = data.column(TABLE)
    for name, table in TABLES.items():
        own = data.filter(pc.equal(names, name))
        present = [c.name for c in table.columns if c.name in data.column_names]
        present = [column for column in present if column not in UNUSED]
        own = own.select(present)
        if name == "sent":  # no check looks at sizes, so they are not read
            own = own.append_column("size", pa.array([0] * own.num_rows, pa.int32()))
        rows: Any = arrow_rows(own, table, name)
        getattr(history, name).extend(rows)
    for event in history.events:
        check_event(event, "events")
    for epoch in history.epochs:
        check_epoch(epoch, "epochs")
    return history


def refuse_partitions(data: Any) -> None:
    """A column of a batch that is only in the names of folders, as Hive writes it, would be lost:
    Spark reads it as null. Raises ConfigError."""
    if FILE not in data.column_names:
        return
    pairs = data.select([TABLE, FILE]).group_by([TABLE, FILE]).aggregate([]).to_pylist()
    for pair in pairs:
        path = unquote(pair[FILE])
        columns = [c.name for c in TABLES[pair[TABLE]].columns if c.optional]
        for name in columns:
            if f"/{name}=" not in path or name in UNUSED:
                continue
            own = data.filter(pc.equal(data[FILE], pair[FILE]))
            if name not in own.column_names or own[name].null_count == own.num_rows:
                refuse_partition(path.split("/"), name, path)


def files_of(data: Any, folder: Path) -> dict[str, set[str]]:
    """The files of a folder that the rows of a batch are from, by table."""
    pairs = data.select([TABLE, FILE]).group_by([TABLE, FILE]).aggregate([]).to_pylist()
    found: dict[str, set[str]] = {}
    for pair in pairs:
        path = Path(unquote(urlsplit(pair[FILE]).path))
        place = folder / pair[TABLE]
        found.setdefault(pair[TABLE], set()).add(str(path.relative_to(place)))
    return found


def require_tables(frames: Mapping[str, "DataFrame | None"]) -> dict[str, "DataFrame"]:
    """The tables that were given. Raises ConfigError if a required one is missing."""
    for name in ("deliveries", "sent", "groups"):
        if frames.get(name) is None:
            raise ConfigError(f"{name}: the table is missing")
    return {name: frame for name, frame in frames.items() if frame is not None}
