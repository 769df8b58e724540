"""A cluster of real daemons that is changed and killed under load, and the verdict on its stores.

Several applications send through daemons at a steady pace. Meanwhile a list of changes is done, one
after the other; in the middle of most of them a daemon is killed with SIGKILL (the manager, the
site that was asked, a member) and restarted on its store. One that is slow to come back is excluded
until then: what names it is refused, and a change asked for again. At the end every message whose
receipt said stable must be in the history, none that was refused, and every guarantee must hold
over all epochs. Messages are known by their content: a client that repeats one is told the seq of
the last copy, and another copy may be the one that is delivered (docs/requests.md).
"""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ordercast.history.digest import digest
from ordercast.history.reader import read_history
from ordercast.model.epochs import AddSite, Edit, RetireSite
from ordercast.model.errors import ConfigError, Error, NotInMajority, UnknownGroup
from ordercast.net.client.client import Client, connect
from ordercast.net.client.requests import ClientReceipt
from ordercast.net.cluster import processes
from ordercast.net.cluster.file import read_cluster
from processes.daemons import Daemons
from support.clusters.applications import change_at_last

READY_S = 30.0
CHANGE_S = 40.0
FLUSH_S = 60.0
QUIET_S = 120.0
TARGETS = ("manager", "asked", "member", "none")
REFUSED = (UnknownGroup, NotInMajority)  # its group comes later, is gone, or waits for a member
DOUBT = "it is not known whether this message was accepted"  # of what was sent again
GONE = "was removed before a member could tell"  # of what was sent through a site that is no member


@dataclass
class Told:
    """What the run did, and what is wrong with it."""

    wrong: list[str] = field(default_factory=list)
    changes: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    stable: int = 0
    refused: int = 0
    slowest_s: float = 0.0


