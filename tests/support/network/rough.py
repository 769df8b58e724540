"""Sites whose every connection goes through a proxy that disturbs, until so many disturbances.

Meanwhile visitors come: each is added, joins the group, takes part and is retired.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ordercast.core.epochs.layout import nowhere
from ordercast.model.epochs import AddSite, Edit, JoinGroup, RetireSite
from ordercast.net.link.tls import TlsConfig
from support.network.driven import GROUP, DrivenSite, one_group_of, wrong_deliveries
from support.network.links import anywhere, listens, until
from support.network.proxy import Manners, Proxy

LARGEST = 20_000  # bytes of a payload
MANNERS = Manners(mean_bytes=300_000)  # a change needs an answer from everybody now and then
WAIT_S = 60.0


@dataclass(frozen=True)
class Ride:
    """What became of it."""

    disturbances: Counter[str]
    messages: int
    losses: int  # of connections, at either end
    visits: int  # of visitors that came, took part and were retired
    wrong: list[str]


async def rough_ride(
    names: str,
    disturbances: int,
    seed: object,
    *,
    visitors: Sequence[str] = (),
    tls: TlsConfig | None = None,
) -> Ride:
    """All send all the time; then the proxies grow calm, and everything must arrive."""
    journey = _Journey(names, seed, tls)
    try:
        return await journey.ride(disturbances, visitors)
    finally:
        await journey.close()


class _Journey:
    def __init__(self, names: str, seed: object, tls: TlsConfig | None) -> None:
        self.rng = random.Random(f"{seed}")
        self.seed = seed
        self.tls = tls
        self.layout = one_group_of(names)
        self.sites = {
            name: DrivenSite(name, self.layout, anywhere(names), tls=tls) for name in names
        }
        self.visitors: list[DrivenSite] = []
        self.sending: list[DrivenSite] = list(self.sites.values())
        self.proxies: list[Proxy] = []
        self.visits = 0

    async def ride(self, disturbances: int, visitors: Sequence[str]) -> Ride:
        for site in self.sites.values():
            await site.start()
        for near, one in self.sites.items():
            await self._reach_others(near, one)
        visiting = asyncio.create_task(self._visit(visitors))
        while self._disturbed().total() < disturbances or not visiting.done():
            for site in self.sending:
                for _ in range(self.rng.randrange(4)):
                    body = bytes(self.rng.randrange(self.rng.choice((100, LARGEST))))
                    site.offer(f"{site.name}/{site.sent + 1}/".encode() + body)
            await asyncio.sleep(0.002)
        await visiting
        for proxy in self.proxies:
            proxy.calm = True
        everyone = [*self.sites.values(), *self.visitors]
        total = sum(site.sent for site in everyone)
        await self._until(
            lambda: all(len(site.delivered) >= total for site in self.sites.values()),
            f"all of {total} messages everywhere",
        )
        losses = sum(site.losses for site in everyone)
        wrong = wrong_deliveries(self.sites, self.visitors)
        return Ride(self._disturbed(), total, losses, self.visits, wrong)

    async def _reach_others(self, near: str, one: DrivenSite) -> None:
        for far, other in self.sites.items():
            if near != far:
                one.transport.addresses[far] = await self._before(other, f"{near}/{far}")

    async def _before(self, site: DrivenSite, which: str) -> tuple[str, int]:
        proxy = Proxy(site.transport.address, f"{self.seed}/{which}", MANNERS)
        await proxy.start()
        self.proxies.append(proxy)
        return proxy.address

    def _disturbed(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for proxy in self.proxies:
            counts += proxy.disturbances
        return counts

    # --- visitors ---------------------------------------------------------------------------------

    async def _visit(self, names: Sequence[str]) -> None:
        for name in names:
            known = anywhere([*self.sites, name])
            visitor = DrivenSite(name, nowhere(self.layout.voters), known, tls=self.tls)
            self.visitors.append(visitor)
            await visitor.start()
            await self._reach_others(name, visitor)
            host, port = await self._before(visitor, f"others/{name}")
            await self._change(f"add {name}", AddSite(name, f"{host}:{port}"))
            await self._change(f"join {name}", JoinGroup(GROUP, name))
            self.sending.append(visitor)
            await self._until(lambda: visitor.sent > 50, f"{name} sends")  # noqa: B023
            self.sending.remove(visitor)
            await self._until(lambda: self._has_all(visitor), f"{name} was heard")  # noqa: B023
            await self._change(f"retire {name}", RetireSite(name))
            await visitor.close()
            self.visits += 1

    async def _change(self, change: str, *edits: Edit) -> None:
        asker = self.rng.choice(list(self.sites.values()))
        asker.ask(change, *edits)
        await self._until(lambda: change in asker.outcomes, change)
        assert asker.outcomes[change] == "", f"{change}: {asker.outcomes[change]}"

    def _has_all(self, visitor: DrivenSite) -> bool:
        first = next(iter(self.sites.values()))
        seqs = [seq for origin, seq, _ in first.delivered if origin == visitor.name]
        return len(seqs) == visitor.sent

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        await until(condition, f"{what}, seed {self.seed}", WAIT_S)

    async def close(self) -> None:
        for site in (*self.sites.values(), *self.visitors):
            if listens(site.transport):
                await site.close()
        for proxy in self.proxies:
            await proxy.close()
