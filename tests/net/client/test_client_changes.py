"""Changes through daemons: asked for, seen in the stream, and nothing lost over them."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.epochs.records import EpochOpened
from ordercast.model.epochs import AddGroup, JoinGroup
from ordercast.model.errors import ConfigError, UnknownGroup
from ordercast.net.client.client import Client
from support.clusters.served import served
from support.harness.loops import in_loop

DURABLE = ["os", "memory"]


async def take(reader: AsyncIterator[Any], count: int) -> list[Any]:
    """So many deliveries, with the epochs that open between them."""
    found: list[Any] = []
    async with asyncio.timeout(60):
        async for item in reader:
            found.append(item)
            count -= not isinstance(item, EpochOpened)
            if not count:
                return found
    raise AssertionError("deliveries never end")


def shown(items: list[Any]) -> list[Any]:
    return [
        ("opened", item.epoch, item.groups) if isinstance(item, EpochOpened) else item.payload
        for item in items
    ]


async def stable(client: Client, group: str, payload: bytes) -> None:
    async with asyncio.timeout(60):
        await (await client.multicast(group, payload)).stable()


@in_loop
async def test_a_client_changes_groups_and_uses_them_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a, running.connect("c") as c:
        with pytest.raises(UnknownGroup, match="there is no group 'delta'"):
            await a.multicast("delta", b"early")
        await a.add_group("delta", ["a", "c"])
        await stable(a, "delta", b"one")
        await a.join("beta")
        assert a._targets.members("beta") == ("a", "b", "c")
        await stable(c, "beta", b"two")
        await a.leave("beta")
        await stable(c, "beta", b"three")
        await a.remove_group("delta")
        with pytest.raises(UnknownGroup):
            await a.multicast("delta", b"late")
        read = [item for item in shown(await take(a.deliveries(1), 2)) if isinstance(item, bytes)]
        assert read == [b"one", b"two"]


@in_loop
async def test_where_an_epoch_opens_stands_in_the_stream(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a, running.connect("b") as b:
        await stable(a, "alpha", b"1")
        await b.join("alpha", "c")
        await stable(a, "alpha", b"2")
        await b.switch_protocol("centralized")
        await stable(a, "alpha", b"3")
        first, opened, second, switched, third = await take(a.deliveries(), 3)
        assert [first.payload, second.payload, third.payload] == [b"1", b"2", b"3"]
        assert (opened.position, opened.protocol) == (1, "propagation")
        assert dict(opened.members)["alpha"] == ("a", "b", "c")
        assert (switched.position, switched.protocol) == (2, "centralized")
        assert first.epoch < opened.epoch == second.epoch < switched.epoch == third.epoch
        again = await take(a.deliveries(2), 2)
        assert again == [opened, second, switched, third]
        batches = [batch async for batch in _first(a.batches(1), 5)]
        assert [type(batch) is EpochOpened for batch in batches] == [False, True] * 2 + [False]
        looked = await take(a.deliveries(1, observe=True), 3)
        assert shown(looked) == shown([first, opened, second, switched, third])


async def _first(reader: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    async with asyncio.timeout(60):
        async for item in reader:
            yield item
            count -= 1
            if not count:
                return


@in_loop
async def test_an_opening_at_the_end_of_a_stream_is_seen_without_a_delivery(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a:
        await stable(a, "alpha", b"1")
        readers: list[AsyncIterator[Any]] = [
            a.deliveries(1),
            a.deliveries(1, observe=True),
            a.batches(1),
        ]
        for reader in readers:
            await anext(reader)
        await a.join("beta")
        for reader in readers:
            async with asyncio.timeout(60):
                item = await anext(reader)
            assert isinstance(item, EpochOpened)
            assert item.joined == ("beta",)


@in_loop
async def test_impossible_changes_are_refused_in_one_line(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a:
        for wrong, said in (
            (a.join("alpha"), "site 'a' is in group 'alpha' already"),
            (a.join("alhpa"), "there is no group 'alhpa'"),
            (a.join("alpha", "z"), "there is no site 'z'"),
            (a.leave("beta"), "site 'a' is not in group 'beta'"),
            (a.add_group("alpha", ["c"]), "alpha"),
            (a.remove_group("delta"), "there is no group 'delta'"),
            (a.retire_site("z"), "there is no site 'z'"),
            (a.switch_protocol("arrwo"), "there is no protocol 'arrwo'"),
            (a.change(), "^change: there is no edit in it$"),
            (a.change(*[JoinGroup("alpha", "c")] * 2_000), "edits"),
            (a.add_group("x" * 1_000, ["a"]), "group"),
            (a.change(JoinGroup("alpha", "c"), name="x" * 1_000), "change"),
        ):
            async with asyncio.timeout(60):
                with pytest.raises(ConfigError, match=said):
                    await wrong
        await stable(a, "alpha", b"all is well")


@in_loop
async def test_several_edits_are_one_change(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a:
        before = (await a.status())["epochs"]
        await a.change(AddGroup("delta", ("a",)), JoinGroup("delta", "b"), JoinGroup("delta", "c"))
        assert a._targets.members("delta") == ("a", "b", "c")
        after = (await a.status())["epochs"]
        assert [epoch["epoch"] for epoch in after] == [before[-1]["epoch"] + 1]


@in_loop
async def test_a_change_asked_for_twice_under_one_name_is_done_once(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a, running.connect("b") as b:
        edit = JoinGroup("alpha", "c")
        await asyncio.gather(a.change(edit, name="same"), b.change(edit, name="same"))
        await a.change(edit, name="same")
        with pytest.raises(ConfigError, match="already"):
            await a.change(edit, name="another")


@in_loop
async def test_what_waits_for_a_group_that_goes_is_refused_to_the_client(tmp_path: Path) -> None:
    """Either ordered before the group's end, or told that it never will be: nobody waits on."""
    async with served(tmp_path) as running, running.connect("a") as a, running.connect("c") as c:
        removing = asyncio.ensure_future(c.remove_group("beta"))
        refused = stored = 0
        receipts = []
        async with asyncio.timeout(60):
            while not refused:
                try:
                    receipts.append(await a.multicast("beta", b"x"))
                except UnknownGroup:
                    break
                await asyncio.sleep(0)
            for receipt in receipts:
                try:
                    await receipt.stable()
                    stored += 1
                except UnknownGroup:
                    refused += 1
        await removing
        assert stored + refused == len(receipts)
        await stable(a, "alpha", b"on")


