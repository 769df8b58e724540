"""Named readers through daemons: turns of clients, broken connections, kills, a lost store."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ordercast import (
    Client,
    ConfigError,
    DeliveredBatch,
    Delivery,
    EpochOpened,
    Forgotten,
    NotGranted,
    Rollback,
    TurnLost,
    blocking,
)
from support.clusters.served import Served, served
from support.harness.loops import in_loop

ALONE = {"alpha": ["a"], "beta": ["a"]}


async def send(client: Client, *texts: str) -> None:
    for text in texts:
        group = {"a": "alpha", "b": "beta"}[text[0]]
        await (await client.multicast(group, text.encode())).stable()


async def take(items: AsyncIterator[Any], count: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    while len(found) < count:
        item = await anext(items)
        if isinstance(item, Delivery):
            found.append((item.position, item.payload.decode()))
    return found


async def confirmed(client: Client, name: str = "r") -> int:
    return int((await client.status())["readers"][name]["confirmed"])


def cut(client: Client) -> None:
    """The connection breaks; the client makes another."""
    assert client._link is not None
    if client._link._wire is not None:
        client._link._wire.fail("cut by the test")


@in_loop
async def test_a_follower_goes_on_through_kills_of_its_daemon(tmp_path: Path) -> None:
    """The same follower, at the next message: nothing is seen twice, though little is confirmed."""
    async with served(tmp_path, ALONE) as sites, sites.connect("a") as client:
        reader = client.deliveries(reader="r", groups=["alpha"])
        seen: list[tuple[int, str]] = []
        for n in range(4):
            await send(client, f"a{n}", f"b{n}", f"a{n}'")
            seen += await take(reader, 2)
            if n == 1:
                await client.confirm(seen[-1][0], reader="r")
            await sites.kill("a")
            await sites.start("a")
        assert [text for _, text in seen] == [f"a{n}{x}" for n in range(4) for x in ("", "'")]
        assert [position for position, _ in seen] == [1, 3, 4, 6, 7, 9, 10, 12]
        assert await confirmed(client) == 6
        await client.confirm(12, reader="r")
        assert await confirmed(client) == 12


@in_loop
async def test_the_next_client_takes_over_and_the_first_is_told(tmp_path: Path) -> None:
    async with (
        served(tmp_path, ALONE) as sites,
        sites.connect("a") as one,
        sites.connect("a") as two,
    ):
        await send(one, "a1", "a2", "a3", "a4")
        first = one.deliveries(reader="r", groups=["alpha"])
        assert await take(first, 2) == [(1, "a1"), (2, "a2")]
        await one.confirm(1, reader="r")
        second = two.deliveries(reader="r", groups=["alpha"])
        begun = asyncio.create_task(take(second, 3))
        while (await one.status())["readers"]["r"]["followers"] < 2:
            await asyncio.sleep(0.01)
        cut(one)
        assert await begun == [(2, "a2"), (3, "a3"), (4, "a4")]
        stale = asyncio.create_task(one.confirm(2, reader="r"))  # it waits in line for its turn
        await two.confirm(3, reader="r")
        assert not stale.done()
        await second.aclose()
        with pytest.raises(TurnLost, match="another follower has confirmed position 3"):
            await stale
        with pytest.raises(TurnLost):
            await anext(first)
        assert await confirmed(two) == 3
        assert await take(one.deliveries(reader="r"), 1) == [(4, "a4")]


@in_loop
async def test_a_follower_that_nobody_overtook_goes_on_where_it_was(tmp_path: Path) -> None:
    """What it had fetched and its application had not got is fetched again, and given once."""
    async with served(tmp_path, ALONE) as sites, sites.connect("a") as client:
        await (await client.multicast_many("alpha", [b"%d" % n for n in range(50)])).stable()
        reader = client.deliveries(reader="r", groups="*")
        seen = await take(reader, 7)
        cut(client)
        seen += await take(reader, 20)
        pending = asyncio.create_task(client.confirm(seen[-1][0], reader="r"))
        await asyncio.sleep(0)
        cut(client)
        await pending
        seen += await take(reader, 23)
        assert seen == [(n + 1, str(n)) for n in range(50)]
        await send(client, "a!")
        assert await take(reader, 1) == [(51, "a!")]
        assert await confirmed(client) == 27


@in_loop
async def test_a_reader_that_went_with_its_store_is_not_silent(tmp_path: Path) -> None:
    async with served(tmp_path, ALONE, voters=["a"]) as sites, sites.connect("a") as client:
        await send(client, "a1", "a2")
        reader = client.deliveries(reader="r", groups=["alpha"])
        await take(reader, 2)
        await client.confirm(1, reader="r")
        await client.remove_reader("r")
        with pytest.raises(TurnLost, match="removed"):
            await anext(reader)
        reader = client.deliveries(reader="r", groups=["alpha"])
        await take(reader, 1)
        await sites.admins.pop("a").close()
        await sites.cluster["a"].remove_reader("r")  # as a store that was lost, and came anew
        await sites.serve("a")
        with pytest.raises(Forgotten, match="or the site has lost its store"):
            await anext(reader)
        with pytest.raises(ConfigError, match="there is no reader 'r'"):
            await anext(client.deliveries(reader="r"))


@in_loop
async def test_a_store_that_is_lost_takes_its_readers_with_it(tmp_path: Path) -> None:
    """The follower is told; a new reader begins where the site has joined its groups again."""
    groups = {"alpha": ["a", "b", "c"]}
    quick = {"suspect": "200ms"}
    async with served(tmp_path, groups, timeouts=quick) as sites, sites.connect("a") as client:
        await send(client, "a1", "a2")
        reader = client.deliveries(reader="r", groups=["alpha"])
        await take(reader, 2)
        await client.confirm(2, reader="r")
        await sites.kill("a")
        for file in tmp_path.glob("a.db*"):
            file.unlink()
        await (await sites.cluster["b"].multicast("alpha", b"meanwhile")).stable()
        await sites.start("a")
        with pytest.raises(Forgotten, match="site a came back without its store"):
            await anext(reader)
        with pytest.raises(ConfigError, match="there is no reader 'r'"):
            await anext(client.deliveries(reader="r"))
        await (await sites.cluster["a"].multicast("alpha", b"back")).stable()
        anew = client.deliveries(reader="r", groups=["alpha"])
        opened = await anext(anew)
        assert isinstance(opened, EpochOpened)
        assert opened.joined == ("alpha",)
        assert [text for _, text in await take(anew, 1)] == ["back"]


@in_loop
async def test_many_connections_read_ranges_beside_the_follower(tmp_path: Path) -> None:
    async with served(tmp_path, ALONE) as sites, sites.connect("a") as client:
        for n in range(10):
            await send(client, f"a{n}", f"b{n}")
        follower = client.deliveries(reader="r", groups=["alpha"])
        await take(follower, 1)

        async def ranged(start: int, end: int) -> list[int]:
            async with sites.connect("a") as other:
                items = other.read("r", start, end)
                found = [(await anext(items)).position] if start == 1 else []
                if found:
                    cut(other)
                return [*found, *[item.position async for item in items]]

        found = await asyncio.gather(*(ranged(n, n + 4) for n in range(1, 17, 5)))
        assert [p for part in found for p in part] == list(range(1, 20, 2))
        assert await take(follower, 1) == [(3, "a1")]


@in_loop
async def test_a_client_that_does_not_follow_confirms_nothing(tmp_path: Path) -> None:
    async with (
        served(tmp_path, ALONE) as sites,
        sites.connect("a") as one,
        sites.connect("a") as two,
    ):
        await send(one, "a1", "a2")
        reader = one.deliveries(reader="r", groups=["alpha"])
        await take(reader, 1)
        with pytest.raises(TurnLost, match="does not follow"):
            await two.confirm(1, reader="r")
        with pytest.raises(ConfigError, match="1 is the last that the follower"):
            await one.confirm(2, reader="r")
        with pytest.raises(ConfigError, match="not a name"):
            one.deliveries(reader="a b")
        await one.confirm(1, reader="r")
        await reader.aclose()
        with pytest.raises(TurnLost, match="does not follow"):
            await one.confirm(1, reader="r")


@in_loop
async def test_an_idle_daemon_that_nobody_reads_shows_no_lag(tmp_path: Path) -> None:
    groups = {"alpha": ["a", "b"]}
    async with (
        served(tmp_path, groups, unnamed_reader=False) as sites,
        sites.connect("a") as client,
    ):
        await send(client, "a1", "a2")
        status = await client.status()
        assert (status["position"], status["confirmed"], status["lag"]) == (2, 0, 0)
        assert status["readers"] == {}
        reader = client.deliveries()
        await anext(reader)
        assert (await client.status())["lag"] in (0, 1)  # now somebody reads


@in_loop
async def test_a_client_is_told_of_a_rollback_that_took_nothing_of_its_groups(
    tmp_path: Path,
) -> None:
    groups = {"alpha": ["a", "b", "c"], "beta": ["a", "b", "c"]}
    options: dict[str, Any] = {"deliver": "agreed", "timeouts": {"suspect": "200ms"}}
    async with served(tmp_path, groups, **options) as sites, sites.connect("a") as client:
        await send(client, "b1", "a1")
        reader = client.deliveries(reader="r", groups=["beta"])
        assert await take(reader, 1) == [(1, "b1")]
        await client.confirm(1, reader="r")
        sites.cluster.split(["a"], ["b", "c"])
        await (await sites.cluster["a"].multicast("alpha", b"alone")).ordered()
        await (await sites.cluster["b"].multicast("beta", b"together")).stable()
        while (await client.status())["readers"]["r"]["passed"] < 3:
            await asyncio.sleep(0.01)
        sites.cluster.heal()
        while not isinstance(rolled := await anext(reader), Rollback):
            assert not isinstance(rolled, Delivery)
        assert (rolled.position, rolled.annulled) == (2, ())
        assert await take(reader, 1) == [(3, "together")]
        await client.confirm(3, reader="r")
        while (await client.status())["readers"]["r"]["lag"]:
            await asyncio.sleep(0.01)


@in_loop
async def test_scripts_without_asyncio_have_named_readers(tmp_path: Path) -> None:
    async with served(tmp_path, ALONE) as sites:

        def text(item: Any) -> str:
            return str(item.payload.decode())

        def script() -> list[str]:
            with blocking.connect(sites.cluster.cluster, "a", dir=sites.directory) as node:
                for payload in (b"one", b"two", b"three"):
                    node.multicast("alpha", payload).stable()
                found = []
                for item in node.deliveries(reader="r", groups=["alpha"]):
                    found.append(text(item))
                    node.confirm(item.position, reader="r")
                    if len(found) == 2:
                        break
                found += [text(item) for item in node.read("r", 1, 3)]
                assert node.reset_reader("r", 3) == 3
                for batch in node.batches(reader="r"):
                    assert isinstance(batch, DeliveredBatch)
                    found += [each.decode() for each in batch.payloads]
                    break
                node.remove_reader("r")
                return found

        assert await asyncio.to_thread(script) == ["one", "two", "one", "two", "three", "three"]


@in_loop
async def test_a_named_reader_needs_the_grants_of_all_its_groups(tmp_path: Path) -> None:
    grants = {"socket": ["send:*", "read:alpha"]}
    async with served(tmp_path, ALONE, grants=grants) as sites, sites.connect("a") as client:
        node = sites.cluster["a"]
        await send(client, "a1", "b1", "a2")
        for name, groups in (("all", "*"), ("stock", ["beta"]), ("both", ["alpha", "beta"])):
            reader = node.deliveries(reader=name, groups=groups)
            await take(reader, 1)
            await reader.aclose()
        assert await take(client.deliveries(reader="sales", groups=["alpha"]), 2) == [
            (1, "a1"), (3, "a2"),
        ]  # fmt: skip
        for items in (
            client.deliveries(reader="all"),
            client.deliveries(reader="stock"),
            client.deliveries(reader="both"),
            client.deliveries(reader="new", groups=["beta"]),
            client.deliveries(reader="new", groups="*"),
            client.read("both", 1, 3),
        ):
            with pytest.raises(NotGranted, match="socket has no grant read:"):
                await anext(items)
        assert [item.position async for item in client.read("sales", 1, 3)] == [1, 3]
        with pytest.raises(NotGranted, match="admin"):
            await client.reset_reader("sales", 1)
        with pytest.raises(NotGranted, match="admin"):
            await client.remove_reader("sales")
        assert sorted((await client.status())["readers"]) == ["all", "both", "sales", "stock"]


async def _followers(sites: Served, name: str) -> int:
    async with sites.connect("a") as client:
        return int((await client.status())["readers"][name]["followers"])


@in_loop
async def test_a_client_that_leaves_gives_up_its_place_in_line(tmp_path: Path) -> None:
    async with served(tmp_path, ALONE) as sites, sites.connect("a") as client:
        await send(client, "a1")
        first = client.deliveries(reader="r", groups=["alpha"])
        await take(first, 1)
        async with sites.connect("a") as other:
            waiting = other.deliveries(reader="r")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(waiting)
            while await _followers(sites, "r") < 2:
                await asyncio.sleep(0.01)
        while await _followers(sites, "r") > 1:
            await asyncio.sleep(0.01)
        await client.confirm(1, reader="r")
