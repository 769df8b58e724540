"""Live figures: rates, latencies, lag and load per site and group, in windows of event time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WINDOW_S = 10
LATE_S = 10
COLUMNS = (
    "window_start", "site", "group_name", "deliveries", "sends", "rate", "load",
    "latency_p50_ms", "latency_p99_ms", "latency_max_ms", "behind", "lag_ms",
)  # fmt: skip
PERCENTILES = (0.5, 0.99)


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the figures: one site and group in one window. docs/follow.md explains each."""

    window_start: Any
    site: str
    group_name: str
    deliveries: int
    sends: int
    rate: float
    load: float
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    latency_max_ms: float | None
    behind: int
    lag_ms: float | None


def as_lines(rows: Sequence[Figure]) -> list[str]:
    """For a person: a table of the windows that are closed."""
    head = f"{'window':<19} {'group':<12} {'site':<12} {'del/s':>8} {'load/s':>8}"
    lines = [f"{head} {'p50 ms':>8} {'p99 ms':>8} {'behind':>7} {'lag ms':>8}"]
    for row in rows:
        start = f"{row.window_start:%Y-%m-%d %H:%M:%S}"
        lines.append(
            f"{start} {row.group_name:<12} {row.site:<12} {row.rate:>8.1f} {row.load:>8.1f}"
            f" {_number(row.latency_p50_ms):>8} {_number(row.latency_p99_ms):>8}"
            f" {row.behind:>7} {_number(row.lag_ms):>8}"
        )
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.1f}"
