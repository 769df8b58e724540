"""A client's request is sent once, and an id names one body, through kills of a site that keeps its
store; nothing of it is told to others before it is stored."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.epochs.member import Member
from ordercast.model.errors import TooLarge, UnknownGroup
from ordercast.model.messages import Delivery
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.copies.repeats import RepeatSender
from ordercast.net.site.node import Node, site_of
from ordercast.net.store.box import StoreBox
from support.clusters.served import served
from support.clusters.sites import until
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b", "c"]}
QUICK = {"suspect": "300ms"}


def primary(cluster: LocalCluster) -> str:
    domain = cluster.cluster.first_layout().domain_of(["alpha"])
    assert domain is not None
    return domain.structure.primary("alpha")


def never_stores(node: Node) -> None:
    """Nothing becomes durable any more: the disk hangs, and then the process is killed."""

    def hang(box: StoreBox, then: Callable[[], None]) -> None:
        del then
        site_of(node).store.requests.note(box)

    site_of(node).store.write = hang  # type: ignore[method-assign, assignment]


async def delivered(node: Node, count: int) -> list[Delivery]:
    """The first so many."""
    found: list[Delivery] = []
    async with asyncio.timeout(20):
        async for item in node.deliveries(1):
            if isinstance(item, Delivery):
                found.append(item)
                if len(found) == count:
                    break
    return found


async def payloads(node: Node, count: int) -> list[bytes]:
    return [item.payload for item in await delivered(node, count)]


@pytest.mark.parametrize("remembered", [True, False])
@in_loop
async def test_what_a_client_repeats_after_a_kill_before_the_commit_is_delivered_once(
    tmp_path: Path, remembered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the group remembers clients, the others have it before the disk has."""
    if not remembered:
        monkeypatch.setattr(RepeatSender, "begin", lambda *_: None)
    async with served(tmp_path, GROUPS, timeouts=QUICK) as running:
        site = primary(running.cluster)
        others = [running.cluster[name] for name in GROUPS["alpha"] if name != site]
        async with running.connect(site) as client:
            await (await client.multicast("alpha", b"stored")).stable()
            await until(lambda: bool(client._outgoing.marks) or not remembered)
            never_stores(running.cluster[site])
            receipt = await client.multicast("alpha", b"repeated")
            if remembered:
                await until(lambda: [site_of(node).core.logged for node in others] == [2, 2])
            else:
                await asyncio.sleep(0.2)
                logged = [site_of(node).core.logged for node in others]
                assert logged == [1, 1], "nobody has heard of it"
            await running.kill(site)
            await running.start(site)
            async with asyncio.timeout(20):
                await receipt.stable()
                await (await client.multicast("alpha", b"last")).stable()
        for node in running.cluster.nodes.values():
            assert await payloads(node, 3) == [b"stored", b"repeated", b"last"]
            assert site_of(node).core.logged == 3


@pytest.mark.parametrize("relays", [True, False])
@in_loop
async def test_what_was_sent_and_not_stored_and_what_follows_have_ids_of_their_own(
    tmp_path: Path, relays: bool
) -> None:
    """What an application sends that embeds the site is relayed, or submitted, before the disk has
    it."""
    async with local_cluster(GROUPS, dir=tmp_path, durability="os", timeouts=QUICK) as cluster:
        places = primary(cluster)
        site = next(name for name in GROUPS["alpha"] if (name == places) is relays)
        other = cluster[next(name for name in GROUPS["alpha"] if name != site)]
        never_stores(cluster[site])
        lost = await cluster[site].multicast("alpha", b"relayed")
        for _ in range(100):
            await asyncio.sleep(0.01)
            if site_of(other).core.logged:
                break
        node = await cluster.restart(site)
        async with asyncio.timeout(20):
            receipt = await node.multicast("alpha", b"after")
            await receipt.stable()
        found = [(item.payload, item.seq) for item in await delivered(other, 2)]
    assert found == [(b"relayed", lost.seq), (b"after", receipt.seq)]
    assert receipt.seq > lost.seq + 1


@in_loop
async def test_after_a_restart_receipts_name_the_messages_that_are_delivered(
    tmp_path: Path,
) -> None:
    """Seqs are foretold where a message is taken, and given where the site accepts it."""
    async with local_cluster(GROUPS, dir=tmp_path, durability="os", timeouts=QUICK) as cluster:
        site = primary(cluster)
        await (await cluster[site].multicast("alpha", b"first")).stable()
        node = await cluster.restart(site)
        async with asyncio.timeout(20):
            named = [
                await node.multicast("alpha", b"1"),
                await node.multicast("alpha", b"2"),
                await node.multicast_many("alpha", [b"", b"3"]),
                await node.multicast_to(["a", "b", "c"], b"4"),
                await node.multicast_to(["a", "b", "c"], b"5"),
                node.multicast_nowait("alpha", b"6"),
            ]
            for receipt in named:
                await receipt.stable()
        found = {item.payload: (item.group, item.seq) for item in await delivered(node, 8)}
    assert [found[b"%d" % (n + 1)] for n in range(6)] == [(one.group, one.seq) for one in named]


