"""The log of a daemon: text, JSON, the journal; and a file that is rotated."""

import json
import logging
import os
import sys
from pathlib import Path

import pytest

from ordercast.net.cluster.file import read_cluster
from ordercast.net.cluster.processes import StartFailed, log_file, require_all_run, start
from ordercast.net.daemon import log_output
from ordercast.net.daemon.log_output import JournalLines, JsonLines, RotatedLog, TextLines
from support.clusters.processes import write_cluster


def record(message: str, level: int = logging.WARNING, *, error: bool = False) -> logging.LogRecord:
    try:
        raise ValueError("broken")
    except ValueError:
        info = sys.exc_info() if error else None
    return logging.LogRecord("ordercast.net.x", level, "", 1, "%s", (message,), info)


def test_a_line_of_json_is_one_object_whatever_a_peer_says() -> None:
    lines = JsonLines("a").format(record('say "ä"\n\x1b[31m', error=True)).splitlines()
    assert len(lines) == 1
    told = json.loads(lines[0])
    assert told["at"].endswith("Z")
    assert (told["site"], told["level"], told["logger"]) == ("a", "warning", "ordercast.net.x")
    assert told["message"] == 'say "ä"\n\x1b[31m'
    assert "ValueError: broken" in told["error"]


def test_every_line_of_the_journal_has_its_priority() -> None:
    told = JournalLines("a %(levelname)s %(message)s").format(record("stop", error=True))
    assert told.splitlines()[0] == "<4>a WARNING stop"
    assert all(line.startswith("<4>") for line in told.splitlines())
    assert len(told.splitlines()) > 2


@pytest.mark.parametrize("named", [True, False])
def test_the_journal_is_told_from_another_pipe(
    named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    found = os.fstat(write)
    other = f"{found.st_dev}:{found.st_ino + (0 if named else 1)}"
    monkeypatch.setenv("JOURNAL_STREAM", other)
    monkeypatch.setattr(log_output, "_STDERR", write)
    try:
        assert log_output._is_journal() is named
    finally:
        os.close(read)
        os.close(write)


def test_a_log_is_rotated_and_standard_error_goes_on_in_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    monkeypatch.setattr(log_output, "_STDERR", descriptor)
    monkeypatch.setattr(log_output, "LOG_BYTES", 200)
    handler = RotatedLog(path)
    handler.setFormatter(TextLines("%(message)s"))
    try:
        for number in range(60):
            handler.emit(record(f"line {number:03} {'x' * 40}"))
        os.write(descriptor, b"a crash of the interpreter\n")
    finally:
        os.close(descriptor)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["a.log", "a.log.1", "a.log.2", "a.log.3", "a.log.4"]
    assert "a crash of the interpreter" in path.read_text()
    kept = [tmp_path / f"a.log.{number}" for number in (4, 3, 2, 1)]
    lines = [line for each in [*kept, path] for line in each.read_text().splitlines()]
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line")]
    assert numbers == list(range(numbers[0], 60))
    assert path.stat().st_mode & 0o77 == 0 == kept[-1].stat().st_mode & 0o22


def test_a_daemon_that_cannot_start_says_why_in_its_json_log(tmp_path: Path) -> None:
    file = write_cluster(tmp_path, {"alpha": ["a"]}, {"log": "json"})
    cluster = read_cluster(file)
    (tmp_path / "a.db").write_bytes(b"this is no store" * 100)
    started = start(cluster, ["a"], tmp_path, detached=True)
    started["a"].wait()
    with pytest.raises(StartFailed, match=r"site a did not start: .*a\.db"):
        require_all_run(started, tmp_path)
    lines = [json.loads(line) for line in log_file(tmp_path, "a").read_text().splitlines()]
    assert lines[0]["message"] == "starts"
    assert lines[-1]["level"] == "critical"
