"""What a site begins with: the cluster file once, and its store from then on."""

import contextlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.core.epochs.layout import nowhere
from ordercast.core.structure import Structure
from ordercast.model.errors import ConfigError, StoreCorrupt
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.founding import begin, forests_of, remember
from ordercast.net.site.node import site_of
from ordercast.net.store.memory import MemoryStore
from support.clusters.processes import write_cluster
from support.clusters.sites import GROUPS, read_messages, until
from support.harness.loops import in_loop
from support.harness.ports import free_ports

QUICK: dict[str, Any] = {"timeouts": {"suspect": "100ms"}, "durability": "os"}


def changed(directory: Path, **other: Any) -> LocalCluster:
    """The same stores with another file: other groups, voters, protocol, ties."""
    groups = {"alpha": ["a", "b", "c"], "other": ["a", "c"]}
    return local_cluster(groups, dir=directory, **QUICK, **other)


def test_a_site_with_a_store_goes_by_it_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @in_loop
    async def found() -> None:
        async with local_cluster(GROUPS, dir=tmp_path, **QUICK) as cluster:
            await (await cluster["a"].multicast("alpha", b"1")).stable()

    @in_loop
    async def go_on() -> None:
        with caplog.at_level(logging.INFO, "ordercast.net.node"):
            async with changed(tmp_path, protocol="centralized", voters=["b"]) as cluster:
                layout = site_of(cluster["a"]).core.layout
                assert dict(layout.groups) == {"alpha": ("a", "b"), "beta": ("b", "c")}
                assert layout.voters == ("a", "b", "c")
                assert (await cluster["a"].status())["protocol"] == "propagation"
                await (await cluster["c"].multicast("alpha", b"2")).stable()
                await cluster["c"].join("alpha")
                await (await cluster["c"].multicast("alpha", b"3")).stable()
        told = [
            r.message for r in caplog.records if "differ from what the cluster was" in r.message
        ]
        assert len(told) == 3  # one of each site
        async with changed(tmp_path, tie=["c", "b"]) as cluster:
            assert dict(site_of(cluster["a"]).core.layout.groups)["alpha"] == ("a", "b", "c")
            items = await read_messages(cluster["b"], 3)
            assert [item.payload for item in items] == [b"1", b"2", b"3"]

    found()
    go_on()


def test_the_same_file_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @in_loop
    async def run() -> None:
        for _ in range(2):
            async with local_cluster(GROUPS, dir=tmp_path, **QUICK) as cluster:
                a = cluster["a"]
                if "gamma" not in site_of(a).core.layout.groups:
                    await a.add_group("gamma", ["a", "b"])

    with caplog.at_level(logging.INFO, "ordercast.net.node"):
        run()
    assert not caplog.records


def test_a_newcomer_needs_an_address_once() -> None:
    cluster = cluster_of_groups({"alpha": ["a", "b"]})
    with pytest.raises(ConfigError, match=r"no site 'd'.*; a site that is added while the cluster"):
        begin(cluster, "d", MemoryStore())
    for wrong in ("nonsense", "host:port", "h:99999"):
        with pytest.raises(ConfigError, match="address of site 'd'"):
            begin(cluster, "d", MemoryStore(), wrong)
    with pytest.raises(ConfigError, match="site"):
        begin(cluster, "no name", MemoryStore(), "127.0.0.1:7104")
    begun = begin(cluster, "d", MemoryStore(), "[::1]:7104")
    assert begun.address == ("::1", 7104)
    assert (begun.layout.count, dict(begun.layout.roster)) == (-1, {})
    assert begun.layout.voters == ("a", "b")


def test_a_store_whose_founding_is_no_founding_is_refused() -> None:
    cluster = cluster_of_groups({"alpha": ["a", "b"]})
    store = MemoryStore()
    remember(store, cluster, cluster.first_layout(), ("127.0.0.1", 1))
    again = begin(cluster, "a", store)
    assert again.layout == cluster.first_layout()
    for wrong in (store.founded[:-7], b"\x92\xa1x\x90", b"no msgpack"):
        store.founded = wrong
        with pytest.raises(StoreCorrupt, match="what the cluster was founded with"):
            begin(cluster, "a", store)


def test_founders_whose_builders_differ_do_not_agree_on_the_forests() -> None:
    cluster = cluster_of_groups({"alpha": ["a", "b"], "beta": ["b", "c"]})
    layout = cluster.first_layout()
    (epoch, domain), *_ = layout.domains.items()
    structure = domain.structure
    moved = {"alpha": structure.root("a"), "beta": structure.root("a")}
    assert forests_of(nowhere("a")) == ""
    told = {forests_of(layout)}
    for forest in (
        replace(structure.forest, builder="another"),
        replace(structure.forest, primary={**moved, "alpha": "a", "beta": "c"}),
    ):
        other = replace(domain, structure=Structure(epoch, structure.table, forest))
        told.add(forests_of(replace(layout, domains={epoch: other})))
    assert len(told) == 3
    store = MemoryStore()
    remember(store, cluster, layout, ("127.0.0.1", 1))
    assert forests_of(begin(cluster, "a", store).layout) in told


@in_loop
async def test_founders_with_different_files_do_not_meet(tmp_path: Path) -> None:
    ports = free_ports(2)
    addresses = {site: f"127.0.0.1:{port}" for site, port in zip("ab", ports, strict=True)}
    one = write_cluster(
        tmp_path,
        {"alpha": ["a", "b"]},
        {"durability": "os"},
        tls=False,
        addresses=addresses,
    )
    two = write_cluster(
        tmp_path, {"alpha": ["a", "b"], "beta": ["a"]},
        {"durability": "os"}, tls=False, addresses=addresses,
        name="other.toml",
    )  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        a = await stack.enter_async_context(ordercast.Node.open(one, "a", dir=tmp_path))
        await stack.enter_async_context(ordercast.Node.open(two, "b", dir=tmp_path))
        await until(
            lambda: any("founding" in link.last_error for link in site_of(a).transport.links())
        )
        assert not any(link.state == "connected" for link in site_of(a).transport.links())