@in_loop
async def test_a_number_that_was_skipped_is_nobodys(tmp_path: Path) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os", timeouts=QUICK) as cluster:
        site = primary(cluster)
        await (await cluster[site].multicast("alpha", b"first")).stable()
        node = await cluster.restart(site)
        async with asyncio.timeout(20):
            await (await node.multicast("alpha", b"second")).stable()
        await site_of(node).sender.reached("stable", "alpha", 1)
        with pytest.raises(UnknownGroup, match="message 2 to alpha was not sent"):
            await site_of(node).sender.reached("stable", "alpha", 2)


@in_loop
async def test_a_message_that_is_refused_after_a_restart_leaves_nothing_to_wait_for(
    tmp_path: Path,
) -> None:
    """Its number was foretold, with those that are skipped before it."""
    small = {"message_bytes": 10}
    options: dict[str, Any] = {"durability": "os", "timeouts": QUICK, "limits": small}
    async with local_cluster(GROUPS, dir=tmp_path, **options) as cluster:
        node = await cluster.restart(primary(cluster))
        for send in (node.multicast("alpha", bytes(11)), node.multicast_to(["a"], bytes(11))):
            with pytest.raises(TooLarge):
                await send
        sending = asyncio.ensure_future(node.multicast("alpha", b"x"))
        await asyncio.sleep(0)
        sending.cancel()  # while the site is not back yet
        async with asyncio.timeout(10):
            await node.flush("stable")
            await (await node.multicast("alpha", b"y")).stable()
        assert await payloads(node, 1) == [b"y"]


@in_loop
async def test_what_is_sent_in_the_moment_in_which_the_site_is_back_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number was foretold before the epoch told of more, and the node has not looked yet."""
    async with local_cluster(GROUPS, dir=tmp_path, durability="os", timeouts=QUICK) as cluster:
        site = primary(cluster)
        other = cluster[next(name for name in GROUPS["alpha"] if name != site)]
        never_stores(cluster[site])
        await cluster[site].multicast_many("alpha", [b"relayed"] * 3)
        while not site_of(other).core.logged:
            await asyncio.sleep(0.01)
        node = await cluster.restart(site)
        assert site_of(node).core.admission.reserve("alpha", b"too early") == 0
        given: list[int] = []
        core, receive = site_of(node).core, Member.receive

        def and_send(self: Member, now: int, peer: str, frame: Any) -> None:
            before = self.layout.lasts
            receive(self, now, peer, frame)
            if self is core and self.layout.lasts != before and site_of(node).presence.takes():
                given.append(self.admission.reserve("alpha", b"at once"))

        monkeypatch.setattr(Member, "receive", and_send)
        async with asyncio.timeout(20):
            while not given:
                await asyncio.sleep(0.01)
            if given == [0]:
                await node.multicast("alpha", b"at once")
            await node.flush("stable")
        assert await payloads(node, 4) == [b"relayed"] * 3 + [b"at once"]


@in_loop
async def test_a_request_that_waits_for_the_site_is_known_when_its_session_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon has let go of the session of a client that went away; when it comes back, the site
    has not yet taken what it asked for."""
    async with served(tmp_path, GROUPS, timeouts=QUICK) as running:
        node = running.cluster["a"]
        full = True
        core, accept = site_of(node).core, Member.accept

        def sometimes(self: Member, *given: Any) -> bool:
            return not (full and self is core) and accept(self, *given)  # else another site lags

        monkeypatch.setattr(Member, "accept", sometimes)
        async with running.connect("a") as client:
            receipt = await client.multicast("alpha", b"once")
            while not site_of(node).core.admission.requested:
                await asyncio.sleep(0.01)
            desk = running.admins["a"].desk
            (connection,) = desk._connections.values()
            connection.wire.close()
            while desk._connections:
                await asyncio.sleep(0)
            for session in desk._sessions.values():
                session.close()
            desk._sessions.clear()
            await asyncio.sleep(0.5)  # the client has come back, and asked again
            assert desk._connections
            full = False
            async with asyncio.timeout(20):
                await receipt.stable()
                await (await client.multicast("alpha", b"last")).stable()
        assert not site_of(node).core.admission.requested
        assert await payloads(node, 2) == [b"once", b"last"]
        assert site_of(node).core.logged == 2
