"""A site without a past does not found a second cluster beside one that runs."""

import asyncio
from pathlib import Path

import pytest

import ordercast
from ordercast.model.errors import Error
from ordercast.net.site.node import Node, site_of
from support.clusters.processes import write_cluster
from support.clusters.sites import until
from support.harness.loops import in_loop
from support.harness.ports import free_ports

GROUPS = {"alpha": ["a", "b"]}
OTHERS = {"alpha": ["a", "b"], "beta": ["b"]}


def files(folder: Path, voters: list[str], *, tls: bool) -> tuple[Path, Path]:
    """Of one name and on the same ports, with other groups."""
    addresses = {site: f"127.0.0.1:{port}" for site, port in zip("ab", free_ports(2), strict=True)}
    options = {"durability": "os", "voters": voters}
    one, other = (
        write_cluster(
            folder, groups, options, tls=tls, addresses=addresses, name=name,
            timeouts={"suspect": "200ms"},
        )
        for groups, name in ((GROUPS, "one.toml"), (OTHERS, "other.toml"))
    )  # fmt: skip
    return one, other


async def founded(node: Node) -> None:
    await until(lambda: site_of(node).core.layout.count > 0)


def has_met(node: Node, words: str) -> bool:
    return any(words in link.last_error for link in site_of(node).transport.links())


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_site_without_a_past_stops_where_its_peers_have_another(
    tls: bool, tmp_path: Path
) -> None:
    """In the same place it then goes by the right file: nothing of the wrong one is left."""
    one, other = files(tmp_path, ["a"], tls=tls)

    @in_loop
    async def run() -> None:
        async with ordercast.Node.open(one, "a") as a:
            await founded(a)
            wrong = Node.open(other, "b")
            b = await wrong.__aenter__()
            await until(lambda: bool(site_of(b).failed))
            with pytest.raises(Error, match=r"site a is of a running cluster of this name that"):
                await wrong.__aexit__(None, None, None)
            assert not site_of(a).failed
            async with ordercast.Node.open(one, "b") as right:
                await until(lambda: site_of(right).presence.takes())
                await (await a.multicast("alpha", b"all")).stable()

    run()


def test_two_sites_without_a_past_wait_for_their_operator(tmp_path: Path) -> None:
    one, other = files(tmp_path, ["a", "b"], tls=False)

    @in_loop
    async def run() -> None:
        async with ordercast.Node.open(one, "a") as a, ordercast.Node.open(other, "b") as b:
            await until(lambda: has_met(a, "'founding' is ") or has_met(b, "'founding' is "))
            await asyncio.sleep(0.1)
            assert not site_of(a).failed
            assert not site_of(b).failed

    run()


def test_sites_with_a_past_do_not_stop_for_one_another(tmp_path: Path) -> None:
    one, other = files(tmp_path, ["a"], tls=False)
    other.write_text(other.read_text().replace('voters = ["a"]', 'voters = ["b"]'))

    @in_loop
    async def run() -> None:
        for file, site in ((one, "a"), (other, "b")):  # each is the only voter of its cluster
            async with ordercast.Node.open(file, site) as node:
                await founded(node)
        async with ordercast.Node.open(one, "a") as a, ordercast.Node.open(other, "b") as b:
            await until(lambda: has_met(a, "'founding' is ") or has_met(b, "'founding' is "))
            await asyncio.sleep(0.1)
            assert not site_of(a).failed
            assert not site_of(b).failed

    run()
