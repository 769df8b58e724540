"""Nodes over UDP multicast and TCP on one machine: order under loss, the way back to unicast, and
what strangers can do."""

import asyncio
import random
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ordercast.model.errors import ConfigError
from ordercast.model.messages import Delivery
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.net.link.multicast_transport import NOT_HEARD
from ordercast.net.link.seals import AuthenticSeal, seal_datagram
from ordercast.net.site.node import Node, site_of
from ordercast.wire.datagrams import Piece
from support.clusters.processes import write_cluster
from support.harness.loops import in_loop
from support.network.multicasting import (
    counts,
    everywhere,
    lose,
    lossy,
    opened,
    require_multicast,
    spreading,
    until_ways,
)

GROUPS = {"alpha": ["a", "b", "c"], "beta": ["b", "c"]}
OPTIONS: dict[str, Any] = {"dissemination": "multicast", "durability": "memory"}


async def send(node: Node, count: int, size: int = 100, group: str = "alpha") -> None:
    for n in range(count):
        await node.multicast(group, b"%d " % n + b"x" * size)
        if n % 10 == 0:
            await asyncio.sleep(0)


async def deliveries(node: Node, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    async for item in node.deliveries():
        if isinstance(item, Delivery):
            found.append(item)
        if len(found) == count:
            break
    return found


async def in_order(nodes: dict[str, Node], count: int, origin: str = "a") -> None:
    """Every site delivers the same; those of one origin as they were sent."""
    found = await asyncio.gather(*(deliveries(node, count) for node in nodes.values()))
    ids = [[item.id for item in items] for items in found]
    assert all(each == ids[0] for each in ids)
    numbers = [int(item.payload.split()[0]) for item in found[0] if item.origin == origin]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("protocol", ["propagation", "two_phase"])
def test_sites_deliver_in_one_order_with_a_tenth_lost(
    protocol: str, tls: bool, tmp_path: Path
) -> None:
    require_multicast()
    path = write_cluster(tmp_path, GROUPS, {**OPTIONS, "protocol": protocol}, tls=tls)

    @in_loop
    async def run() -> None:
        async with opened(path, "abc", tmp_path) as nodes:
            rng = random.Random(1)
            for node in nodes.values():
                lossy(node, 0.1, rng)
            await until_ways(nodes, everywhere("abc"))
            done: Counter[str] = Counter()
            while not (done["packets_taken"] and done["repairs_sent"]):  # once, but for bad luck
                await asyncio.gather(*(send(node, 300) for node in nodes.values()))
                await in_order(nodes, 900)
                done = sum((Counter(counts(node)) for node in nodes.values()), Counter())

    run()


@in_loop
async def test_large_messages_travel_in_fragments_and_not_over_tcp(tmp_path: Path) -> None:
    require_multicast()
    path = write_cluster(tmp_path, GROUPS, OPTIONS, tls=False)
    async with opened(path, "abc", tmp_path) as nodes:
        await until_ways(nodes, everywhere("abc"))
        primary = site_of(nodes["a"]).core.layout.home("a")
        assert primary is not None
        origin = primary.structure.primary("alpha", ())
        over_tcp = 10 * 300_000
        while over_tcp > 300_000:  # a machine that sleeps for seconds goes back to unicast
            before = sum(link.bytes_out for link in site_of(nodes[origin]).transport.links())
            await send(nodes[origin], 10, size=300_000)
            await in_order(nodes, 10, origin)
            after = sum(link.bytes_out for link in site_of(nodes[origin]).transport.links())
            over_tcp = after - before
        assert counts(nodes[origin])["pieces_sent"] > 10 * 300_000 // 1_400


@in_loop
async def test_who_hears_no_datagrams_is_served_by_unicast_and_status_says_so(
    tmp_path: Path,
) -> None:
    require_multicast()
    path = write_cluster(tmp_path, GROUPS, OPTIONS, tls=False)
    async with opened(path, "abc", tmp_path) as nodes:
        lose(nodes["c"], lambda _data: True)
        await until_ways(nodes, everywhere("abc", but="c"))
        await asyncio.gather(*(send(node, 100) for node in nodes.values()))
        await in_order(nodes, 300)
        await until_ways(nodes, everywhere("abc", but="c"))
        told = (await nodes["a"].status())["dissemination"]
        assert told["chosen"] == "multicast"
        assert told["ways"] == {"b": "multicast", "c": "unicast"}
        assert told["why"] == f"c: {NOT_HEARD}"


@in_loop
async def test_datagrams_that_stop_getting_through_cost_a_while_and_no_message(
    tmp_path: Path,
) -> None:
    require_multicast()
    path = write_cluster(tmp_path, GROUPS, OPTIONS, tls=False)
    async with opened(path, "abc", tmp_path) as nodes:
        await until_ways(nodes, everywhere("abc"))
        await send(nodes["a"], 50)
        for node in nodes.values():
            lose(node, lambda _data: True)
        await send(nodes["b"], 50)
        await until_ways(nodes, everywhere("abc", but="abc"))
        await send(nodes["a"], 50)
        items = await asyncio.gather(*(deliveries(node, 150) for node in nodes.values()))
        assert len({tuple(item.id for item in each) for each in items}) == 1
        for node in nodes.values():
            lose(node, lambda _data: False)
        await until_ways(nodes, everywhere("abc"))


@in_loop
async def test_a_socket_that_cannot_be_opened_means_unicast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr("ordercast.net.link.datagram.DatagramSocket.open", refuse)
    path = write_cluster(tmp_path, GROUPS, OPTIONS, tls=False)
    async with opened(path, "abc", tmp_path) as nodes:
        await send(nodes["a"], 20)
        await in_order(nodes, 20)
        told = (await nodes["a"].status())["dissemination"]
        assert told["why"] == "no multicast socket: No such device"


@in_loop
async def test_strangers_are_counted_and_change_nothing(tmp_path: Path) -> None:
    require_multicast()
    path = write_cluster(tmp_path, GROUPS, OPTIONS, tls=False)
    async with opened(path, "abc", tmp_path) as nodes:
        await until_ways(nodes, everywhere("abc"))
        host, _, port = (await nodes["a"].status())["dissemination"]["address"].partition(":")
        seen: list[bytes] = []

        def note(data: bytes) -> bool:
            seen.append(data)
            return False

        lose(nodes["b"], note)
        await send(nodes["a"], 30)
        await in_order(nodes, 30)
        stream = int.from_bytes(seen[-1][6:14])
        before = {site: await status_counts(nodes[site]) for site in "abc"}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            here = socket.inet_aton("127.0.0.1")
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
            forged = seal_datagram(
                Piece(stream, 10**6, True, True, b"forged"), AuthenticSeal(b"guess" * 8)
            )
            nobody = seal_datagram(Piece(12345, 1, True, True, b"?"), AuthenticSeal(b"guess" * 8))
            for data in [forged, nobody, b"garbage", b"y" * 1_401, *seen]:
                stranger.sendto(data, (host, int(port)))
        for site in "abc":
            while any(
                counts(nodes[site]).get(what, 0) <= before[site].get(what, 0)
                for what in ("forged", "garbage", "oversized", "of_no_stream")
            ):
                await asyncio.sleep(0.01)
        again = counts(nodes["c"])
        assert again.get("repeated", 0) + again.get("replayed", 0) > 0
        await send(nodes["b"], 30)
        await in_order(nodes, 30, "b")


async def status_counts(node: Node) -> dict[str, int]:
    return dict(counts(node))


@in_loop
async def test_a_new_epoch_has_a_new_stream_and_a_site_that_left_is_not_told_the_key(
    tmp_path: Path,
) -> None:
    require_multicast()
    path = write_cluster(tmp_path, GROUPS, {**OPTIONS, "durability": "os"}, tls=False)
    async with opened(path, "abc", tmp_path) as nodes:
        await until_ways(nodes, everywhere("abc"))
        before = spreading(nodes["a"]).way.multicast.own.stream
        await nodes["b"].leave("beta")
        await nodes["b"].leave("alpha")
        await until_ways(nodes, {"a": {"c": "multicast"}, "c": {"a": "multicast"}})
        now = spreading(nodes["a"]).way.multicast.own.stream
        assert now != before
        assert now in spreading(nodes["c"]).way.keys
        assert now not in spreading(nodes["b"]).way.keys
        await send(nodes["a"], 20)
        both = {site: nodes[site] for site in "ac"}
        await in_order(both, 20)
        await until_ways(nodes, {"b": {}})


@in_loop
async def test_an_engine_that_waits_for_a_full_stream_goes_on_also_with_a_site_that_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_multicast()
    path = write_cluster(tmp_path, GROUPS, {**OPTIONS, "durability": "os"}, tls=False)
    async with opened(path, "abc", tmp_path) as nodes:
        await until_ways(nodes, everywhere("abc"))
        told: dict[str, bool] = {}
        congested = site_of(nodes["a"]).congested
        monkeypatch.setattr(
            site_of(nodes["a"]), "congested", lambda *of: (told.update([of]), congested(*of))
        )
        way = spreading(nodes["a"]).way
        with monkeypatch.context() as patched:
            patched.setattr(way, "full", lambda _was: True)
            while told != {"b": True, "c": True}:
                await asyncio.sleep(0.01)
            monkeypatch.setattr(way, "sites", ("a", "c"))  # as if b had left
        while told != {"b": False, "c": False}:
            await asyncio.sleep(0.01)
        await send(nodes["a"], 20)
        await in_order(nodes, 20)


@in_loop
async def test_a_site_that_restarts_is_reached_again(tmp_path: Path) -> None:
    require_multicast()
    options = {**OPTIONS, "durability": "os", "on_failure": "wait"}
    path = write_cluster(tmp_path, GROUPS, options, tls=False)
    async with opened(path, "ac", tmp_path) as nodes:
        for _ in range(2):
            async with opened(path, "b", tmp_path) as again:
                await until_ways({**nodes, **again}, everywhere("abc"))
                await send(nodes["a"], 10)
                await in_order({"b": again["b"]}, 10)
                await again["b"].confirm((await again["b"].status())["position"])


@pytest.mark.parametrize(
    ("options", "multicast", "says"),
    [
        ({"dissemination": "multicats"}, None, "cluster.dissemination: there is no 'multicats'"),
        ({}, {"adress": "x"}, "multicast: unknown key 'adress' (did you mean 'address'?)"),
        ({}, {"address": "10.0.0.1:7000"}, "'10.0.0.1:7000' is not a multicast address"),
        ({}, {"address": "224.0.0.1:7000"}, "is not a multicast address"),
        ({}, {"address": "239.1.1.1"}, "is not an address"),
        ({}, {"ttl": 300}, "multicast.ttl: 300 is not a whole number from 0 to 32"),
        ({}, {"datagram_bytes": 100}, "multicast.datagram_bytes: 100 is not a whole number"),
        ({}, {"datagram_bytes": True}, "multicast.datagram_bytes: True is not a whole number"),
    ],
)
def test_a_mistake_in_the_file_is_one_clear_line(
    options: dict[str, Any], multicast: dict[str, object] | None, says: str
) -> None:
    with pytest.raises(ConfigError) as error:
        cluster_of_groups(GROUPS, multicast=multicast, **options)
    assert says in str(error.value)


def test_datagrams_stay_on_the_machine_or_on_its_network() -> None:
    local = cluster_of_groups(GROUPS, **OPTIONS)
    assert local.multicast is not None
    assert local.multicast.ttl == 0
    addresses = {site: f"10.0.0.{n}:7000" for n, site in enumerate("abc", 1)}
    spread = cluster_of_groups(GROUPS, addresses=addresses, insecure=True, **OPTIONS)
    assert spread.multicast is not None
    assert spread.multicast.ttl == 1
    assert local.multicast.address == spread.multicast.address  # by the name


def test_without_being_asked_for_nothing_is_multicast() -> None:
    assert cluster_of_groups(GROUPS).multicast is None
    assert "multicast" not in cluster_of_groups(GROUPS).terms()
    assert cluster_of_groups(GROUPS, **OPTIONS).terms()["multicast"].startswith("239.255.")
