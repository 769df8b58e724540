"""The pause that a change costs its domain in a real cluster, and what another domain notices.

    python bench/epochs_live.py [--changes 10] [--rate 1000] [--durability sync] [--tls] [--json]

Five daemons on this machine in two domains, and one client of each site that is needed: messages
are sent at a constant rate to a group of each domain, and read at a member that stays. Meanwhile a
site joins the first domain's group, and leaves it again. For the second before each change, the one
from the moment it is asked for, and the one after: the longest time between two deliveries, and the
slowest message. Medians over the changes. With `--protocol` the first domain is switched before.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from ordercast import Client, connect
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.messages import Delivery
from ordercast.net.bench.run import free_ports
from ordercast.net.cluster import processes
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster

GROUPS = {"alpha": ["a", "b"], "gamma": ["d", "e"]}
SITES = ("a", "b", "c", "d", "e")
WINDOW_S = 1.0
WINDOWS = ("before", "during", "after")


def write_cluster(place: Path, durability: str, tls: bool) -> Cluster:
    lines = ["[cluster]", 'name = "bench"', f'durability = "{durability}"']
    lines.append('voters = ["a", "b", "c"]')
    if tls:
        lines += ["[tls]", 'dir = "certs"']
        write_certificates("bench", list(SITES), place / "certs")
    for site, port in zip(SITES, free_ports(len(SITES)), strict=True):
        lines += [f"[sites.{site}]", f'address = "127.0.0.1:{port}"']
    lines += ["[groups]", *(f"{group} = {json.dumps(sites)}" for group, sites in GROUPS.items())]
    path = place / "cluster.toml"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return read_cluster(path)


class Domain:
    """Messages sent to a group at a constant rate, and when each was delivered at one member."""

    def __init__(self, group: str, sender: Client, reader: Client, rate: float) -> None:
        self.group = group
        self.sender = sender
        self.reader = reader
        self.rate = rate
        self.arrived: list[float] = []
        self.latency: list[float] = []
        self.opened: list[float] = []

    async def send(self) -> None:
        """As many as are due, in turns of about a millisecond."""
        begun, sent = time.perf_counter(), 0
        while True:
            due = int((time.perf_counter() - begun) * self.rate)
            for _ in range(due - sent):
                await self.sender.multicast(self.group, b"%.9f" % time.perf_counter())
            sent = max(sent, due)
            await asyncio.sleep(0.001)

    async def read(self) -> None:
        async for item in self.reader.deliveries():
            now = time.perf_counter()
            if isinstance(item, EpochOpened):
                self.opened.append(now)
            elif isinstance(item, Delivery):
                self.arrived.append(now)
                self.latency.append(now - float(item.payload))

    def seen(self, begin: float, end: float) -> dict[str, float]:
        """In milliseconds: a time without deliveries counts where it ends."""
        first, last = bisect_left(self.arrived, begin), bisect_left(self.arrived, end)
        times = self.arrived[max(0, first - 1) : last]
        gaps = [later - sooner for sooner, later in pairwise(times)]
        return {
            "gap_ms": 1e3 * max(gaps, default=end - begin),
            "slowest_ms": 1e3 * max(self.latency[first:last], default=0.0),
        }


async def measure(
    changed: Domain, other: Domain, asker: Client, changes: int
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    await asyncio.sleep(2 * WINDOW_S)
    for number in range(changes):
        await asyncio.sleep(WINDOW_S)
        asked = time.perf_counter()
        await (asker.join("alpha") if number % 2 == 0 else asker.leave("alpha"))
        took = time.perf_counter() - asked
        await asyncio.sleep(max(0.0, 2 * WINDOW_S + 0.2 - took))
        row: dict[str, Any] = {
            "change": "join" if number % 2 == 0 else "leave",
            "took_ms": 1e3 * took,
        }
        for name, begin in zip(WINDOWS, (-WINDOW_S, 0.0, WINDOW_S), strict=True):
            span = asked + begin, asked + begin + WINDOW_S
            row[name] = {"changed": changed.seen(*span), "other": other.seen(*span)}
        found.append(row)
    return found


def medians(rows: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {"took_ms": statistics.median(row["took_ms"] for row in rows)}
    for window in WINDOWS:
        told[window] = {
            domain: {
                measure: statistics.median(row[window][domain][measure] for row in rows)
                for measure in ("gap_ms", "slowest_ms")
            }
            for domain in ("changed", "other")
        }
    return told


@asynccontextmanager
async def daemons(cluster: Cluster, directory: Path) -> AsyncIterator[None]:
    started = processes.start(cluster, SITES, directory, detached=True)
    try:
        await asyncio.to_thread(processes.wait_ready, started, directory)
        yield
    finally:
        await asyncio.to_thread(processes.abandon, started.values())


async def run(args: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    cluster, directory = write_cluster(place, args.durability, args.tls), place / "stores"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(daemons(cluster, directory))
        at = {
            site: await stack.enter_async_context(connect(cluster, site, directory))
            for site in SITES
        }
        if args.protocol != cluster.protocol:
            await at["a"].switch_protocol(args.protocol, "a")
        changed = Domain("alpha", at["a"], at["b"], args.rate)
        other = Domain("gamma", at["d"], at["e"], args.rate)
        work = [
            asyncio.ensure_future(each)
            for domain in (changed, other)
            for each in (domain.send(), domain.read())
        ]
        try:
            measuring = asyncio.ensure_future(measure(changed, other, at["c"], args.changes))
            await asyncio.wait([*work, measuring], return_when=asyncio.FIRST_COMPLETED)
            for each in work:
                if each.done():
                    each.result()
            return await measuring
        finally:
            for each in work:
                each.cancel()


def as_text(told: dict[str, Any]) -> str:
    lines = [
        f"{told['rate']:g} messages/s to a group of each domain, {told['durability']},"
        f" {told['protocol']}{', TLS' if told['tls'] else ''};"
        f" medians of {told['changes']} changes",
        "",
        "| change | took | domain | longest gap before | during | after"
        " | slowest message before | during | after |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for change, row in told["medians"].items():
        for domain in ("changed", "other"):
            cells = [
                f"{row[window][domain][measure]:.1f} ms"
                for measure in ("gap_ms", "slowest_ms")
                for window in WINDOWS
            ]
            took = f"{row['took_ms']:.1f} ms" if domain == "changed" else ""
            lines.append(f"| {change} | {took} | {domain} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--changes", type=int, default=10, help="joins and leaves, in turn")
    parser.add_argument(
        "--rate", type=float, default=1_000.0, help="messages per second and domain"
    )
    parser.add_argument("--durability", default="sync", choices=["sync", "os", "memory"])
    parser.add_argument("--protocol", default="propagation")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ordercast-bench-") as place:
        rows = asyncio.run(run(args, Path(place)))
    told = {
        "rate": args.rate, "durability": args.durability, "protocol": args.protocol,
        "tls": args.tls, "changes": args.changes,
        "medians": {
            change: medians([row for row in rows if row["change"] == change])
            for change in ("join", "leave")
            if any(row["change"] == change for row in rows)
        },
        "runs": rows,
    }  # fmt: skip
    print(json.dumps(told, indent=2) if args.json else as_text(told))


if __name__ == "__main__":
    main()
