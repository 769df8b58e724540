"""A few ratios in three minutes, beside those that were recorded: what has become worse?

    python bench/quick.py [--record] [--json]          (make bench-quick)

Absolute figures depend on the machine and on what else it does. So each figure is a ratio to
something that runs in turns with it: the floor (`bench/floor.py`), a commit of SQLite on the same
disk, the embedded node, SimPy. The best of the turns counts. `bench/recorded.json` has the ratios
of the repository; `--record` writes it anew. A ratio that is more than 15 % worse is named.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ordercast.model.errors import Error
from ordercast.net.bench.run import BenchSpec, run_bench

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.json"
WORSE = 0.15
RATE = 1_000.0
TURNS = 3
SECONDS = 1.0
COMMITS = 60  # of SQLite, in each turn

Row = dict[str, Any]

CELLS: dict[str, Row] = {
    "batches": {"api": "batch"},
    "messages": {},
    "stored": {"deliver": "safe", "durability": "sync"},
    "even": {"rate": RATE},
    "even stored": {"rate": RATE, "deliver": "safe", "durability": "sync"},
}

# What a ratio is of, whether more is better, and how far the goal is.
RATIOS: dict[str, tuple[str, bool, float]] = {
    "batches": ("messages/s by batches, agreed and memory, of the floor's", True, 0.4),
    "messages": ("messages/s one by one, agreed and memory, of the floor's", True, 0.5),
    "stored": ("messages/s one by one, safe and sync, of the floor's", True, 0.1),
    "delay": ("p50 at 1,000/s, agreed and memory, of the floor's", False, 2.5),
    "cpu": ("processor time of a message at 1,000/s, of the floor's", False, 1.6),
    "stored delay": ("p50 at 1,000/s, safe and sync, in commits of SQLite", False, 8.0),
    "client": ("messages/s of a daemon's client, of the embedded node's", True, 0.5),
    "simulator": ("events/s of the simulator, of SimPy's, the least of all rows", True, 1.5),
}


def script(name: str, *words: str) -> Any:
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode or not done.stdout:
        raise Error(f"bench/{name}.py ended with code {done.returncode}; see above")
    return json.loads(done.stdout)


def floor(rate: float = 0.0) -> Row:
    found: Row = script("floor", f"--seconds={SECONDS}", f"--rate={rate}")
    return checked(found)


def ours(**options: Any) -> Row:
    return checked(run_bench(BenchSpec(seconds=SECONDS, **options)))


def checked(row: Row) -> Row:
    if not row["same_order"]:
        raise Error(f"members did not deliver in the same order: {row}")
    return row


def commit_ms() -> float:
    """The median time of a small commit, as a site's store makes them."""
    with tempfile.TemporaryDirectory(prefix="ordercast-bench-") as made:
        db = sqlite3.connect(Path(made) / "commits", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE rows (n INTEGER PRIMARY KEY, body BLOB)")
        body, took = bytes(100), []
        for _ in range(COMMITS):
            begun = time.perf_counter()
            db.execute("INSERT INTO rows (body) VALUES (?)", (body,))
            took.append(time.perf_counter() - begun)
        db.close()
    return statistics.median(took) * 1e3


def most(rows: Sequence[Row], field: str) -> float:
    return max(float(row[field]) for row in rows)


def least(rows: Sequence[Row], field: str) -> float:
    return min(float(row[field]) for row in rows)


def measured() -> dict[str, float]:
    runs: dict[str, list[Row]] = {}
    commits: list[float] = []
    for turn in range(TURNS):
        for rate in (0.0, RATE):
            runs.setdefault(f"floor {rate:g}", []).append(floor(rate))
        for name, options in CELLS.items():
            runs.setdefault(name, []).append(ours(**options))
        commits.append(commit_ms())
        print(f"  turn {turn + 1} of {TURNS}", file=sys.stderr, flush=True)
    base = most(runs["floor 0"], "msgs_per_s")
    even_floor = runs[f"floor {RATE:g}"]
    clients = script("clients", "--seconds=1.2", "--repeat=2")["ways"]
    simulated = script("sim", "--messages=300", "--repeat=2")["rows"]
    return {
        "batches": most(runs["batches"], "msgs_per_s") / base,
        "messages": most(runs["messages"], "msgs_per_s") / base,
        "stored": most(runs["stored"], "msgs_per_s") / base,
        "delay": least(runs["even"], "p50_ms") / least(even_floor, "p50_ms"),
        "cpu": least(runs["even"], "cpu_us_per_msg") / least(even_floor, "cpu_us_per_msg"),
        "stored delay": least(runs["even stored"], "p50_ms") / min(commits),
        "client": max(clients["socket"]["ratio"], clients["tls"]["ratio"]),
        "simulator": least(simulated, "ratio"),
    }


def worse(name: str, now: float, before: float) -> bool:
    up = RATIOS[name][1]
    return now < before * (1 - WORSE) if up else now > before * (1 + WORSE)


def compared(now: dict[str, float], before: dict[str, float]) -> list[str]:
    """One line for each ratio, and the names of those that are worse."""
    lines = [f"{'':62} now  recorded  goal"]
    for name, ratio in now.items():
        what, up, goal = RATIOS[name]
        known = before.get(name)
        told = "        -" if known is None else f"{known:9.2f}"
        reached = ratio >= goal if up else ratio <= goal
        mark = "" if known is None or not worse(name, ratio, known) else "   WORSE"
        sign = "≥" if up else "≤"
        lines.append(
            f"{what:60} {ratio:5.2f} {told}  {sign} {goal:g}{'' if reached else ' missed'}{mark}"
        )
    bad = [n for n, ratio in now.items() if n in before and worse(n, ratio, before[n])]
    lines.append(f"worse by more than {WORSE:.0%}: {', '.join(bad) if bad else 'nothing'}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="write bench/recorded.json anew")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        now = {name: round(ratio, 3) for name, ratio in measured().items()}
    except Error as error:
        print(f"quick: {error}", file=sys.stderr)
        return 1
    before = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "now": now, "recorded": before}))
    else:
        print("\n".join(compared(now, before)))
    if options.record:
        RECORDED.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
