"""Random schedules over a cluster in one process: applications that send, read and confirm at every
site, kills at any moment, restarts; at the end the verdict of the checkers on the stores' export,
and of `applog` on what the applications saw."""

import asyncio
import contextlib
import random
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.model.errors import Error, NotInMajority
from ordercast.net.export.history import export
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.stream import EpochOpened, Rollback
from support.cases.tables import FIGURE_3, random_table
from support.harness import loops
from support.judges.applog import Note, accepted, compare, judge, saw

QUIET_S = 60.0


@dataclass(frozen=True)
class Case:
    protocol: str = "propagation"
    deliver: str = "safe"
    durability: str = "os"
    causal: bool = False
    seed: int = 1
    kills: int = 12
    messages: int = 40  # sent by each site, at least
    unread: tuple[int, ...] = (10, 100_000)  # what an application may lag behind
    slow_member: str = "wait"
    policy: str = "wait"

    def __str__(self) -> str:
        causal = "-causal" if self.causal else ""
        shed = "-shed" if self.slow_member == "shed" else ""
        how = "" if self.policy == "wait" else f"-{self.policy}"
        return f"{self.protocol}-{self.deliver}-{self.durability}{causal}{shed}{how}-{self.seed}"


@dataclass
class Found:
    wrong: list[str] = field(default_factory=list)
    kills: int = 0
    disturbances: int = 0
    rollbacks: int = 0
    sent: int = 0
    delivered: int = 0


def groups_of(seed: int) -> dict[str, list[str]]:
    """[GS] Figure 3 every other time, else a random table of one or more domains."""
    if seed % 2:
        return {group: list(members) for group, members in FIGURE_3.items()}
    table = random_table(random.Random(seed).randrange(3, 7), 4, 3, seed)
    return {group: list(members) for group, members in table.groups.items()}


def run_case(case: Case, directory: Path) -> Found:
    return loops.run(Campaign(case, directory).run())


