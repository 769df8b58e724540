"""Following a folder that grows, in one process: the verdict, the checkpoint, kills, mistakes."""

import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ordercast.check.report import check_history
from ordercast.cli import main
from ordercast.history.reader import read_history
from ordercast.history.rows import Delivered, Event, GroupRow, History, Sent
from ordercast.history.schema import parquet
from ordercast.history.writer import write_history
from ordercast.model.errors import ConfigError
from ordercast.pipeline.following import folder as folders
from ordercast.pipeline.following.folder import GrowingFolder
from ordercast.pipeline.following.in_process import follow_folder
from support.cases.faults import broken_history
from support.cases.fuzz import right_history
from support.cases.growing import GrowingHistory
from support.cases.portions import in_order, joined


def plain(report: Any) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "seconds"}


def of_all(history: History) -> dict[str, Any]:
    return plain(check_history(history).as_json())


def test_after_every_file_the_verdict_is_that_of_the_audit(tmp_path: Path) -> None:
    rng = random.Random(11)
    portions = in_order(rng, right_history(rng))
    growing = GrowingHistory(tmp_path / "h")
    verdicts = follow_folder(growing.folder, every_s=0.0)
    next(verdicts)
    for count, portion in enumerate(portions, 1):
        growing.append(portion)
        found = plain(next(verdicts).report)
        assert found == of_all(joined(portions[:count]))
        assert found == of_all(read_history(growing.folder))


def test_another_process_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    rng = random.Random(5)
    portions = in_order(rng, broken_history(rng)[0])
    growing = GrowingHistory(tmp_path / "h")
    for count, portion in enumerate(portions, 1):
        growing.append(portion)
        *_, last = follow_folder(growing.folder, checkpoint=tmp_path / "state", once=True)
        assert plain(last.report) == of_all(joined(portions[:count]))
    assert len(list((tmp_path / "state").iterdir())) <= 2


def test_a_batch_that_is_lost_after_it_was_judged_is_judged_again(tmp_path: Path) -> None:
    """A kill before the rename: the last checkpoint is not there."""
    rng = random.Random(6)
    portions = in_order(rng, broken_history(rng)[0])
    growing = GrowingHistory(tmp_path / "h")
    for portion in portions:
        growing.append(portion)
        *_, last = follow_folder(growing.folder, checkpoint=tmp_path / "state", once=True)
        if rng.random() < 0.5:
            max((tmp_path / "state").iterdir()).unlink()
    assert plain(last.report) == of_all(joined(portions))


def test_an_alert_has_the_smallest_witness_and_is_given_once(tmp_path: Path) -> None:
    history = next(
        history
        for seed in range(100)
        if not check_history(history := broken_history(random.Random(seed))[0]).ok
    )
    growing = GrowingHistory(tmp_path / "h")
    growing.append(history)
    (verdict,) = follow_folder(growing.folder, checkpoint=tmp_path / "state", once=True)
    expected = of_all(history)
    assert {alert.check: alert.witness for alert in verdict.alerts} == expected["witnesses"]
    (again,) = follow_folder(growing.folder, checkpoint=tmp_path / "state", once=True)
    assert again.alerts == []
    assert plain(again.report) == expected


def test_a_rollback_of_what_is_condensed_is_mended_by_reading_again(tmp_path: Path) -> None:
    sent = [Sent("a", 1, "g", seq, 0, 0, seq, 8) for seq in (1, 2, 3)]
    rows = [Delivered("a", seq, 1, 1, "g", "a", 1, seq, seq) for seq in (1, 2, 3)]
    portions = [
        History(groups=[GroupRow(1, "g", "a"), GroupRow(2, "g", "a")], sent=sent, deliveries=rows),
        History(
            events=[Event("a", 1, "rollback", 1, 2, 2, 0)],
            deliveries=[Delivered("a", 2, 2, 2, "g", "a", 1, 2, 9)],
        ),
    ]
    growing = GrowingHistory(tmp_path / "h")
    verdicts = follow_folder(growing.folder, every_s=0.0)
    next(verdicts)
    for count, portion in enumerate(portions, 1):
        growing.append(portion)
        assert plain(next(verdicts).report) == of_all(joined(portions[:count]))


