"""`Replica`: each command is applied once, in order, everywhere; results come back; restarts and
kills neither lose nor double any."""

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ordercast import Replica
from ordercast.model.errors import ConfigError, Error, StoreCorrupt, UnknownGroup
from ordercast.net.local import local_cluster
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.snapshot_file import Snapshot, read_snapshot, write_snapshot
from support.clusters.served import served
from support.clusters.sites import GROUPS, turns, until
from support.harness.loops import in_loop
from support.programs import replica_child

ALPHA = {"alpha": ["a", "b"]}


class Refused(Exception):
    pass


class Log:
    """A state machine that keeps every command with its position; `bad` ones raise."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []
        self.calls = 0

    def apply(self, command: bytes, delivery: Any) -> tuple[int, bytes]:
        self.calls += 1
        self.seen.append([delivery.position, command.decode()])
        if command.startswith(b"bad"):
            raise Refused(f"{command.decode()} after {len(self.seen) - 1}")
        return len(self.seen), command

    def snapshot(self) -> bytes:
        return json.dumps(self.seen).encode()

    def restore(self, state: bytes) -> None:
        self.seen = json.loads(state)

    @property
    def commands(self) -> list[str]:
        return [command for _, command in self.seen]


def kept(log: Log, path: Path, **options: Any) -> dict[str, Any]:
    return {"snapshot": log.snapshot, "restore": log.restore, "path": path, **options}


@asynccontextmanager
async def faces(kind: str, directory: Path, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Of sites a and b: nodes of this process, or daemons'."""
    if kind == "node":
        async with local_cluster(ALPHA, dir=directory, durability="os", **options) as cluster:
            yield cluster["a"], cluster["b"]
    else:
        async with (
            served(directory, ALPHA, **options) as running,
            running.connect("a") as a,
            running.connect("b") as b,
        ):
            yield a, b


both = pytest.mark.parametrize("kind", ["node", "daemon"])


# --- commands -------------------------------------------------------------------------------------


