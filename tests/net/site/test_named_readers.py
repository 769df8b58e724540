"""Named readers of a site in this process: positions, turns, rollbacks, gaps."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ordercast import (
    ConfigError,
    Delivery,
    Error,
    Forgotten,
    Gap,
    Node,
    Rollback,
    TurnLost,
    UnknownGroup,
    local_cluster,
)
from ordercast.net.local import LocalCluster
from ordercast.net.site.node import site_of
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b"], "beta": ["a", "b"]}


async def send(node: Node, *texts: str) -> None:
    """Each text is a group's first letter and anything: `a1` goes to alpha."""
    for text in texts:
        group = {"a": "alpha", "b": "beta"}[text[0]]
        await (await node.multicast(group, text.encode())).stable()


async def take(items: AsyncIterator[Any], count: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    while len(found) < count:
        item = await anext(items)
        if isinstance(item, Delivery):
            found.append((item.position, item.payload.decode()))
    return found


async def told(node: Node, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await node.status())["readers"][name]
    return found


@in_loop
async def test_a_reader_sees_its_groups_and_goes_on_behind_what_it_confirmed(
    tmp_path: Path,
) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        await send(node, "a1", "b1", "a2", "b2", "a3")
        sales = node.deliveries(reader="sales", groups=["alpha"])
        everything = node.deliveries(reader="all", groups="*")
        assert await take(sales, 2) == [(1, "a1"), (3, "a2")]
        assert await take(everything, 5) == [
            (1, "a1"), (2, "b1"), (3, "a2"), (4, "b2"), (5, "a3"),
        ]  # fmt: skip
        await node.confirm(3, reader="sales")
        await node.confirm(2, reader="all")
        assert (await node.status())["confirmed"] == 0
        node = await cluster.restart("a")
        assert await take(node.deliveries(reader="sales"), 1) == [(5, "a3")]
        assert await take(node.deliveries(reader="all"), 3) == [(3, "a2"), (4, "b2"), (5, "a3")]


@in_loop
async def test_a_reader_of_one_group_gets_what_was_sent_to_it_and_others_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ordercast.net.site.named_readers.LOOK_S", 0.01)
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        reader = node.deliveries(reader="r", groups=["alpha"])
        await send(node, "a1", "b1")
        assert await take(reader, 1) == [(1, "a1")]
        await node.confirm(1, reader="r")
        await reader.aclose()
        await (await node.multicast(["beta", "alpha"], b"both")).stable()
        await (await node.multicast_to(["a", "b"], b"listed")).stable()
        await send(node, "b2", "a2")
        await asyncio.sleep(0.1)
        assert (await told(node, "r"))["passed"] == 2  # the next one is for it
        expected = [(3, "both"), (6, "a2")]
        assert await take(node.deliveries(reader="r"), 2) == expected
        assert await take(node.deliveries(reader="both", groups=["alpha", "beta"]), 5) == [
            (1, "a1"), (2, "b1"), (3, "both"), (5, "b2"), (6, "a2"),
        ]  # fmt: skip
        assert await take(node.read("r", 1, 6), 3) == [(1, "a1"), *expected]


@in_loop
async def test_followers_take_turns_and_one_that_lost_it_confirms_nothing(tmp_path: Path) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        await send(node, "a1", "a2", "a3")
        readers = [node.deliveries(reader="r", groups=["alpha"]) for _ in range(3)]
        assert await take(readers[0], 2) == [(1, "a1"), (2, "a2")]
        second = asyncio.create_task(take(readers[1], 2))
        await asyncio.sleep(0)
        third = asyncio.create_task(take(readers[2], 1))
        await node.confirm(1, reader="r")
        assert (await told(node, "r"))["followers"] == 3
        await readers[0].aclose()
        assert await second == [(2, "a2"), (3, "a3")]
        await asyncio.sleep(0)
        assert not third.done()
        turn = site_of(node).named.reader("r").line[0]
        await readers[1].aclose()
        assert await third == [(2, "a2")]
        with pytest.raises(TurnLost):
            await site_of(node).named.confirm(turn, 3, None)
        assert (await told(node, "r"))["confirmed"] == 1
        await readers[2].aclose()
        with pytest.raises(TurnLost, match="nobody follows"):
            await node.confirm(2, reader="r")


@in_loop
async def test_a_reader_passes_messages_that_are_not_for_it(tmp_path: Path) -> None:
    """Followed or not, before and after a restart; one message of its own stops it."""
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        followed = node.deliveries(reader="followed", groups=["alpha"])
        idle = node.deliveries(reader="idle", groups=["alpha"])
        await send(node, "a1", "b1")
        for reader, name in ((followed, "followed"), (idle, "idle")):
            assert await take(reader, 1) == [(1, "a1")]
            await node.confirm(1, reader=name)
        await idle.aclose()
        waiting = asyncio.create_task(take(followed, 1))
        await send(node, "b2", "b3")
        for name in ("followed", "idle"):
            while (await told(node, name))["lag"]:
                await asyncio.sleep(0.02)
            assert (await told(node, name))["confirmed"] == 1
        await send(node, "a2")
        assert await waiting == [(5, "a2")]
        await followed.aclose()
        node = await cluster.restart("a")
        await send(node, "b4")
        while site_of(node).named.reader("idle").waits is None:
            await asyncio.sleep(0.02)
        assert (await told(node, "idle"))["passed"] == 4
        assert (await told(node, "followed"))["passed"] == 4
        assert await take(node.deliveries(reader="idle"), 1) == [(5, "a2")]


@in_loop
async def test_reset_and_remove_take_the_turn_away(tmp_path: Path) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        await send(node, "a1", "a2", "a3")
        reader = node.deliveries(reader="r", groups=["alpha"])
        line = node.deliveries(reader="r", groups=["alpha"])
        await take(reader, 3)
        waiting = asyncio.create_task(take(line, 1))
        await asyncio.sleep(0)
        assert await node.reset_reader("r", 2) == 2
        for call in (waiting, take(reader, 1)):
            with pytest.raises(TurnLost, match="was reset to 2"):
                await call
        node = await cluster.restart("a")
        reader = node.deliveries(reader="r")
        assert await take(reader, 2) == [(2, "a2"), (3, "a3")]
        assert await node.reset_reader("r") == 4
        assert await node.reset_reader("r", 0) == 1
        with pytest.raises(ConfigError, match="3 is the last delivered"):
            await node.reset_reader("r", 5)
        await node.remove_reader("r")
        with pytest.raises(ConfigError, match="there is no reader 'r'"):
            await node.remove_reader("r")
        node = await cluster.restart("a")
        with pytest.raises(ConfigError, match="there is no reader 'r' at site a"):
            await anext(node.deliveries(reader="r"))


@in_loop
async def test_who_is_about_to_follow_a_reader_that_is_removed_follows_nothing(
    tmp_path: Path,
) -> None:
    """What it confirmed would be durable nowhere."""
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        await send(node, "a1")
        beginning = asyncio.ensure_future(anext(node.deliveries(reader="r", groups=["alpha"])))
        while "r" not in site_of(node).named.names:  # it is made, and not stored yet
            await asyncio.sleep(0)
        await node.remove_reader("r")
        with pytest.raises(TurnLost, match="reader 'r' of site a was removed"):
            await beginning
        assert "r" not in (await node.status())["readers"]


@in_loop
async def test_anybody_reads_ranges_of_a_reader(tmp_path: Path) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        receipt = await node.multicast_many("alpha", [b"a1", b"a2", b"a3", b"a4"])
        await receipt.stable()
        await send(node, "b1", "a5")
        await take(node.deliveries(reader="r", groups=["alpha"]), 1)

        async def ranged(start: int, end: int) -> list[tuple[int, str]]:
            found = [item async for item in node.read("r", start, end)]
            return [(d.position, d.payload.decode()) for d in found if isinstance(d, Delivery)]

        found = await asyncio.gather(ranged(2, 3), ranged(4, 6), ranged(5, 5), ranged(1, 6))
        assert list(found[:3]) == [[(2, "a2"), (3, "a3")], [(4, "a4"), (6, "a5")], []]
        assert [position for position, _ in found[3]] == [1, 2, 3, 4, 6]
        later = asyncio.create_task(ranged(6, 7))
        await send(node, "a6")
        assert await later == [(6, "a5"), (7, "a6")]
        with pytest.raises(ConfigError, match="there is no reader 's'"):
            await anext(node.read("s", 1, 2))
        with pytest.raises(ConfigError, match="end: 1 is before start"):
            node.read("r", 2, 1)


async def _rolled_back(cluster: LocalCluster) -> None:
    """Position 2 of a is `alone`, to alpha, and position 3 to beta. Both are taken back."""
    await send(cluster["a"], "a1")
    cluster.split(["a"], ["b", "c"])
    for group in ("alpha", "beta"):
        await (await cluster["a"].multicast(group, b"alone")).ordered()
    await (await cluster["b"].multicast("alpha", b"together")).stable()


@in_loop
async def test_a_reader_is_told_of_a_rollback_until_it_confirms_behind_it(tmp_path: Path) -> None:
    groups = {"alpha": ["a", "b", "c"], "beta": ["a", "b", "c"]}
    options: dict[str, Any] = {"deliver": "agreed", "timeouts": {"suspect": "200ms"}}
    async with local_cluster(groups, dir=tmp_path, durability="os", **options) as cluster:
        node = cluster["a"]
        await _rolled_back(cluster)
        reader = node.deliveries(reader="r", groups=["alpha"])
        assert await take(reader, 2) == [(1, "a1"), (2, "alone")]
        await node.confirm(2, reader="r")
        cluster.heal()
        while not isinstance(rolled := await anext(reader), Rollback):
            pass
        assert rolled.position == 1
        assert [message.group for _, message in rolled.annulled] == ["alpha"]
        assert (await told(node, "r"))["confirmed"] == 1
        await reader.aclose()
        node = await cluster.restart("a")
        assert (await told(node, "r"))["confirmed"] == 1
        reader = node.deliveries(reader="r")  # nothing was confirmed since: it is told again
        while not isinstance(again := await anext(reader), Rollback):
            assert not isinstance(again, Delivery)
        assert again == rolled
        (position, payload) = (await take(reader, 1))[0]
        assert payload == "together"
        await node.confirm(position, reader="r")
        await reader.aclose()
        assert [text for _, text in await take(node.deliveries(reader="r"), 1)] == ["alone"]


@in_loop
async def test_the_store_waits_for_a_reader_up_to_its_limit_and_then_there_is_a_gap(
    tmp_path: Path,
) -> None:
    limits = {"reader_bytes": "400KB"}
    async with local_cluster(
        {"alpha": ["a"], "beta": ["a"]}, dir=tmp_path, durability="os", limits=limits
    ) as cluster:
        node = cluster["a"]
        store = site_of(node).store
        reader = node.deliveries(reader="r", groups=["alpha"])
        await send(node, "a1")
        await take(reader, 1)
        await node.confirm(1, reader="r")
        await reader.aclose()
        await send(node, "a2")
        own = node.deliveries()

        async def grow(bytes_more: int) -> None:
            for _ in range(bytes_more // 10_000):
                await (await node.multicast("beta", bytes(10_000))).stable()
            while (last := await anext(own)).position < site_of(node).stream.delivered:
                pass
            await node.confirm(last.position)

        await grow(200_000)
        while (await told(node, "r"))["limit_used"] < 0.3:
            await asyncio.sleep(0.05)
        assert (await told(node, "r"))["limit_used"] < 0.8
        assert await asyncio.to_thread(lambda: store.first) <= 2
        await grow(150_000)
        while (await told(node, "r"))["limit_used"] < 0.8:
            await asyncio.sleep(0.05)
        assert await asyncio.to_thread(lambda: store.first) <= 2
        while await asyncio.to_thread(lambda: store.first) <= 2:
            await grow(100_000)
        first = await asyncio.to_thread(lambda: store.first)
        node = await cluster.restart("a")  # what is in memory is read although it was removed
        reader = node.deliveries(reader="r")
        gap = await anext(reader)
        assert isinstance(gap, Gap)
        assert (gap.position, gap.group, gap.origin) == (2, "", "")
        assert first - 1 <= gap.last < site_of(node).stream.delivered
        await node.confirm(gap.last, reader="r")
        await send(node, "a3")
        assert [text for _, text in await take(reader, 1)] == ["a3"]


@in_loop
async def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    async with local_cluster({"alpha": ["a"], "beta": ["b"]}, dir=tmp_path) as cluster:
        node = cluster["a"]
        for wrong, why in (
            ({"reader": "no name"}, "not a name"),
            ({"reader": "r", "groups": []}, "needs one at least"),
            ({"reader": "r", "groups": "alpha"}, "a list of names is needed"),
            ({"reader": "r", "groups": ["alpha", "alpha"]}, "twice"),
            ({"reader": "r", "groups": ["alpha"], "start": 3}, "position of its own"),
            ({"groups": ["alpha"]}, "only a named reader has groups"),
        ):
            with pytest.raises(ConfigError, match=why):
                node.deliveries(**wrong)
        with pytest.raises(UnknownGroup, match=r"did you mean 'alpha'"):
            await anext(node.deliveries(reader="r", groups=["alph"]))
        with pytest.raises(ConfigError, match="site a is no member of group 'beta'"):
            await anext(node.deliveries(reader="r", groups=["beta"]))
        await send(node, "a1")
        reader = node.deliveries(reader="r", groups=["alpha"])
        await take(reader, 1)
        with pytest.raises(ConfigError, match="is of groups alpha"):
            await anext(node.deliveries(reader="r", groups="*"))
        with pytest.raises(ConfigError, match="has read up to 1"):
            await node.confirm(2, reader="r")
    async with local_cluster({"alpha": ["a"]}) as cluster:
        with pytest.raises(ConfigError, match="durability 'memory'"):
            cluster["a"].deliveries(reader="r", groups=["alpha"])


@in_loop
async def test_a_reader_that_is_closed_with_its_site_ends_with_an_error(tmp_path: Path) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        reader = cluster["a"].deliveries(reader="r", groups=["alpha"])
        other = cluster["a"].deliveries(reader="r", groups=["alpha"])
        waiting = [asyncio.create_task(take(each, 1)) for each in (reader, other)]
        await asyncio.sleep(0.05)
        await cluster.kill("a")
        for each in waiting:
            with pytest.raises(Error, match="closed") as found:
                await each
            assert not isinstance(found.value, Forgotten)
