"""How fast sites are in real processes, beside a bare sequencer that guarantees nothing.

    python bench/runtime.py [--quick] [--seconds 3] [--repeat 3] [--json]

The matrix: 3 and 5 members, 100 B and 1 KiB, `agreed` and `safe`, `memory` and `sync`, without and
with TLS, message by message and by the batch; then the latency at 1,000 messages per second. The
floor (`bench/floor.py`) runs in between, again and again, so that both sides meet the same machine;
of each the best run counts, and the ratio is of those. `--members` and `--payload` choose a part of
the matrix; `--quick`: agreed and memory, 3 members, 100 B only, short.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from ordercast.model.errors import Error
from ordercast.net.bench.run import BenchSpec, run_bench

Row = dict[str, Any]

GOALS = {"batch": 0.4, "message": 0.25}  # of the floor, at agreed and memory without TLS
GOAL_P50_MS = 0.4  # at RATE
RATE = 1_000.0


def matrix(
    seconds: float, members: Sequence[int], payloads: Sequence[int]
) -> Iterator[list[BenchSpec]]:
    """By members and payload: those have a floor in common."""
    for count, payload in product(members, payloads):
        yield [
            BenchSpec(
                members=count, payload=payload, seconds=seconds, deliver=deliver,
                durability=durability, tls=tls, api=api,
            )
            for deliver, durability, tls, api in product(
                ("agreed", "safe"), ("memory", "sync"), (False, True), ("batch", "message")
            )
        ]  # fmt: skip


def quick(seconds: float) -> Iterator[list[BenchSpec]]:
    yield [BenchSpec(seconds=seconds, api=api) for api in ("batch", "message")]


def run_floor(members: int, payload: int, seconds: float, rate: float = 0.0) -> Row:
    command = [sys.executable, str(Path(__file__).with_name("floor.py")), "--json"]
    command += [f"--members={members}", f"--payload={payload}", f"--seconds={seconds}"]
    done = subprocess.run([*command, f"--rate={rate}"], stdout=subprocess.PIPE, check=False)
    if not done.stdout:
        raise Error(f"the floor ended with code {done.returncode}; see above")
    found: Row = json.loads(done.stdout)
    return found


def best(rows: list[Row]) -> Row:
    return max(rows, key=lambda row: row["msgs_per_s"])


def compare(specs: list[BenchSpec], seconds: float, repeat: int) -> tuple[Row, list[Row]]:
    """The floor's best run and each spec's, with the ratio of the two."""
    members, payload = specs[0].members, specs[0].payload
    floors: list[Row] = []
    runs: list[list[Row]] = [[] for _ in specs]
    for _ in range(repeat):
        for number, spec in enumerate(specs):
            if number % 4 == 0:
                floors.append(checked(run_floor(members, payload, seconds)))
            runs[number].append(checked(run_bench(spec)))
            say(runs[number][-1])
    floor = best(floors)
    rows = []
    for found in map(best, runs):
        ratio = found["msgs_per_s"] / floor["msgs_per_s"]
        cpu = floor["cpu_us_per_msg"] / found["cpu_us_per_msg"]
        rows.append({**found, "ratio": round(ratio, 2), "cpu_ratio": round(cpu, 2)})
    return floor, rows


def latency(seconds: float, repeat: int) -> list[Row]:
    """At an even rate; the best median of each kind."""
    specs = [BenchSpec(seconds=seconds, rate=RATE, deliver=level) for level in ("agreed", "safe")]
    specs.append(replace(specs[1], durability="sync"))
    found: list[Row] = []
    for spec in specs:
        runs = [checked(run_bench(spec)) for _ in range(repeat)]
        found.append(min(runs, key=lambda row: row["p50_ms"]))
    floors = [checked(run_floor(3, 100, seconds, RATE)) for _ in range(repeat)]
    return [*found, min(floors, key=lambda row: row["p50_ms"])]


def checked(row: Row) -> Row:
    if not row["same_order"]:
        raise SystemExit(f"members did not deliver in the same order: {row}")
    return row


def say(row: Row) -> None:
    print(f"  {named(row)}: {row['msgs_per_s']:,} messages/s", file=sys.stderr, flush=True)


def named(row: Row) -> str:
    if "deliver" not in row:
        return "floor"
    tls = "TLS" if row["tls"] else "-"
    return f"{row['deliver']:6} {row['durability']:6} {tls:3} {row['api']:7}"


def shown(row: Row, wanted: float | None = None) -> str:
    cells = [
        f"{row['members']} {row['payload']:5} B  {named(row):27} {row['msgs_per_s']:11,}",
        f"{row.get('ratio', 1.0):6.2f} {row['cpu_us_per_msg']:9.2f}",
        f"{row['p50_ms']:9.2f} {row['p99_ms']:9.2f}",
    ]
    if wanted is not None:
        cells.append(f"  goal {wanted}: {'reached' if row['ratio'] >= wanted else 'MISSED'}")
    return " ".join(cells)


def goal(row: Row) -> float | None:
    at_goal = (row["deliver"], row["durability"], row["tls"]) == ("agreed", "memory", False)
    return GOALS[row["api"]] if at_goal else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the goals' cells only, short")
    parser.add_argument("--seconds", type=float, default=None, help="of each run (default: 3)")
    parser.add_argument("--repeat", type=int, default=None, help="best of so many (default: 2)")
    parser.add_argument("--members", type=int, action="append", help="3 and 5 (default)")
    parser.add_argument("--payload", type=int, action="append", help="100 and 1024 (default)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = options.seconds or (1.5 if options.quick else 3.0)
    repeat = options.repeat or (3 if options.quick else 2)
    try:
        if options.quick:
            cells = quick(seconds)
        else:
            cells = matrix(seconds, options.members or (3, 5), options.payload or (100, 1024))
        compared = [compare(specs, seconds, repeat) for specs in cells]
        even = latency(seconds, repeat)
    except Error as error:
        print(f"runtime: {error}", file=sys.stderr)
        return 1
    if options.json:
        rows = [row for floor, ours in compared for row in (floor, *ours)]
        machine = {"cores": os.cpu_count(), "python": platform.python_version()}
        wanted = {"ratio": GOALS, "p50_ms": GOAL_P50_MS, "rate": RATE}
        json.dump({"machine": machine, "goals": wanted, "rows": rows, "even": even}, sys.stdout)
        print()
        return 0
    print(f"{os.cpu_count()} cores; best of {repeat} runs of {seconds:g} s; µs of all members\n")
    print(
        "members, payload, level, store, TLS, API    messages/s  ratio    µs/msg    p50 ms    p99"
    )
    for floor, ours in compared:
        print(shown(floor))
        for row in ours:
            print(shown(row, goal(row)))
    print(f"\nat {RATE:,.0f} messages/s of three members, 100 B (goal: p50 {GOAL_P50_MS} ms)")
    for row in even:
        print(f"  {named(row):27} p50 {row['p50_ms']:.3f} ms, p99 {row['p99_ms']:.3f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
