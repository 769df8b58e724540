"""Recovering on real stores: which voter is gone on from, and what a lost one with more is told."""

import asyncio
import contextlib
import shutil
import socket
import sqlite3
from pathlib import Path

import pytest

import ordercast
from ordercast.model.errors import ConfigError
from ordercast.net.cluster.file import read_cluster
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.recovery_plan import Recovery, RecoveryPlan
from support.clusters.processes import write_cluster
from support.harness.loops import in_loop

WAIT_S = 60.0
GROUPS = {"alpha": ["a", "b", "c", "d"]}


def cluster_file(folder: Path, voters: str) -> Path:
    options = {"durability": "os", "voters": list(voters)}
    return write_cluster(folder, GROUPS, options, tls=False, timeouts={"suspect": "200ms"})


def recovered(path: Path, folder: Path, *lost: str) -> RecoveryPlan:
    with Recovery(read_cluster(path), folder) as recovery:
        plan = recovery.plan(lost)
        recovery.carry_out(plan)
    return plan


def put_away(folder: Path, *sites: str) -> Path:
    aside = folder / "aside"
    aside.mkdir(exist_ok=True)
    for site in sites:
        for path in folder.glob(f"{site}.db*"):
            shutil.move(path, aside / path.name)
    return aside


async def until_all_know(nodes: dict[str, Node], group: str, sites: str) -> None:
    while any(group not in site_of(nodes[site]).core.layout.groups for site in sites):
        await asyncio.sleep(0.01)


async def opened(stack: contextlib.AsyncExitStack, path: Path, sites: str) -> dict[str, Node]:
    return {
        site: await stack.enter_async_context(ordercast.Node.open(path, site, dir=path.parent))
        for site in sites
    }


async def come_back(path: Path, site: str, records: int) -> None:
    """A site that had heard of more records than the others by now."""
    async with ordercast.Node.open(path, site, dir=path.parent) as node:
        assert site_of(node).core.layout.count > records
        while not site_of(node).failed:
            await asyncio.sleep(0.01)


def test_the_furthest_log_is_gone_on_from_and_the_others_follow_it(tmp_path: Path) -> None:
    path = cluster_file(tmp_path, "abcd")

    @in_loop
    async def run() -> None:
        async with asyncio.timeout(WAIT_S):
            async with contextlib.AsyncExitStack() as stack:
                nodes = await opened(stack, path, "abcd")
                await until_all_know(nodes, "alpha", "abcd")
                await nodes["a"].add_group("one", ["a", "c"])
                await until_all_know(nodes, "one", "abcd")
                await nodes["d"].close()
                await nodes["a"].add_group("two", ["a", "c"])
                await until_all_know(nodes, "two", "abc")
            put_away(tmp_path, "a", "b")
            plan = recovered(path, tmp_path, "a", "b")
            assert (plan.chosen, plan.voters) == ("c", ("c", "d"))
            async with contextlib.AsyncExitStack() as stack:
                nodes = await opened(stack, path, "cd")
                await nodes["d"].add_group("three", ["c"])
                await until_all_know(nodes, "three", "cd")
                for node in nodes.values():
                    layout = site_of(node).core.layout
                    assert layout.voters == ("c", "d")
                    assert set(layout.groups) == {"alpha", "one", "two", "three"}

    run()


def test_a_lost_voter_that_had_decided_more_is_told_so_and_stops(tmp_path: Path) -> None:
    path = cluster_file(tmp_path, "abc")

    @in_loop
    async def run() -> None:
        async with asyncio.timeout(WAIT_S):
            async with contextlib.AsyncExitStack() as stack:
                nodes = await opened(stack, path, "abcd")
                await until_all_know(nodes, "alpha", "abcd")
                await nodes["a"].add_group("one", ["a", "c"])
                await until_all_know(nodes, "one", "abcd")
                await nodes["c"].close()
                await nodes["d"].close()
                for number in range(8):  # c will never know
                    await nodes["a"].add_group(f"gone{number}", ["a", "b"])
            aside = put_away(tmp_path, "a", "b")
            recovered(path, tmp_path, "a", "b")
            async with contextlib.AsyncExitStack() as stack:
                nodes = await opened(stack, path, "cd")
                await nodes["c"].add_group("two", ["c"])
                shutil.copy(aside / "a.db", tmp_path / "a.db")
                with pytest.raises(ordercast.Error, match="site a was declared lost by"):
                    await come_back(path, "a", site_of(nodes["c"]).core.layout.count)
                assert "gone7" not in site_of(nodes["c"]).core.layout.groups

    run()


def test_where_it_cannot_be_done_one_line_says_why(tmp_path: Path) -> None:
    path = cluster_file(tmp_path, "abc")

    @in_loop
    async def run() -> None:
        async with asyncio.timeout(WAIT_S), contextlib.AsyncExitStack() as stack:
            nodes = await opened(stack, path, "abcd")
            await until_all_know(nodes, "alpha", "abcd")
            await nodes["a"].add_group("one", ["a", "c"])
            await until_all_know(nodes, "one", "abcd")
            with pytest.raises(ConfigError, match=r"a\.db: .*another process"):
                recovered(path, tmp_path, "b")

    run()
    cluster = read_cluster(path)

    def refused(words: str, *lost: str, chosen: str = "") -> None:
        with Recovery(cluster, tmp_path) as recovery, pytest.raises(ConfigError, match=words):
            recovery.plan(lost, chosen)

    refused("name the lost voters")
    refused("the store of 'a' is here, so it is not lost", "a", "b")
    put_away(tmp_path, "a")
    refused(r"b, c: a majority of the voters \(a, b, c\)", "a")
    refused("site 'd' is no voter", "a", "d")
    refused("site 'c' is named as lost", "a", "c", chosen="c")
    put_away(tmp_path, "b")
    refused("the store of 'b' is not here", "a")
    refused("a majority", "a", chosen="c")
    refused(r"x\.db: there is no such store", "a", "b", chosen="x")

    with socket.create_server(cluster.address("b")):
        refused(r"site 'b' answers at 127\.0\.0\.1:", "a", "b")
    put_away(tmp_path, "c", "d")
    refused("no voter that is left has its store here", "a", "b")


def test_a_store_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    path = cluster_file(tmp_path, "abc")

    @in_loop
    async def run() -> None:
        async with asyncio.timeout(WAIT_S), contextlib.AsyncExitStack() as stack:
            nodes = await opened(stack, path, "abcd")
            await until_all_know(nodes, "alpha", "abcd")

    run()
    put_away(tmp_path, "a", "b")
    with Recovery(read_cluster(path), tmp_path) as recovery:
        plan = recovery.plan(["a", "b"])
        store = recovery._stores[plan.chosen]
        store._db.execute("PRAGMA busy_timeout = 0").fetchall()
        with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(ConfigError, match=r"c\.db: cannot be written: .*locked") as told:
                recovery.carry_out(plan)
            other.execute("COMMIT")
        assert "\n" not in str(told.value)
