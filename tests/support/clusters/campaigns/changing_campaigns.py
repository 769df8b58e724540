"""Random schedules over a cluster in one process whose groups change all the time: applications
send and read, sites are killed and restarted in the middle of changes, also all at once, sites are
added and retired; judged as in `campaigns`, and each application's epochs as well."""

import asyncio
import random
from pathlib import Path
from typing import Any

from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Edit,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RetireSite,
    UseBuilder,
    UseProtocol,
)
from ordercast.model.errors import ConfigError, CrossDomain, Error, UnknownGroup
from ordercast.net.local import LocalCluster
from ordercast.net.site.changes import new_change_name
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.stream import EpochOpened
from support.clusters.campaigns.local_kills import Campaign, Case, Found
from support.harness import loops
from support.judges.applog import accepted, saw

MANNERS: tuple[Edit, ...] = (
    *(UseProtocol(name) for name in PROTOCOLS),
    UseBuilder("star"),
    UseBuilder("greedy"),
    UseBuilder("balanced"),
)


LEAST_KILLS = 5  # a quick machine makes more changes, rather than fewer kills


class ChangingCampaign(Campaign):
    """Kills stop when all changes are done. Sites named n… are added here, groups named m… too."""

    def __init__(self, case: Case, directory: Path, changes: int) -> None:
        super().__init__(case, directory)
        self.changes = changes
        self.done = 0
        self.refused = 0
        self.messages_refused = 0
        self.added: list[str] = []
        self.retired: list[str] = []
        self.openings: dict[str, dict[int, EpochOpened]] = {}
        self.founders = sorted({site for members in self.groups.values() for site in members})
        self._down: list[str] = []

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "timeouts": {"suspect": "100ms"}}

    def _changes_on(self) -> bool:
        return self.done < self.changes or self.found.kills < LEAST_KILLS

    def _has_more(self, site: str) -> bool:
        return self._changes_on() or self.left[site] > 0

    # --- applications -----------------------------------------------------------------------------

    async def _send(self, site: str, node: Node) -> None:
        rng = random.Random(f"{self.case} {site} {node.boot}")
        while self._has_more(site):
            payloads = [rng.randbytes(rng.randrange(40)) for _ in range(rng.choice([1, 1, 5]))]
            self.left[site] -= len(payloads)
            try:
                await self._send_one(rng, node, payloads)
            except (UnknownGroup, CrossDomain, ConfigError):  # ConfigError: of a list of sites
                self.messages_refused += len(payloads)
            await asyncio.sleep(rng.random() * (0.01 if self.left[site] > 0 else 0.2))

    async def _send_one(self, rng: random.Random, node: Node, payloads: list[bytes]) -> None:
        layout = site_of(node).core.layout
        if not layout.groups:
            return  # not admitted yet
        if rng.random() < 0.2:
            await node.multicast_to(rng.sample(sorted(layout.roster), 2), payloads)
            return
        group = rng.choice(list(layout.groups))
        receipt = await node.multicast_many(group, payloads)
        if rng.random() < 0.3:
            await receipt.accepted()
            if group in self.groups and node.site in self.founders:  # never removed or retired
                self.notes[node.site].append(accepted(receipt, payloads))

    async def _read(self, site: str, node: Node) -> None:
        rng = random.Random(f"{self.case} {site} {node.boot} reads")
        notes, openings = self.notes[site], self.openings.setdefault(site, {})
        epoch = last = 0
        async for item in node.deliveries():
            if isinstance(item, EpochOpened):
                if openings.setdefault(item.epoch, item) != item:
                    self.errors.append(f"{site}: {item} was {openings[item.epoch]} before")
                if item.epoch <= epoch or (last and item.position != last):
                    self.errors.append(f"{site}: {item} after position {last} of epoch {epoch}")
                epoch = item.epoch
                continue
            if item.epoch != (epoch or item.epoch):
                self.errors.append(f"{site}: {item} in epoch {epoch}")
            epoch, last = item.epoch, item.position
            notes.append(saw(item))
            await self._confirm_sometimes(rng, node, item.position)

    # --- faults and changes -----------------------------------------------------------------------

    async def _disturb(self, cluster: LocalCluster) -> None:
        changing = asyncio.gather(*(self._change(cluster, lane) for lane in range(2)))
        try:
            while not (changing.done() or self.errors):  # a change may wait for a failed site
                await asyncio.sleep(self.rng.random() * 0.1)
                if self.found.kills < self.case.kills and not self._down:
                    await self._kill_some(cluster)
                elif self._down and self.rng.random() < 0.5:
                    await self._start_some(cluster, self.rng.randrange(len(self._down)) + 1)
            await self._start_some(cluster, len(self._down))
            if not self.errors:
                await changing
        finally:
            changing.cancel()
            await asyncio.gather(changing, return_exceptions=True)

    async def _kill_some(self, cluster: LocalCluster) -> None:
        up = [site for site in sorted(cluster.nodes) if site in self.tasks]
        everybody = self.rng.random() < 0.15  # a power cut
        for site in self.rng.sample(up, len(up) if everybody else 1):
            await self._kill(cluster, site)
            self._down.append(site)

    async def _start_some(self, cluster: LocalCluster, count: int) -> None:
        """In any order."""
        for _ in range(count):
            back = self._down.pop(self.rng.randrange(len(self._down)))
            self._begin(back, await cluster.start(back))
            await asyncio.sleep(self.rng.random() * 0.02)

    async def _change(self, cluster: LocalCluster, lane: int) -> None:
        rng = random.Random(f"{self.case} changes {lane}")
        while self._changes_on():
            edits = self._draw(rng, cluster)
            if edits and await self._ask(rng, cluster, edits):
                self.done += 1
                await self._follow_up(cluster, edits)
            await asyncio.sleep(rng.random() * 0.02)

    async def _ask(
        self, rng: random.Random, cluster: LocalCluster, edits: tuple[Edit, ...]
    ) -> bool:
        """Whoever is asked may be killed; then another is asked for the same."""
        name = new_change_name()
        while True:
            if not cluster.nodes:
                await asyncio.sleep(0.01)
                continue
            node = cluster[rng.choice(sorted(cluster.nodes))]
            try:
                async with asyncio.timeout(2.0):
                    await node.change(*edits, name=name)
            except ConfigError:
                self.refused += 1
                return False
            except (Error, TimeoutError):
                continue
            return True

    async def _follow_up(self, cluster: LocalCluster, edits: tuple[Edit, ...]) -> None:
        for edit in edits:
            if isinstance(edit, AddSite):
                self.notes[edit.site], self.left[edit.site] = [], self.case.messages
                self.added.append(edit.site)
                self._begin(edit.site, await cluster.newcomer(edit.site))
            elif isinstance(edit, RetireSite):
                if edit.site in self.added:
                    self.added.remove(edit.site)
                self.retired.append(edit.site)

    def _draw(self, rng: random.Random, cluster: LocalCluster) -> tuple[Edit, ...]:
        if not cluster.nodes:
            return ()
        layout = site_of(cluster[rng.choice(sorted(cluster.nodes))]).core.layout
        if not layout.groups:
            return ()
        group = rng.choice(sorted(layout.groups))
        site = rng.choice(sorted(layout.roster))
        way = rng.random()
        if way < 0.35:
            return (JoinGroup(group, site),)
        if way < 0.6:
            return (LeaveGroup(group, site),)
        if way < 0.72:
            members = tuple(rng.sample(sorted(layout.roster), 2))
            return (AddGroup(f"m{rng.randrange(4)}", members),)
        if way < 0.8:
            return (RemoveGroup(f"m{rng.randrange(4)}"),)
        if way < 0.88:
            return (rng.choice(MANNERS),)
        if way < 0.95 and len(self.added) < 2:
            new = f"n{len(self.added) + len(self.retired)}"
            return (AddSite(new), JoinGroup(group, new))
        return (RetireSite(rng.choice(self.added)),) if self.added else ()

    # --- the end ----------------------------------------------------------------------------------

    def _judge(self, stores: Path) -> None:
        super()._judge(stores)
        members: dict[int, Any] = {}
        for site, openings in self.openings.items():
            for epoch, opened in openings.items():
                told = (opened.members, opened.protocol, opened.builder, opened.after)
                if members.setdefault(epoch, told) != told:
                    self.found.wrong.append(
                        f"{site}: epoch {epoch} is {told}, not {members[epoch]}"
                    )


def run_changing(case: Case, directory: Path, changes: int) -> tuple[Found, ChangingCampaign]:
    campaign = ChangingCampaign(case, directory, changes)
    return loops.run(campaign.run()), campaign
