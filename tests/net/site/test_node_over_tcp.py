"""`Node.open`: sites that read a cluster file and meet over real connections, with and without TLS;
what opening refuses."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.model.errors import ConfigError, Error
from ordercast.net.site.node import Node
from ordercast.net.site.running_site import RunningSite
from support.clusters.layouts import primary_of
from support.clusters.processes import write_cluster
from support.clusters.sites import GROUPS, is_quiet, read
from support.harness.loops import in_loop
from support.network.multicasting import opened


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("protocol", ["propagation", "centralized"])
def test_sites_of_a_cluster_file_deliver_in_one_order(
    protocol: str, tls: bool, tmp_path: Path
) -> None:
    path = write_cluster(tmp_path, GROUPS, {"protocol": protocol, "durability": "os"}, tls=tls)

    @in_loop
    async def run() -> None:
        async with opened(path, "abc", tmp_path) as nodes:
            for n in range(50):
                for site, node in nodes.items():
                    await node.multicast("alpha", f"{site}{n}".encode())
                    await node.multicast(["alpha", "beta"], f"{site}{n} all".encode())
            a, b, c = [await read(nodes[site], 300 if site != "c" else 150) for site in "abc"]
            assert [item.id for item in a] == [item.id for item in b]
            everywhere = [item.id for item in a if item.group != "alpha"]
            assert [item.id for item in c] == everywhere
            for node in nodes.values():
                await node.flush("stable")
            links = {link["peer"]: link["state"] for link in (await nodes["b"].status())["links"]}
            assert set(links.values()) == {"connected"}

    run()


@in_loop
async def test_a_site_that_comes_later_gets_everything(tmp_path: Path) -> None:
    path = write_cluster(tmp_path, GROUPS, {"durability": "os", "on_failure": "wait"}, tls=False)
    async with opened(path, "ac", tmp_path) as nodes:
        for n in range(20):
            await (await nodes["a"].multicast("alpha", b"%d" % n)).accepted()
        async with opened(path, "b", tmp_path) as late:
            assert [i.payload for i in await read(late["b"], 20)] == [b"%d" % n for n in range(20)]


@in_loop
async def test_a_restarted_site_goes_on_over_new_connections(tmp_path: Path) -> None:
    options = {"durability": "sync", "on_failure": "wait"}
    path = write_cluster(tmp_path, GROUPS, options, tls=True)
    async with opened(path, "ac", tmp_path) as nodes:
        for life in range(3):
            async with opened(path, "b", tmp_path) as again:
                await nodes["a"].multicast("alpha", b"%d" % life)
                await again["b"].multicast("beta", b"%d" % life)
                items = await read(again["b"], 2)
                assert {item.position for item in items} == {2 * life + 1, 2 * life + 2}
                await again["b"].confirm(2 * life + 2)
                assert await is_quiet(again["b"].deliveries())
        assert [i.payload for i in await read(nodes["c"], 3)] == [b"0", b"1", b"2"]


@in_loop
async def test_sites_that_leave_one_after_another_owe_each_other_nothing(tmp_path: Path) -> None:
    """Without stores the last to leave must have heard that the others have everything."""
    path = write_cluster(
        tmp_path,
        {"alpha": ["a", "b", "c"]},
        {"durability": "memory", "deliver": "agreed"},
        tls=False,
    )
    for _ in range(3):
        async with opened(path, "abc", tmp_path) as nodes:
            for n in range(30):
                await nodes["a"].multicast("alpha", b"%d" % n)
            await read(nodes["c"], 30)  # and leaves at once; then b, then a


@in_loop
async def test_opening_refuses_with_one_line(tmp_path: Path) -> None:
    path = write_cluster(tmp_path, GROUPS, {"durability": "os"}, tls=False)
    wrong = [
        (tmp_path / "none.toml", "a", "none.toml: no such file"),
        (path, "z", "there is no site 'z'"),
    ]
    for file, site, told in wrong:
        with pytest.raises(ConfigError, match=told):
            await ordercast.Node.open(file, site, dir=tmp_path).__aenter__()
    async with opened(path, "a", tmp_path):
        with pytest.raises(ConfigError, match=r"a\.db: is in use by another process"):
            await ordercast.Node.open(path, "a", dir=tmp_path).__aenter__()
        elsewhere = tmp_path / "elsewhere"
        with pytest.raises(Error, match=r"127\.0\.0\.1:\d+"):  # the port is taken
            await ordercast.Node.open(path, "a", dir=elsewhere).__aenter__()
    async with opened(path, "a", tmp_path):  # and nothing of that stands in the way
        pass


def test_an_error_of_the_application_is_not_hidden_by_what_was_not_flushed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunningSite.close, "__kwdefaults__", {"timeout_s": 0.05})
    path = write_cluster(tmp_path, GROUPS, {"durability": "os", "on_failure": "wait"}, tls=False)

    @in_loop
    async def run() -> None:
        async with ordercast.Node.open(path, "a", dir=tmp_path) as node:
            assert primary_of(node.cluster, "beta") != "a"  # and it does not run
            await (await node.multicast("beta", b"x")).accepted()
            raise KeyError("of the application")

    with pytest.raises(KeyError, match="of the application"):
        run()
    assert "1 to beta; they are stored, and the next start sends them" in caplog.text


@in_loop
async def test_a_site_without_a_store_comes_back_without_its_past(tmp_path: Path) -> None:
    path = write_cluster(tmp_path, GROUPS, {"durability": "memory", "deliver": "agreed"}, tls=False)
    async with opened(path, "ac", tmp_path) as nodes:
        async with opened(path, "b", tmp_path) as first:
            await (await nodes["a"].multicast("alpha", b"1")).stable()
            assert [item.payload for item in await read(first["b"], 1)] == [b"1"]
        async with opened(path, "b", tmp_path) as again:
            await (await again["b"].multicast("alpha", b"2")).stable()
            assert again["b"].incarnation > 1
            items = [item async for item in _first(again["b"], 2)]
            assert isinstance(items[0], ordercast.EpochOpened)
            assert (items[1].position, items[1].payload) == (1, b"2")


async def _first(node: Node, count: int) -> AsyncIterator[Any]:
    async for item in node.deliveries():
        yield item
        count -= 1
        if not count:
            return
