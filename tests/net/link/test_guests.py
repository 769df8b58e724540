"""A site that was of this cluster and comes again: it is told that it is retired, and may do
nothing else."""

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest

import ordercast
from ordercast.model.epochs import RemoveGroup
from ordercast.net.cluster.certificates import add_certificates
from ordercast.net.link.connection import LinkLimits
from ordercast.net.link.hello import FOUNDING, Identity
from ordercast.net.site import peer_list
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.store_points import StorePoints
from ordercast.net.store.store import Store
from ordercast.wire.codec import WireFrame
from ordercast.wire.epochs import ChangeRequest, Fed
from ordercast.wire.lineage import StorePoint
from support.clusters.processes import NAME, write_cluster
from support.clusters.sites import GROUPS
from support.harness.loops import in_loop
from support.harness.ports import free_ports
from support.network.links import (
    CLUSTER,
    TERMS,
    End,
    Runner,
    anywhere,
    both_loops,
    frame,
    started,
    until,
)

AB = anywhere("ab")
WAIT_S = 60.0
ASK = ChangeRequest("c", (RemoveGroup("g"),))


def founded(by: str) -> Identity:
    return Identity(CLUSTER, terms={**TERMS, FOUNDING: by})


def former(name: str, founding: str = "f") -> End:
    return End(name, anywhere(["a", name]), founded(founding))


async def come(end: End, a: End) -> None:
    await end.transport.start()
    end.knows(a)
    end.transport.connect("a")


@both_loops
def test_it_is_heard_for_how_much_it_knows_and_for_nothing_else(
    run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, d = End("a", AB, founded("f")), former("d")
        async with started(a):
            await come(d, a)
            await until(lambda: d.state("a") == "connected", "taken")
            said: list[WireFrame] = [
                frame(1), ASK, Fed(7, (("c", ()),), store=9, slow=("b",)), frame(2),
            ]  # fmt: skip
            d.transport.send("a", said)
            await until(lambda: bool(a.frames), "heard")
            a.transport.send("d", [frame(5)])
            await until(lambda: d.received("a") == [5], "answered")
            assert a.frames == [("d", Fed(7, ()))]
            assert [link.peer for link in a.transport.links()] == ["b"]
            await d.transport.close()
            await until(lambda: a.events == [("connected", "d"), ("lost", "d")], "gone")
            a.transport.send("d", [frame(6)])
            assert sum(a.transport.refusals.values()) == 1, "no peer: it is not dialled"

    with caplog.at_level(logging.INFO, "ordercast.net.transport"):
        run(main())
    assert [r.message for r in caplog.records if r.message.startswith("d: connected")] == []


@pytest.mark.parametrize("founding", ["", "another"])
@both_loops
def test_who_was_never_told_the_founding_is_a_stranger(run: Runner, founding: str) -> None:
    async def main() -> None:
        a, d = End("a", AB, founded("f")), former("d", founding)
        async with started(a):
            await come(d, a)
            await until(lambda: a.transport.refusals["unknown site"] > 2, "refused")
            assert a.events == []
            await d.transport.close()

    run(main())


@both_loops
def test_two_that_do_not_know_the_founding_are_strangers(run: Runner) -> None:
    async def main() -> None:
        a, d = End("a", AB, founded("")), former("d", "")
        async with started(a):
            await come(d, a)
            await until(lambda: a.transport.refusals["unknown site"] > 2, "refused")
            await d.transport.close()

    run(main())


@both_loops
def test_a_newcomer_hears_all_that_a_site_says_which_is_not_in_its_file(run: Runner) -> None:
    """The manager may be one that was added later: nobody else would tell it anything."""

    async def main() -> None:
        new, manager = End("a", AB, founded("")), former("u")
        async with started(new):
            await come(manager, new)
            await until(lambda: manager.state("a") == "connected", "taken")
            manager.transport.send("a", [frame(1), ASK])
            await until(lambda: new.taken == 2, "heard")
            await manager.transport.close()

    run(main())


@both_loops
def test_a_guest_that_is_met_is_heard_in_full(run: Runner) -> None:
    async def main() -> None:
        a, d = End("a", AB, founded("f")), former("d")
        async with started(a):
            await come(d, a)
            await until(lambda: a.events == [("connected", "d")], "taken")
            a.transport.meet("d", d.transport.address)
            await until(lambda: a.events[1:] == [("lost", "d"), ("connected", "d")], "again")
            await until(lambda: d.state("a") == "connected", "here too")
            d.transport.send("a", [frame(1)])
            await until(lambda: a.received("d") == [1], "heard")
            assert a.state("d") == "connected"
            await d.transport.close()

    run(main())


@both_loops
def test_there_is_room_for_so_many_and_others_follow_when_they_go(run: Runner) -> None:
    async def main() -> None:
        a = End("a", AB, founded("f"), limits=LinkLimits(guests=2))
        guests = [former(name) for name in ("d", "e", "f")]
        async with started(a):
            for guest in guests[:2]:
                await come(guest, a)
            await until(lambda: len(a.events) == 2, "taken")
            await come(guests[2], a)
            await until(lambda: a.transport.refusals["unknown site"] > 2, "no room")
            assert ("connected", "f") not in a.events
            await guests[0].transport.close()
            await until(lambda: ("connected", "f") in a.events, "room")
            for guest in guests[1:]:
                await guest.transport.close()

    run(main())


@pytest.mark.parametrize("guest", [False, True])
def test_a_guest_cannot_stop_a_site_by_what_it_says_of_its_store(
    guest: bool, tmp_path: Path
) -> None:
    """It knows the store's number and its starts. A peer's word counts: an older copy is noticed
    by it."""

    @in_loop
    async def run() -> None:
        stopped: list[str] = []
        store, other = (
            Store.open(tmp_path / f"{n}.db", cluster=CLUSTER, site=n, durability="os") for n in "ad"
        )
        try:
            a = End("a", AB if guest else anywhere("abd"), founded("f"))
            a.transport._points = StorePoints("a", store, stopped.append, lambda: True)
            d, again = former("d"), former("d")
            again.transport._points = points = StorePoints("d", other, print, lambda: True)
            points._heard["a"] = StorePoint(store.store_number, store.boot + 1, 1, 1_000)
            async with started(a):
                await come(d, a)
                await until(lambda: d.state("a") == "connected", "taken")
                await come(again, a)
                await until(lambda: bool(stopped) or bool(a.transport.refusals.total()), "heard")
                for end in (d, again):
                    await end.transport.close()
            assert bool(stopped) is not guest
        finally:
            store.close_sync()
            other.close_sync()

    run()


async def told(site: Node) -> None:
    async with asyncio.timeout(WAIT_S):
        while not site.retired:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("policy", "tls"), [("wait", False), ("exclude", True)])
