"""Producers through daemons: repeated and moved, over kills of sites and of the program."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from net.client.test_several_addresses import client, running_three
from ordercast.model.errors import ConfigError, Error, Expired, Fenced
from ordercast.model.features import FEATURES, OUTCOMES
from ordercast.model.messages import in_generation
from ordercast.net.site.node import site_of
from ordercast.wire.copies import CopyTold
from support.clusters.killed_daemons import send_over_kills
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
        await send_over_kills(
            running, remote, lambda n: remote.produce("sink", n, "alpha", [b"%d" % n])
        )
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
async def test_behind_a_new_program_the_old_one_is_fenced_wherever_it_is(tmp_path: Path) -> None:
    async with (
        running_three(tmp_path) as running,
        client(running, "a") as old,
        client(running, "b", "c") as new,
    ):
        await (await old.produce("sink", 7, "alpha", [b"old 7"], generation=1)).stable()
        await (await new.produce("sink", 1, "alpha", [b"new 1"], generation=2)).stable()
        late = [
            await old.produce("sink", number, "alpha", [b"late"], generation=1) for number in (8, 9)
        ]
        for receipt in late:
            with pytest.raises(Fenced, match=r"message 8 of generation 1 of producer 'sink'"):
                await receipt.stable()
        await running.kill("b")
        again = await new.produce("sink", 2, "alpha", [b"new 2"], generation=2)
        node = running.cluster["a"]
        copy = await node.produce("sink", 1, "alpha", [b"new 1"], generation=2)
        await asyncio.gather(again.stable(), copy.stable())
        plain = await node.produce("sink", 10, "alpha", [b"late"])
        with pytest.raises(Fenced):
            await plain.stable()
        told = (await node.status())["producers"]
        assert {"producer": "sink", "group": "alpha", "number": 2, "generation": 2} in told
        with pytest.raises(ConfigError, match="generation: 4096 is none from 0 to 4095"):
            await new.produce("sink", 3, "alpha", [b"x"], generation=4096)
        await running.start("b")
        assert await delivered(running, "c", b"new 2") == [b"old 7", b"new 1", b"new 2"]


OUTSIDE = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["e"]}
"""d is in the domain of alpha, and no member; e is in another domain."""


@in_loop
async def test_a_site_that_is_no_member_asks_what_is_fenced(tmp_path: Path) -> None:
    async with running_three(tmp_path, OUTSIDE) as running:
        async with client(running, "d") as old, client(running, "e") as new:
            await (await old.produce("sink", 7, "alpha", [b"old 7"])).stable()
            await (await new.produce("sink", 1, "alpha", [b"new 1"], generation=2)).stable()
            for number, generation in ((8, 0), (9, 0), (1, 1), (2, 1)):
                late = await old.produce("sink", number, "alpha", [b"late"], generation=generation)
                with pytest.raises(Fenced, match=f"message {number} .*of producer 'sink'"):
                    await late.stable()
            node = running.cluster["e"]
            copy = await node.produce("sink", 1, "alpha", [b"new 1"], generation=2)
            await copy.stable()
            plain = await node.produce("sink", 7, "alpha", [b"old 7"])
            with pytest.raises(Fenced):
                await plain.stable()
            await (await new.produce("sink", 2, "alpha", [b"new 2"], generation=2)).stable()
        assert await delivered(running, "b", b"new 2") == [b"old 7", b"new 1", b"new 2"]


@in_loop
async def test_generations_move_between_daemons_of_members_and_of_other_sites(
    tmp_path: Path,
) -> None:
    async with (
        running_three(tmp_path, OUTSIDE) as running,
        client(running, "d", "e", "a") as remote,
    ):
        await send_over_kills(
            running, remote, lambda n: remote.produce("sink", n, "alpha", [b"%d" % n], generation=1)
        )
        for site in "abc":
            assert await delivered(running, site, b"60") == numbered(range(1, 61))


@in_loop
async def test_only_a_members_answer_to_the_question_counts(tmp_path: Path) -> None:
    async with running_three(tmp_path, OUTSIDE) as running:
        nodes = {site: running.cluster[site] for site in "abce"}
        await (await nodes["a"].produce("sink", 1, "alpha", [b"1"], generation=2)).stable()
        members = [site_of(nodes[site]).outcomes for site in "abc"]
        for silent in members:
            silent._here = lambda *_: None  # type: ignore[method-assign]
        asking = site_of(nodes["e"]).outcomes
        late = await nodes["e"].produce("sink", 5, "alpha", [b"late"], generation=1)
        told = asyncio.create_task(late.stable())
        await until(lambda: bool(asking.questions.rounds))
        ((name, one),) = asking.questions.rounds.items()
        for peer, question in (("a", 5), ("d", one.last), ("e", one.last)):
            asking.take(peer, CopyTold(*name[:1], question, name[1], 9, in_generation(1, 5), 0))
        del members[2]._here
        with pytest.raises(Fenced):
            await told


@in_loop
async def test_a_group_that_goes_while_its_members_are_asked_keeps_no_producer_waiting(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path, OUTSIDE) as running:
        node = running.cluster["e"]
        await (await node.produce("sink", 1, "alpha", [b"1"])).stable()
        for site in "abc":
            silent = site_of(running.cluster[site]).outcomes
            silent._here = lambda *_: None  # type: ignore[method-assign]
        asking = site_of(node).outcomes
        doubtful = await node.produce("sink", 2, "alpha", [b"2"])
        told = asyncio.create_task(doubtful.stable())
        await until(lambda: bool(asking.questions.rounds))
        await node.remove_group("alpha")
        with pytest.raises(Expired, match="was removed before a member could tell") as caught:
            await told
        assert not isinstance(caught.value, Fenced)
        assert asking.questions.rounds == {}


@in_loop
async def test_a_site_that_cannot_ask_takes_no_generation_where_it_is_no_member(
    tmp_path: Path,
) -> None:
    with patch.dict(FEATURES):
        del FEATURES[OUTCOMES]
        async with running_three(tmp_path, OUTSIDE) as running:
            node = running.cluster["e"]
            with pytest.raises(ConfigError, match="site 'e' is no member of group 'alpha'"):
                await node.produce("sink", 1, "alpha", [b"x"], generation=1)
            with pytest.raises(ConfigError, match="id: site 'e' is no member of group 'alpha'"):
                await node.multicast("alpha", b"x", id="x")
            await (await node.produce("sink", 1, "alpha", [b"x"])).stable()


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
