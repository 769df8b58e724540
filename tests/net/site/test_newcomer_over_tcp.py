"""A site that is in no cluster file, over real connections: refused, added, used, retired."""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

import ordercast
from ordercast.core.epochs.packing import pack_layout
from ordercast.model.errors import ConfigError
from ordercast.net.cluster.certificates import add_certificates
from ordercast.net.link.transport import Transport
from ordercast.net.site.node import Node, site_of
from ordercast.wire.epochs import Feed, InEpoch
from ordercast.wire.frames import UP, Repair
from support.clusters.processes import NAME, write_cluster
from support.clusters.sites import GROUPS
from support.harness.loops import in_loop
from support.harness.ports import free_ports

WAIT_S = 60.0


async def payloads(node: Node, count: int, start: int | None = None) -> list[bytes]:
    """The next so many messages; epochs that opened between them are left out."""
    found: list[bytes] = []
    async with asyncio.timeout(WAIT_S):
        async for item in node.deliveries(start):
            if isinstance(item, ordercast.Delivery):
                found.append(item.payload)
                if len(found) == count:
                    break
    return found


async def link_error(node: Node, peer: str, words: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while not any(
            link.peer == peer and words in link.last_error
            for link in site_of(node).transport.links()
        ):
            await asyncio.sleep(0.01)


def peers_of(node: Node) -> list[str]:
    return [link.peer for link in site_of(node).transport.links()]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_newcomer_is_refused_then_added_joins_restarts_and_is_retired(
    tls: bool, tmp_path: Path
) -> None:
    path = write_cluster(tmp_path, GROUPS, {"durability": "os"}, tls=tls)
    address = f"127.0.0.1:{free_ports(1)[0]}"

    @in_loop
    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            a, b, c = [
                await stack.enter_async_context(ordercast.Node.open(path, site, dir=tmp_path))
                for site in "abc"
            ]
            if tls:
                with pytest.raises(ConfigError, match=r"d\.pem: there is no such file"):
                    await ordercast.Node.open(path, "d", dir=tmp_path, address=address).__aenter__()
                add_certificates(NAME, ["d"], tmp_path / "certs")
            await a.multicast("alpha", b"before")
            async with ordercast.Node.open(path, "d", dir=tmp_path, address=address) as d:
                told = "it refuses us: unknown site: 'd' is not, or no longer, of this cluster"
                await link_error(d, "a", told)
                assert not d.admitted
                assert "d" not in peers_of(b)
                async with asyncio.timeout(WAIT_S):
                    await b.add_site("d", address)
                    await b.join("alpha", "d")
                    while "d" not in site_of(d).core.layout.groups.get(
                        "alpha", ()
                    ):  # it hears of it too
                        await asyncio.sleep(0.01)
                for number in range(20):
                    for node in (a, d):
                        await node.multicast("alpha", f"{node.site}{number}".encode())
                at_d = await payloads(d, 40)
                assert (await payloads(a, 41)) == [b"before", *at_d]
                assert {text for text in at_d if text.startswith(b"d")} == {
                    f"d{number}".encode() for number in range(20)
                }
                assert "d" in peers_of(a)
                await d.confirm(site_of(d).stream.delivered)
            await a.multicast("alpha", b"while it is away")
            async with ordercast.Node.open(path, "d", dir=tmp_path) as d:  # it knows its address
                assert await payloads(d, 1) == [b"while it is away"]
                async with asyncio.timeout(WAIT_S):
                    await c.retire_site("d")
                    while not d.retired or "d" in peers_of(a):
                        await asyncio.sleep(0.01)
                    while not any(
                        link.state == "connected" for link in site_of(d).transport.links()
                    ):
                        await asyncio.sleep(0.01)  # as a guest
                assert "d" not in peers_of(a)
            await a.multicast("alpha", b"after")
            assert (await payloads(b, 43))[-1] == b"after"

    run()


def test_a_retired_site_founds_no_false_cluster_for_a_newcomer(tmp_path: Path) -> None:
    """It has a certificate and knows the founding, but the newcomer's file does not name it."""
    path = write_cluster(tmp_path, GROUPS, {"durability": "os"}, tls=True)
    add_certificates(NAME, ["d", "e"], tmp_path / "certs")
    there, here = (f"127.0.0.1:{port}" for port in free_ports(2))

    @in_loop
    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack, asyncio.timeout(WAIT_S):
            a, _, _ = [
                await stack.enter_async_context(ordercast.Node.open(path, site, dir=tmp_path))
                for site in "abc"
            ]
            opening = ordercast.Node.open(path, "d", dir=tmp_path, address=there)
            d = await stack.enter_async_context(opening)
            await a.add_site("d", there)
            while not d.admitted:
                await asyncio.sleep(0.01)
            await a.retire_site("d")
            while not d.retired:
                await asyncio.sleep(0.01)
            true, liar = site_of(d).core.layout, site_of(d).transport
            false = replace(true, count=99, roster={"d": 1, "e": 1}, voters=("d",), groups={},
                            domains={}, closing={})  # fmt: skip
            opening = ordercast.Node.open(path, "e", dir=tmp_path, address=here)
            e = await stack.enter_async_context(opening)
            heard = site_of(e).transport
            assert isinstance(liar, Transport)
            assert isinstance(heard, Transport)
            liar.meet("e", ("127.0.0.1", int(here.rpartition(":")[2])))
            liar.connect("e")
            while not any(link.state == "connected" for link in liar.links() if link.peer == "e"):
                await asyncio.sleep(0.01)
            liar.send("e", [Feed(99, (), 99, (), pack_layout(false))])
            liar.send("e", [InEpoch(1, Repair(1, 1, UP, 1, 2))])  # held until the epoch is known
            while not site_of(e).core.observations()[0][1]:
                await asyncio.sleep(0.01)
            assert site_of(e).core.layout.count == -1
            await a.add_site("e", here)
            while not e.admitted:
                await asyncio.sleep(0.01)
            assert site_of(e).core.layout.voters == ("a", "b", "c")

    run()
