"""Replicas under `exclude`: what is taken back they undo; who lost all is handed the state."""

import asyncio
from pathlib import Path

import pytest

import ordercast
from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.net.export.history import export
from ordercast.net.local import LocalCluster
from ordercast.net.site.node import site_of
from support.clusters.excluding import cluster_of, cut_off_root, root_of, until
from support.harness.loops import in_loop


class _Sum:
    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def apply(self, command: bytes, _: ordercast.Delivery) -> int:
        self.seen.append(command)
        return len(self.seen)

    def dump(self) -> bytes:
        return b"|".join(self.seen)

    def load(self, state: bytes) -> None:
        self.seen = state.split(b"|") if state else []


@pytest.mark.parametrize("saved", [True, False])
@in_loop
async def test_a_replica_goes_back_to_its_snapshot_or_begins_anew(
    tmp_path: Path, saved: bool
) -> None:
    async with cluster_of(tmp_path) as cluster:
        states = {site: _Sum() for site in "abc"}
        replicas = {
            site: ordercast.Replica(
                cluster[site],
                "alpha",
                state.apply,
                snapshot=state.dump,
                restore=state.load,
                path=tmp_path / f"{site}.state",
            )
            for site, state in states.items()
        }
        async with replicas["a"], replicas["b"], replicas["c"]:
            await asyncio.gather(*(replicas[site].submit(site.encode()) for site in "abc"))
            await asyncio.gather(*(replica.reach(3) for replica in replicas.values()))
            root = root_of(cluster)
            others = [site for site in "abc" if site != root]
            if saved:
                assert await replicas[root].save() == 3
            cluster.split([root], others)
            assert await replicas[root].submit(b"alone") == 4
            assert await replicas[others[0]].submit(b"together") == 4
            late = asyncio.create_task(replicas[root].save())  # not of what may be taken back
            await asyncio.sleep(0.1)
            assert replicas[root].saved == (3 if saved else 0)
            cluster.heal()
            await asyncio.gather(*(replica.reach(5) for replica in replicas.values()))
            assert await late >= 3
            await asyncio.gather(*(replica.read(lambda: None) for replica in replicas.values()))
        assert states["a"].seen == states["b"].seen == states["c"].seen
        assert states["a"].seen[3:] == [b"together", b"alone"]


@in_loop
async def test_a_replica_that_cannot_go_back_says_so(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await (await cluster["a"].multicast("alpha", b"zero")).stable()
        state = _Sum()
        replica = ordercast.Replica(cluster[root_of(cluster)], "alpha", state.apply)
        with pytest.raises(ordercast.Error, match="cannot go back"):
            await _beyond_a_rollback(cluster, replica)


async def _beyond_a_rollback(cluster: LocalCluster, replica: ordercast.Replica[int]) -> None:
    async with replica:
        await cut_off_root(cluster)
        await replica.reach(4)
        cluster.heal()
        await replica.reach(100)


@in_loop
async def test_a_site_without_its_store_returns_and_is_handed_the_state(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "safe") as cluster:
        states = {site: _Sum() for site in "abc"}

        def replica(site: str) -> ordercast.Replica[int]:
            state = states[site]
            return ordercast.Replica(
                cluster[site], "alpha", state.apply, snapshot=state.dump, restore=state.load
            )

        async with replica("a") as a, replica("b") as b:
            async with replica("c") as c:
                await c.submit(b"from c")
                await a.submit(b"from a")
            await cluster.kill("c")
            for path in tmp_path.glob("c.*"):
                path.unlink()
            await b.submit(b"without c")
            states["c"] = _Sum()
            node = await cluster.start("c")
            await until(lambda: site_of(node).presence.state() == "present")
            assert node.incarnation > 1
            async with replica("c") as c:
                assert await c.submit(b"again") == 4
                await asyncio.gather(a.read(lambda: None), b.read(lambda: None))
        assert states["c"].seen == [b"from c", b"from a", b"without c", b"again"]
        assert states["a"].seen == states["b"].seen == states["c"].seen


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@in_loop
async def test_who_is_away_for_too_long_is_handed_the_state(tmp_path: Path, deliver: str) -> None:
    """Nobody keeps for it what it missed: it goes on behind a hole, from a snapshot."""
    few = {"missed_bytes": 20_000}
    async with cluster_of(tmp_path, deliver, limits=few, voters=["a"]) as cluster:
        states = {site: _Sum() for site in "abc"}

        def replica(site: str) -> ordercast.Replica[int]:
            state = states[site]
            return ordercast.Replica(
                cluster[site], "alpha", state.apply, snapshot=state.dump, restore=state.load
            )

        async with replica("a") as a, replica("b") as b:
            async with replica("c") as c:
                await c.submit(b"from c")
            await cluster.kill("c")
            await until(lambda: "c" in site_of(cluster["a"]).core.layout.absent)
            for number in range(700):  # more than are held until a checkpoint
                await a.submit(b"%d" % number * 50)
            await until(lambda: site_of(cluster["a"]).core.layout.lapsed == ("c",))
            states["c"] = _Sum()
            node = await cluster.start("c")
            await until(lambda: site_of(node).presence.state() == "present")
            assert node.incarnation == 1
            async with replica("c") as c:
                assert await c.submit(b"again") == 702
                await asyncio.gather(a.read(lambda: None), b.read(lambda: None))
        assert states["a"].seen == states["b"].seen == states["c"].seen
    export(tmp_path, tmp_path / "history")
    history = read_history(tmp_path / "history")
    assert check_history(history).ok
    bases = [event for event in history.events if event.site == "c" and event.kind == "base"]
    assert [event.position for event in bases] == [1]
    delivered = [row for row in history.deliveries if row.site == "c"]
    assert len(delivered) < 700
