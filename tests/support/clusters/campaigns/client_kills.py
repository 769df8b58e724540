"""Clients that send through daemons which are killed: every message must be delivered once.

The daemons are real processes, on a disk that may be slow; the clients are in this one. What the
members have in the end is read from their stores: by client and payload, not only by id.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.model.errors import NotInMajority
from ordercast.net.admin.frames import ClientFrame, Send, SendOnce
from ordercast.net.client.client import Client, connect
from ordercast.net.client.requests import ClientReceipt
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster
from ordercast.net.export.history import export
from ordercast.net.store.reader import LogReader
from support.clusters.node_processes import NodeProcesses
from support.clusters.processes import ROOT, write_cluster
from support.harness import loops

SLOW_DISK = ROOT / "tests" / "support" / "programs" / "slow_disk"
PATIENCE_S = 60.0  # of clients, with daemons that return
SETTLE_S = 120.0


@dataclass(frozen=True)
class Case:
    seed: int
    protocol: str
    builder: str = "greedy"
    level: str = "safe"
    slow: bool = True
    groups: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"alpha": ["a", "b", "c"]})
    clients: int = 3
    kills: int = 5
    pause_s: float = 0.5  # between kills, at most
    down_s: float = 0.3  # how long a killed daemon is away, at most


@dataclass
class Found:
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class KilledDaemons(NodeProcesses):
    """All sites of one cluster file, perhaps on a slow disk."""

    def __init__(self, folder: Path, case: Case) -> None:
        options = {"protocol": case.protocol, "builder": case.builder, "deliver": case.level}
        timeouts = {"suspect": "500ms"}
        self.file = write_cluster(folder, case.groups, options, tls=False, timeouts=timeouts)
        self.sites = sorted({site for members in case.groups.values() for site in members})
        paths = [*([SLOW_DISK] if case.slow else []), ROOT / "src"]
        super().__init__(folder, dict.fromkeys(self.sites, self.file), paths)


@contextmanager
def running(folder: Path, case: Case) -> Iterator[KilledDaemons]:
    daemons = KilledDaemons(folder, case)
    try:
        for site in daemons.sites:
            daemons.start(site)
        yield daemons
    finally:
        daemons.end()


def run_case(case: Case, folder: Path) -> Found:
    found = Found()
    with running(folder, case) as daemons:
        campaign = _Campaign(case, daemons, found)
        loops.run(campaign.run())
        found.wrong += daemons.stop()
    if not found.wrong:
        found.counts["refused"] += len(campaign.refused)
        _judge(case, daemons, campaign.sent, found)
    return found


class _Campaign:
    """State: what of each client was sent to each group, in order; what was not taken."""

    def __init__(self, case: Case, daemons: KilledDaemons, found: Found) -> None:
        self.case = case
        self.daemons = daemons
        self.found = found
        self.sent: dict[str, list[list[bytes]]] = {}  # by group, of each client
        self.refused: list[bytes] = []
        self._rng = random.Random(f"client kills {case}")
        self._over = False

    async def run(self) -> None:
        cluster = read_cluster(self.daemons.file)
        victims = [primary_of(cluster, min(self.case.groups))]
        victims.append(self._rng.choice(self.daemons.sites))
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    connect(
                        cluster, victims[n % 2], self.daemons.stores, start_s=PATIENCE_S,
                        patience_s=PATIENCE_S, flush_s=PATIENCE_S,
                    )
                )
                for n in range(self.case.clients)
            ]  # fmt: skip
            for client in clients:
                self._count_repeats(client)
            try:
                async with asyncio.timeout(SETTLE_S):
                    await self._send_and_kill(clients, victims)
            except TimeoutError:
                logs = "; ".join(f"{s}: {self.daemons.log(s)}" for s in self.daemons.sites)
                self.found.wrong.append(f"not all is stable after {SETTLE_S:.0f} s: {logs}")

    async def _send_and_kill(self, clients: list[Client], victims: list[str]) -> None:
        chances = [random.Random(f"{self.case.seed} {n}") for n in range(len(clients))]
        work = [
            asyncio.ensure_future(self._send(n, client, chances[n]))
            for n, client in enumerate(clients)
        ]
        for _ in range(self.case.kills):
            await asyncio.sleep(0.1 + self._rng.random() * self.case.pause_s)
            site = self._rng.choice(victims)
            await self._until_something_is_under_way(clients, site)
            self.daemons.kill(site)
            self.found.counts["kills"] += 1
            await asyncio.sleep(self._rng.random() * self.case.down_s)
            self.daemons.start(site)
        await asyncio.sleep(0.5)
        self._over = True
        await asyncio.gather(*work)

    async def _until_something_is_under_way(self, clients: list[Client], site: str) -> None:
        """Wait for messages under way, or a kill shows nothing: after a restart sites send only
        after a while."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 20
        seen = {id(c): _last_accepted(c) for c in clients if c.site == site}
        while loop.time() < deadline:
            await asyncio.sleep(0.005)
            if any(_last_accepted(c) > seen[id(c)] for c in clients if c.site == site):
                await asyncio.sleep(self._rng.random() * 0.05)
                return

    async def _send(self, number: int, client: Client, chance: random.Random) -> None:
        groups = sorted(self.case.groups)
        receipts: list[tuple[str, bytes, ClientReceipt]] = []
        n = 0
        while not self._over:
            n += 1
            group = chance.choice(groups)
            payload = b"%d %d" % (number, n)
            receipts.append((group, payload, await client.multicast(group, payload)))
            if chance.random() < 0.5:
                await asyncio.sleep(chance.random() * 0.01)
        for group, payload, receipt in receipts:
            try:
                await receipt.stable()
            except NotInMajority:  # the machine may be so busy that no majority is heard for long
                self.refused.append(payload)
            else:
                sent = self.sent.setdefault(group, [[] for _ in range(self.case.clients)])
                sent[number].append(payload)
        self.found.counts["messages"] += n

    def _count_repeats(self, client: Client) -> None:
        outgoing = client._outgoing
        send, seen = outgoing._send, set[int]()

        def counted(frame: ClientFrame) -> None:
            if isinstance(frame, Send | SendOnce):
                self.found.counts["repeats"] += frame.number in seen
                seen.add(frame.number)
            send(frame)

        outgoing._send = counted