class Campaign:
    pauses, pause_s = 0.3, 0.01  # how often a sender pauses, and for how long at most

    def __init__(self, case: Case, directory: Path) -> None:
        self.case = case
        self.directory = directory
        self.rng = random.Random(f"{case}")
        self.groups = groups_of(case.seed)
        self.notes: dict[str, list[Note]] = {}
        self.left: dict[str, int] = {}
        self.tasks: dict[str, list[asyncio.Task[None]]] = {}
        self.errors: list[str] = []
        self.found = Found()

    async def run(self) -> Found:
        async with self._make(self.directory / "stores") as cluster:
            for site in cluster.cluster.sites:
                self.notes[site] = []
                self.left[site] = self.case.messages
                self._begin(site, cluster[site])
            await self._disturb(cluster)
            await self._calm(cluster)
            self.found.wrong += self.errors
        self._judge(self.directory / "stores")
        if self.found.wrong:
            text = "".join(f"{site} {note}\n" for site in self.notes for note in self.notes[site])
            (self.directory / "notes.txt").write_text(text, encoding="utf-8")
        return self.found

    def _make(self, stores: Path) -> LocalCluster:
        return local_cluster(self.groups, dir=stores, **self._options())

    def _options(self) -> dict[str, Any]:
        case = self.case
        return {
            "protocol": case.protocol,
            "deliver": case.deliver,
            "durability": case.durability,
            "causal": case.causal,
            "slow_member": case.slow_member,
            "on_failure": case.policy,
            "limits": {
                "window_messages": self.rng.choice([3, 50, 10_000]),
                "unread_messages": self.rng.choice(case.unread),
                "retention": "24h",
            },
        }

    # --- applications -----------------------------------------------------------------------------

    def _begin(self, site: str, node: Node) -> None:
        self.notes[site].append(("open",))
        self.tasks[site] = [
            asyncio.create_task(self._guard(self._send, site, node)),
            asyncio.create_task(self._guard(self._read, site, node)),
        ]

    async def _guard(
        self, work: Callable[[str, Node], Awaitable[None]], site: str, node: Node
    ) -> None:
        try:
            await work(site, node)
        except Error as error:
            self.errors.append(f"{error}")

    def _has_more(self, site: str) -> bool:
        return self.left[site] > 0

    async def _send(self, site: str, node: Node) -> None:
        rng = random.Random(f"{self.case} {site} {node.boot}")
        domain = sorted(site_of(node).core.layout.roster)
        while self._has_more(site):
            payloads = [rng.randbytes(rng.randrange(40)) for _ in range(rng.choice([1, 1, 1, 5]))]
            self.left[site] -= len(payloads)
            group = rng.choice(list(self.groups))
            way = rng.random()
            if way < 0.8:
                payloads = payloads if way < 0.6 else payloads[:1]
                try:
                    if way < 0.6:
                        receipt = await node.multicast_many(group, payloads)
                    else:
                        receipt = await node.multicast(group, payloads[0])
                except NotInMajority:  # nothing was sent
                    await asyncio.sleep(0.01)
                    continue
            else:
                sites = rng.sample(domain, rng.randrange(1, min(4, len(domain)) + 1))
                try:
                    receipt = await node.multicast_to(sites, payloads)
                except Error:  # not of one domain
                    continue
            if rng.random() < 0.5:
                await receipt.accepted()
                self.notes[site].append(accepted(receipt, payloads))
            if rng.random() < self.pauses:
                await asyncio.sleep(rng.random() * self.pause_s)

    async def _read(self, site: str, node: Node) -> None:
        rng = random.Random(f"{self.case} {site} {node.boot} reads")
        notes = self.notes[site]
        async for item in node.deliveries():
            if isinstance(item, EpochOpened):
                continue
            if isinstance(item, Rollback):
                notes.append(("rolled", item.position, len(item.annulled)))
                self.found.rollbacks += 1
                continue
            notes.append(saw(item))
            await self._confirm_sometimes(rng, node, item.position)

    async def _confirm_sometimes(self, rng: random.Random, node: Node, upto: int) -> None:
        notes = self.notes[node.site]
        if rng.random() < 0.05:
            await asyncio.sleep(rng.random() * 0.005)
        if rng.random() < 0.1:
            position = rng.randrange(1, upto + 1)
            notes.append(("confirming", position))
            await node.confirm(position)
            notes.append(("confirmed", position))

    # --- faults -----------------------------------------------------------------------------------

    async def _disturb(self, cluster: LocalCluster) -> None:
        rng = self.rng
        sites = sorted(cluster.cluster.sites)
        down: list[str] = []
        while self.found.kills < self.case.kills:
            await asyncio.sleep(rng.random() * 0.03)
            up = [site for site in sites if site not in down]
            if rng.random() < 0.05:  # a power cut
                for site in rng.sample(up, len(up)):
                    await self._kill(cluster, site)
                    down.append(site)
            elif up:
                site = rng.choice(up)
                await self._kill(cluster, site)
                down.append(site)
            if len(down) > rng.randrange(3):
                await asyncio.sleep(rng.random() * 0.03)
                self._begin(back := down.pop(0), await cluster.start(back))
        for back in down:
            self._begin(back, await cluster.start(back))

    async def _kill(self, cluster: LocalCluster, site: str) -> None:
        """Every other time as SIGKILL does it: what is queued for the store is gone."""
        self.found.kills += 1
        for task in self.tasks[site]:
            task.cancel()
        async with self._as_it_was(cluster, site, hard=self.rng.random() < 0.5):
            await cluster.kill(site)
        await asyncio.gather(*self.tasks[site], return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _as_it_was(
        self, cluster: LocalCluster, site: str, *, hard: bool
    ) -> AsyncIterator[None]:
        """With `hard`, put the store back afterwards as it is now. The driver is closed first, so
        nothing that is written in between was shown to anybody. SQLite itself makes the copy: the
        writer may begin its log anew meanwhile, and a copy of half of the old one would put old
        pages over newer ones of the file."""
        site_of(cluster[site]).driver.close()
        assert cluster.directory is not None
        path = cluster.directory / f"{site}.db"
        copy = self.directory / "now.db"
        if hard:
            copy.unlink(missing_ok=True)
            with closing(sqlite3.connect(path)) as store, closing(sqlite3.connect(copy)) as now:
                store.backup(now)
        yield
        if hard:
            shutil.copy(copy, path)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)

    # --- the end ----------------------------------------------------------------------------------

    async def _calm(self, cluster: LocalCluster) -> None:
        """All are up: everything that was accepted gets everywhere, and is read."""
        try:
            async with asyncio.timeout(QUIET_S):
                for site in self.tasks:
                    await self.tasks[site][0]
                await self._until_done(cluster)
        except TimeoutError:
            late = [site for site, node in cluster.nodes.items() if not self._is_done(site, node)]
            self.errors.append(f"not quiet after {QUIET_S:.0f} s: {', '.join(late)}")
        for tasks in self.tasks.values():
            for task in tasks:  # a sender may wait for a site that failed
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_done(self, cluster: LocalCluster) -> None:
        """Look twice in a row: a site handles what it has heard at the end of its turn."""
        looks = 0
        while looks < 2:
            await asyncio.sleep(0.01)
            done = all(self._is_done(site, node) for site, node in cluster.nodes.items())
            looks = looks + 1 if done else 0

    def _is_done(self, site: str, node: Node) -> bool:
        unsent = site_of(node).core.admission.messages or site_of(node).driver._unwritten
        return (
            site_of(node).core.quiet()
            and not unsent
            and self._has_read(site) == site_of(node).stream.delivered
        )

    def _has_read(self, site: str) -> int:
        """The last position that the application has read in this life, or confirmed in earlier
        ones."""
        for note in reversed(self.notes[site]):
            if note[0] in ("saw", "rolled"):
                return int(note[1])
            if note[0] == "open":
                break
        return max((note[1] for note in self.notes[site] if note[0] == "confirmed"), default=0)

    def _judge(self, stores: Path) -> None:
        found = self.found
        out = self.directory / "history"
        export(stores, out)
        history = read_history(out)
        found.sent, found.delivered = len(history.sent), len(history.deliveries)
        report = check_history(history, causal=self.case.causal).as_json()
        pending = report["informative"]["pending"] if self.case.slow_member == "wait" else 0
        if not report["ok"] or pending:  # messages that all members shed stay pending
            found.wrong.append(f"{report['checks']} {report['informative']} {report['witnesses']}")
        ended = {event.site for event in history.events if event.kind == "end"}
        if ended != set(self.notes):
            found.wrong.append(f"no end at {sorted(set(self.notes) - ended)}")
        for site, notes in self.notes.items():
            found.wrong += judge(site, notes)
        found.wrong += compare(self.notes, history)
