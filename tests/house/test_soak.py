"""The soak: every case once, whatever stops it, and one line that replays a failure."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.soak.campaign import (
    CAMPAIGNS,
    campaign_names,
    case_seconds,
    fingerprint,
    load_campaign,
)
from tools.soak.record import Chunk, Failure, Record, totals
from tools.soak.workers import Pool

ROOT = Path(__file__).resolve().parent.parent.parent

CAMPAIGN = '''"""A sample campaign: seed 5 fails, 7 raises, 11 kills its process."""
import os, time
from tools.soak.campaign import Outcome

def run(seed):
    if seed == 5:
        return Outcome(False, {"seen": 1}, "five is wrong", "replay-five")
    if seed == 7:
        raise ValueError("seven")
    if seed == 11:
        os._exit(9)
    if seed >= 1000:
        time.sleep(0.05)
    return Outcome(True, {"seen": 1})
'''


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    path = tmp_path / "sample.py"
    path.write_text(CAMPAIGN)
    return path


def soak(
    campaign: Path, state: Path, *, start: int, cases: int, resume: bool, code: str = "code"
) -> list[str]:
    """The command that runs a soak of a campaign from anywhere, for a process of its own."""
    script = (
        "import sys; from pathlib import Path; from tools.soak.__main__ import soak;"
        f"sys.exit(soak(Path({str(campaign)!r}), code={code!r}, start={start}, cases={cases},"
        f" jobs=2, resume={resume}, state=Path({str(state)!r})))"
    )
    return [sys.executable, "-c", script]


def finished(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_all_cases_run_once_also_when_workers_die(campaign: Path) -> None:
    chunks = list(Pool(load_campaign(campaign), 2).run([(1, 10), (10, 200)]))
    seeds = sorted(seed for chunk in chunks for seed in range(chunk.first, chunk.end))
    assert seeds == list(range(1, 200))
    failures = sorted((f for chunk in chunks for f in chunk.failures), key=lambda f: f.seed)
    assert failures == [
        Failure(5, "five is wrong", "replay-five"),
        Failure(7, "ValueError: seven (sample.py:9)", replay_of(7)),
        Failure(11, "the process died (exit code 9)", replay_of(11)),
    ]
    assert totals(chunks) == {"seen": 199 - 2}


def replay_of(seed: int) -> str:
    return f"python3 tools/setup.py soak sample --replay {seed}"


def test_a_failure_is_one_line_with_its_replay_and_fails_the_run(
    campaign: Path, tmp_path: Path
) -> None:
    done = finished(soak(campaign, tmp_path, start=1, cases=6, resume=False))
    assert done.returncode == 1
    assert "FAILED sample 5: five is wrong -- replay: replay-five" in done.stdout.splitlines()
    assert "6 of 6 cases, 1 failed" in done.stdout
    assert "in all 6 seen" in done.stdout


def test_resuming_does_only_what_is_missing(campaign: Path, tmp_path: Path) -> None:
    assert finished(soak(campaign, tmp_path, start=20, cases=30, resume=False)).returncode == 0
    done = finished(soak(campaign, tmp_path, start=20, cases=50, resume=True))
    assert done.returncode == 0
    assert "taking up where it stopped: 30 cases are done" in done.stdout
    assert "50 of 50 cases, 0 failed" in done.stdout
    assert "in all 50 seen" in done.stdout


def test_resuming_does_not_count_results_of_other_code(campaign: Path, tmp_path: Path) -> None:
    finished(soak(campaign, tmp_path, start=20, cases=5, resume=False))
    done = finished(soak(campaign, tmp_path, start=20, cases=5, resume=True, code="other"))
    assert "nothing to resume for this code" in done.stderr
    assert "5 of 5 cases" in done.stdout


def test_a_changed_campaign_is_other_code(campaign: Path) -> None:
    before = fingerprint(campaign)
    campaign.write_text(CAMPAIGN + "# changed\n")
    assert fingerprint(campaign) != before


def test_an_interrupt_keeps_what_is_done(campaign: Path, tmp_path: Path) -> None:
    command = soak(campaign, tmp_path, start=1000, cases=100_000, resume=False)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        record = tmp_path / "sample.jsonl"
        deadline = time.monotonic() + 60
        while not (record.exists() and len(record.read_text().splitlines()) > 3):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    done = int(output.split(" of 100,000 cases")[0].splitlines()[-1].replace(",", ""))
    assert done >= 3
    kept = Record.resume(record, "code")
    assert kept is not None
    assert sum(chunk.count for chunk in kept.chunks) == done
    assert "the rest: the same command with --resume" in output


def test_a_torn_line_is_forgotten_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "sample.jsonl"
    record = Record.begin(path, "code")
    record.add(Chunk(1, 10, 0.5, {"seen": 10}, (Failure(3, "wrong", "again"),)))
    with path.open("a") as file:
        file.write('{"first": 11, "cou')
    resumed = Record.resume(path, "code")
    assert resumed is not None
    resumed.add(Chunk(21, 5, 0.1))
    again = Record.resume(path, "code")
    assert again is not None
    assert [(chunk.first, chunk.count) for chunk in again.chunks] == [(1, 10), (21, 5)]
    assert again.chunks[0].failures == (Failure(3, "wrong", "again"),)
    assert list(again.missing(1, 30)) == [(11, 21), (26, 30)]


def test_beginning_anew_keeps_the_record_before_it(tmp_path: Path) -> None:
    path = tmp_path / "sample.jsonl"
    Record.begin(path, "old").add(Chunk(1, 10, 0.5))
    Record.begin(path, "new")
    assert Record.resume(path, "old") is None
    assert len((tmp_path / "sample.previous").read_text().splitlines()) == 2


def test_a_campaign_says_itself_how_long_a_case_is() -> None:
    """An imported `CASE_S` is not seen: its long cases would run among the quick ones."""
    for name in campaign_names():
        path = CAMPAIGNS / f"{name}.py"
        told = "CASE_S" in path.read_text(encoding="utf-8")
        assert told == (case_seconds(path) > 0), name


QUICK = [name for name in campaign_names() if case_seconds(CAMPAIGNS / f"{name}.py") <= 4]


@pytest.mark.parametrize("name", QUICK)
def test_every_quick_campaign_passes_its_first_cases(name: str) -> None:
    """Ten, or as many as go in a quarter of a second: a case of a real cluster takes longer."""
    campaign = load_campaign(CAMPAIGNS / f"{name}.py")
    begun = time.monotonic()
    for seed in range(1, 11):
        outcome = campaign.outcome(seed)
        assert outcome.ok, (seed, outcome.message)
        if time.monotonic() > begun + 0.25:
            break
