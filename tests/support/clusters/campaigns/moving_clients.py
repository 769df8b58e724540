"""Clients that move between daemons: these are killed, with their stores sometimes, and so are the
clients. Each request must be delivered once at every member, in its client's order.

The daemons are real processes. A client that is killed drops its connection in the middle of what
it sends; what it was not told of may be delivered or not, but once and in order too.
"""

import asyncio
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ordercast.history.rows import ROLLBACK
from ordercast.model.errors import Error, Expired
from ordercast.net.admin.frames import ClientFrame, Send, SendOnce
from ordercast.net.client.client import Client
from ordercast.net.client.endpoints import SocketEndpoint
from ordercast.net.client.requests import ClientReceipt
from ordercast.net.store.events import ENTERED
from support.clusters.campaigns.client_kills import Case, Found, _audit, log_of, running
from support.clusters.excluding import root_of
from support.clusters.served import Served, served
from support.harness import loops

GROUP = "alpha"
PATIENCE_S = 120.0
SETTLE_S = 400.0
SUSPECT_S = 0.5
UNDER_WAY = 400  # of one client


@dataclass
class Life:
    """One client, from its first request to its end: what it was told of each, in order."""

    name: str
    sent: list[bytes] = field(default_factory=list)
    stable: list[bytes] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)


class Daemons(Protocol):
    """The daemons of a case. They are killed and started in turn."""

    sites: list[str]
    stores: Path

    def kill(self, site: str) -> Awaitable[None] | None: ...
    def start(self, site: str) -> Awaitable[None] | None: ...
    def log(self, site: str) -> str: ...


class DaemonsHere:
    """All in this process, which is much quicker; they have stores and sockets of their own."""

    def __init__(self, running: Served) -> None:
        self._running = running
        self.sites = sorted(running.cluster.cluster.sites)
        self.stores = running.directory

    def root(self) -> str:
        return root_of(self._running.cluster)

    def cut_off(self, site: str) -> None:
        """From all others; from now on no site, if none is named."""
        if site:
            self._running.cluster.split([site], [one for one in self.sites if one != site])
        else:
            self._running.cluster.heal()

    async def kill(self, site: str) -> None:
        await self._running.kill(site)

    async def start(self, site: str) -> None:
        await self._running.start(site)

    def log(self, site: str) -> str:
        return f"{site} is in this process"


def run_here(case: Case, folder: Path, losses: int) -> Found:
    """As `run_moving`, in one process."""
    found, stores = Found(), folder / "stores"
    stores.mkdir()
    campaigns: list[MovingClients] = []

    async def run() -> None:
        quick = {"suspect": f"{SUSPECT_S * 1000:.0f}ms"}
        async with served(stores, case.groups, deliver=case.level, timeouts=quick) as running:
            campaigns.append(MovingClients(case, DaemonsHere(running), found, losses))
            await campaigns[0].run()

    loops.run(run(), limit_s=SETTLE_S + 30)
    if not found.wrong:
        judge(case, stores, campaigns[0], found)
    return found


def run_moving(case: Case, folder: Path, losses: int) -> Found:
    """`losses`: so many of the kills take the store along."""
    found = Found()
    with running(folder, case) as daemons:
        campaign = MovingClients(case, daemons, found, losses)
        loops.run(campaign.run(), limit_s=SETTLE_S + 30)
        found.wrong += daemons.stop()
    if not found.wrong:
        judge(case, daemons.stores, campaign, found)
    return found


