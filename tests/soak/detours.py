"""Soak campaign: five transports whose links are cut, both ways and one way, and mended at random.

With and without TLS, on both event loops. In the end every link is direct again, there is one
connection for each, no pipe is left, and no end was told twice of one thing.
"""

import asyncio
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, permutations
from pathlib import Path

from ordercast.model.options import MILLISECOND
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.link.tls import TlsConfig
from support.network.links import (
    CLUSTER,
    QUICK,
    End,
    anywhere,
    connected,
    frame,
    on_asyncio,
    on_uvloop,
    until,
)
from support.network.meshes import Mesh, mesh
from tools.soak.campaign import Outcome

CASE_S = 15
SITES = "abcde"
SECONDS = 6.0
TIMES = replace(QUICK, suspect=200 * MILLISECOND)


@cache
def certificates() -> tuple[TlsConfig, "tempfile.TemporaryDirectory[str]"]:
    place = tempfile.TemporaryDirectory()
    write_certificates(CLUSTER, list(SITES), Path(place.name))
    return TlsConfig(Path(place.name)), place


def run(seed: int) -> Outcome:
    tls = certificates()[0] if seed % 2 else None
    ends = [End(name, anywhere(SITES), times=TIMES, tls=tls, keep=False) for name in SITES]
    counters: dict[str, int] = {}

    async def main() -> None:
        async with mesh(*ends) as net:
            counters["cuts"] = await cut_and_mend(net, random.Random(f"detours {seed}"))
            await until(lambda: connected(*ends) and not list(piped(net)), "all links direct")
            told = [end.transport.relayed() for end in ends]
            counters["pipes"] = sum(each.opened for each in told)
            counters["pipes refused"] = sum(each.refused for each in told)
            counters["MB relayed"] = sum(each.bytes for each in told) // 1_000_000
            for end in ends:
                at_rest = end.transport
                await until(lambda at=at_rest: not at.relayed().pipes, "no pipe left")  # type: ignore[misc]
                await until(lambda at=at_rest: at.connections == len(SITES) - 1, "one each")  # type: ignore[misc]
                end.taken = 0
            for one, two in permutations(SITES, 2):
                net.ends[one].transport.send(two, [frame(1)])
            await until(lambda: all(end.taken >= len(SITES) - 1 for end in ends), "frames")

    (on_uvloop if seed % 4 < 2 else on_asyncio)(main())
    twice = [f"{end.name} of {two}" for end in ends for two in SITES if not end.paired(two)]
    return Outcome(not twice, counters, f"told twice: {twice}")


async def cut_and_mend(net: Mesh, rng: random.Random) -> int:
    loop = asyncio.get_running_loop()
    until_s, cuts = loop.time() + SECONDS, 0
    while loop.time() < until_s:
        one, two = rng.sample(SITES, 2)
        draw = rng.random()
        cuts += draw < 0.5
        if draw < 0.25:
            net.cut(one, two)
        elif draw < 0.45:
            net.cut_one_way(one, two)
        elif draw < 0.5:
            net.proxies[one, two].cut()
        else:
            mend(net, one, two)
        for sender, receiver in permutations(SITES, 2):
            if rng.random() < 0.5:
                size = rng.choice([10, 10, 50_000, 300_000])
                net.ends[sender].transport.send(receiver, [frame(1, size)])
        await asyncio.sleep(rng.choice([0.01, 0.05, 0.2]))
    for one, two in combinations(SITES, 2):
        mend(net, one, two)
    return cuts


def mend(net: Mesh, one: str, two: str) -> None:
    net.heal(one, two)
    net.cut_one_way(one, two, cut=False)
    net.cut_one_way(two, one, cut=False)


def piped(net: Mesh) -> Iterator[tuple[str, str]]:
    return ((one, two) for one, two in permutations(SITES, 2) if net.through(one, two))
