"""The tables as pyarrow schemas; the only place that finds out whether pyarrow is there.

pyarrow comes with the extra `history`, so it is imported when a file is read or written, not
before.
"""

import importlib
from typing import Any

from ordercast.history.tables import BINARY, BOOL, INT32, INT64, STRING, Column, Table
from ordercast.model.errors import ConfigError


def arrow() -> Any:
    return _import("pyarrow")


def parquet() -> Any:
    return _import("pyarrow.parquet")


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(
            "reading and writing histories needs pyarrow, which the extra 'history' brings:"
            " pip install 'ordercast[history]'"
        ) from None


def arrow_type(column: Column) -> Any:
    pa = arrow()
    types = {
        INT64: pa.int64(),
        INT32: pa.int32(),
        STRING: pa.string(),
        BOOL: pa.bool_(),
        BINARY: pa.binary(),
    }
    return types[column.type]


def arrow_schema(table: Table, columns: tuple[Column, ...] | None = None) -> Any:
    """The schema of a table, or of some of its columns."""
    pa = arrow()
    return pa.schema(
        [
            pa.field(column.name, arrow_type(column), nullable=column.optional)
            for column in columns or table.columns
        ]
    )


def is_readable_as(found: Any, column: Column) -> bool:
    """Whether a column of a file can stand for ours without loss: the same kind, maybe narrower.

    Other writers choose other widths for the same thing: dictionaries and large or viewed strings,
    small integers.
    """
    pa = arrow()
    if pa.types.is_dictionary(found):
        found = found.value_type
    if column.type in (INT64, INT32):
        width = 64 if column.type == INT64 else 32
        return bool(pa.types.is_signed_integer(found) and found.bit_width <= width)
    if column.type == STRING:
        return found in (pa.string(), pa.large_string(), pa.string_view())
    if column.type == BINARY:
        return found in (pa.binary(), pa.large_binary(), pa.binary_view())
    return bool(found == pa.bool_())