class MovingClients:
    def __init__(self, case: Case, daemons: Daemons, found: Found, losses: int) -> None:
        self.case, self.daemons, self.found = case, daemons, found
        self.lives: list[Life] = []
        self.lost: dict[str, set[bytes]] = {}  # what was sent before a site began anew
        self._joins: Counter[str] = Counter()  # how often it did
        self._losses = losses
        self._first = 0
        self._rng = random.Random(f"moving clients {case}")
        self._over = False
        self._listed = case.seed % 3 == 0  # requests go to listed sites: the members

    async def run(self) -> None:
        try:
            async with asyncio.timeout(SETTLE_S):
                await self._until_remembered()
                senders = [
                    asyncio.create_task(self._lives(number)) for number in range(self.case.clients)
                ]
                for number in range(self.case.kills):
                    await self._kill()
                    if isinstance(self.daemons, DaemonsHere) and number % 3 == 0:
                        await self._cut_off(self.daemons)
                self._over = True
                self._end_of_kills()
                await asyncio.gather(*senders)
        except TimeoutError:
            left = sum(len(one.sent) - len(one.stable) - len(one.refused) for one in self.lives)
            self.found.wrong.append(f"{left} requests have no answer, with those of killed clients")
            logs = "; ".join(f"{s}: {self.daemons.log(s)}" for s in self.daemons.sites)
            self.found.wrong.append(f"not all is stable after {SETTLE_S:.0f} s: {logs}")

    async def _until_remembered(self) -> None:
        """The group begins to remember clients with the first request."""
        async with self._at(self.daemons.sites[0]) as client:
            while not any(client._outgoing.marks.values()):
                self._first += 1
                await (await self._request(client, b"first %d" % self._first)).stable()
                await asyncio.sleep(0.1)

    async def _kill(self) -> None:
        site = self._rng.choice(self.daemons.sites)
        await asyncio.sleep(0.1 + self._rng.random() * self.case.pause_s)
        await _done(self.daemons.kill(site))
        self.found.counts["kills"] += 1
        away = self._rng.choice([0.1, 2.5]) * SUSPECT_S
        loses = self._losses > 0 and self._rng.random() < 0.5
        if loses:
            self._losses -= 1
            self.found.counts["lost stores"] += 1
            await asyncio.sleep(3 * SUSPECT_S)  # the others go on without it
            for file in self.daemons.stores.glob(f"{site}.db*"):
                file.unlink()
        await asyncio.sleep(away)
        await _done(self.daemons.start(site))
        await self._back(site, loses)

    async def _cut_off(self, daemons: DaemonsHere) -> None:
        """A site is cut off from the others, and not from its clients. What it delivers at `agreed`
        is taken back when it returns."""
        site = self._rng.choice([*daemons.sites, daemons.root(), daemons.root()])
        daemons.cut_off(site)
        await asyncio.sleep(self._rng.choice([0.5, 3]) * SUSPECT_S)
        daemons.cut_off("")
        self.found.counts["cuts"] += 1
        await asyncio.sleep(SUSPECT_S)
        await self._back(site, False)

    async def _back(self, site: str, loses: bool) -> None:
        async with self._at(site) as client:  # two of three must be there
            while (await client.status())["standing"] != "present":
                await asyncio.sleep(0.1)
            # The store has the opening of the epoch when it has what came after it.
            self._first += 1
            await (await client.multicast(GROUP, b"first %d" % self._first)).stable()
        joins = _joins(self.daemons.stores / f"{site}.db", site)
        if loses or joins > self._joins[site]:
            self.lost[site] = self._sent()
            self.found.counts["begun anew"] += 1
        self._joins[site] = joins

    def _sent(self) -> set[bytes]:
        return {payload for life in self.lives for payload in life.sent}

    def _end_of_kills(self) -> None:
        """For a campaign whose clients are other processes."""

    def _at(self, site: str) -> Client:
        place = [SocketEndpoint(self.daemons.stores / f"{site}.sock")]
        return Client(place, "", site, PATIENCE_S, PATIENCE_S, PATIENCE_S)

    # --- clients ----------------------------------------------------------------------------------

    async def _lives(self, number: int) -> None:
        """One client after the other: most of them are killed."""
        chance = random.Random(f"{self.case.seed} {number}")
        while not self._over:
            life = Life(f"{number}.{len(self.lives)}")
            self.lives.append(life)
            client = self._client(chance)
            async with asyncio.timeout(PATIENCE_S):
                await client.__aenter__()
            self._count(client)
            sender = asyncio.create_task(self._send(life, client, chance))
            lasts = 2.0 + chance.random() * 15
            done, _ = await asyncio.wait([sender], timeout=lasts)
            if done or self._over:
                await sender
                await client.__aexit__(None, None, None)
                continue
            self.found.counts["clients killed"] += 1
            sender.cancel()
            await asyncio.wait([sender])
            await client._close()  # nothing is flushed

    def _client(self, chance: random.Random) -> Client:
        places = [SocketEndpoint(self.daemons.stores / f"{s}.sock") for s in self.daemons.sites]
        chance.shuffle(places)
        return Client(places, "", "", PATIENCE_S, PATIENCE_S, PATIENCE_S)

    async def _send(self, life: Life, client: Client, chance: random.Random) -> None:
        receipts: list[tuple[bytes, ClientReceipt]] = []
        while not self._over:
            for _ in range(chance.choice([1, 1, 20])):  # one request
                payload = f"{life.name} {len(life.sent)}".encode()
                try:
                    receipt = await self._request(client, payload)
                except Error:
                    assert self._listed  # one of the sites is absent
                    self.found.counts["not taken"] += 1
                    break
                life.sent.append(payload)
                receipts.append((payload, receipt))
            await asyncio.sleep(chance.choice([0, 0.02, 0.05]))
            while len(receipts) > UNDER_WAY:
                await self._answer(life, *receipts[0])
                del receipts[0]
        for each in receipts:
            await self._answer(life, *each)

    async def _request(self, client: Client, payload: bytes) -> ClientReceipt:
        if self._listed:
            return await client.multicast_to(self.case.groups[GROUP], payload)
        return await client.multicast(GROUP, payload)

    async def _answer(self, life: Life, payload: bytes, receipt: ClientReceipt) -> None:
        try:
            await receipt.stable()
        except Error as error:
            life.refused.append(payload)
            self.found.counts["expired" if isinstance(error, Expired) else "refused"] += 1
        else:
            self.found.counts["accepted"] += 1
            life.stable.append(payload)

    def _count(self, client: Client) -> None:
        outgoing, counts = client._outgoing, self.found.counts
        send, moved, seen = outgoing._send, client._move, set[int]()

        def counted(frame: ClientFrame) -> None:
            if isinstance(frame, SendOnce):
                which = "repeated" if frame.number in seen else "stamped"
                counts[f"{which} requests"] += 1
                counts[f"{which} messages"] += frame.count
                seen.add(frame.number)
            elif isinstance(frame, Send):
                counts["not stamped"] += 1
            send(frame)

        def move(site: str) -> None:
            counts["moves"] += 1
            moved(site)

        outgoing._send, client._move = counted, move  # type: ignore[method-assign]


