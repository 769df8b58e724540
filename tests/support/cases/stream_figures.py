"""Live figures as `audit --follow --figures` writes them, without Spark."""

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

BEGIN = datetime(2026, 1, 2, 3, 4, 10)


def write_figures(folder: Path, batch: int, *windows: int) -> Path:
    """A batch as Spark writes it: times without a zone, which are UTC."""
    rows = [
        {
            "window_start": BEGIN + timedelta(seconds=10 * window), "site": site,
            "group_name": "alpha", "deliveries": 30, "sends": 10, "rate": 3.0 + window,
            "load": 4.0, "latency_p50_ms": 1.5, "latency_p99_ms": 9.25, "latency_max_ms": 12.0,
            "behind": 2, "lag_ms": None,
        }
        for window in windows
        for site in ("b", "a")
    ]  # fmt: skip
    place = folder / f"batch-{batch:012}"
    place.mkdir(parents=True, exist_ok=True)
    file = place / "part-00000.snappy.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file
