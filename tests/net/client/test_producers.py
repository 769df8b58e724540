"""Producers through daemons: repeated and moved, over kills of sites and of the program."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from net.client.test_several_addresses import client, running_three
from ordercast.model.errors import ConfigError, Error
from ordercast.net.site.node import site_of
from support.clusters.served import Served
from support.clusters.sites import until
from support.harness.loops import in_loop


async def delivered(running: Served, site: str, last: bytes) -> list[bytes]:
    found: list[bytes] = []
    async for item in running.cluster[site].deliveries(1):
        payload = getattr(item, "payload", None)
        if payload is not None:
            found.append(payload)
            if payload == last:
                break
    return found


def numbered(numbers: Iterable[int]) -> list[bytes]:
    return [b"%d" % number for number in numbers]


@in_loop
async def test_what_a_killed_daemon_has_taken_is_delivered_once_and_in_order(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b", "c") as remote:
        receipts = []
        for number in range(1, 61):
            receipts.append(await remote.produce("sink", number, "alpha", [b"%d" % number]))
            if number in (10, 30, 50):
                gone = remote.site
                await running.kill(gone)
                await until(lambda gone=gone: remote.site != gone)  # type: ignore[misc]
                await running.start(gone)
        for receipt in receipts:
            await receipt.stable()
        async with client(running, "b") as later:  # the program comes back, and knows little
            for number in range(40, 63):
                again = await later.produce("sink", number, "alpha", [b"%d" % number])
            await again.stable()
            status = await later.status()
            assert status["producers"] == [{"producer": "sink", "group": "alpha", "number": 62}]
        for site in "abc":
            assert await delivered(running, site, b"62") == numbered(range(1, 63))


@in_loop
async def test_nothing_overtakes_a_message_that_was_refused(tmp_path: Path) -> None:
    async with running_three(tmp_path) as running, client(running, "a") as remote:
        await (await remote.produce("sink", 1, "alpha", [b"1"])).stable()
        sender = site_of(running.cluster["a"]).sender
        send = sender.send_batch

        async def refuse_once(*_: Any) -> Any:
            sender.send_batch = send  # type: ignore[method-assign]
            await asyncio.sleep(0.05)  # later ones wait behind it
            raise Error("refused")

        sender.send_batch = refuse_once  # type: ignore[method-assign,assignment]
        receipts = [
            await remote.produce("sink", number, "alpha", [b"%d" % number]) for number in (2, 3, 4)
        ]
        other = await remote.produce("other", 1, "alpha", [b"other"])
        for receipt in receipts:
            with pytest.raises(Error, match="refused"):
                await receipt.stable()
        await other.stable()
        for number in (2, 3, 4):
            last = await remote.produce("sink", number, "alpha", [b"%d" % number])
        await last.stable()
        assert await delivered(running, "b", b"4") == [b"1", b"other", b"2", b"3", b"4"]


@in_loop
async def test_numbers_grow_and_names_are_names(tmp_path: Path) -> None:
    async with running_three(tmp_path) as running, client(running, "a") as remote:
        await (await remote.produce("sink", 5, "alpha", [b"5"])).stable()
        with pytest.raises(ConfigError, match="number: 5 of producer 'sink' is not above 5"):
            await remote.produce("sink", 5, "alpha", [b"5"])
        with pytest.raises(ConfigError, match="producer: 'a b' is not a name"):
            await remote.produce("a b", 6, "alpha", [b"6"])
        with pytest.raises(ConfigError, match="number: 0 is none from 1"):
            await remote.produce("sink", 0, "alpha", [b"6"])
        node = running.cluster["b"]
        with pytest.raises(ConfigError, match="to one group"):
            await node.produce("sink", 6, ["alpha"], [b"6"])  # type: ignore[arg-type]
        await (await node.produce("sink", 5, "alpha", [b"copy"])).stable()
        await (await node.produce("sink", 6, "alpha", [b"6"])).stable()
        assert await delivered(running, "c", b"6") == [b"5", b"6"]
