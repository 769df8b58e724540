"""The columns of the five tables as plain data, and how rows are sorted when written.

Readers and writers of any kind (Arrow here, Spark in the pipeline) take the schema from this table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ordercast.history.rows import Delivered, EpochRow, Event, GroupRow, Row, Sent

INT64 = "int64"
INT32 = "int32"
STRING = "string"
BOOL = "bool"
BINARY = "binary"


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


def _columns(**types: str) -> tuple[Column, ...]:
    """A trailing `?` marks an optional column; every table may carry `run`."""
    return tuple(
        Column(name, kind.removesuffix("?"), kind.endswith("?"))
        for name, kind in {**types, "run": f"{STRING}?"}.items()
    )


# Last in a row, so that rows without a client have the hash they had before there were clients.
REQUEST = (
    Column("client", STRING, optional=True),
    Column("request", INT64, optional=True),
    Column("part", INT64, optional=True),
)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            "groups",
            GroupRow,
            _columns(epoch=INT64, group_name=STRING, site=STRING, live=BOOL),
            attrgetter("site", "epoch", "group_name"),
        ),
        Table(
            "sent",
            Sent,
            _columns(
                origin=STRING,
                incarnation=INT64,
                group_name=STRING,
                seq=INT64,
                after_position=INT64,
                after_attempt=INT64,
                sent_ns=INT64,
                size=INT32,
                digest=f"{INT64}?",
            )
            + REQUEST,
            attrgetter("origin", "sent_ns", "group_name", "incarnation", "seq"),
        ),
        Table(
            "deliveries",
            Delivered,
            _columns(
                site=STRING,
                position=INT64,
                attempt=INT64,
                epoch=INT64,
                group_name=STRING,
                origin=STRING,
                incarnation=INT64,
                seq=INT64,
                delivered_ns=INT64,
                digest=f"{INT64}?",
                order_key=f"{BINARY}?",
            )
            + REQUEST,
            attrgetter("site", "position", "attempt"),
        ),
        Table(
            "events",
            Event,
            _columns(
                site=STRING,
                n=INT64,
                kind=STRING,
                position=INT64,
                attempt=INT64,
                epoch=INT64,
                at_ns=INT64,
                detail=STRING,
            ),
            attrgetter("site", "n"),
        ),
        Table(
            "epochs",
            EpochRow,
            _columns(
                epoch=INT64,
                domain=STRING,
                deliver=STRING,
                on_failure=STRING,
                protocol=STRING,
                reason=STRING,
                decided_ns=INT64,
            ),
            attrgetter("epoch", "domain"),
        ),
    )
}