def primary_of(cluster: Cluster, group: str) -> str:
    """At first, and whenever all are there."""
    domain = cluster.first_layout().domain_of([group])
    assert domain is not None
    return domain.structure.primary(group)


def _last_accepted(client: Client) -> int:
    return client._outgoing._answered


def _judge(
    case: Case, daemons: KilledDaemons, sent: Mapping[str, list[list[bytes]]], found: Found
) -> None:
    for group, members in case.groups.items():
        for site in members:
            have = [payload for to, payload in log_of(daemons.stores / f"{site}.db") if to == group]
            found.counts["deliveries"] += len(have)
            times = Counter(have)
            doubled = [payload for payload, count in times.items() if count > 1]
            found.counts["doubled"] += len(doubled)
            if doubled:
                found.wrong.append(f"{len(doubled)} doubled at {site} in {group}: {doubled[:5]}")
            for number, payloads in enumerate(sent.get(group, [])):
                lost = [payload for payload in payloads if not times[payload]]
                found.counts["lost"] += len(lost)
                if lost:
                    found.wrong.append(f"{len(lost)} lost at {site} in {group}: {lost[:5]}")
                of_client = [p for p in have if p.split()[0] == b"%d" % number]
                if not (doubled or lost) and of_client != payloads:
                    more = [payload for payload in of_client if payload not in payloads]
                    found.wrong.append(
                        f"client {number}'s order is another at {site} in {group}, or there is"
                        f" what was refused: {more[:5]}"
                    )
    _audit(daemons.stores, found)


def log_of(store: Path) -> list[tuple[str, bytes]]:
    """Group and payload of all that a site has delivered."""
    reader = LogReader(store)
    log: list[tuple[str, bytes]] = []
    try:
        position = 1
        while batches := reader.read(position, 10_000):
            log += [(item.group, item.payload) for one in batches for item in one.deliveries()]
            position = batches[-1].last + 1
    finally:
        reader.close()
    return log


def _audit(stores: Path, found: Found) -> None:
    out = stores.with_name("history")
    export(stores, out)
    report: dict[str, Any] = check_history(read_history(out)).as_json()
    if not report["ok"]:
        found.wrong.append(f"{report['checks']} {report['witnesses']}")