def test_large_files_come_in_portions_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a stop between two portions of a file loses nothing."""

    monkeypatch.setattr(folders, "BATCH_ROWS", 100)
    sent = [Sent("a", 1, "g", seq, 0, 0, seq, 8) for seq in range(1, 401)]
    rows = [
        Delivered(site, seq, 1, 1, "g", "a", 1, seq, seq) for site in "ab" for seq in range(1, 401)
    ]
    history = History(groups=[GroupRow(1, "g", s) for s in "ab"], sent=sent, deliveries=rows)
    write_history(history, tmp_path / "h")
    for table in ("deliveries", "sent"):  # as an export writes: many row groups
        path = tmp_path / "h" / table / "part-00000.parquet"
        data = parquet().read_table(path)
        parquet().write_table(data, path, row_group_size=20)
    held = []
    verdicts = follow_folder(tmp_path / "h", checkpoint=tmp_path / "state", once=True)
    for verdict, _ in zip(verdicts, range(5), strict=False):
        held.append(verdict.held)
        assert verdict.ok
    for verdict in follow_folder(tmp_path / "h", checkpoint=tmp_path / "state", once=True):
        held.append(verdict.held)
    assert plain(verdict.report) == of_all(history)
    assert len(held) > 10
    assert max(held) < 200  # of 1,200


def test_a_killed_follower_ends_with_the_same_verdict(tmp_path: Path) -> None:
    """SIGKILL when some of the rows are judged, then Ctrl-C; then to the end."""
    rng = random.Random(9)
    history = right_history(rng)
    portions = in_order(rng, history)
    repeated = history.deliveries[0]
    last = max(row.position for row in history.deliveries if row.site == repeated.site)
    portions.append(History(deliveries=[structs.replace(repeated, position=last + 1)]))
    growing = GrowingHistory(tmp_path / "h")
    command = [
        sys.executable, "-m", "ordercast.cli", "audit", "--follow", str(growing.folder), "--engine",
        "memory", "--checkpoint", str(tmp_path / "state"), "--json", "--every", "0.01",
    ]  # fmt: skip
    there = 0
    parts = (portions[:3], portions[3:5], portions[5:])
    for part, number in zip(parts, (signal.SIGKILL, signal.SIGKILL, signal.SIGINT), strict=True):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for portion in part:
                growing.append(portion)
            added = sum(len(portion.deliveries) for portion in part)
            seen = -1
            while seen < there + rng.randint(0, added):
                seen = json.loads(process.stdout.readline()).get("rows", seen)
            process.send_signal(number)
            process.stdout.read()
        assert process.returncode == (130 if number == signal.SIGINT else -number)
        there += added
    done = subprocess.run([*command, "--once"], check=False, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    expected = of_all(joined(portions))
    assert {name: found[name] for name in expected} == expected
    assert found["checks"]["integrity"] == done.returncode == 1


def test_what_is_not_a_growing_history_is_refused_in_one_line(tmp_path: Path) -> None:
    growing = GrowingHistory(tmp_path / "h")
    verdicts = follow_folder(growing.folder, every_s=0.0, checkpoint=tmp_path / "state")
    next(verdicts)
    (growing.folder / "sent" / "part-00000.parquet").unlink()
    growing.append(History(), every=True)
    with pytest.raises(ConfigError, match=r"part-00000.parquet: is gone: a history that is"):
        next(verdicts)
    shutil.copytree(growing.folder, tmp_path / "other")
    with pytest.raises(ConfigError, match=r"is of the history .*/h, not of .*/other"):
        next(follow_folder(tmp_path / "other", checkpoint=tmp_path / "state"))
    (tmp_path / "state" / "mine.txt").touch()
    with pytest.raises(ConfigError, match=r"holds 'mine.txt', which is no checkpoint"):
        next(follow_folder(growing.folder, checkpoint=tmp_path / "state"))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "batch-000000000000.batch").write_bytes(b"torn")
    with pytest.raises(ConfigError, match="is no checkpoint of a live audit"):
        next(follow_folder(growing.folder, checkpoint=tmp_path / "bad"))
    with pytest.raises(ConfigError, match="there is no such folder"):
        GrowingFolder(tmp_path / "nothing")
    of_spark = {"": {"append": [3]}}  # what a query over a lake keeps: all would be read again
    with pytest.raises(ConfigError, match="is of a streaming query over this lake"):
        GrowingFolder(growing.folder, of_spark)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--checkpoint", "x"], "--checkpoint needs --follow"),
        (["--follow", "--causal"], "--causal cannot be had with --follow"),
        (["--follow", "--run", "r"], "--run cannot be had with --follow"),
        (["--follow", "--engine", "memory", "--memory", "1g"], "--memory needs --engine spark"),
        (["--follow", "--every", "0"], "--every: '0' is not"),
    ],
)
def test_options_that_do_not_go_together_are_told(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(tmp_path), *options]) == 2
    assert words in capsys.readouterr().err
