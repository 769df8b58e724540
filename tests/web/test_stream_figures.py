"""Figures of the stream on the Cluster page, from the folder that `audit --follow` writes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ordercast.cli import main
from ordercast.cli.dashboard import parse_line
from ordercast.model.errors import ConfigError
from ordercast.web.access import Access
from ordercast.web.app import Dashboard
from ordercast.web.feed import Sampler, TraceFeed
from ordercast.web.runs import run_config
from ordercast.web.stream_figures import WINDOWS, StreamFigures
from support.harness.served_page import served

BEGIN = datetime(2026, 1, 2, 3, 4, 10)
LINE = """ordercast sim '{"groups":{"alpha":["a","b"]}}' --messages 20"""


def write(folder: Path, batch: int, *windows: int, **other: Any) -> Path:
    """A batch as Spark writes it: times without a zone, which are UTC."""
    rows = [
        {
            "window_start": BEGIN + timedelta(seconds=10 * window), "site": site,
            "group_name": "alpha", "deliveries": 30, "sends": 10, "rate": 3.0 + window,
            "load": 4.0, "latency_p50_ms": 1.5, "latency_p99_ms": 9.25, "latency_max_ms": 12.0,
            "behind": 2, "lag_ms": None, **other,
        }
        for window in windows
        for site in ("b", "a")
    ]  # fmt: skip
    place = folder / f"batch-{batch:012}"
    place.mkdir(parents=True, exist_ok=True)
    file = place / "part-00000.snappy.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file


def test_the_last_window_and_a_point_for_each_are_told(tmp_path: Path) -> None:
    write(tmp_path, 1, 0, 1)
    found = StreamFigures(tmp_path)
    found.look()
    told = found.told()
    start = BEGIN.replace(tzinfo=UTC).timestamp()
    assert [point[:2] for point in told["points"]] == [[start, 6.0], [start + 10, 8.0]]
    assert told["points"][1][2:] == [1.5, 9.25, None]
    assert (told["start"], [line["site"] for line in told["lines"]]) == (start + 10, ["a", "b"])
    write(tmp_path, 1, 0, 1)  # Spark repeats a batch
    write(tmp_path, 2, 2)
    found.look()
    assert found.told()["start"] == start + 20
    assert len(found.told()["points"]) == 3
    assert [line["rate"] for line in found.of_site("a")] == [5.0]
    assert found.of_site("c") == []


def test_a_batch_that_is_being_written_is_read_the_next_time(tmp_path: Path) -> None:
    file = write(tmp_path, 1, 0)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    found = StreamFigures(tmp_path)
    found.look()
    assert found.told()["points"] == []
    file.write_bytes(whole)
    found.look()
    assert len(found.told()["points"]) == 1


def test_a_long_past_is_not_read(tmp_path: Path) -> None:
    for batch in range(WINDOWS + 5):
        write(tmp_path, batch, batch)
    found = StreamFigures(tmp_path)
    found.look()
    points = found.told()["points"]
    assert len(points) == WINDOWS
    assert points[0][1] == 2 * (3.0 + 5)


def test_other_parquet_and_no_folder_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, 1, 0)
    pq.write_table(pa.table({"site": ["a"]}), file)
    with pytest.raises(ConfigError, match="no column 'behind': these are no live figures"):
        StreamFigures(tmp_path).look()
    (tmp_path / "groups.toml").write_text('[groups]\nalpha = ["a", "b"]\n')
    words = ("dashboard", str(tmp_path / "groups.toml"), "--figures", str(tmp_path / "none"))
    assert main(words) == 2
    assert "there is no such folder; 'ordercast audit --follow" in capsys.readouterr().err
    assert main(("dashboard", "--figures", str(tmp_path))) == 2
    assert "--figures goes with a cluster or a scenario" in capsys.readouterr().err


def test_the_page_gets_them_beside_the_live_ones(tmp_path: Path) -> None:
    write(tmp_path, 1, 0)
    shown = Dashboard("x", Access(local=True, secure=False, token=""), parse_line)
    trace, _ = run_config(*parse_line(LINE))
    shown.sampler = Sampler(TraceFeed(trace))
    with served(shown) as page:
        assert page.get("/api/cluster/stream").json() is None
        assert page.get("/api/cluster/site?site=a").json()["stream"] == []
    shown.figures = StreamFigures(tmp_path)
    shown.sampler = Sampler(TraceFeed(trace))
    with served(shown) as page:
        told = page.get("/api/cluster/stream").json()
        assert {line["site"] for line in told["lines"]} == {"a", "b"}
        (line,) = page.get("/api/cluster/site?site=a").json()["stream"]
        assert (line["group"], line["latency_p99_ms"]) == ("alpha", 9.25)
