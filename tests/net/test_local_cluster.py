"""`local_cluster`: what it takes, what it refuses, and that sites come and go."""

import gc
import weakref
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError, Error
from ordercast.net import local
from ordercast.net.local import local_cluster
from ordercast.net.site import peer_list
from ordercast.net.site.node import site_of
from support.clusters.layouts import primary_of
from support.clusters.sites import GROUPS, read, until
from support.harness.loops import in_loop


@in_loop
async def test_groups_are_enough_and_nothing_is_stored() -> None:
    async with local_cluster({"alpha": ["a", "b"]}) as cluster:
        assert sorted(cluster.nodes) == ["a", "b"]
        await (await cluster["a"].multicast("alpha", b"x")).stable()
        assert (await cluster["a"].status())["durability"] == "memory"
        with pytest.raises(ConfigError, match="site 'a' has no store to restart from"):
            await cluster.restart("a")
        with pytest.raises(ConfigError, match="site 'a' runs already"):
            await cluster.start("a")
        with pytest.raises(ConfigError, match="there is no site 'z'"):
            await cluster.start("z")
        with pytest.raises(ConfigError, match="there is no site 'z'"):
            _ = cluster["z"]
        await cluster.kill("b")
        with pytest.raises(ConfigError, match="site 'b' is not running"):
            _ = cluster["b"]


def test_what_makes_no_cluster_is_refused() -> None:
    with pytest.raises(ConfigError, match="durability 'sync' needs a dir"):
        local_cluster(GROUPS, durability="sync")
    with pytest.raises(ConfigError, match="protocl"):
        local_cluster(GROUPS, protocl="propagation")
    with pytest.raises(ConfigError, match="deliver"):
        local_cluster(GROUPS, deliver="later")


@in_loop
async def test_a_site_that_cannot_start_leaves_nothing_behind(tmp_path: Path) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        await (await cluster["a"].multicast("alpha", b"x")).stable()
        await cluster.kill("b")
        store = tmp_path / "b.db"
        good = store.read_bytes()
        store.write_bytes(b"no store" * 1_000)
        with pytest.raises(Error, match=r"b\.db: is not a store"):
            await cluster.start("b")
        store.write_bytes(good)
        await cluster.start("b")
        assert [item.payload for item in await read(cluster["b"], 1)] == [b"x"]


def test_leaving_names_the_sites_whose_messages_are_not_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "CLOSE_S", 0.1)

    @in_loop
    async def run() -> None:
        waits = {"durability": "os", "on_failure": "wait"}
        async with local_cluster(GROUPS, dir=tmp_path, **waits) as cluster:
            primary = primary_of(cluster.cluster, "beta")
            await cluster.kill(primary)
            await cluster["c"].multicast("beta", b"x")

    with pytest.raises(Error, match="closed before all was ordered: sites c have sent"):
        run()

    @in_loop
    async def again() -> None:
        waits = {"durability": "os", "on_failure": "wait"}
        async with local_cluster(GROUPS, dir=tmp_path, **waits) as cluster:
            assert [item.payload for item in await read(cluster["c"], 1)] == [b"x"]

    again()


@in_loop
async def test_nothing_is_left_of_sites_that_are_retired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_list, "PART_S", 0.001)
    async with local_cluster(GROUPS) as cluster:
        peers = site_of(cluster["a"])._peers
        for name in ("x", "y", "z"):
            gone = weakref.ref(site_of(await cluster.add(name)))
            await cluster.retire(name)
            await until(lambda n=name: n not in peers._peers)  # type: ignore[misc]
            gc.collect()
            assert gone() is None, name
        assert len(peers._timers) == 1
