"""Read a history from a folder of Parquet tables and check its shape.

A mistake is told in one line with the file, the field and the value. The checkers judge whether the
history in the rows is *right*.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from ordercast.history.lake import Lake, lake_files, read_lake, still_at
from ordercast.history.rows import (
    CLOCKS,
    DROPPED,
    GAP,
    SCHEMA_VERSION,
    Delivered,
    EpochRow,
    Event,
    GroupRow,
    History,
    Meta,
    Row,
    Sent,
    dropped_outcome,
    gap_message,
    require_kind,
)
from ordercast.history.schema import arrow, arrow_type, is_readable_as, parquet
from ordercast.history.tables import STRING, TABLES, Column, Table
from ordercast.history.writer import META_FILE
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest
from ordercast.model.options import LEVELS

_STANDS_FOR_NULL = {"detail": "{}"}  # other writers leave an empty detail null

AnyRow = TypeVar("AnyRow", bound=Row)


def read_history(folder: Path) -> History:
    folder = Path(folder)
    arrow()
    require_history(folder)
    lake = read_lake(folder)
    history = History(
        groups=_rows(folder, lake, GroupRow),
        sent=_rows(folder, lake, Sent),
        deliveries=_rows(folder, lake, Delivered),
        events=_rows(folder, lake, Event),
        epochs=_rows(folder, lake, EpochRow),
        meta=read_meta(folder / META_FILE),
    )
    for event in history.events:
        check_event(event, str(folder / "events"))
    for epoch in history.epochs:
        check_epoch(epoch, str(folder / "epochs"))
    return history


def read_small_tables(folder: Path) -> tuple[list[GroupRow], list[EpochRow]]:
    """The tables `groups` and `epochs` alone."""
    lake = read_lake(folder)
    return _rows(folder, lake, GroupRow), _rows(folder, lake, EpochRow)


def read_meta(path: Path) -> Meta:
    """`meta.json` with every field checked; fields we do not know are left alone."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{path}: is missing") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # bad JSON or bad UTF-8
        raise ConfigError(f"{path}: is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: must be an object, not {_short(data)}")
    if "schema_version" not in data:
        raise ConfigError(f"{path}: field 'schema_version' is missing")
    known = {}
    for field in msgspec.structs.fields(Meta):
        if field.name not in data:
            continue
        try:
            known[field.name] = msgspec.convert(data[field.name], field.type)
        except msgspec.ValidationError as error:
            value = _short(data[field.name])
            raise ConfigError(f"{path}: field {field.name!r}: {value}: {error}") from None
    meta = Meta(**known)
    if meta.schema_version != SCHEMA_VERSION:
        raise ConfigError(
            f"{path}: field 'schema_version': {meta.schema_version} is not known"
            f" (this version reads {SCHEMA_VERSION})"
        )
    if meta.clock not in CLOCKS:
        raise ConfigError(
            f"{path}: field 'clock': {meta.clock!r} is not a clock{nearest(meta.clock, CLOCKS)}"
        )
    return meta


def require_history(folder: Path) -> None:
    """Say what a folder lacks to be one."""
    if not folder.exists():
        raise ConfigError(f"{folder}: there is no such folder")
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; a history is a folder")
    if not any(folder.iterdir()):
        raise ConfigError(f"{folder}: is empty; a history has {META_FILE} and {', '.join(TABLES)}")


