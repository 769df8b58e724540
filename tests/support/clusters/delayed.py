"""Real daemons that are far from each other: a proxy between any two delays every chunk.

Under load, first all is calm; then there are changes, a daemon is killed and started again, and one
application sends as fast as it may. Nothing may be lost, doubled or reordered, and while all
is calm nobody is suspected: no epoch opens, and no connection is made anew.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.epochs import JoinGroup, LeaveGroup, UseProtocol
from ordercast.model.errors import Error
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.file import read_cluster
from support.clusters.applications import PATIENCE_S, Applications, Pace, Timed
from support.clusters.node_processes import NodeProcesses
from support.clusters.processes import ROOT, write_cluster
from support.harness import loops
from support.harness.ports import free_ports
from support.network.proxy import Manners, Proxy, in_thread

GROUPS: Mapping[str, Sequence[str]] = {"alpha": ("a", "b", "c"), "beta": ("b", "c", "d")}
SITES = tuple("abcd")
PACE = Pace(0.1, 4)  # 100 messages/s of four sites
CALM_S = 6.0
AWAY_S = 4.0
BURST = 3_000
SETTLE_S = 60.0
LIMIT_S = 400.0


@dataclass
class Found:
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class FarDaemons(NodeProcesses):
    """Each site has a cluster file with the addresses that it dials."""

    def __init__(self, folder: Path, files: Mapping[str, Path]) -> None:
        super().__init__(folder, files, [ROOT / "src"])

    def client(self, site: str) -> Client:
        return connect(
            read_cluster(self._files[site]), site, self.stores,
            start_s=PATIENCE_S, patience_s=PATIENCE_S, flush_s=PATIENCE_S,
        )  # fmt: skip


@contextmanager
def far_daemons(
    folder: Path, options: Mapping[str, object], line_s: tuple[float, float], *, tls: bool
) -> Iterator[FarDaemons]:
    real = dict(zip(SITES, free_ports(len(SITES)), strict=True))
    pairs = [(a, b) for a in SITES for b in SITES if a != b]
    calm = Manners(kinds=("delay",), delay_s=0.0, line_s=line_s)
    proxies = {(a, b): Proxy(("127.0.0.1", real[b]), f"{a} {b}", calm) for a, b in pairs}
    with ExitStack() as stack:
        stack.enter_context(in_thread(list(proxies.values())))
        files = {}
        for a in SITES:
            ports = {b: real[b] if a == b else proxies[a, b].address[1] for b in SITES}
            addresses = {b: f"127.0.0.1:{port}" for b, port in ports.items()}
            files[a] = write_cluster(
                folder, GROUPS, options, tls=tls, addresses=addresses, name=f"{a}.toml"
            )
        daemons = FarDaemons(folder, files)
        stack.callback(daemons.end)
        for site in SITES:
            daemons.start(site)
        yield daemons


def run_delayed(
    folder: Path, protocol: str, level: str, *, line_s: tuple[float, float], tls: bool
) -> Found:
    found = Found()
    options = {"protocol": protocol, "deliver": level, "durability": "os"}
    with far_daemons(folder, options, line_s, tls=tls) as daemons:
        applications = Applications(daemons.client, GROUPS, PACE)
        case = _Case(daemons, applications, protocol, found)
        try:
            loops.run(applications.run(case.work), limit_s=LIMIT_S)
        except (Error, TimeoutError, AssertionError) as error:
            found.wrong.append(f"{type(error).__name__}: {error}")
        else:
            found.wrong += daemons.stop()
    found.wrong += applications.wrong
    found.counts += applications.counts
    return found


class _Case:
    def __init__(
        self, daemons: FarDaemons, applications: Applications, protocol: str, found: Found
    ) -> None:
        self.daemons = daemons
        self.applications = applications
        self.protocol = protocol
        self.found = found

    async def work(self) -> None:
        await self._all_present()
        over = asyncio.Event()
        send = self.applications.send_while
        sending = asyncio.gather(*(send(site, lambda: not over.is_set()) for site in SITES))
        try:
            await self._calm("at first")
            await self._changes()
            await self._kill_and_restart("d")
            await self._calm("after the restart")
        finally:
            over.set()
            await sending
        await self._as_fast_as_it_may()

    async def _calm(self, when: str) -> None:
        """Nobody is suspected while nothing happens; how long deliveries take."""
        await asyncio.sleep(1.0)  # what was sent before arrives
        before = await self._state()
        timed = self.applications.timed = Timed()
        await asyncio.sleep(CALM_S)
        after = await self._state()
        self.applications.timed = None
        if before != after:
            self.found.wrong.append(f"{when} it was calm, and {before} became {after}")
        cuts = quantiles(timed.delivered, n=100)
        self.found.counts[f"p50 {when}, ms"] = round(cuts[49] * 1000)
        self.found.counts[f"p99 {when}, ms"] = round(cuts[98] * 1000)
        self.found.counts[f"longest pause {when}, ms"] = _longest_ms(timed, SITES)

    async def _changes(self) -> None:
        others = list(PROTOCOLS)
        other = others[(others.index(self.protocol) + 1) % len(others)]
        edits = (JoinGroup("beta", "a"), UseProtocol(other), UseProtocol(self.protocol))
        timed = self.applications.timed = Timed()
        for edit in (*edits, LeaveGroup("beta", "a")):
            took = await self.applications.change("b", edit)
            slowest = "slowest change, ms"
            self.found.counts[slowest] = max(self.found.counts[slowest], round(took * 1000))
        self.found.counts["longest pause in changes, ms"] = _longest_ms(timed, SITES)

    async def _kill_and_restart(self, site: str) -> None:
        others = [other for other in SITES if other != site]
        before = await self._epoch("b")
        timed = self.applications.timed = Timed()
        self.daemons.kill(site)
        await asyncio.sleep(AWAY_S)
        self.daemons.start(site)
        begun = time.monotonic()
        await self._all_present()
        self.found.counts["until it was back, ms"] = round((time.monotonic() - begun) * 1000)
        self.found.counts["longest pause with a kill, ms"] = _longest_ms(timed, others)
        self.found.counts["epochs of a kill"] = await self._epoch("b") - before

    async def _as_fast_as_it_may(self) -> None:
        begun = time.monotonic()
        sent = [await self.applications.send("a", "alpha", 80) for _ in range(BURST)]
        for one in sent:
            assert one is not None
            await self.applications.end_of(*one)
        self.found.counts["messages/s of one sender"] = round(BURST / (time.monotonic() - begun))

    async def _all_present(self) -> None:
        until = time.monotonic() + SETTLE_S
        while True:
            status = [await self.applications.clients[site].status() for site in SITES]
            if all(
                one["standing"] == "present"
                and not one["excluded"]
                and all(link["state"] == "connected" for link in one["links"])
                for one in status
            ):
                return
            links = [[link["state"] for link in one["links"]] for one in status]
            assert time.monotonic() < until, f"not all present: {links}"
            await asyncio.sleep(0.1)

    async def _epoch(self, site: str) -> int:
        epoch: int = (await self.applications.clients[site].status())["epoch"]
        return epoch

    async def _state(self) -> dict[str, Any]:
        """What stays the same while all is calm."""
        found: dict[str, Any] = {}
        for site in SITES:
            status = await self.applications.clients[site].status()
            links = {link["peer"]: link["connections"] for link in status["links"]}
            found[site] = status["epoch"], status["manager"], status["suspects"], links
        return found


def _longest_ms(timed: Timed, sites: Sequence[str]) -> int:
    return round(max(timed.longest_s.get(site, 0.0) for site in sites) * 1000)
