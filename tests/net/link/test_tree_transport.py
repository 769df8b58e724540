"""Nodes that pass packets along trees over TCP."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from net.link.test_multicast_transport import deliveries, in_order, send
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.net.link.tree_transport import NOT_PASSED, TreeTransport
from ordercast.net.site.node import Node, site_of
from ordercast.wire.codec import WireFrame
from ordercast.wire.dissemination import TreePacket
from support.clusters.processes import write_cluster
from support.harness.loops import in_loop
from support.network.multicasting import counts, everywhere, opened, until_ways

SITES = "abcde"
GROUPS = {"alpha": list(SITES), "beta": ["b", "c"]}
OPTIONS: dict[str, Any] = {"dissemination": "tree", "durability": "memory"}


def passing(node: Node) -> TreeTransport:
    transport = site_of(node).transport
    assert isinstance(transport, TreeTransport)
    return transport


def lose_packets(node: Node) -> None:
    """Packets that come to the node are lost; other frames are not."""
    inner = passing(node).inner
    take = inner.took

    def took(peer: str, frames: list[WireFrame]) -> None:
        take(peer, [frame for frame in frames if not isinstance(frame, TreePacket)])

    inner.took = took


@pytest.mark.parametrize("protocol", ["centralized", "symmetric"])
def test_sites_deliver_in_one_order_along_trees(protocol: str, tmp_path: Path) -> None:
    path = write_cluster(tmp_path, GROUPS, {**OPTIONS, "protocol": protocol}, tls=False)

    @in_loop
    async def run() -> None:
        async with opened(path, SITES, tmp_path) as nodes:
            await until_ways(nodes, everywhere(SITES, way="tree"))
            passed = 0
            while not passed:  # once, but for a machine that sleeps for seconds
                await asyncio.gather(*(send(nodes[site], 100) for site in "ab"))
                await in_order(nodes, 200)
                sent = sum(counts(node).get("packets_sent", 0) for node in nodes.values())
                passed = sum(counts(node).get("packets_passed", 0) for node in nodes.values())
            assert passed >= sent > 0

    run()


@in_loop
async def test_who_gets_no_packets_is_served_by_unicast_with_all_behind_it(tmp_path: Path) -> None:
    """In the tree of a: b and c below a, d and e below b."""
    path = write_cluster(tmp_path, GROUPS, OPTIONS, tls=False)
    async with opened(path, SITES, tmp_path) as nodes:
        await until_ways(nodes, everywhere(SITES, way="tree"))
        lose_packets(nodes["b"])
        await send(nodes["a"], 30)
        ways = {"b": "unicast", "c": "tree", "d": "unicast", "e": "unicast"}
        await until_ways(nodes, {"a": ways})
        await send(nodes["c"], 30)
        found = await asyncio.gather(*(deliveries(node, 60) for node in nodes.values()))
        assert len({tuple(item.id for item in each) for each in found}) == 1
        await until_ways(nodes, {"a": ways})
        told = (await nodes["a"].status())["dissemination"]
        assert told["chosen"] == "tree"
        assert told["why"] == f"b, d, e: {NOT_PASSED}"


@in_loop
async def test_a_packet_that_does_not_come_from_the_parent_is_dropped(tmp_path: Path) -> None:
    path = write_cluster(tmp_path, GROUPS, OPTIONS, tls=False)
    async with opened(path, SITES, tmp_path) as nodes:
        await until_ways(nodes, everywhere(SITES, way="tree"))
        site = passing(nodes["d"])
        epoch, _ = site_of(nodes["d"]).members()
        before = counts(nodes["d"]).get("not_of_the_tree", 0)
        site.frames("c", [TreePacket(epoch, "a", 1, b"garbage")])
        site.frames("b", [TreePacket(epoch + 1, "a", 1, b"garbage")])
        assert counts(nodes["d"])["not_of_the_tree"] == before + 2
        site.frames("b", [TreePacket(epoch, "a", 1, b"garbage")])
        assert counts(nodes["d"])["wrong_packets"] == 1
        await send(nodes["a"], 10)
        await in_order(nodes, 10)


def test_sites_must_agree_on_the_way() -> None:
    assert cluster_of_groups(GROUPS, **OPTIONS).terms()["dissemination"] == "tree"
    assert "dissemination" not in cluster_of_groups(GROUPS).terms()
