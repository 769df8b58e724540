"""How fast a program sends and reads, message by message: with the site inside it, through a daemon
over its socket, and through a daemon over TLS as from another machine.

    python bench/clients.py [--seconds 3] [--repeat 3] [--payload 100] [--json]

One site with a group of its own, at `agreed` and `memory`, so that what differs is the way to it.
The program sends one message after another, as fast as it may, and reads all of them back. The ways
take turns; of each the best run counts, and the ratio is to the site inside the program. Processor
time is that of the program and the daemon together, for a message that is sent and read: on a busy
machine it says more than the rate.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ordercast
from ordercast.model.errors import Error
from ordercast.net.bench.run import free_ports
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from ordercast.net.daemon.daemon import loop_factory

WAYS = ("embedded", "socket", "tls")
GOAL = 0.4  # of the embedded node, over TLS


def write_cluster(place: Path) -> tuple[Path, int]:
    links, clients = free_ports(2)
    write_certificates("bench", ["a"], place / "certs")
    add_client_certificates("bench", ["load"], place / "certs")
    file = place / "cluster.toml"
    file.write_text(
        f"""[cluster]
name = "bench"
deliver = "agreed"
durability = "memory"
[tls]
dir = "certs"
[sites.a]
address = "127.0.0.1:{links}"
clients = "127.0.0.1:{clients}"
[groups]
all = ["a"]
[grants]
"client:load" = ["send", "read", "observe"]
"site:a" = ["send", "read", "observe"]
socket = ["send", "read", "observe"]
""",
        encoding="utf-8",
    )
    return file, clients


@contextlib.contextmanager
def daemon(file: Path, place: Path) -> Iterator[int]:
    words = [sys.executable, "-m", "ordercast.cli", "node", str(file), "--site", "a"]
    words += ["--dir", str(place / "daemon"), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        try:
            if b"ready" not in child.stdout.readline():
                raise Error("the daemon did not start")
            yield child.pid
        finally:
            child.terminate()


def processor_s(pid: int | None) -> float:
    """Processor time of this process, and of the daemon, so far."""
    if pid is None:
        return time.process_time()
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(node: Any, payload: bytes, seconds: float, pid: int | None) -> tuple[float, float]:
    """Messages per second, from the first that is sent to the last that is read, and microseconds
    of processor time for each."""
    sent, stopped = 0, False

    async def read() -> None:
        seen = 0
        async for item in node.deliveries():
            seen += isinstance(item, ordercast.Delivery)
            if stopped and seen == sent:
                return

    reading = asyncio.ensure_future(read())
    await (await node.multicast("all", payload)).ordered()
    sent += 1
    begun, used = time.monotonic(), processor_s(pid)
    while time.monotonic() - begun < seconds:
        for _ in range(64):
            await node.multicast("all", payload)
        sent += 64
    stopped = True
    await node.multicast("all", payload)  # so that the reader looks again
    sent += 1
    await reading
    return sent / (time.monotonic() - begun), 1e6 * (processor_s(pid) - used) / sent


async def measure(
    way: str, file: Path, place: Path, port: int, args: argparse.Namespace, pid: int | None
) -> tuple[float, float]:
    payload = bytes(args.payload)
    if way == "embedded":
        opening: Any = ordercast.Node.open(file, "a", dir=place / "embedded")
    elif way == "socket":
        opening = ordercast.connect(file, "a", place / "daemon", start_s=30)
    else:
        cert = place / "certs" / "clients" / "load.pem"
        opening = ordercast.connect(f"tls://127.0.0.1:{port}", cert=cert, start_s=30)
    async with opening as node:
        return await load(node, payload, args.seconds, pid)


def run(way: str, place: Path, args: argparse.Namespace) -> tuple[float, float]:
    file, port = write_cluster(place)
    served = contextlib.nullcontext() if way == "embedded" else daemon(file, place)
    with served as pid, asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(measure(way, file, place, port, args, pid))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    best = dict.fromkeys(WAYS, (0.0, 0.0))
    for _ in range(args.repeat):
        for way in WAYS:
            with tempfile.TemporaryDirectory(prefix="ordercast-bench-") as made:
                best[way] = max(best[way], run(way, Path(made), args))
    rows = {
        way: {
            "msgs_per_s": round(rate),
            "ratio": round(rate / best["embedded"][0], 2),
            "cpu_us_per_msg": round(cpu_us, 2),
        }
        for way, (rate, cpu_us) in best.items()
    }
    if args.json:
        print(json.dumps({"payload": args.payload, "seconds": args.seconds, "ways": rows}))
        return
    for way, row in rows.items():
        cpu = f"{row['cpu_us_per_msg']:.2f} us of processor time"
        print(f"{way:9} {row['msgs_per_s']:9,} messages/s  {row['ratio']:.2f}  {cpu}")
    print(f"goal for tls: {GOAL:.2f} of embedded")


if __name__ == "__main__":
    main()