class ChangedCluster:
    """`daemons` run already. `senders` maps a site to the groups it sends to. A killed site stays
    away for `away_s` at most."""

    def __init__(
        self,
        daemons: Daemons,
        senders: Mapping[str, Sequence[str]],
        seed: int,
        *,
        away_s: float = 0.3,
    ) -> None:
        self.daemons = daemons
        self.cluster = read_cluster(daemons.file)
        self.directory = daemons.dir
        self.senders = senders
        self.away_s = away_s
        self.chance = random.Random(f"changes {seed}")
        self.told = Told()
        # By origin, group and digest: no payload is sent twice.
        self.acknowledged: set[tuple[str, str, int]] = set()
        self.refused: set[tuple[str, str, int]] = set()
        self._clients: dict[str, Client] = {}
        self._sent: list[tuple[str, str, bytes, ClientReceipt]] = []
        self._children: list[processes.Child] = []
        self._stop = False

    # --- the run ----------------------------------------------------------------------------------

    async def run(self, changes: Sequence[Sequence[Edit]], *, pace_s: float = 0.01) -> Told:
        async with contextlib.AsyncExitStack() as stack:
            for site in self.senders:
                self._clients[site] = await stack.enter_async_context(self._connect(site))
            sending = [asyncio.ensure_future(self._send(site, pace_s)) for site in self.senders]
            try:
                for number, edits in enumerate(changes):
                    await asyncio.sleep(self.chance.random() * 0.3)
                    await self._change(tuple(edits), TARGETS[number % len(TARGETS)])
                await asyncio.sleep(0.3)
            finally:
                self._stop = True
                done = await asyncio.gather(*sending, return_exceptions=True)
            self.told.wrong += [f"a sender: {each!r}" for each in done if each is not None]
            await self._settle()
        return self.told

    def _connect(self, site: str) -> Client:
        return connect(
            self.cluster, site, self.directory,
            start_s=READY_S, patience_s=FLUSH_S, flush_s=FLUSH_S,
        )  # fmt: skip

    async def _send(self, site: str, pace_s: float) -> None:
        client, number = self._clients[site], 0
        groups = self.senders[site]
        while not self._stop:
            group = groups[number % len(groups)]
            payload = b"%s %d" % (site.encode(), number)
            with contextlib.suppress(*REFUSED):
                receipt = await client.multicast(group, payload)
                self._sent.append((site, group, payload, receipt))
            number += 1
            await asyncio.sleep(pace_s * (0.5 + self.chance.random()))

    async def _settle(self) -> None:
        """Every receipt ends well, or is refused because its group is gone or waits."""
        try:
            async with asyncio.timeout(FLUSH_S):
                for site, group, payload, receipt in self._sent:
                    key = (site, group, digest(payload))
                    try:
                        await receipt.stable()
                    except Error as error:
                        self.told.refused += 1
                        if DOUBT in str(error) or GONE in str(error):
                            continue
                        self.refused.add(key)
                        if not isinstance(error, REFUSED):
                            self.told.wrong.append(f"{payload!r}: {error!r}")
                    else:
                        self.acknowledged.add(key)
        except TimeoutError:
            self.told.wrong.append(f"not stable after {FLUSH_S:.0f} s: {receipt} of {site}")
        self.told.stable = len(self.acknowledged)

    # --- one change -------------------------------------------------------------------------------

    async def _change(self, edits: tuple[Edit, ...], target: str) -> None:
        if len(edits) == 1 and isinstance(edits[0], AddSite):
            site = edits[0].site
            address = await asyncio.to_thread(self.daemons.run_newcomer, site)
            edits = (AddSite(site, address),)
        asked = self.chance.choice(sorted(self._clients))
        begun = time.monotonic()
        killing = asyncio.ensure_future(self._kill_and_restart(target, asked))
        try:
            async with asyncio.timeout(CHANGE_S):
                await change_at_last(self._clients[asked], *edits)
        except ConfigError as error:
            self.told.wrong.append(f"{edits}: refused: {error}")
        except (Error, TimeoutError) as error:
            self.told.wrong.append(f"{edits}: {error!r} after {CHANGE_S:.0f} s")
        self.told.slowest_s = max(self.told.slowest_s, time.monotonic() - begun)
        self.told.changes += 1
        await killing
        if len(edits) == 1 and isinstance(edits[0], RetireSite):
            await self._noted(edits[0].site)
        elif len(edits) == 1 and isinstance(edits[0], AddSite):
            await self._admitted(edits[0].site)

    async def _kill_and_restart(self, target: str, asked: str) -> None:
        await asyncio.sleep(self.chance.random() * 0.15)
        site = await self._victim(target, asked)
        if site is None:
            return
        daemon = processes.running(self.directory, site)
        if daemon is None:
            return
        await asyncio.to_thread(processes.kill, daemon)
        self.told.kills[target] += 1
        await asyncio.sleep(self.chance.random() * self.away_s)
        await self.start([site])

    async def _victim(self, target: str, asked: str) -> str | None:
        if target == "asked":
            return asked
        try:
            async with asyncio.timeout(1):
                status = await self._clients[asked].status()
        except (Error, TimeoutError):
            return None
        if target == "manager":
            found: str | None = status["manager"]
            return found
        members = sorted({site for epoch in status["epochs"] for site in epoch["sites"]})
        return self.chance.choice(members) if target == "member" else None

    async def _noted(self, site: str) -> None:
        """Wait until a retired site knows it. After that nothing starts the site any more."""
        until = time.monotonic() + READY_S
        while not processes.is_retired(self.directory, site):
            if time.monotonic() > until:
                self.told.wrong.append(f"{site} does not know that it is retired")
                return
            await asyncio.sleep(0.05)

    async def _admitted(self, site: str) -> None:
        """Wait until the site knows that it was added: if it is retired before, it waits for
        ever."""
        until = time.monotonic() + READY_S
        while True:
            run = await asyncio.to_thread(self.daemons.run, "status", "cluster.toml", "--json")
            if json.loads(run.stdout)["sites"].get(site, {}).get("admitted"):
                return
            if time.monotonic() > until:
                self.told.wrong.append(f"{site} does not know that it was added")
                return
            await asyncio.sleep(0.1)

    # --- daemons ----------------------------------------------------------------------------------

    async def start(self, sites: Sequence[str]) -> None:
        started = await asyncio.to_thread(
            processes.start, self.cluster, sites, self.directory, detached=True
        )
        self._children += started.values()
        await asyncio.to_thread(processes.wait_ready, started, self.directory)

    async def kill_all(self) -> list[str]:
        """SIGKILL to every daemon at once; who they were."""
        there = processes.all_running(self.cluster, self.directory)
        await asyncio.gather(*(asyncio.to_thread(processes.kill, each) for each in there))
        return [each.site for each in there]

    def reap(self) -> None:
        for child in self._children:
            child.wait(20)

    # --- the verdict ------------------------------------------------------------------------------

    def judge(self, out: str = "history") -> None:
        """Judge the running cluster: every site is quiet, and every guarantee is kept."""
        self._wait_quiet()
        exported = self.daemons.json("export", "cluster.toml", out, "--replace")
        if exported["missing"] or exported["ended"] != exported["sites"]:
            self.told.wrong.append(f"not all quiet, or not all there: {exported}")
        audited = self.daemons.run("audit", out, "--engine", "memory", "--json")
        if audited.returncode:
            self.told.wrong.append(f"audit: {audited.stdout[:1500]} {audited.stderr[:500]}")
        self.compare(self.daemons.place / out)

    def _wait_quiet(self) -> None:
        until = time.monotonic() + QUIET_S
        while time.monotonic() < until:
            told = self.daemons.run("status", "cluster.toml", "--json").stdout
            sites = json.loads(told)["sites"]
            busy = [name for name, site in sites.items() if not site.get("quiet", True)]
            if not busy:
                return
            time.sleep(0.1)
        self.told.wrong.append(f"not quiet after {QUIET_S:.0f} s: {', '.join(busy)}")

    def compare(self, out: Path) -> None:
        """What was acknowledged is there, byte for byte, and nothing that was refused."""
        rows = read_history(out).deliveries
        delivered = {(r.origin, r.group_name, r.digest) for r in rows if r.digest is not None}
        for what, keys in (
            ("refused and delivered", self.refused & delivered),
            ("acknowledged and not delivered", self.acknowledged - delivered),
        ):
            self.told.wrong += [f"{what}: {key}" for key in sorted(keys)]


@contextlib.asynccontextmanager
async def changed(
    daemons: Daemons, senders: Mapping[str, Sequence[str]], seed: int, *, away_s: float = 0.3
) -> AsyncIterator[ChangedCluster]:
    running = ChangedCluster(daemons, senders, seed, away_s=away_s)
    try:
        yield running
    finally:
        daemons.run("cluster", "down", "cluster.toml")
        running.reap()
