"""Nodes that disseminate by multicast: whether this machine can, and who hears whom."""

import asyncio
import contextlib
import functools
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.net.link.combined_transport import CombinedTransport
from ordercast.net.link.multicast_transport import MulticastTransport
from ordercast.net.site.node import Node, site_of

PROBE = ("239.255.200.200", 29_999)


@functools.cache
def why_no_multicast() -> str:
    """Whether a datagram to a group comes back on the loopback; some containers forbid it."""
    here = socket.inet_aton("127.0.0.1")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(5)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(PROBE)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
            member = struct.pack("4s4s", socket.inet_aton(PROBE[0]), here)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            probe.sendto(b"probe", PROBE)
            probe.recv(100)
    except OSError as error:
        return f"no multicast on the loopback of this machine: {error}"
    return ""


def require_multicast() -> None:
    if why := why_no_multicast():
        pytest.skip(why)


def spreading(node: Node) -> MulticastTransport:
    transport = site_of(node).transport
    assert isinstance(transport, MulticastTransport)
    return transport


def combined(node: Node) -> CombinedTransport:
    transport = site_of(node).transport
    assert isinstance(transport, CombinedTransport)
    return transport


def ways(node: Node) -> dict[str, str]:
    found: dict[str, str] = combined(node).status()["ways"]
    return found


def counts(node: Node) -> dict[str, int]:
    found: dict[str, int] = combined(node).status()["counts"]
    return found


async def until_ways(nodes: Mapping[str, Node], expected: Mapping[str, Mapping[str, str]]) -> None:
    """The caller's loop has a time limit."""
    while any(ways(nodes[site]) != want for site, want in expected.items()):
        await asyncio.sleep(0.01)


def everywhere(sites: str, but: str = "", way: str = "multicast") -> dict[str, dict[str, str]]:
    """All reach each other, but nobody the one that hears nothing."""
    return {
        site: {peer: "unicast" if peer in but else way for peer in sites if peer != site}
        for site in sites
    }


@contextlib.asynccontextmanager
async def opened(path: Path, sites: str, folder: Path) -> AsyncIterator[dict[str, Node]]:
    async with contextlib.AsyncExitStack() as stack:
        yield {
            site: await stack.enter_async_context(ordercast.Node.open(path, site, dir=folder))
            for site in sites
        }


def lose(node: Node, lost: Callable[[bytes], bool]) -> None:
    """Some of the datagrams that come to the node are lost, from now on."""
    transport = spreading(node)
    transport._socket._took = lambda datagrams: transport._took(
        [data for data in datagrams if not lost(data)]
    )


def lossy(node: Node, loss: float, rng: Any) -> None:
    lose(node, lambda _data: rng.random() < loss)
