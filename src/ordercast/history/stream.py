"""Write a history piece by piece, for those that are larger than memory.

Rows come as columns, in the order in which they stand in the file. Everything is built under a
temporary name and put in its place when it is whole.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ordercast.history.rows import Meta
from ordercast.history.schema import arrow, arrow_schema, parquet
from ordercast.history.tables import TABLES
from ordercast.history.writer import META_FILE, built, encode_meta

_ROWS = 65_536  # in a row group


class TableStream(ABC):
    """Rows of a table on their way to a file, gathered in row groups; `run` is not written."""

    def __init__(self, table: str) -> None:
        columns = tuple(c for c in TABLES[table].columns if c.name != "run")
        self.rows = 0
        self._names = [column.name for column in columns]
        self._schema = arrow_schema(TABLES[table], columns)
        self._waiting: dict[str, list[Any]] = {name: [] for name in self._names}
        self._many = 0

    def extend(self, count: int, values: Mapping[str, Sequence[Any] | object]) -> None:
        """Add `count` rows: for each column a list, or one value that holds for all of them."""
        for name, waiting in self._waiting.items():
            value = values[name]
            waiting.extend(value if isinstance(value, list) else [value] * count)
        self.rows += count
        self._many += count
        if self._many >= _ROWS:
            self._flush()

    def append(self, row: Any) -> None:
        self.extend(1, {name: getattr(row, name) for name in self._names})

    def close(self) -> None:
        try:
            if self._many or not self.rows:
                self._flush()
        finally:
            self._end()

    def _flush(self) -> None:
        self._put(arrow().Table.from_pydict(self._waiting, schema=self._schema))
        self._waiting = {name: [] for name in self._names}
        self._many = 0

    @abstractmethod
    def _put(self, rows: Any) -> None:
        """A row group."""

    @abstractmethod
    def _end(self) -> None:
        """All have been put."""


class _FileStream(TableStream):
    """One Parquet file of a table."""

    def __init__(self, table: str, path: Path) -> None:
        super().__init__(table)
        self._file = parquet().ParquetWriter(path, self._schema, compression="zstd")

    def _put(self, rows: Any) -> None:
        self._file.write_table(rows)

    def _end(self) -> None:
        self._file.close()


class HistoryStream:
    """Give each table its files with `table`; end with `finish`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts = dict.fromkeys(TABLES, 0)
        for name in TABLES:
            (folder / name).mkdir(parents=True)

    @contextmanager
    def table(self, name: str) -> Iterator[TableStream]:
        """A further file of the table."""
        path = self._folder / name / f"part-{self._parts[name]:05}.parquet"
        self._parts[name] += 1
        stream = _FileStream(name, path)
        try:
            yield stream
        finally:
            stream.close()

    def finish(self, meta: Meta) -> None:
        for name, parts in self._parts.items():
            if not parts:
                with self.table(name):
                    pass
        (self._folder / META_FILE).write_bytes(encode_meta(meta))


@contextmanager
def stream_history(folder: Path, *, replace: bool = False) -> Iterator[HistoryStream]:
    """A history that appears at `folder` when the block ends well, and not at all otherwise."""
    with built(folder, replace) as building:
        yield HistoryStream(building)
