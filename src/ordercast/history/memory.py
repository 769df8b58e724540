"""A history in memory, filled row by row as one on disk is. It needs no pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ordercast.history.rows import History, Meta
from ordercast.history.tables import TABLES


class CollectedTable:
    """The rows of one table, appended to a list."""

    def __init__(self, table: str, found: list[Any]) -> None:
        self.rows = 0
        self._row = TABLES[table].row
        self._names = [column.name for column in TABLES[table].columns]
        self._found = found

    def extend(self, count: int, values: Mapping[str, Sequence[Any] | object]) -> None:
        """Add `count` rows: for each column a list, or one value that holds for all of them."""
        given = [values.get(name) for name in self._names]  # `run` is not given
        columns = [value if isinstance(value, list) else [value] * count for value in given]
        self._found.extend(self._row(*cells) for cells in zip(*columns, strict=True))
        self.rows += count

    def append(self, row: Any) -> None:
        self._found.append(row)
        self.rows += 1


class CollectedHistory:
    def __init__(self) -> None:
        self.history = History()

    @contextmanager
    def table(self, name: str) -> Iterator[CollectedTable]:
        yield CollectedTable(name, getattr(self.history, name))

    def finish(self, meta: Meta) -> None:
        self.history.meta = meta
