"""Replicas whose group changes: joiners are handed the state, who leaves is told."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ordercast.model.errors import Error
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.replica.replica import Replica
from ordercast.net.site import handover
from support.clusters.sites import until
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}


class Sums:
    """A state machine that would notice a command twice, left out, or out of order."""

    def __init__(self) -> None:
        self.total = 0
        self.mixed = 0

    def apply(self, command: bytes, _: Any) -> int:
        self.total += int(command)
        self.mixed = (31 * self.mixed + int(command)) % 1_000_003
        return self.total

    def snapshot(self) -> bytes:
        return json.dumps([self.total, self.mixed]).encode()

    def restore(self, state: bytes) -> None:
        self.total, self.mixed = json.loads(state)

    def replica(self, node: Any, path: Path | None = None) -> "Replica[int]":
        return Replica(
            node, "alpha", self.apply, snapshot=self.snapshot, restore=self.restore, path=path
        )


async def equal(*all_of_them: Sums) -> None:
    await until(lambda: len({(sums.total, sums.mixed) for sums in all_of_them}) == 1)


async def keep_adding(replica: "Replica[int]", results: list[int]) -> None:
    number = 0
    while True:
        number += 1
        results.append(await replica.submit(b"%d" % number))


@pytest.mark.parametrize("durability", ["os", "memory"])
def test_a_site_that_joins_while_commands_flow_has_the_state_of_the_others(
    durability: str, tmp_path: Path
) -> None:
    a_sums, b_sums, c_sums = Sums(), Sums(), Sums()
    folder = tmp_path if durability == "os" else None

    @in_loop
    async def run() -> None:
        async with (
            local_cluster(GROUPS, dir=folder, durability=durability) as cluster,
            a_sums.replica(cluster["a"]) as a,
            b_sums.replica(cluster["b"]),
        ):
            results: list[int] = []
            adding = asyncio.create_task(keep_adding(a, results))
            await until(lambda: len(results) > 20)
            await cluster["c"].join("alpha")
            async with c_sums.replica(cluster["c"]) as c:
                assert await c.submit(b"1000000") > 1_000_000
                await until(lambda: len(results) > 200)
                adding.cancel()
                await asyncio.gather(adding, return_exceptions=True)
                await a.read(lambda: None)
                await equal(a_sums, b_sums, c_sums)
                assert results == sorted(results)

    run()


@in_loop
async def test_a_joiner_that_restarts_without_a_snapshot_of_its_own_is_right_again(
    tmp_path: Path,
) -> None:
    a_sums, b_sums = Sums(), Sums()
    async with (
        local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster,
        a_sums.replica(cluster["a"]) as a,
        b_sums.replica(cluster["b"]),
    ):
        for number in range(1, 20):
            await a.submit(b"%d" % number)
        await cluster["c"].join("alpha")
        async with Sums().replica(cluster["c"]) as c:
            await c.submit(b"7")
        await cluster.kill("c")
        waiting = asyncio.create_task(a.submit(b"9"))  # it is stable when c has it
        await cluster.start("c")
        again = Sums()
        async with again.replica(cluster["c"]) as c:
            await c.submit(b"11")
            await waiting
            await equal(a_sums, b_sums, again)


@in_loop
async def test_who_leaves_the_group_is_told_and_who_comes_back_goes_on(tmp_path: Path) -> None:
    a_sums, b_sums = Sums(), Sums()
    async with (
        local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster,
        a_sums.replica(cluster["a"]) as a,
        b_sums.replica(cluster["b"]) as b,
    ):
        await b.submit(b"1")
        await cluster["b"].leave("alpha")
        await until(lambda: b._group.outside)
        with pytest.raises(Error, match="site b has left group alpha"):
            await b.submit(b"2")
        assert await a.submit(b"40") == 41
        await cluster["b"].join("alpha")
        await until(lambda: not b._group.outside and b_sums.total == 41)
        assert await b.submit(b"1") == 42
        await equal(a_sums, b_sums)


def test_a_joiner_without_hooks_stops_rather_than_begin_in_the_middle() -> None:
    @in_loop
    async def run() -> None:
        async with (
            local_cluster(GROUPS) as cluster,
            Sums().replica(cluster["a"]) as a,
            Sums().replica(cluster["b"]),
        ):
            await a.submit(b"1")
            await cluster["c"].join("alpha")
            async with Replica(cluster["c"], "alpha", Sums().apply) as c:
                await until(lambda: c._failure is not None)

    with pytest.raises(Error, match="needs 'snapshot' and 'restore'"):
        run()


def test_members_without_hooks_hand_nothing_over_and_the_joiner_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handover, "PATIENCE_S", 0.3)

    async def join(cluster: LocalCluster) -> None:
        await cluster["c"].join("alpha")
        async with Sums().replica(cluster["c"]) as c:
            await until(lambda: c._failure is not None)

    @in_loop
    async def run() -> None:
        async with (
            local_cluster(GROUPS) as cluster,
            Replica(cluster["a"], "alpha", Sums().apply),
        ):
            await join(cluster)

    with pytest.raises(Error, match="state of alpha is not to be had"):
        run()
