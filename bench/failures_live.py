"""The pause that survivors see when a site of a real cluster is killed, beside the timeout.

    python bench/failures_live.py [--kills 5] [--rate 500] [--suspect 1s] [--deliver safe] [--json]

Six daemons on this machine in one domain, three of them voters and the root none of them; a
client of each sends and reads. In turn a leaf, a relay, the root, which is the primary of two
groups, a voter and the manager (`status` says who it is) is killed with SIGKILL and, when the
others have gone on for a second, started again. For each survivor: the longest time between two
deliveries from the kill on, and again from the restart on, while the site returns. Told are the
median over the kills of the survivor that waited longest, and the longest of all.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from ordercast import Client, connect
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.errors import Error, NotInMajority
from ordercast.model.messages import Delivery
from ordercast.net.bench.run import free_ports
from ordercast.net.cluster import processes
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster

SITES = ("a", "b", "c", "d", "e", "f")
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d", "e"], "gamma": ["e", "f"]}
VOTERS = ["a", "b", "d"]
ROLES = ("leaf", "relay", "root", "voter", "manager")
AFTER_S = 1.0
LIMIT_S = 60.0


def write_cluster(place: Path, args: argparse.Namespace) -> Cluster:
    lines = ["[cluster]", 'name = "bench"', f'durability = "{args.durability}"']
    lines += [f'deliver = "{args.deliver}"', f'protocol = "{args.protocol}"']
    lines.append(f"voters = {json.dumps(VOTERS)}")
    lines += ["[timeouts]", f'suspect = "{args.suspect}"']
    for site, port in zip(SITES, free_ports(len(SITES)), strict=True):
        lines += [f"[sites.{site}]", f'address = "127.0.0.1:{port}"']
    lines += ["[groups]", *(f"{group} = {json.dumps(sites)}" for group, sites in GROUPS.items())]
    path = place / "cluster.toml"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return read_cluster(path)


class At:
    """One site's client: it sends to the site's groups in turn, and notes when what arrived."""

    def __init__(self, site: str, client: Client, rate: float) -> None:
        self.site = site
        self.client = client
        self.rate = rate
        self.groups = [group for group, members in GROUPS.items() if site in members]
        self.arrived: list[float] = []
        self.opened: list[float] = []

    async def send(self) -> None:
        number = 0
        while True:
            number += 1
            with contextlib.suppress(NotInMajority):
                await self.client.multicast(self.groups[number % len(self.groups)], b"%d" % number)
            await asyncio.sleep(1 / self.rate)

    async def read(self) -> None:
        async for item in self.client.deliveries():
            if isinstance(item, EpochOpened):
                self.opened.append(time.perf_counter())
            elif isinstance(item, Delivery):
                self.arrived.append(time.perf_counter())

    def longest_ms(self, begin: float, end: float) -> float:
        """A time without deliveries counts from the last one before `begin`."""
        first, last = bisect_left(self.arrived, begin), bisect_left(self.arrived, end)
        times = [begin, *self.arrived[max(0, first - 1) : last], end]
        return 1e3 * max(later - sooner for sooner, later in pairwise(sorted(times)))


class Bench:
    def __init__(self, cluster: Cluster, directory: Path, at: dict[str, At]) -> None:
        self.cluster = cluster
        self.directory = directory
        self.at = at
        self.running: dict[str, processes.Child] = {}

    async def until(self, what: Callable[[], Any]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not await what():
                await asyncio.sleep(0.05)

    async def pick(self, role: str) -> str:
        status = await self.at["a"].client.status()
        manager = status["manager"]
        home = next(iter(self.cluster.first_layout().domains.values()))
        if role == "manager":
            return str(manager)
        if role == "root":
            return home.root
        if role == "voter":
            return next(site for site in VOTERS if site != manager)
        inner = {site for site in SITES if home.structure.children[site]} - {home.root}
        leaves = [site for site in SITES if site not in (*inner, *VOTERS, home.root)]
        return min(inner) if role == "relay" else leaves[0]

    async def kill(self, role: str) -> dict[str, Any]:
        site = await self.pick(role)
        others = [each for each in self.at.values() if each.site != site]
        before = {each.site: len(each.opened) for each in others}
        killed = time.perf_counter()
        self.running[site].kill()
        await asyncio.to_thread(self.running[site].wait)

        async def opened() -> bool:
            return all(len(each.opened) > before[each.site] for each in others)

        await self.until(opened)
        excluded = time.perf_counter()
        await asyncio.sleep(AFTER_S)
        started = time.perf_counter()
        self.running |= processes.start(self.cluster, [site], self.directory, detached=True)
        await self.until(lambda: self._present(site))
        returned = time.perf_counter()
        await asyncio.sleep(AFTER_S)
        ended = time.perf_counter()
        return {
            "role": role,
            "site": site,
            "noticed_ms": 1e3 * (excluded - killed),
            "pause_ms": {each.site: each.longest_ms(killed, started) for each in others},
            "return_ms": 1e3 * (returned - started),
            "pause_at_return_ms": {each.site: each.longest_ms(started, ended) for each in others},
        }

    async def _present(self, site: str) -> bool:
        try:
            async with connect(self.cluster, site, self.directory) as client:
                return bool((await client.status())["standing"] == "present")
        except (Error, OSError):
            return False


async def run(args: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    cluster, directory = write_cluster(place, args), place / "stores"
    async with AsyncExitStack() as stack:
        started = processes.start(cluster, SITES, directory, detached=True)
        bench = Bench(cluster, directory, {})
        bench.running = dict(started)
        stack.callback(lambda: processes.abandon(bench.running.values()))
        await asyncio.to_thread(processes.wait_ready, started, directory)
        for site in SITES:
            client = await stack.enter_async_context(connect(cluster, site, directory))
            bench.at[site] = At(site, client, args.rate / len(SITES))
        work = [
            asyncio.ensure_future(each)
            for at in bench.at.values()
            for each in (at.send(), at.read())
        ]
        try:
            measuring = asyncio.ensure_future(_measure(bench, args.roles, args.kills))
            await asyncio.wait([*work, measuring], return_when=asyncio.FIRST_COMPLETED)
            for each in work:
                if each.done():
                    each.result()
            return await measuring
        finally:
            for each in work:
                each.cancel()


async def _measure(bench: Bench, roles: Sequence[str], kills: int) -> list[dict[str, Any]]:
    await asyncio.sleep(2 * AFTER_S)
    return [await bench.kill(role) for _ in range(kills) for role in roles]


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {"kills": len(rows)}
    for measure in ("pause_ms", "pause_at_return_ms"):
        worst = [max(row[measure].values()) for row in rows]
        told[measure] = {"median": statistics.median(worst), "longest": max(worst)}
    told["return_ms"] = {
        "median": statistics.median(row["return_ms"] for row in rows),
        "longest": max(row["return_ms"] for row in rows),
    }
    return told


def as_text(told: dict[str, Any]) -> str:
    lines = [
        f"{told['rate']:g} messages/s in all, {told['deliver']}, {told['durability']},"
        f" {told['protocol']}; timeout {told['suspect']}",
        "",
        "| killed | times | pause of survivors: median | longest"
        " | while it returns: median | longest | start to present: median |",
        "|---|---|---|---|---|---|---|",
    ]
    for role, row in told["roles"].items():
        pause, back = row["pause_ms"], row["pause_at_return_ms"]
        lines.append(
            f"| {role} | {row['kills']} | {pause['median']:.0f} ms | {pause['longest']:.0f} ms"
            f" | {back['median']:.0f} ms | {back['longest']:.0f} ms"
            f" | {row['return_ms']['median']:.0f} ms |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=5, help="of each role")
    parser.add_argument("--roles", nargs="*", default=ROLES, choices=ROLES)
    parser.add_argument("--rate", type=float, default=500.0, help="messages per second in all")
    parser.add_argument("--suspect", default="1s", help="the detector's timeout")
    parser.add_argument("--deliver", default="safe", choices=["safe", "agreed"])
    parser.add_argument("--durability", default="sync", choices=["sync", "os"])
    parser.add_argument("--protocol", default="propagation")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ordercast-bench-") as place:
        rows = asyncio.run(run(args, Path(place)))
    told = {
        "rate": args.rate, "suspect": args.suspect, "deliver": args.deliver,
        "durability": args.durability, "protocol": args.protocol,
        "roles": {role: summed([r for r in rows if r["role"] == role]) for role in args.roles},
        "runs": rows,
    }  # fmt: skip
    print(json.dumps(told, indent=2) if args.json else as_text(told))


if __name__ == "__main__":
    main()