@both
def test_every_submit_of_many_gets_its_own_result_and_replicas_are_equal(
    kind: str, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        one, two = Log(), Log()
        async with (
            faces(kind, tmp_path) as (a, b),
            Replica(a, "alpha", one.apply) as first,
            Replica(b, "alpha", two.apply) as second,
        ):
            commands = [f"{name}{n}".encode() for n in range(400) for name in "ab"]
            results = await asyncio.gather(
                *((first if c.startswith(b"a") else second).submit(c) for c in commands)
            )
            assert [command for _, command in results] == commands
            await first.reach(len(commands))
            await second.reach(len(commands))
            assert one.seen == two.seen
            assert one.calls == len(commands)
            places = {command: place for place, command in results}
            assert [places[c.encode()] for c in one.commands] == list(range(1, 801))
            assert not first._waiting
            assert not first._early
            assert not first._unnamed

    run()


@both
def test_an_error_of_apply_is_the_result_and_does_not_stop_the_replica(
    kind: str, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        one, two = Log(), Log()
        async with (
            faces(kind, tmp_path) as (a, b),
            Replica(a, "alpha", one.apply) as first,
            Replica(b, "alpha", two.apply) as second,
        ):
            assert await first.submit(b"x") == (1, b"x")
            with pytest.raises(Refused, match="bad after 1"):
                await second.submit(b"bad")
            assert await first.submit(b"y") == (3, b"y")
            await second.reach(3)
            assert one.seen == two.seen == [[1, "x"], [2, "bad"], [3, "y"]]

    run()


@both
def test_a_read_sees_all_that_was_finished_anywhere_before_it(kind: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        one, two = Log(), Log()
        async with (
            faces(kind, tmp_path, deliver="agreed") as (a, b),
            Replica(a, "alpha", one.apply) as first,
            Replica(b, "alpha", two.apply) as second,
        ):
            behind = 0
            for n in range(1, 41):
                await first.submit(b"x")
                behind += len(two.seen) < 2 * n - 1
                assert await second.read(lambda: len(two.seen)) == 2 * n - 1
                await second.submit(b"y")
                behind += len(one.seen) < 2 * n
                assert await first.read(lambda: len(one.seen)) == 2 * n
            assert behind > 0  # else this would hold without `read`
            assert one.calls == two.calls == 80  # no command among them was a read's

    run()


@in_loop
async def test_a_cancelled_submit_takes_effect_and_leaves_nothing_behind() -> None:
    log = Log()
    async with local_cluster(ALPHA) as cluster, Replica(cluster["a"], "alpha", log.apply) as a:
        waits = [asyncio.create_task(a.submit(f"{n}".encode())) for n in range(20)]
        await turns(1)
        for wait in waits[::2]:
            wait.cancel()
        found = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(result) for result in found] == [asyncio.CancelledError, tuple] * 10
        assert await a.submit(b"last") == (21, b"last")
        assert log.commands == [*(str(n) for n in range(20)), "last"]
        assert not a._waiting
        assert not a._unnamed


class LateNames:
    """A node that tells a command's seq as late as a daemon may: long after its delivery."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.cluster, self.site, self.incarnation = node.cluster, node.site, node.incarnation
        self.batches, self.confirm, self.status = node.batches, node.confirm, node.status
        self.hold = asyncio.Event()

    async def multicast(self, group: str, payload: bytes) -> "LateName":
        return LateName(await self._node.multicast(group, payload), self.hold)


class LateName:
    def __init__(self, receipt: Any, hold: asyncio.Event) -> None:
        self._receipt = receipt
        self._hold = hold
        self.seq = 0

    async def accepted(self) -> None:
        await self._receipt.stable()
        await self._hold.wait()
        self.seq = self._receipt.seq


@in_loop
async def test_results_that_come_before_the_name_of_their_command_are_kept_for_it() -> None:
    log = Log()
    async with local_cluster(ALPHA) as cluster:
        late = LateNames(cluster["a"])
        async with Replica(late, "alpha", log.apply) as a:
            await (await cluster["a"].multicast("alpha", b"not submitted")).stable()
            await a.reach(1)
            waits = [asyncio.create_task(a.submit(f"{n}".encode())) for n in range(5)]
            await a.reach(6)
            await (await cluster["a"].multicast("alpha", b"somebody else's")).stable()
            await a.reach(7)
            assert len(a._early) == 6
            waits.pop().cancel()
            late.hold.set()
            found = await asyncio.gather(*waits)
            assert [command for _, command in found] == [b"0", b"1", b"2", b"3"]
            await turns()
            assert not a._early
            assert not a._unnamed


@in_loop
async def test_reaching_a_position_waits_for_it_and_may_be_cancelled() -> None:
    log = Log()
    async with local_cluster(ALPHA) as cluster, Replica(cluster["b"], "alpha", log.apply) as b:
        gives_up = asyncio.create_task(b.reach(3))
        waits = asyncio.create_task(b.reach(2))
        await turns()
        gives_up.cancel()
        await cluster["a"].multicast_many("alpha", [b"one"])
        await b.reach(1)
        assert not waits.done()
        await cluster["a"].multicast_many("alpha", [b"two"])
        await waits
        assert b.position == 2
        assert log.commands == ["one", "two"]
        await b.reach(1)  # long ago
        assert b._reaching == []


# --- who takes part -------------------------------------------------------------------------------


@in_loop
async def test_only_messages_to_the_group_are_commands_from_whomever_they_come() -> None:
    log = Log()
    others: list[Any] = []
    async with (
        local_cluster(GROUPS) as cluster,
        Replica(cluster["b"], "alpha", log.apply, on_other=others.append) as b,
    ):
        await (await cluster["c"].multicast("alpha", b"from no member")).stable()
        await (await cluster["c"].multicast("beta", b"to another group")).stable()
        await (await cluster["a"].multicast(["alpha", "beta"], b"to both")).stable()
        await b.submit(b"own")
        assert log.seen == [[1, "from no member"], [4, "own"]]
        assert [(item.position, item.payload) for item in others] == [
            (2, b"to another group"),
            (3, b"to both"),
        ]


@in_loop
async def test_mistakes_are_told_in_one_line() -> None:
    def apply(command: bytes, delivery: Any) -> None: ...
    async def slow(command: bytes, delivery: Any) -> None: ...

    async with local_cluster(GROUPS) as cluster:
        a, c = cluster["a"], cluster["c"]
        with pytest.raises(ConfigError, match=r"site 'c' is no member of group 'alpha' \(a, b\)"):
            async with Replica(c, "alpha", apply):
                pass
        with pytest.raises(UnknownGroup, match="there is no group 'alfa'"):
            async with Replica(a, "alfa", apply):
                pass
        with pytest.raises(ConfigError, match="apply: is a coroutine"):
            Replica(a, "alpha", slow)
        with pytest.raises(ConfigError, match="give both, or none"):
            Replica(a, "alpha", apply, snapshot=lambda: b"")
        with pytest.raises(ConfigError, match="every: 0 is too small"):
            Replica(a, "alpha", apply, every=0)
        replica = Replica(a, "alpha", apply)
        with pytest.raises(Error, match="the replica of alpha at site a is not entered"):
            await replica.submit(b"x")
        async with replica:
            with pytest.raises(ConfigError, match="an empty command"):
                await replica.submit(b"")
            with pytest.raises(ConfigError, match="has no snapshot hooks"):
                await replica.save()
        with pytest.raises(Error, match="the replica of alpha at site a has been left"):
            await replica.submit(b"x")
        with pytest.raises(Error, match="entered once"):
            async with replica:
                pass


# --- when it cannot go on -------------------------------------------------------------------------


def test_a_closed_node_ends_what_waits_and_is_told_on_leaving() -> None:
    @in_loop
    async def run() -> None:
        async with (
            local_cluster(ALPHA) as cluster,
            Replica(cluster["a"], "alpha", Log().apply) as a,
        ):
            await cluster.kill("b")
            waits = [asyncio.create_task(a.submit(b"x")), asyncio.create_task(a.reach(1))]
            await turns()
            await cluster.kill("a")
            for wait in waits:
                with pytest.raises(Error, match="site a is closed"):
                    await wait

    with pytest.raises(Error, match="the replica of alpha at site a has stopped: site a is closed"):
        run()


def test_shed_commands_stop_the_replica() -> None:
    @in_loop
    async def run() -> None:
        async with local_cluster(
            ALPHA, slow_member="shed", limits={"unread_messages": 5}
        ) as cluster:
            for n in range(20):
                await (await cluster["b"].multicast("alpha", f"{n}".encode())).stable()
            async with Replica(cluster["a"], "alpha", Log().apply) as a:
                await a.reach(20)

    with pytest.raises(Error, match="commands from position 6 on were shed"):
        run()


def test_a_message_for_others_that_is_not_taken_stops_the_replica() -> None:
    def refuse(item: Any) -> None:
        raise Refused(f"cannot take {item.payload!r}")

    @in_loop
    async def run() -> None:
        async with (
            local_cluster(GROUPS) as cluster,
            Replica(cluster["b"], "alpha", Log().apply, on_other=refuse) as b,
        ):
            await (await cluster["c"].multicast("beta", b"x")).stable()
            await until(lambda: b._failure is not None)
            assert b.position == 0

    with pytest.raises(Error, match="has stopped: cannot take b'x'"):
        run()


# --- restarts -------------------------------------------------------------------------------------


@in_loop
async def test_without_snapshots_a_restart_makes_the_state_anew(tmp_path: Path) -> None:
    async with local_cluster(ALPHA, dir=tmp_path, durability="os") as cluster:
        for life in range(1, 4):
            log = Log()
            async with Replica(cluster["a"], "alpha", log.apply) as a:
                for n in range(10):
                    await a.submit(f"{life}/{n}".encode())
                assert len(log.seen) == 10 * life
                assert [position for position, _ in log.seen] == list(range(1, 10 * life + 1))
            await cluster.restart("a")
        assert site_of(cluster["a"]).store.confirmed == 0


@both
def test_with_snapshots_a_restart_goes_on_behind_the_last(kind: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with faces(kind, tmp_path) as (a, _):
            before = Log()
            path = tmp_path / "a.state"
            async with Replica(a, "alpha", before.apply, **kept(before, path, every=10)) as first:
                for n in range(25):
                    await first.submit(f"{n}".encode())
                await until(lambda: first.saved >= 20)
                saved = first.saved
                await until_confirmed(a, saved)
            after = Log()
            async with Replica(a, "alpha", after.apply, **kept(after, path)) as second:
                assert second.position == saved
                await second.reach(25)
                assert after.seen == before.seen
                assert after.calls == 25 - saved < before.calls
                assert await second.submit(b"on") == (26, b"on")
                assert await second.save() == 26
            again = Log()
            async with Replica(a, "alpha", again.apply, **kept(again, path)) as third:
                assert third.position == 26
                assert again.commands[-1] == "on"
                assert again.calls == 0

    run()


async def until_confirmed(node: Any, position: int) -> None:
    async with asyncio.timeout(60):
        while (await node.status())["confirmed"] < position:
            await asyncio.sleep(0.002)


@in_loop
async def test_bytes_bring_a_snapshot_too(tmp_path: Path) -> None:
    log = Log()
    async with local_cluster(ALPHA, dir=tmp_path, durability="os") as cluster:
        options = kept(log, tmp_path / "a.state", every_bytes=1_000)
        async with Replica(cluster["a"], "alpha", log.apply, **options) as a:
            await a.submit(b"x" * 999)
            await turns(20)
            assert a.saved == 0
            await a.submit(b"x")
            await until(lambda: a.saved == 2)


def test_commands_go_on_while_a_snapshot_is_written_and_the_next_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = threading.Event()

    def write_late(path: Path, snapshot: Snapshot) -> None:
        assert may_write.wait(20)
        write_snapshot(path, snapshot)

    monkeypatch.setattr("ordercast.net.replica.past.write_snapshot", write_late)

    @in_loop
    async def run() -> None:
        log = Log()
        async with local_cluster(ALPHA, dir=tmp_path, durability="os") as cluster:
            options = kept(log, tmp_path / "a.state", every=10)
            async with Replica(cluster["a"], "alpha", log.apply, **options) as a:
                for n in range(25):
                    await a.submit(f"{n}".encode())
                assert a.saved == 0
                may_write.set()
                await until(lambda: a.saved == 25)
                again = read_snapshot(tmp_path / "a.state", "local", "a", "alpha")
                assert again is not None
                assert (again.position, json.loads(again.state)) == (25, log.seen)

    run()


@in_loop
async def test_replicas_of_one_site_confirm_only_what_both_have_saved(tmp_path: Path) -> None:
    groups = {"alpha": ["a", "b"], "beta": ["a", "b"]}
    one, two = Log(), Log()
    async with local_cluster(groups, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        async with (
            Replica(node, "alpha", one.apply, **kept(one, tmp_path / "alpha")) as alpha,
            Replica(node, "beta", two.apply, **kept(two, tmp_path / "beta")) as beta,
        ):
            for n in range(5):
                await alpha.submit(f"alpha {n}".encode())
                await beta.submit(f"beta {n}".encode())
            await alpha.save()
            assert site_of(node).store.confirmed == 0
            await beta.save()
            assert site_of(node).store.confirmed == 10
        node = await cluster.restart("a")
        again = Log()
        async with Replica(node, "beta", again.apply, **kept(again, tmp_path / "beta")):
            assert again.commands == [f"beta {n}" for n in range(5)]


@in_loop
async def test_a_daemon_that_is_killed_costs_a_pause_only(tmp_path: Path) -> None:
    one, two = Log(), Log()
    async with (
        served(tmp_path, ALPHA) as running,
        running.connect("a") as a,
        running.connect("b") as b,
        Replica(a, "alpha", one.apply, **kept(one, tmp_path / "a.state", every=20)) as first,
        Replica(b, "alpha", two.apply) as second,
    ):
        sending = [asyncio.create_task(first.submit(f"{n}".encode())) for n in range(100)]
        await first.reach(5)
        await running.kill("a")
        more = [asyncio.create_task(first.submit(f"{n}".encode())) for n in range(100, 150)]
        await running.start("a")
        found = await asyncio.gather(*sending, *more)
        assert [int(command) for _, command in found] == list(range(150))
        await second.reach(150)
        assert one.seen == two.seen
        assert one.commands == [str(n) for n in range(150)]


# --- the file of a snapshot -----------------------------------------------------------------------


@in_loop
async def test_a_snapshot_that_cannot_be_trusted_is_refused(tmp_path: Path) -> None:
    async def enter(node: Node, path: Path, group: str = "alpha") -> None:
        log = Log()
        async with Replica(node, group, log.apply, **kept(log, path)):
            pass

    groups = {"alpha": ["a", "b"], "beta": ["a", "b"]}
    log, path = Log(), tmp_path / "a.state"
    async with local_cluster(groups, dir=tmp_path, durability="os") as cluster:
        async with Replica(cluster["a"], "alpha", log.apply, **kept(log, path)) as a:
            await a.submit(b"x")
            await a.save()
        good = path.read_bytes()
        for place in range(0, len(good), 7):
            path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
            with pytest.raises(StoreCorrupt, match=r"a\.state: "):
                await enter(cluster["a"], path)
        for size in range(0, len(good), 7):
            path.write_bytes(good[:size])
            with pytest.raises(StoreCorrupt, match=r"a\.state: "):
                await enter(cluster["a"], path)
        path.write_bytes(good)
        await enter(cluster["a"], path)
        with pytest.raises(ConfigError, match="is of site 'a', not 'b'"):
            await enter(cluster["b"], path)
        with pytest.raises(ConfigError, match="is of group 'alpha', not 'beta'"):
            await enter(cluster["a"], path, "beta")
        with pytest.raises(ConfigError, match="there is no directory"):
            await enter(cluster["a"], tmp_path / "nowhere" / "a.state")
    async with local_cluster(groups, dir=tmp_path / "fresh", durability="os") as cluster:
        with pytest.raises(ConfigError, match=r"of position 1, and site a has come to 0 only"):
            await enter(cluster["a"], path)


@in_loop
async def test_a_snapshot_that_cannot_be_written_confirms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, folder = Log(), tmp_path / "states"
    folder.mkdir()
    async with local_cluster(ALPHA, dir=tmp_path, durability="os") as cluster:
        options = kept(log, folder / "a.state", every=5)
        async with Replica(cluster["a"], "alpha", log.apply, **options) as a:
            folder.rename(tmp_path / "elsewhere")
            with caplog.at_level(logging.WARNING, "ordercast.net.replica"):
                for _ in range(5):
                    await a.submit(b"x")
                await until(lambda: bool(caplog.records))
            assert "no snapshot was written, and nothing confirmed" in caplog.text
            with pytest.raises(OSError, match=r"a\.state\.new"):
                await a.save()
            assert (a.saved, site_of(cluster["a"]).store.confirmed) == (0, 0)
            (tmp_path / "elsewhere").rename(folder)
            for _ in range(5):
                await a.submit(b"x")
            await until(lambda: site_of(cluster["a"]).store.confirmed >= 10)


def test_a_snapshot_that_is_not_bytes_stops_the_replica(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        log = Log()
        options: Any = {"snapshot": lambda: log.seen, "restore": log.restore, "every": 1}
        async with (
            local_cluster(ALPHA, dir=tmp_path, durability="os") as cluster,
            Replica(cluster["a"], "alpha", log.apply, path=tmp_path / "a", **options) as a,
        ):
            await a.submit(b"x")
            await until(lambda: a._failure is not None)

    with pytest.raises(Error, match="has stopped: snapshot: returned list, not bytes"):
        run()


# --- kills ----------------------------------------------------------------------------------------


def life(directory: Path, step: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, replica_child.__file__, str(directory), step]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_a_kill_at_any_step_of_a_snapshot_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Each life finds what the one before left, killed one step later."""
    restored: list[int] = []
    for ended, step in enumerate([*replica_child.STEPS, "none"]):
        code, found = life(tmp_path, step)
        assert code == (0 if step == "none" else -9), step
        assert found["a"] == found["b"], step
        commands = [command for _, command in found["a"]]
        acknowledged = tmp_path / replica_child.ACKNOWLEDGED
        assert commands == (acknowledged.read_text().split()[: len(commands)])
        assert len(commands) == ended * replica_child.COMMANDS
        assert found["confirmed"] <= found["restored"], step
        assert found["calls"] == sum(place > found["restored"] for place, _ in found["a"])
        restored.append(found["restored"])
    at = dict(zip([*replica_child.STEPS[1:], "end"], restored[1:], strict=True))
    assert at["before renaming"] == 0
    assert 0 < at["before confirming"] <= at["confirmed"] < at["end"]
