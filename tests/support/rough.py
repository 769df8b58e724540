"""Sites whose every connection goes through a proxy that disturbs, until so many disturbances."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass

from ordercast.net.tls import TlsConfig
from support.driven import DrivenSite, star_of, wrong_deliveries
from support.links import anywhere, until
from support.proxy import Manners, Proxy

LARGEST = 20_000  # bytes of a payload


@dataclass(frozen=True)
class Ride:
    """What became of it."""

    disturbances: Counter[str]
    messages: int
    losses: int  # of connections, at either end
    wrong: list[str]


async def rough_ride(
    names: str, disturbances: int, seed: object, *, tls: TlsConfig | None = None
) -> Ride:
    """All send all the time; then the proxies grow calm, and everything must arrive."""
    rng = random.Random(f"{seed}")
    structure, addresses = star_of(names), anywhere(names)
    sites = {name: DrivenSite(name, structure, addresses, tls=tls) for name in names}
    proxies: list[Proxy] = []
    try:
        for site in sites.values():
            await site.transport.start()
        for near, one in sites.items():
            for far, other in sites.items():
                if near != far:
                    proxy = Proxy(other.transport.address, f"{seed}/{near}/{far}", Manners())
                    await proxy.start()
                    proxies.append(proxy)
                    one.transport.addresses[far] = proxy.address
        while sum(proxy.disturbances.total() for proxy in proxies) < disturbances:
            for name, site in sites.items():
                for _ in range(rng.randrange(4)):
                    body = bytes(rng.randrange(rng.choice((100, LARGEST))))
                    site.offer("g", f"{name}/{site.sent + 1}/".encode() + body)
            await asyncio.sleep(0.002)
        for proxy in proxies:
            proxy.calm = True
        total = sum(site.sent for site in sites.values())
        await until(
            lambda: all(len(site.delivered) >= total for site in sites.values()),
            f"all of {total} messages everywhere, seed {seed}",
            60,
        )
    finally:
        for site in sites.values():
            await site.close()
        for proxy in proxies:
            await proxy.close()
    counts: Counter[str] = Counter()
    for proxy in proxies:
        counts += proxy.disturbances
    losses = sum(site.losses for site in sites.values())
    return Ride(counts, total, losses, wrong_deliveries(sites))
