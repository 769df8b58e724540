"""A live audit as a process, killed at any moment while rows are added to its history: a folder, or
a lake, which Spark reads by Python workers. These are killed, too."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from ordercast.check.report import check_history
from ordercast.history.rows import History
from support.cases.faults import broken_history
from support.cases.fuzz import right_history
from support.cases.growing import GrowingHistory, GrowingTables
from support.cases.portions import in_order, joined
from support.harness.spark_cluster import python_workers
from support.judges.live import Followed, beside_checkers, follow_portions

PARTS = 4
LIMIT_S = 240.0
_WORKER_S = 30.0  # to wait for one


def run_follow_kills(
    chance: random.Random, folder: Path, engine: str = "spark"
) -> tuple[list[str], Counter[str]]:
    """What is wrong, and how often it was killed, before and after a verdict was told."""
    wrong_rows, as_lake = chance.random() < 0.75, chance.random() < 0.5
    parts = _broken_parts(chance) if wrong_rows else _parts(chance, right_history(chance))
    counts = Counter({"with violations": int(wrong_rows), "lakes": int(as_lake)})
    growing = GrowingTables(folder / "h") if as_lake else GrowingHistory(folder / "h")
    for part in parts:
        growing.append(part)
        if part is not parts[-1]:
            counts[_killed(chance, folder, engine, workers=as_lake)] += 1
    last = subprocess.run(
        [*_words(folder, engine), "--once"], capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    if not last.stdout or last.returncode not in (0, 1):
        return [f"no verdict, exit code {last.returncode}: {last.stderr[-500:]}"], counts
    found = json.loads(last.stdout.splitlines()[-1])
    wanted = check_history(joined(parts)).as_json()
    judged = beside_checkers({name: found.get(name) for name in wanted}, parts, "at the end")
    counts["inexact, as they say"] += judged.inexact
    if wrong_rows == wanted["ok"] or bool(last.returncode) == wanted["ok"]:
        judged.wrong.append(f"exit code {last.returncode}, and ok is {wanted['ok']}")
    return judged.wrong, counts


def _parts(chance: random.Random, history: History) -> list[History]:
    portions = in_order(chance, history)
    size = -(-len(portions) // PARTS)
    return [joined(portions[at : at + size]) for at in range(0, len(portions), size)]


def _broken_parts(chance: random.Random) -> list[History]:
    """With violations that the live audit counts exactly when nothing is killed."""
    while True:
        parts = _parts(chance, broken_history(chance)[0])
        exact = follow_portions(chance, parts) == Followed()
        if exact and not check_history(joined(parts)).as_json()["ok"]:
            return parts


def _words(folder: Path, engine: str) -> list[str]:
    place = ["--checkpoint", str(folder / "state"), "--engine", engine, "--json"]
    return [sys.executable, "-m", "ordercast.cli", "audit", "--follow", str(folder / "h"), *place]


def _killed(chance: random.Random, folder: Path, engine: str, *, workers: bool) -> str:
    """Start it, and kill driver and JVM at once: some time after its start, or its first line.
    `workers`: or kill a Python worker first, and the others a moment later."""
    with (folder / "said").open("w+b") as said:
        process = subprocess.Popen(
            _words(folder, engine), stdout=said, stderr=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + LIMIT_S
        worker = workers and engine == "spark" and chance.random() < 0.5
        early = not worker and chance.random() < 0.5
        killed = worker and _worker_killed(chance, process.pid)
        while not early and not killed and not _size(said.fileno()) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(chance.random() * (12.0 if early and engine == "spark" else 1.0))
        with suppress(ProcessLookupError):  # it may end without its worker
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if killed:
            return "kills of a worker"
        return "kills after a verdict" if _size(said.fileno()) else "early kills"


def _size(file: int) -> int:
    return os.fstat(file).st_size


def _worker_killed(chance: random.Random, process: int) -> bool:
    end = time.monotonic() + _WORKER_S
    while time.monotonic() < end:
        workers = python_workers(process)
        if workers:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                return True
        time.sleep(0.02)
    return False