@in_loop
@pytest.mark.parametrize("durability", DURABLE)
async def test_clients_read_through_changes_on_connections_that_break(
    tmp_path: Path, durability: str
) -> None:
    """Every connection breaks now and then, in the middle of changes: a reader sees every message
    once and every opening once, each at its place."""
    chance = random.Random(5)
    options: dict[str, Any] = {
        "durability": durability,
        **({"dir": None} if durability == "memory" else {}),
    }
    async with (
        served(tmp_path, **options) as running,
        running.connect("a") as sender,
        running.connect("b") as reader,
        running.connect("c") as asker,
    ):
        count = 300
        reading = asyncio.ensure_future(take(reader.deliveries(), count))

        async def send() -> None:
            for n in range(count):
                await sender.multicast("alpha", b"%d" % n)
                await asyncio.sleep(0.002)

        async def change() -> None:
            for n in range(6):
                await (asker.join("alpha") if n % 2 == 0 else asker.leave("alpha"))
                await asyncio.sleep(0.05)

        async def disturb() -> None:
            while not reading.done():
                await asyncio.sleep(chance.random() * 0.1)
                for client in (sender, reader, asker):
                    wire = None if client._link is None else client._link._wire
                    if chance.random() < 0.5 and wire is not None:
                        wire.fail("for a test")

        disturbing = asyncio.ensure_future(disturb())
        await asyncio.gather(send(), change())
        items = await reading
        disturbing.cancel()
        messages = [item for item in items if not isinstance(item, EpochOpened)]
        assert [item.payload for item in messages] == [b"%d" % n for n in range(count)]
        assert [item.position for item in messages] == list(range(1, count + 1))
        openings = [item for item in items if isinstance(item, EpochOpened)]
        assert len({item.epoch for item in openings}) == len(openings)
        epoch = 1
        for item in items:
            if isinstance(item, EpochOpened):
                assert item.epoch > epoch
                epoch = item.epoch
            else:
                assert item.epoch == epoch


@in_loop
async def test_a_change_survives_the_restart_of_the_daemon_that_was_asked(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a, running.connect("b") as b:
        for n in range(4):
            asking = asyncio.ensure_future(a.join("beta") if n % 2 == 0 else a.leave("beta"))
            await asyncio.sleep(0.01 * n)
            await running.kill("a")
            await asyncio.sleep(0.05)
            await running.start("a")
            async with asyncio.timeout(60):
                await asking
            members = ("a", "b", "c") if n % 2 == 0 else ("b", "c")
            assert a._targets.members("beta") == members
        await stable(b, "beta", b"on")
