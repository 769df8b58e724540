"""A live audit as a process, killed at any moment while files are added to its history."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from ordercast.check.report import check_history
from ordercast.history.rows import History
from support.cases.fuzz import right_history
from support.cases.growing import GrowingHistory
from support.cases.portions import in_order, joined

PARTS = 4
LIMIT_S = 240.0


def run_follow_kills(
    chance: random.Random, folder: Path, engine: str = "spark"
) -> tuple[list[str], Counter[str]]:
    """What is wrong, and how often it was killed, before and after a verdict was told."""
    portions = in_order(chance, right_history(chance))
    size = -(-len(portions) // PARTS)
    growing, counts = GrowingHistory(folder / "h"), Counter[str]()
    told: list[History] = []
    for at in range(0, len(portions), size):
        part = joined(portions[at : at + size])
        growing.append(part)
        told.append(part)
        if at + size < len(portions):
            counts[_killed(chance, folder, engine)] += 1
    last = subprocess.run(
        [*_words(folder, engine), "--once"], capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    if not last.stdout:
        return [f"no verdict: {last.stderr[-500:]}"], counts
    found = json.loads(last.stdout.splitlines()[-1])
    wanted = check_history(joined(told)).as_json()
    other = [name for name in wanted if name != "seconds" and found.get(name) != wanted[name]]
    return [f"{name}: {found.get(name)} and not {wanted[name]}" for name in other], counts


def _words(folder: Path, engine: str) -> list[str]:
    place = ["--checkpoint", str(folder / "state"), "--engine", engine, "--json"]
    return [sys.executable, "-m", "ordercast.cli", "audit", "--follow", str(folder / "h"), *place]


def _killed(chance: random.Random, folder: Path, engine: str) -> str:
    """Start it, and kill driver and JVM at once: some time after its start, or its first line."""
    with (folder / "said").open("w+b") as said:
        process = subprocess.Popen(
            _words(folder, engine), stdout=said, stderr=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + LIMIT_S
        early = chance.random() < 0.5
        while not early and not os.fstat(said.fileno()).st_size and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(chance.random() * (12.0 if early and engine == "spark" else 1.0))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "kills after a verdict" if os.fstat(said.fileno()).st_size else "early kills"
