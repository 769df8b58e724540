"""Live figures without Spark: windows, late rows, kills at any batch."""

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ordercast.cli import main
from ordercast.history.rows import Delivered, GroupRow, History, Sent
from ordercast.model.errors import ConfigError
from ordercast.pipeline.following.figure import Figure
from ordercast.pipeline.following.figures_in_process import WindowFigures
from ordercast.pipeline.following.in_process import follow_folder
from ordercast.web.stream_figures import StreamFigures
from support.cases.growing import GrowingHistory

SECOND = 1_000_000_000


def portions() -> list[History]:
    """Ten messages a second; b has them two milliseconds later and lacks the last ones of a
    window. One portion for each second."""
    found = [History(groups=[GroupRow(1, "g", site) for site in "ab"])]
    found += [History() for _ in range(40)]
    at_b = 0
    for n in range(1, 400):
        at = n * SECOND // 10
        own = found[1 + n // 10]
        own.sent.append(Sent("a", 1, "g", n, 0, 0, at, 8))
        own.deliveries.append(Delivered("a", n, 1, 1, "g", "a", 1, n, at + 1_000_000, sent_ns=at))
        if not 190 <= n < 200:
            at_b += 1
            late = at + 3_000_000
            own.deliveries.append(Delivered("b", at_b, 1, 1, "g", "a", 1, n, late, sent_ns=at))
    return found


def written(folder: Path) -> list[dict[str, Any]]:
    rows = [row for path in folder.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return sorted(rows, key=lambda row: (row["window_start"], row["group_name"], row["site"]))


def test_a_window_is_told_when_a_row_is_ten_seconds_younger_than_its_end(tmp_path: Path) -> None:
    told: list[Figure] = []
    made = WindowFigures(tmp_path / "out", told.extend)
    for batch, portion in enumerate(portions()):
        made.take(batch, portion)
        if batch == 20:
            assert told == []
    assert {row.window_start.second for row in told} == {0, 10}
    a, b = (row for row in told if row.window_start.second == 10)
    assert (a.site, a.deliveries, a.sends, a.rate, a.load) == ("a", 100, 100, 10.0, 20.0)
    assert (b.site, b.deliveries, b.sends, b.load) == ("b", 90, 0, 9.0)
    assert a.latency_p50_ms == a.latency_p99_ms == 1.0
    assert (b.latency_max_ms, a.behind, b.behind) == (3.0, 0, 10)
    assert a.lag_ms == 0.0
    assert b.lag_ms == pytest.approx(998.0)
    before = len(told)
    made.take(99, History(deliveries=[Delivered("a", 999, 1, 1, "g", "a", 1, 999, 15 * SECOND)]))
    assert len(told) == before  # too late for its window
    assert len(written(tmp_path / "out")) == before
    page = StreamFigures(tmp_path / "out")
    page.look()
    assert page.of_site("b")[0]["behind"] == 10


def test_a_process_that_is_killed_writes_each_window_once(tmp_path: Path) -> None:
    """It dies when a batch is judged, or when its figures are written and it is not kept."""
    chance = random.Random(4)
    growing = GrowingHistory(tmp_path / "h")
    places = {name: tmp_path / name for name in ("state", "out")}
    for portion in portions():
        growing.append(portion)
        if chance.random() < 0.5:
            following: Any = follow_folder(
                growing.folder, checkpoint=places["state"], figures=places["out"], once=True
            )
            for _ in range(chance.randint(1, 3)):
                next(following, None)
            following.close()
            if chance.random() < 0.5:
                newest = max(places["state"].glob("batch-*"), default=None)
                if newest is not None:
                    newest.unlink()
    list(
        follow_folder(growing.folder, checkpoint=places["state"], figures=places["out"], once=True)
    )
    told: list[Figure] = []
    whole = WindowFigures(tmp_path / "whole", told.extend)
    for batch, portion in enumerate(portions()):
        whole.take(batch, portion)
    found = written(places["out"])
    assert found[: len(told)] == written(tmp_path / "whole")
    assert len({(row["window_start"], row["site"]) for row in found}) == len(found)


def test_the_verb_shows_and_writes_them_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    growing = GrowingHistory(tmp_path / "h")
    for portion in portions():
        growing.append(portion)
    words = ["audit", "--follow", str(growing.folder), "--engine", "memory", "--once"]
    main([*words, "--figures", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert "del/s" in said
    assert "1970-01-01 00:00:10 g            b                 9.0      9.0" in said
    assert written(tmp_path / "out")
    (tmp_path / "file").touch()
    assert main([*words, "--figures", str(tmp_path / "file")]) == 2
    assert "--figures" in capsys.readouterr().err


def test_a_state_that_is_damaged_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its figures cannot be read"):
        WindowFigures(tmp_path, None, b"?")
