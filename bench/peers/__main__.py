"""ordercast beside other systems, in turns on one machine: `make bench BENCH=beside`.

Messages per second that every member has delivered, at full speed and message by message; then
delays at an even rate, with the processor time of members and servers for each message.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Protocol

from bench.peers.corosync import Corosync
from bench.peers.etcd import Etcd
from bench.peers.nats import Nats
from bench.peers.redis import Redis
from bench.peers.servers import Servers
from bench.peers.tls import TLS
from bench.peers.zeromq import ZeroMq
from bench.runtime import run_floor
from ordercast.model.errors import Error
from ordercast.net.bench.run import BenchSpec, run_bench, run_members

Row = dict[str, Any]


class System(Protocol):
    """A peer. Variants are what its rows differ in."""

    @property
    def name(self) -> str: ...
    @property
    def promise(self) -> str: ...
    @property
    def variants(self) -> Sequence[str]: ...

    def missing(self) -> str:
        """Why it cannot run here; empty: it can."""

    def serve(self, servers: Servers, members: int, variant: str) -> list[dict[str, Any]]:
        """Start the servers. Returns what each member is told; `prefix`: words before its
        command."""


PEERS: tuple[System, ...] = (ZeroMq(), Corosync(), Redis(), Nats(), Etcd())


@dataclass(frozen=True)
class Line:
    """A row of the table: a name, and what runs it for (seconds, rate)."""

    name: str
    promise: str
    run: Callable[[float, float], Row]


def run_peer(
    system: System, variant: str, members: int, payload: int, seconds: float, rate: float
) -> Row:
    with (
        tempfile.TemporaryDirectory(prefix="ordercast-peer-") as made,
        Servers(Path(made)) as servers,
    ):
        told = system.serve(servers, members, variant)
        commands = []
        for number, words in enumerate(told):
            prefix = words.get("prefix", [])
            spec = {
                **words, "system": system.name, "members": members, "number": number,
                "payload": payload, "batch": False, "rate": rate / members,
            }  # fmt: skip
            command = [sys.executable, "-m", "bench.peers.member", json.dumps(spec)]
            commands.append([*prefix, *command])
        before = servers.cpu_s()
        measured = run_members(commands, seconds)
        cpu_s = servers.cpu_s() - before
    if measured["cpu_us_per_msg"] is not None:
        measured["cpu_us_per_msg"] += round(cpu_s * 1e6 / measured["messages"], 3)
    return measured


def lines(members: int, payload: int, wanted: Sequence[str]) -> list[Line]:
    def ours(deliver: str, durability: str, *, tls: bool = False) -> Line:
        def run(seconds: float, rate: float) -> Row:
            return run_bench(
                BenchSpec(
                    members=members,
                    payload=payload,
                    seconds=seconds,
                    deliver=deliver,
                    durability=durability,
                    tls=tls,
                    rate=rate or None,
                )
            )

        name = ", ".join(["ordercast", deliver, durability, *([TLS] if tls else [])])
        return Line(name, "docs/guarantees.md", run)

    def theirs(system: System, variant: str) -> Line:
        def run(seconds: float, rate: float) -> Row:
            return run_peer(system, variant, members, payload, seconds, rate)

        return Line(", ".join(filter(None, [system.name, variant])), system.promise, run)

    found = [
        Line("floor", "nothing", lambda seconds, rate: run_floor(members, payload, seconds, rate)),
        *(ours("agreed", "memory", tls=tls) for tls in (False, True)),
        *(ours("safe", "sync", tls=tls) for tls in (False, True)),
    ]
    for system in PEERS:
        why = system.missing()
        if why:
            print(f"{system.name} is left out: {why}", file=sys.stderr)
        else:
            found += [theirs(system, variant) for variant in system.variants]
    return [line for line in found if not wanted or any(word in line.name for word in wanted)]


def best(found: Row, row: Row, *, rate: float) -> Row:
    """The better of two runs: more messages per second, or the shorter median."""
    if not found:
        return row
    if rate:
        return min(found, row, key=lambda each: float(each["p50_ms"] or inf))
    return max(found, row, key=lambda each: float(each["msgs_per_s"]))


def measure(options: argparse.Namespace) -> list[Row]:
    rows = lines(options.members, options.payload, options.only)
    speed: list[Row] = [{} for _ in rows]
    delay: list[Row] = [{} for _ in rows]
    for _ in range(options.repeat):
        for number, line in enumerate(rows):
            for rate, table in ((0.0, speed), (options.rate, delay)):
                row = line.run(options.seconds, rate)
                if not row["same_order"]:
                    raise Error(f"{line.name}: members did not deliver in the same order")
                table[number] = best(table[number], row, rate=rate)
            print(f"  {line.name}: {speed[number]['msgs_per_s']:,}", file=sys.stderr, flush=True)
    return [
        {
            "system": line.name,
            "promise": line.promise,
            "msgs_per_s": fast["msgs_per_s"],
            "cpu_us_per_msg": fast["cpu_us_per_msg"],
            "p50_ms": even["p50_ms"],
            "p99_ms": even["p99_ms"],
            "cpu_us_per_msg_at_rate": even["cpu_us_per_msg"],
        }
        for line, fast, even in zip(rows, speed, delay, strict=True)
    ]


def shown(figure: float | None, digits: int) -> str:
    """A dash where nothing was delivered while it was measured."""
    return "-" if figure is None else f"{figure:.{digits}f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="beside", description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument(
        "--quick", action="store_true", help="every row once and short: two minutes"
    )
    parser.add_argument("--seconds", type=float, help="of each run (default: 2; quick: 0.5)")
    parser.add_argument("--repeat", type=int, help="best of so many (default: 3; quick: 1)")
    parser.add_argument("--rate", type=float, default=1_000.0, help="for delays (default: 1000)")
    parser.add_argument("--only", action="append", default=[], help="rows with this in their name")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.seconds = options.seconds or (0.5 if options.quick else 2.0)
    options.repeat = options.repeat or (1 if options.quick else 3)
    try:
        rows = measure(options)
    except Error as error:
        print(f"beside: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "rate": options.rate, "rows": rows}))
        return 0
    print(f"{options.members} members, {options.payload} B, best of {options.repeat} in turns")
    print(f"{'':38} messages/s  µs each   at {options.rate:,.0f}/s: p50     p99 ms  µs each")
    for row in rows:
        print(
            f"{row['system']:38} {row['msgs_per_s']:10,} {shown(row['cpu_us_per_msg'], 2):>8}"
            f" {shown(row['p50_ms'], 3):>17} {shown(row['p99_ms'], 3):>10}"
            f" {shown(row['cpu_us_per_msg_at_rate'], 0):>8}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
