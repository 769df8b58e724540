"""The columns of the five tables as plain data, and how rows are sorted when written.

Readers and writers of any kind (Arrow here, Spark in the pipeline) take the schema from this table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import NoneType
from typing import Any, get_args

import msgspec

from ordercast.history.rows import Delivered, EpochRow, Event, GroupRow, Row, Sent

INT64 = "int64"
INT32 = "int32"
STRING = "string"
BOOL = "bool"
BINARY = "binary"
_TYPES = {int: INT64, str: STRING, bool: BOOL, bytes: BINARY}

# Last in a row, so that rows without these have the hash they had before there were any.
REQUEST = ("client", "request", "part")


@dataclass(frozen=True, slots=True)
class Column:
    """`optional`: the column may be missing, and its values may be null."""

    name: str
    type: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """`row` has one field per column, in this order; `order` sorts rows for writing."""

    name: str
    row: type[Row]
    columns: tuple[Column, ...]
    order: Callable[[Any], Any]


def _table(name: str, row: type[Row], *order: str, **types: str) -> Table:
    """A column for each field of the row; one whose field may be None is optional. `types` are
    those that the row does not tell."""
    columns = []
    for field in msgspec.structs.fields(row):
        (kind,) = {*(get_args(field.type) or (field.type,))} - {NoneType}
        optional = NoneType in get_args(field.type)
        columns.append(Column(field.name, types.get(field.name, _TYPES[kind]), optional))
    return Table(name, row, tuple(columns), attrgetter(*order))


TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        _table("groups", GroupRow, "site", "epoch", "group_name"),
        _table("sent", Sent, "origin", "sent_ns", "group_name", "incarnation", "seq", size=INT32),
        _table("deliveries", Delivered, "site", "position", "attempt"),
        _table("events", Event, "site", "n"),
        _table("epochs", EpochRow, "epoch", "domain"),
    )
}
