"""The files of a history that grows, read in this process.

A history grows by new files in the folders of its tables: whole ones, put there by a rename, and
never changed. Row groups are the units of reading, so that a large file does not come at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ordercast.history.lake import PARQUET, merged_from, read_lake, still_at
from ordercast.history.reader import (
    check_epoch,
    check_event,
    read_groups,
    read_meta,
    require_history,
    table_files,
)
from ordercast.history.rows import History
from ordercast.history.schema import arrow, parquet
from ordercast.history.tables import TABLES
from ordercast.history.writer import META_FILE
from ordercast.model.errors import ConfigError

SMALL = ("groups", "epochs", "events")
BATCH_ROWS = 100_000  # of deliveries and sent: a second of judging, about
_FIRST = {"sent": "sent_ns", "deliveries": "position"}  # the sites' rows come side by side by it


class Unit(NamedTuple):
    """A row group. `rank`, the least position or time in it, says when its turn is."""

    table: str
    file: str
    group: int
    rows: int
    rank: int


class GrowingFolder:
    """`left`: for each table and file seen so far, the row groups still to be read."""

    def __init__(self, folder: Path, left: Mapping[str, Mapping[str, list[int]]] | None = None):
        require_history(folder)
        read_meta(folder / META_FILE)
        if left and left.keys() - TABLES.keys():
            raise ConfigError(
                f"{folder}: the checkpoint is of a streaming query over this lake: go on with"
                " Spark, or choose another checkpoint"
            )
        self.folder = folder
        self.left: dict[str, dict[str, list[int]]] = {
            name: {file: list(groups) for file, groups in (left or {}).get(name, {}).items()}
            for name in TABLES
        }
        self._waiting = _in_turn(
            unit
            for table, files in self.left.items()
            for file, groups in files.items()
            if groups
            for unit in self._units(table, file)
            if unit.group in groups
        )

    def batches(self) -> Iterator[History]:
        """The rows that have come since the last call, in portions. With each portion `left` is up
        to date."""
        self._look()
        while self._waiting:
            taken, self._waiting = _portion(self._waiting)
            portion = self._read(taken)
            for unit in taken:
                self.left[unit.table][unit.file].remove(unit.group)
            yield portion

    def read_again(self) -> Iterator[History]:
        """All rows that were read so far, the small tables first."""
        units = _in_turn(
            unit
            for table, files in self.left.items()
            for file, groups in files.items()
            for unit in self._units(table, file)
            if unit.group not in groups
        )
        while units:
            taken, units = _portion(units)
            yield self._read(taken)

    def _look(self) -> None:
        """List the files. Deliveries come first, so that the list of the small tables is never
        older."""
        found: list[Unit] = []
        lake = read_lake(self.folder)
        for table in ("deliveries", "sent", *SMALL):
            place, seen = self.folder / table, self.left[table]
            listed = table_files(self.folder, table, lake)
            there = {str(path.relative_to(place)) for path in listed}
            if lake is not None and lake.format == PARQUET:
                merged = {
                    name.partition("/")[2] for name in lake.replaced if name.startswith(f"{table}/")
                }
                there = _as_followed(place, there, seen, merged)
            gone = sorted(seen.keys() - there)
            if gone:
                raise ConfigError(
                    f"{place / gone[0]}: is gone: a history that is followed only grows"
                )
            for file in sorted(there - seen.keys()):
                units = self._units(table, file)
                seen[file] = [unit.group for unit in units]
                found += units
        self._waiting = _in_turn([*self._waiting, *found]) if found else self._waiting

    def _units(self, table: str, file: str) -> list[Unit]:
        path = self.folder / table / file
        try:
            metadata = parquet().read_metadata(still_at(path))
        except (arrow().ArrowException, OSError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read as Parquet: {error}") from None
        groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
        return [
            Unit(table, file, i, group.num_rows, _rank(group, _FIRST.get(table)))
            for i, group in enumerate(groups)
        ]

    def _read(self, units: Sequence[Unit]) -> History:
        history = History()
        for unit in units:
            path = self.folder / unit.table / unit.file
            rows: Any = read_groups(path, TABLES[unit.table], [unit.group])
            getattr(history, unit.table).extend(rows)
        for event in history.events:
            check_event(event, str(self.folder / "events"))
        for epoch in history.epochs:
            check_epoch(epoch, str(self.folder / "epochs"))
        return history


def _as_followed(
    place: Path, there: set[str], seen: dict[str, list[int]], replaced: set[str]
) -> set[str]:
    """The files of a table in a lake, as they count here. A merged file counts when all that it was
    merged from is read; until then they count, which stay hidden for a while. `seen` has then
    forgotten them."""
    counts = set(there)
    for merged in sorted(there - seen.keys()):
        read = merged_from(merged, seen)
        if not read:
            continue  # nothing of it: it is a new file like any other
        parts = set(merged_from(merged, replaced))
        if not parts.issuperset(read):
            raise ConfigError(
                f"{place / min(set(read) - parts)}: is gone: the lake was compacted, and what was"
                " merged removed, before all of it was followed"
            )
        if all(name in seen and not seen[name] for name in parts):
            for name in parts:
                del seen[name]
            seen[merged] = []
        else:
            counts.discard(merged)
            counts |= parts
    return counts


def _in_turn(units: Iterable[Unit]) -> list[Unit]:
    """The small tables, then the others side by side: of each about the same share."""
    found = sorted(units, key=lambda unit: (unit.rank, unit.file, unit.group))
    shares: list[tuple[float, Unit]] = []
    for table in _FIRST:
        own = [unit for unit in found if unit.table == table]
        total = sum(unit.rows for unit in own)
        passed = 0
        for unit in own:
            shares.append((passed / max(total, 1), unit))
            passed += unit.rows
    small = [unit for table in SMALL for unit in found if unit.table == table]
    return small + [unit for _, unit in sorted(shares, key=lambda share: share[0])]


def _portion(units: list[Unit]) -> tuple[list[Unit], list[Unit]]:
    """The first of them, small tables whole, and the rest."""
    rows = count = 0
    while count < len(units) and (rows < BATCH_ROWS):
        rows += units[count].rows if units[count].table in _FIRST else 0
        count += 1
    return units[:count], units[count:]


def _rank(group: Any, column: str | None) -> int:
    """By the statistics of the column, where the writer has left them."""
    for i in range(group.num_columns if column else 0):
        chunk = group.column(i)
        if chunk.path_in_schema == column and chunk.statistics and chunk.statistics.has_min_max:
            return int(chunk.statistics.min)
    return 0
