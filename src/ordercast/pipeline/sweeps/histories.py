"""The history of a run on its way from a worker to the driver."""

from typing import Any

import msgspec

from ordercast.history.rows import History, Row
from ordercast.history.tables import TABLES


def pack(history: History, run: str) -> bytes:
    """The five tables, every row marked with its run."""
    return msgspec.msgpack.encode(
        {
            name: [msgspec.structs.replace(row, run=run) for row in rows]
            for name, rows in history.tables().items()
        }
    )


def unpack(packed: bytes) -> dict[str, list[Row]]:
    lists: Any = list  # of a kind of row that is known only when it runs
    tables = msgspec.msgpack.decode(packed, type=dict[str, msgspec.Raw])
    return {
        name: msgspec.msgpack.decode(rows, type=lists[TABLES[name].row])
        for name, rows in tables.items()
    }
