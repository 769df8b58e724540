"""Live figures without Spark: one process folds the rows of each batch into windows.

The windows are those of the query on Spark. A window is told once, as soon as a row comes that is
`LATE_S` seconds younger than the end of the window. Rows of the window that come later are left
out.
"""

import math
import shutil
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from ordercast.history.rows import History
from ordercast.history.schema import arrow, parquet
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, Site
from ordercast.pipeline.following.figure import COLUMNS, LATE_S, PERCENTILES, WINDOW_S, Figure

_WINDOW_NS, _LATE_NS = WINDOW_S * 1_000_000_000, LATE_S * 1_000_000_000

OnFigures: TypeAlias = Callable[[Sequence[Figure]], None]
Place: TypeAlias = tuple[int, Group, Site]  # a window by its start, in nanoseconds


class Cell(msgspec.Struct):
    """The figures of one site and one group in one window. `last`: the time of the last
    delivery."""

    deliveries: int = 0
    sends: int = 0
    last: int | None = None
    latencies: list[float] = []


class _KeptWindows(msgspec.Struct):
    youngest: int
    told: int
    cells: list[tuple[Place, Cell]]


class WindowFigures:
    """`out`: a folder. Each batch that closes a window writes a folder of its own there."""

    def __init__(self, out: Path, on_figures: OnFigures | None, kept: bytes = b"") -> None:
        self._out = out
        self._on_figures = on_figures
        self._youngest = 0
        self._told = 0  # windows that end here or before are closed
        self._cells: dict[Place, Cell] = {}
        if kept:
            try:
                found = msgspec.msgpack.decode(kept, type=_KeptWindows)
            except msgspec.DecodeError as error:
                raise ConfigError(f"--checkpoint: its figures cannot be read: {error}") from None
            self._youngest, self._told = found.youngest, found.told
            self._cells = dict(found.cells)

    def take(self, batch: int, rows: History) -> bytes:
        """Add the rows of a batch, and tell the windows that it closes. Returns the state to keep.
        A repeated batch overwrites what it wrote before."""
        for row in rows.deliveries:
            cell = self._cell(row.delivered_ns, row.group_name, row.site)
            if cell is not None:
                cell.deliveries += 1
                cell.last = max(row.delivered_ns, cell.last or 0)
                if row.sent_ns is not None:
                    cell.latencies.append((row.delivered_ns - row.sent_ns) / 1e6)
        for sent in rows.sent:
            cell = self._cell(sent.sent_ns, sent.group_name, sent.origin)
            if cell is not None:
                cell.sends += 1
        self._told = max(self._told, self._youngest - _LATE_NS)
        closed = sorted(place for place in self._cells if place[0] + _WINDOW_NS <= self._told)
        figures = _figures([(place, self._cells.pop(place)) for place in closed])
        self._write(batch, figures)
        if figures and self._on_figures is not None:
            self._on_figures(figures)
        return self._snapshot()

    def _cell(self, at_ns: int, group: Group, site: Site) -> Cell | None:
        start = at_ns - at_ns % _WINDOW_NS
        if start + _WINDOW_NS <= self._told:
            return None
        self._youngest = max(self._youngest, at_ns)
        return self._cells.setdefault((start, group, site), Cell())

    def _snapshot(self) -> bytes:
        cells = list(self._cells.items())
        return msgspec.msgpack.encode(_KeptWindows(self._youngest, self._told, cells))

    def _write(self, batch: int, figures: Sequence[Figure]) -> None:
        place = self._out / f"batch-{batch:012}"
        try:
            shutil.rmtree(place, ignore_errors=True)
            self._out.mkdir(parents=True, exist_ok=True)
            if figures:
                beside = place.with_name(f".{place.name}")
                shutil.rmtree(beside, ignore_errors=True)
                beside.mkdir()
                rows = [{name: getattr(each, name) for name in COLUMNS} for each in figures]
                parquet().write_table(
                    arrow().Table.from_pylist(rows, schema=_schema()), beside / "part-00000.parquet"
                )
                beside.rename(place)
        except OSError as error:
            raise ConfigError(f"--figures {self._out}: {error.strerror}") from None


def _schema() -> object:
    pa = arrow()
    types = {
        "window_start": pa.timestamp("us"), "site": pa.string(), "group_name": pa.string(),
        "deliveries": pa.int64(), "sends": pa.int64(), "behind": pa.int64(),
    }  # fmt: skip
    return pa.schema([pa.field(name, types.get(name, pa.float64())) for name in COLUMNS])


def _figures(cells: Iterable[tuple[Place, Cell]]) -> list[Figure]:
    """By window, group and site. All sites of a window are there: it closes at once."""
    found = list(cells)
    most: dict[tuple[int, Group], int] = {}
    last: dict[tuple[int, Group], int] = {}
    for (start, group, _), cell in found:
        most[start, group] = max(cell.deliveries, most.get((start, group), 0))
        last[start, group] = max(cell.last or 0, last.get((start, group), 0))
    return [
        Figure(
            datetime.fromtimestamp(start / 1e9, UTC).replace(tzinfo=None),
            site, group, cell.deliveries, cell.sends, cell.deliveries / WINDOW_S,
            (cell.deliveries + cell.sends) / WINDOW_S, *_latencies(cell.latencies),
            most[start, group] - cell.deliveries,
            None if cell.last is None else round((last[start, group] - cell.last) / 1e6, 3),
        )
        for (start, group, site), cell in found
    ]  # fmt: skip


def _latencies(found: list[float]) -> tuple[float | None, float | None, float | None]:
    """The median, the 99th percentile and the highest."""
    if not found:
        return None, None, None
    ordered = sorted(found)
    middle, high = (ordered[math.ceil(share * len(ordered)) - 1] for share in PERCENTILES)
    return middle, high, ordered[-1]
