"""Figures of the stream for the Cluster page: what `audit --follow --figures DIR` writes.

A window has a line for each site and group. A batch is a folder with Parquet files in it. It may
be written over while it is read; then it is read again the next time.
"""

import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ordercast.history.schema import arrow, parquet
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site

WINDOWS = 60  # for the chart
MOST_LINES = 400  # of the last window, for the table
_BATCH = "batch-*"
_NUMBERS = (
    "rate", "load", "latency_p50_ms", "latency_p99_ms", "latency_max_ms", "behind", "lag_ms",
)  # fmt: skip
COLUMNS = ("window_start", "site", "group_name", "deliveries", *_NUMBERS)

Line = dict[str, Any]


class StreamFigures:
    """State: the last windows, and which batches they are from."""

    def __init__(self, folder: Path) -> None:
        parquet()  # that it is missing is told before the page is served
        if not folder.is_dir():
            raise ConfigError(
                f"--figures {folder}: there is no such folder; 'ordercast audit --follow HISTORY"
                f" --figures {folder}' writes it"
            )
        self.folder = folder
        self._one_at_a_time = threading.Lock()
        self._read: dict[str, int] = {}  # batches, and when their files were written
        self._windows: deque[tuple[float, list[Line]]] = deque(maxlen=WINDOWS)

    def look(self) -> None:
        """Read what is new."""
        with self._one_at_a_time:
            for name, written in self._new():
                try:
                    windows = self._batch(name)
                except (OSError, arrow().ArrowException):
                    continue  # it is being written; the next look finds it
                self._read[name] = written
                last = self._windows[-1][0] if self._windows else 0.0
                for start in sorted(windows):  # a batch that was repeated has the same windows
                    if start > last:
                        self._windows.append((start, windows[start]))

    def told(self) -> dict[str, Any]:
        """The last window line by line, and a point for each window."""
        start, lines = self._windows[-1] if self._windows else (None, [])
        points = [[at, *_highest(found)] for at, found in self._windows]
        return {
            "folder": str(self.folder),
            "start": start,
            "lines": lines[:MOST_LINES],
            "left_out": max(0, len(lines) - MOST_LINES),
            "points": points,
        }

    def of_site(self, site: Site) -> list[Line]:
        """The lines of a site in the last window."""
        _, lines = self._windows[-1] if self._windows else (0.0, [])
        return [line for line in lines if line["site"] == site]

    def _new(self) -> Iterator[tuple[str, int]]:
        """The batches that were written since, and when. Older ones than the chart has are left."""
        for folder in sorted(self.folder.glob(_BATCH))[-WINDOWS:]:
            try:
                written = max((f.stat().st_mtime_ns for f in folder.glob("*.parquet")), default=0)
            except OSError:
                continue
            if written and self._read.get(folder.name) != written:
                yield folder.name, written

    def _batch(self, name: str) -> dict[float, list[Line]]:
        found: dict[float, list[Line]] = {}
        for file in sorted((self.folder / name).glob("*.parquet")):
            columns = parquet().read_table(file)
            missing = sorted(set(COLUMNS) - set(columns.column_names))
            if missing:
                raise ConfigError(f"{file}: no column {missing[0]!r}: these are no live figures")
            for row in columns.select(list(COLUMNS)).to_pylist():
                found.setdefault(_seconds(row["window_start"]), []).append(_line(row))
        for lines in found.values():
            lines.sort(key=lambda line: (line["group"], line["site"]))
        return found


def _seconds(at: datetime) -> float:
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def _line(row: Mapping[str, Any]) -> Line:
    numbers = {name: _number(row[name]) for name in _NUMBERS}
    return {"group": row["group_name"], "site": row["site"], **numbers}


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 3)


def _highest(lines: list[Line]) -> tuple[float | None, ...]:
    """A window in one line: deliveries per second of all sites; the highest p50, p99 and lag."""
    rate = round(sum(line["rate"] or 0 for line in lines), 3)
    highest = (
        max((line[name] for line in lines if line[name] is not None), default=None)
        for name in ("latency_p50_ms", "latency_p99_ms", "lag_ms")
    )
    return (rate, *highest)