def test_who_was_away_when_it_was_retired_is_told_when_it_comes(
    policy: str, tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by sites that have restarted since, and know nothing of it but their records."""
    monkeypatch.setattr(peer_list, "PART_S", 0.05)
    path = write_cluster(tmp_path, GROUPS, {"durability": "os", "on_failure": policy}, tls=tls)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    if tls:
        add_certificates(NAME, ["d"], tmp_path / "certs")

    async def up(stack: contextlib.AsyncExitStack, *sites: str, at: str = "") -> list[Node]:
        return [
            await stack.enter_async_context(
                ordercast.Node.open(path, site, dir=tmp_path, address=at)
            )
            for site in sites
        ]

    @in_loop
    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            a, b, _ = await up(stack, "a", "b", "c")
            async with contextlib.AsyncExitStack() as away, asyncio.timeout(WAIT_S):
                (d,) = await up(away, "d", at=address)
                await b.add_site("d", address)
                while "d" not in site_of(d).core.layout.roster:
                    await asyncio.sleep(0.01)
            async with asyncio.timeout(WAIT_S):
                await a.retire_site("d")
        async with contextlib.AsyncExitStack() as stack:
            await up(stack, "a", "b", "c")
            (d,) = await up(stack, "d")
            assert "d" in site_of(d).core.layout.roster, "so its store says"
            await told(d)
            assert site_of(d).core.quiet()

    run()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_newcomer_is_told_everything_by_a_manager_that_was_added_itself(
    tls: bool, tmp_path: Path
) -> None:
    path = write_cluster(tmp_path, GROUPS, {"durability": "os", "voters": ["a"]}, tls=tls)
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    if tls:
        add_certificates(NAME, ["d", "e"], tmp_path / "certs")

    async def add(stack: contextlib.AsyncExitStack, a: Node, site: str, address: str) -> Node:
        node = await stack.enter_async_context(
            ordercast.Node.open(path, site, dir=tmp_path, address=address)
        )
        await a.add_site(site, address)
        while site not in site_of(node).core.layout.roster:
            await asyncio.sleep(0.01)
        return node

    @in_loop
    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack, asyncio.timeout(WAIT_S):
            a, _, _ = [
                await stack.enter_async_context(ordercast.Node.open(path, site, dir=tmp_path))
                for site in "abc"
            ]
            d = await add(stack, a, "d", first)
            await a.add_voter("d")
            await a.remove_voter("a")
            while not site_of(d).core.manager.leads:
                await asyncio.sleep(0.01)
            e = await add(stack, a, "e", second)
            await a.join("alpha", "e")
            while "e" not in site_of(e).core.layout.groups["alpha"]:
                await asyncio.sleep(0.01)

    run()
