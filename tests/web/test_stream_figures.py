"""Figures of the stream on the Cluster page, from the folder that `audit --follow` writes."""

from datetime import UTC
from pathlib import Path

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
from support.cases.stream_figures import BEGIN, write_figures
from support.harness.served_page import served

LINE = """ordercast sim '{"groups":{"alpha":["a","b"]}}' --messages 20"""


def test_the_last_window_and_a_point_for_each_are_told(tmp_path: Path) -> None:
    write_figures(tmp_path, 1, 0, 1)
    found = StreamFigures(tmp_path)
    found.look()
    told = found.told()
    start = BEGIN.replace(tzinfo=UTC).timestamp()
    assert [point[:2] for point in told["points"]] == [[start, 6.0], [start + 10, 8.0]]
    assert told["points"][1][2:] == [1.5, 9.25, None]
    assert (told["start"], [line["site"] for line in told["lines"]]) == (start + 10, ["a", "b"])
    write_figures(tmp_path, 1, 0, 1)  # Spark repeats a batch
    write_figures(tmp_path, 2, 2)
    found.look()
    assert found.told()["start"] == start + 20
    assert len(found.told()["points"]) == 3
    assert [line["rate"] for line in found.of_site("a")] == [5.0]
    assert found.of_site("c") == []


def test_a_batch_that_is_being_written_is_read_the_next_time(tmp_path: Path) -> None:
    file = write_figures(tmp_path, 1, 0)
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
        write_figures(tmp_path, batch, batch)
    found = StreamFigures(tmp_path)
    found.look()
    points = found.told()["points"]
    assert len(points) == WINDOWS
    assert points[0][1] == 2 * (3.0 + 5)


def test_other_parquet_and_no_folder_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_figures(tmp_path, 1, 0)
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
    write_figures(tmp_path, 1, 0)
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
