"""Soak campaign: the core's members over links that a proxy resets, stalls, truncates, corrupts.

With and without TLS, on both event loops, while sites are added and retired. Nothing may be lost,
doubled or reordered.
"""

import tempfile
from functools import cache
from pathlib import Path

from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.link.tls import TlsConfig
from support.network.links import CLUSTER, on_asyncio, on_uvloop
from support.network.rough import Ride, rough_ride
from tools.soak.campaign import Outcome

SITES = "abc"
VISITORS = ("v1",)
DISTURBANCES = 20


@cache
def certificates() -> tuple[TlsConfig, "tempfile.TemporaryDirectory[str]"]:
    place = tempfile.TemporaryDirectory()
    write_certificates(CLUSTER, [*SITES, *VISITORS], Path(place.name))
    return TlsConfig(Path(place.name)), place


def run(seed: int) -> Outcome:
    rides: list[Ride] = []

    async def main() -> None:
        tls = certificates()[0] if seed % 2 else None
        rides.append(await rough_ride(SITES, DISTURBANCES, seed, visitors=VISITORS, tls=tls))

    (on_uvloop if seed % 4 < 2 else on_asyncio)(main())
    ride = rides[0]
    counters = {"messages": ride.messages, "lost connections": ride.losses}
    counters["visits"] = ride.visits
    counters["disturbances"] = ride.disturbances.total()
    counters |= {f"of kind {kind}": times for kind, times in ride.disturbances.items()}
    return Outcome(not ride.wrong, counters, "; ".join(ride.wrong))
