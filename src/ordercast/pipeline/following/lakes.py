"""A lake as a stream of Spark: the rows of all its tables, append by append.

An offset is the number of an append. It stays right when files are merged: a merged file holds
whole appends, and its parts stay as hidden files for a while. So a batch reads the same rows from
the merged file or from the parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ordercast.history.lake import PARQUET, Lake, appends_in, read_lake, still_at
from ordercast.history.reader import present_columns
from ordercast.history.schema import arrow, arrow_type, parquet
from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits.files import UNUSED
from ordercast.pipeline.audits.frames import OURS
from ordercast.pipeline.following.tables import FILE, TABLE, read_streams
from ordercast.pipeline.streams.source import ADMISSION, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPENDS_PER_BATCH = 64
_BATCH_ROWS = 65_536
_APPEND = "append"
_COLUMNS = {
    column.name: column
    for table in TABLES.values()
    for column in table.columns
    if column.name not in UNUSED
}


def lake_stream(spark: "SparkSession", history: str) -> "DataFrame | None":
    """All tables of a lake as one stream; columns name the table and the file of a row. None: the
    history is no lake."""
    lake = None if "://" in history else read_lake(Path(history))
    if lake is None:
        return None
    if lake.format != PARQUET:
        raise ConfigError(
            f"{history}: is a lake of Delta tables, which one process follows: --engine memory"
        )
    return spark.readStream.format(LakeFormat.name()).load(str(Path(history).resolve()))


def table_streams(spark: "SparkSession", history: str) -> dict[str, "DataFrame"]:
    """Each table of a folder, URI or lake as a stream of its own."""
    lake = lake_stream(spark, history)
    if lake is None:
        return read_streams(spark, history)
    return {
        name: lake.where(f"{TABLE} = '{name}'").select(
            *(c.name for c in table.columns if c.name in _COLUMNS)
        )
        for name, table in TABLES.items()
    }


class LakeFormat(DataSource):
    """The format of such a stream. Spark finds it by its name, as `pyspark_ordercast_lake`."""

    @classmethod
    def name(cls) -> str:
        return "ordercast_lake"

    def schema(self) -> str:
        own = [f"{name} {OURS[column.type].simpleString()}" for name, column in _COLUMNS.items()]
        return ", ".join([*own, f"{TABLE} string", f"{FILE} string"])

    def streamReader(self, schema: StructType) -> "LakeReader":  # noqa: ARG002, N802
        return LakeReader(Path(self.options["path"]))


@dataclass
class LakePart(InputPartition):
    """What one task reads: some files of a table, by their names below the lake."""

    table: str
    files: tuple[str, ...]


class LakeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side; a task has a copy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._target: int | None = None  # of a query that reads what is there, and ends

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {_APPEND: 0}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._lake().append

    def latestOffset(  # noqa: N802
        self,
        start: dict[str, int] | None = None,
        limit: Any = None,  # noqa: ARG002
    ) -> dict[str, int]:
        last = self._lake().append if self._target is None else self._target
        if ADMISSION and start is not None:
            last = min(last, start[_APPEND] + APPENDS_PER_BATCH)
        return {_APPEND: last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        lake = self._lake()
        wanted = range(start[_APPEND] + 1, end[_APPEND] + 1)
        found: list[InputPartition] = []
        for table in TABLES:
            files = appended_files(self._folder, lake, table, wanted)
            parts = [files[n::2] for n in range(2)] if len(files) > 1 else [files]
            found += [LakePart(table, tuple(part)) for part in parts if part]
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, LakePart)
        for name in partition.files:
            yield from _batches(self._folder / name, partition.table)

    def _lake(self) -> Lake:
        found = read_lake(self._folder)
        if found is None or found.format != PARQUET:
            raise ConfigError(f"{self._folder}: is no lake of Parquet files any more")
        return found


def appended_files(folder: Path, lake: Lake, table: str, wanted: range) -> list[str]:
    """The files with the rows of these appends, and of no others."""
    own = {name for name in lake.replaced if name.startswith(f"{table}/")}

    def pieces(name: str) -> list[str]:
        within = appends_in(name)
        if within.start >= wanted.start and within.stop <= wanted.stop:
            return [name]
        if within.stop <= wanted.start or within.start >= wanted.stop:
            return []
        parts = [part for part in own if _is_part(part, name)]
        largest = [part for part in parts if not any(_is_part(part, other) for other in parts)]
        if not largest:
            raise ConfigError(
                f"{folder / name}: the lake was compacted, and what was merged removed, before all"
                " of it was followed: begin with a new checkpoint"
            )
        return [piece for part in sorted(largest) for piece in pieces(part)]

    return [piece for name in sorted(lake.files.get(table, [])) for piece in pieces(name)]


def _is_part(name: str, merged: str) -> bool:
    """Whether a file was merged into another, directly or through a third."""
    if name == merged or name.rpartition("/")[0] != merged.rpartition("/")[0]:
        return False
    inner, outer = appends_in(name), appends_in(merged)
    return inner.start >= outer.start and inner.stop <= outer.stop


def _batches(path: Path, table: str) -> Iterator[Any]:
    pa = arrow()
    schema = pa.schema(
        [
            *(pa.field(name, arrow_type(column)) for name, column in _COLUMNS.items()),
            pa.field(TABLE, pa.string()),
            pa.field(FILE, pa.string()),
        ]
    )
    with parquet().ParquetFile(still_at(path)) as file:
        present = present_columns(file.schema_arrow, TABLES[table], path)
        names = [column.name for column in present if column.name in _COLUMNS]
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            known = {
                TABLE: pa.repeat(table, len(batch)),
                FILE: pa.repeat(path.as_uri(), len(batch)),
            }
            for name in names:
                known[name] = batch.column(name).cast(schema.field(name).type)
            arrays = [
                known[field.name] if field.name in known else pa.nulls(len(batch), field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
