"""A core that raises is half changed: its site stops as in a crash, its store makes it whole."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.core.epochs.member import Member
from ordercast.net.cluster.file import read_cluster
from ordercast.net.daemon.daemon import run_daemon
from ordercast.net.site.node import Node, site_of
from ordercast.net.store.ledger import Ledger
from support.clusters.processes import write_cluster
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b", "c"]}
WAIT_S = 60.0
CALLS = ("receive", "drain", "alarm")


class Mistake(Exception):
    pass


def break_core(node: Node, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next such call of this node does its work, and raises."""
    core, plain = site_of(node).core, getattr(Member, call)

    def half(member: Member, *args: Any, **options: Any) -> Any:
        if member is not core:
            return plain(member, *args, **options)
        monkeypatch.undo()
        plain(member, *args, **options)
        raise Mistake(call)

    monkeypatch.setattr(Member, call, half)


async def payloads(node: Node, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(WAIT_S):
        async for item in node.deliveries():
            if isinstance(item, ordercast.Delivery):
                found.append(item.payload)
                if len(found) == count:
                    break
    return found


@pytest.mark.parametrize("call", CALLS)
def test_a_site_stops_and_a_restart_loses_and_doubles_nothing(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @in_loop
    async def run() -> None:
        options = {"durability": "os", "on_failure": "wait", "deliver": "safe"}
        async with ordercast.local_cluster(GROUPS, dir=tmp_path, **options) as cluster:
            a, b = cluster["a"], cluster["b"]
            for number in range(20):
                await a.multicast("alpha", b"%d" % number)
            reading = asyncio.create_task(payloads(b, 1_000))
            break_core(b, call, monkeypatch)
            mine = []
            async with asyncio.timeout(WAIT_S):
                while not site_of(b).failed:
                    await a.multicast("alpha", b"x")
                    mine.append(b"x")
                    await asyncio.sleep(0.005)
                with pytest.raises(ordercast.Error, match=f"b has failed.*Mistake..{call}"):
                    await reading
                with pytest.raises(ordercast.Error, match="b has failed, and must be restarted"):
                    await b.multicast("alpha", b"lost")
                with pytest.raises(ordercast.Error, match="b has failed"):
                    await b.close()
            await cluster.kill("b")
            b = await cluster.start("b")
            await b.multicast("alpha", b"again")
            at_b, at_a = [await payloads(node, 21 + len(mine)) for node in (b, a)]
            assert at_b == at_a
            assert [p for p in at_a if p.isdigit()] == [b"%d" % number for number in range(20)]

    run()
    assert [r for r in caplog.records if "a mistake in the core" in r.message]


def test_a_site_stops_whose_store_can_be_written_no_more_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it answered they would wait for it: what it has is never durable."""
    take = Ledger.take

    def broken(ledger: Ledger, *given: Any) -> None:
        if ledger._site == "b":
            raise Mistake("in the store")
        take(ledger, *given)

    @in_loop
    async def run() -> None:
        options = {"durability": "os", "on_failure": "exclude", "deliver": "safe"}
        quick = {"suspect": "200ms"}
        async with ordercast.local_cluster(
            GROUPS, dir=tmp_path, timeouts=quick, **options
        ) as cluster:
            a, b = cluster["a"], cluster["b"]
            await (await a.multicast("alpha", b"before")).stable()
            monkeypatch.setattr(Ledger, "take", broken)
            async with asyncio.timeout(WAIT_S):
                await (await a.multicast("alpha", b"after")).stable()
            assert "store can be written no more: in the store" in site_of(b).failed
            monkeypatch.undo()
            await cluster.kill("b")

    run()


def test_a_daemon_ends_with_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def alarm(self: Member, now: int) -> None:
        if "ready" in told:
            raise Mistake("in the daemon")
        original(self, now)

    original = Member.alarm
    monkeypatch.setattr(Member, "alarm", alarm)
    cluster = read_cluster(write_cluster(tmp_path, GROUPS, {"durability": "os"}, tls=False))
    with pytest.raises(ordercast.Error, match=r"^site a has failed, .*Mistake\('in the daemon'\)$"):
        run_daemon(cluster, "a", tmp_path / "run", lambda kind, _: told.append(kind))
    assert told[-1] == "stopped"
    assert not list((tmp_path / "run").glob("*.sock"))
    assert not list((tmp_path / "run").glob("*.pid"))
