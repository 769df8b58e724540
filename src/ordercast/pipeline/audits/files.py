"""Parquet files on a disk that the workers see, read by the workers themselves.

Spark would make rows of the columns and columns of the rows before NumPy gets them, which is most
of what reading costs. Elsewhere (any URI, or a caller's DataFrames) Spark reads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ordercast.history.lake import still_at
from ordercast.history.reader import present_columns
from ordercast.history.schema import arrow_type
from ordercast.history.tables import TABLES, Table
from ordercast.model.errors import ConfigError

UNUSED = ("order_key", "size")
ROWS_PER_TASK = 500_000  # a row group is never divided


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file."""

    path: str
    table: str
    number: int
    rows: int

    def tables(self, rows: int, runs: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The columns that the audit reads, with our types, `rows` rows at a time; of these runs
        only, if any are given."""
        columns = [column for column in TABLES[self.table].columns if column.name not in UNUSED]
        try:
            with pq.ParquetFile(still_at(Path(self.path))) as file:
                present = [c for c in columns if c.name in file.schema_arrow.names]
                names = [column.name for column in present]
                for batch in file.iter_batches(rows, row_groups=[self.number], columns=names):
                    arrays = [batch.column(c.name).cast(arrow_type(c)) for c in present]
                    table = pa.table(arrays, names)
                    yield table if runs is None else _of_runs(table, runs)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise unreadable(self.path, error) from None


def _of_runs(table: pa.Table, runs: Sequence[str]) -> pa.Table:
    if "run" not in table.column_names:
        return table.slice(0, 0)
    return table.filter(pc.is_in(table.column("run"), pa.array(runs, pa.string())))


def unreadable(path: str | Path, error: Exception) -> ConfigError:
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return ConfigError(f"{path}: cannot be read as Parquet: {reason}")


def check_file(path: Path, table: Table) -> tuple[set[str], list[RowGroup]]:
    """Check that the file has our columns. Returns the names of all columns, and the row groups."""
    try:
        footer = pq.read_metadata(still_at(path))
        schema = footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, error) from None
    present_columns(schema, table, path)  # raises if our columns are not there
    groups = [
        RowGroup(str(path.resolve()), table.name, number, footer.row_group(number).num_rows)
        for number in range(footer.num_row_groups)
    ]
    return set(schema.names), groups


def bundle(groups: Sequence[RowGroup]) -> list[list[RowGroup]]:
    """What one task reads."""
    found: list[list[RowGroup]] = []
    filled = ROWS_PER_TASK
    for group in groups:
        if filled + group.rows > ROWS_PER_TASK:
            found.append([])
            filled = 0
        found[-1].append(group)
        filled += group.rows
    return found
