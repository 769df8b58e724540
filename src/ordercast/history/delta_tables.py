"""The tables of a lake as Delta tables, through `deltalake`: no JVM is needed.

The package comes with the extra `delta`. An append is written to a table under its number as a
transaction of Delta, so a table that has it already is passed over.
"""

import importlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from ordercast.history.schema import arrow, parquet
from ordercast.model.errors import ConfigError

DAY = "day"
_APPLICATION = "ordercast-export"
_UNREADABLE = {"deletionVectors", "columnMapping"}  # then files do not say what the table has
_HOUR_S = 3600


def require_delta() -> Any:
    try:
        return importlib.import_module("deltalake")
    except ImportError:
        raise ConfigError(
            "Delta tables need deltalake, which the extra 'delta' brings:"
            " pip install 'ordercast[delta]'"
        ) from None


def files(table: Path, version: int, append: int) -> list[Path]:
    """The Parquet files of a table. The newest version is taken if no later append is in it: it may
    be a compacted one, and older versions may be gone."""
    opened = _open(table)
    if (opened.transaction_version(_APPLICATION) or 0) != append:
        opened = _open(table, version)
    features = _UNREADABLE.intersection(opened.protocol().reader_features or ())
    if features:
        raise ConfigError(f"{table}: is a Delta table with {min(features)}, which is not read here")
    return sorted(_path(uri) for uri in opened.file_uris())


def append_files(
    table: Path, staged: Sequence[tuple[str | None, Path]], append: int, *, by_day: bool
) -> int:
    """Append the rows of these files, each with its day, once. Returns the table's version."""
    delta = require_delta()
    exists = delta.DeltaTable.is_deltatable(str(table))
    if exists and (_open(table).transaction_version(_APPLICATION) or 0) >= append:
        return int(_open(table).version())
    pa = arrow()
    schema = parquet().read_schema(staged[0][1])
    if by_day:
        schema = schema.append(pa.field(DAY, pa.string(), nullable=False))
    rows = pa.RecordBatchReader.from_batches(schema, _batches(staged, schema))
    delta.write_deltalake(
        str(table),
        rows,
        mode="append",
        partition_by=[DAY] if by_day else None,
        commit_properties=delta.CommitProperties(
            app_transactions=[delta.Transaction(_APPLICATION, append)]
        ),
    )
    return int(_open(table).version())


def _batches(staged: Sequence[tuple[str | None, Path]], schema: Any) -> Iterable[Any]:
    pa = arrow()
    for day, path in staged:
        with parquet().ParquetFile(path) as file:
            for batch in file.iter_batches():
                columns = list(batch.columns)
                if DAY in schema.names:
                    columns.append(pa.array([day] * batch.num_rows, pa.string()))
                yield pa.record_batch(columns, schema=schema)


def compact(table: Path, keep_s: float) -> tuple[int, int, int]:
    """Merge small files; remove those that were replaced longer ago than `keep_s`. Returns how many
    files there were and are, and the version."""
    opened = _open(table)
    before = len(opened.file_uris())
    opened.optimize.compact()
    hours = math.ceil(keep_s / _HOUR_S)  # Delta counts in hours: rather too long
    opened.vacuum(hours, dry_run=False, enforce_retention_duration=False)
    opened = _open(table)
    opened.create_checkpoint()
    return before, len(opened.file_uris()), int(opened.version())


def _open(table: Path, version: int | None = None) -> Any:
    delta = require_delta()
    try:
        return delta.DeltaTable(str(table), version=version)
    except (delta.exceptions.DeltaError, OSError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{table}: cannot be read as a Delta table: {why}") from None


def _path(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path) if uri.startswith("file://") else uri)
