"""The tables of a history as DataFrames: reading them, and checking them against docs/history.md.

A mistake in a table is told in one line, and before anything runs where that is possible.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f
from pyspark.sql import types as t

from ordercast.history.lake import LAKE_FILE, read_lake
from ordercast.history.reader import (
    check_epoch,
    check_event,
    read_meta,
    refuse_partition,
    require_history,
    table_files,
)
from ordercast.history.rows import EpochRow, Event, GroupRow
from ordercast.history.tables import BINARY, BOOL, INT32, INT64, STRING, TABLES, Table
from ordercast.history.writer import META_FILE
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits.files import UNUSED, RowGroup, check_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INTEGERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_TYPES: Mapping[str, tuple[type[t.DataType], ...]] = {
    INT64: _INTEGERS,
    INT32: _INTEGERS[:3],
    STRING: (t.StringType, t.VarcharType, t.CharType),
    BOOL: (t.BooleanType,),
    BINARY: (t.BinaryType,),
}
OURS: Mapping[str, t.DataType] = {
    INT64: t.LongType(),
    INT32: t.IntegerType(),
    STRING: t.StringType(),
    BOOL: t.BooleanType(),
    BINARY: t.BinaryType(),
}
AnyRow = TypeVar("AnyRow", GroupRow, Event, EpochRow)


class HistoryFrames(TypedDict):
    """The five tables of a history; `audit(spark, **tables)` takes them."""

    groups: "DataFrame"
    sent: "DataFrame"
    deliveries: "DataFrame"
    events: "DataFrame"
    epochs: "DataFrame"


def read_history(spark: "SparkSession", place: str | Path) -> HistoryFrames:
    """The tables of a history as DataFrames of your session, Spark Connect too.

    `place`: a folder that the driver and the executors see, or any URI that Spark reads. The tables
    are read when you use them; of a folder, every file's columns are checked at once.

    Raises ConfigError: where there is no history, and for a file or a column that is not as
    docs/history.md says.
    """
    frames = read_frames(spark, check_place(str(place)))
    return HistoryFrames(
        groups=frames["groups"],
        sent=frames["sent"],
        deliveries=frames["deliveries"],
        events=frames["events"],
        epochs=frames["epochs"],
    )


def normal(table: str, frame: "DataFrame | None", *more: str) -> "DataFrame":
    """The columns that the audit reads, with our types; and `more`, those that are there."""
    if frame is None:
        raise ConfigError(f"{table}: the table is missing")
    found = {field.name: field.dataType for field in frame.schema.fields}
    columns = []
    for column in TABLES[table].columns:
        if column.name in UNUSED:
            continue
        if column.name not in found:
            if not column.optional:
                raise ConfigError(f"{table}: field {column.name!r} ({column.type}) is missing")
            continue
        kind = found[column.name]
        if not isinstance(kind, _TYPES[column.type]):
            raise ConfigError(
                f"{table}: field {column.name!r}: type {kind.simpleString()}"
                f" instead of {column.type}"
            )
        columns.append(f.col(column.name).cast(OURS[column.type]).alias(column.name))
    return frame.select(*columns, *(name for name in more if name in found))


def of_runs(frame: "DataFrame", runs: Sequence[str] | None) -> "DataFrame":
    """The rows of these runs; all, if none are given."""
    if runs is None:
        return frame
    return frame.where(f.col("run").isin(list(runs)) if "run" in frame.columns else f.lit(False))


def collect(table: str, frame: "DataFrame | None", kind: type[AnyRow]) -> list[AnyRow]:
    """A small table as rows of the history format, with its values checked."""
    if frame is None:
        return []
    rows = []
    for number, values in enumerate(normal(table, frame).toArrow().to_pylist(), 1):
        if values.get("detail", "") is None:
            values["detail"] = "{}"
        for column in TABLES[table].columns:
            if not column.optional and values[column.name] is None:
                raise ConfigError(f"{table}: field {column.name!r}: null in row {number}")
        rows.append(kind(**values))
    for row in rows:
        if isinstance(row, Event):
            check_event(row, table)
        elif isinstance(row, EpochRow):
            check_epoch(row, table)
    return rows


@dataclass(frozen=True)
class HistoryPlace:
    """The place of a history, and the facts about it before Spark reads it."""

    uri: str
    columns: Mapping[str, Collection[str]]  # by table
    groups: Sequence[RowGroup] | None = None  # of deliveries and sent, in a folder
    files: Mapping[str, Sequence[str]] | None = None  # of a lake, by table: those that count


def read_frames(spark: "SparkSession", place: HistoryPlace) -> dict[str, "DataFrame"]:
    """The five tables of a folder, or of any place that Spark can read."""
    if place.groups is None:
        refuse_lake(spark, place.uri)
    frames = {}
    for name, table in TABLES.items():
        columns = [
            t.StructField(column.name, OURS[column.type])
            for column in table.columns
            if column.name not in UNUSED and column.name in place.columns[name]
        ]
        reader = spark.read.schema(t.StructType(columns))
        # Files may lie in folders of their own; these are no columns.
        reader = reader.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
        if place.files is None:
            frames[name] = reader.parquet(f"{place.uri.rstrip('/')}/{name}")
        elif place.files[name]:
            frames[name] = reader.parquet(*place.files[name])
        else:
            frames[name] = spark.createDataFrame([], t.StructType(columns))
        if place.groups is None:
            _refuse_partitions(frames[name], table)
    return frames


def refuse_lake(spark: "SparkSession", uri: str) -> None:
    """Spark would read every file below a URI, and of a lake not all of them count. Raises
    ConfigError."""
    told = f"{uri.rstrip('/')}/{LAKE_FILE}"
    try:
        spark.read.format("binaryFile").load(told).schema  # noqa: B018 - looks for the file
    except AnalysisException:
        return
    raise ConfigError(
        f"{uri}: is a lake, whose files do not all count: give its folder, which the driver and"
        " all executors see, in place of a URI"
    )


def _refuse_partitions(frame: "DataFrame", table: Table) -> None:
    optional = [column.name for column in table.columns if column.optional]
    for uri in frame.inputFiles():
        for column in optional:
            refuse_partition(unquote(uri).split("/"), column, uri)


def check_place(history: str) -> HistoryPlace:
    """Where the history is. In a folder every file is looked into: Spark would read a column that
    is missing from a file as null."""
    if "://" in history:
        every = {name: [column.name for column in table.columns] for name, table in TABLES.items()}
        return HistoryPlace(history, every)
    return _check_folder(Path(history))


def _check_folder(folder: Path) -> HistoryPlace:
    require_history(folder)
    read_meta(folder / META_FILE)
    lake = read_lake(folder)
    columns: dict[str, set[str]] = {}
    groups: list[RowGroup] = []
    files: dict[str, list[Path]] = {}
    for name, table in TABLES.items():
        files[name] = table_files(folder, name, lake)
        checked = [check_file(path, table) for path in files[name]]
        columns[name] = set().union(*(names for names, _ in checked))
        if not checked:  # a Delta table without rows has no file
            columns[name] = {column.name for column in table.columns}
        if name in ("deliveries", "sent"):
            groups += [group for _, own in checked for group in own]
    named = None if lake is None else {name: list(map(str, own)) for name, own in files.items()}
    return HistoryPlace(str(folder), columns, groups, named)