async def _done(call: Awaitable[None] | None) -> None:
    if call is not None:
        await call


def _events(store: Path, kind: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT detail FROM events WHERE kind = ?", (kind,)).fetchall()
    return [json.loads(detail) for (detail,) in rows]


def _joins(store: Path, site: str) -> int:
    """How often the site has joined its groups anew, as this store knows."""
    arrived = [event["arrived"] for event in _events(store, ENTERED)]
    return sum(any(site in sites for _, sites in groups) for groups in arrived)


def judge(case: Case, stores: Path, campaign: MovingClients, found: Found) -> None:
    """A site that has lost its store begins anew with the epoch that it returns in, and once more
    if it is killed in that epoch (docs/epochs.md). If all lose their stores, one after the other,
    no store has the messages of before: each member had them when they were told stable."""
    told = {payload for life in campaign.lives for payload in life.stable}
    for site in case.groups[GROUP]:
        have = [payload for _, payload in log_of(stores / f"{site}.db")]
        found.counts["deliveries"] += len(have)
        found.counts["rollbacks"] += len(_events(stores / f"{site}.db", ROLLBACK))
        times = Counter(have)
        doubled = [payload for payload, count in times.items() if count > 1]
        if doubled:
            found.wrong.append(f"{len(doubled)} doubled at {site}: {doubled[:5]}")
        lacks = [p for p in told - campaign.lost.get(site, set()) if not times[p]]
        if lacks:
            found.wrong.append(f"{len(lacks)} told stable, and not at {site}: {lacks[:5]}")
        places = {payload: place for place, payload in enumerate(have)}
        for life in campaign.lives:
            order = [places[p] for p in life.sent if p in places and p not in life.refused]
            if order != sorted(order):
                found.wrong.append(f"client {life.name}'s order is another at {site}")
    found.counts["lives"] += len(campaign.lives)
    _audit(stores, found)