def count_rows(folder: Path, table: str) -> int:
    """How many rows a table has, by the footers of its files."""
    require_history(folder)
    total = 0
    for path in table_files(folder, table, read_lake(folder)):
        try:
            total += parquet().read_metadata(still_at(path)).num_rows
        except (arrow().ArrowException, OSError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read as Parquet: {_first_line(error)}") from None
    return total


def _rows(folder: Path, lake: Lake | None, kind: type[AnyRow]) -> list[AnyRow]:
    table = next(table for table in TABLES.values() if table.row is kind)
    rows: list[AnyRow] = []
    for path in table_files(folder, table.name, lake):
        rows.extend(cast("Iterable[AnyRow]", _file_rows(path, table)))
    return rows


def table_files(history: Path, table: str, lake: Lake | None) -> list[Path]:
    """The Parquet files of a table, without what Spark and others hide behind `_` and `.`; those
    that `lake` names, which was read once for all tables, if the history is one."""
    if lake is not None:
        return lake_files(history, lake, table)
    folder = history / table
    if not folder.is_dir():
        raise ConfigError(f"{folder}: the table is missing (a folder of Parquet files)")
    found = [
        path
        for path in sorted(folder.rglob("*.parquet"))
        if path.is_file() and not any(p[0] in "_." for p in path.relative_to(folder).parts)
    ]
    if not found:
        raise ConfigError(f"{folder}: there is no Parquet file in it")
    return found


def _file_rows(path: Path, table: Table) -> Iterable[Row]:
    return read_groups(path, table, None)


def read_groups(path: Path, table: Table, groups: Sequence[int] | None) -> Iterable[Row]:
    """The rows of some row groups of a file, by number; None: all of them."""
    pa = arrow()
    try:
        with parquet().ParquetFile(still_at(path)) as file:
            present = present_columns(file.schema_arrow, table, path)
            names = [column.name for column in present]
            chosen = range(file.num_row_groups) if groups is None else groups
            data = file.read_row_groups(list(chosen), columns=names)
            return arrow_rows(data, table, path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as Parquet: {_first_line(error)}") from None


def arrow_rows(data: Any, table: Table, where: object) -> Iterable[Row]:
    """The rows of an Arrow table that has some of our columns; the others are null."""
    values = {
        column.name: _values(data, column, where)
        for column in table.columns
        if column.name in data.column_names
    }
    columns = [values.get(column.name, repeat(None, data.num_rows)) for column in table.columns]
    return map(table.row, *columns)


def present_columns(schema: Any, table: Table, path: Path) -> list[Column]:
    """The columns of the table that a file has. Raises ConfigError if one has another type, or
    if one that is not optional is missing."""
    present = []
    for column in table.columns:
        if column.name in schema.names:
            found = schema.field(column.name).type
            if not is_readable_as(found, column):
                raise ConfigError(
                    f"{path}: field {column.name!r}: type {found} instead of {column.type}"
                )
            present.append(column)
        elif not column.optional:
            raise ConfigError(
                f"{path}: field {column.name!r} ({column.type}) is missing from {table.name}"
            )
        else:
            refuse_partition(path.parts, column.name, path)
    return present


def refuse_partition(folders: Iterable[str], column: str, where: object) -> None:
    """A column that is only in the name of a folder, as Hive writes it, would be lost."""
    named = next((part for part in folders if part.startswith(f"{column}=")), None)
    if named is not None:
        raise ConfigError(
            f"{where}: field {column!r} is only in the name of the folder {named!r}:"
            " write it as a column of the file"
        )


def _values(data: Any, column: Column, path: object) -> Sequence[Any]:
    array = data.column(column.name).cast(arrow_type(column)).combine_chunks()
    if column.type == STRING:  # one object per distinct name: less memory, faster comparisons
        encoded = array.dictionary_encode()
        names = [*encoded.dictionary.to_pylist(), None]
        values = [names[-1 if i is None else i] for i in encoded.indices.to_pylist()]
    else:
        values = array.to_pylist()
    if array.null_count and not column.optional:
        if column.name not in _STANDS_FOR_NULL:
            row = values.index(None) + 1
            raise ConfigError(f"{path}: field {column.name!r}: null in row {row}")
        values = [_STANDS_FOR_NULL[column.name] if v is None else v for v in values]
    return values


def check_event(event: Event, where: str) -> None:
    require_kind(event.kind, where)
    if event.kind in (GAP, DROPPED):
        gap_message(event, where)
    if event.kind == DROPPED:
        dropped_outcome(event, where)


def check_epoch(epoch: EpochRow, where: str) -> None:
    if epoch.deliver not in LEVELS:
        raise ConfigError(
            f"{where}: epoch {epoch.epoch}: field 'deliver': {epoch.deliver!r} is not a level"
            f"{nearest(epoch.deliver, LEVELS)}"
        )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
