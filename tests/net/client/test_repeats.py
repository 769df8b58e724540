"""Requests of ordinary clients that their group recognises: over moves to other daemons, kills and
lost stores, each is delivered once and in order."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from net.client.test_producers import delivered, numbered
from net.client.test_several_addresses import client, hold, running_three
from ordercast.core import clients as core_clients
from ordercast.model.epochs import CLIENT_WINDOW, RemoveProducer
from ordercast.model.errors import Error, Expired, UnknownGroup
from ordercast.model.implicit import implicit_group
from ordercast.model.messages import MARK_BITS
from ordercast.net.client.client import Client
from ordercast.net.replica.replica import Replica
from ordercast.net.site.node import site_of
from ordercast.net.store.writer import Writer
from ordercast.wire.client_marks import ClientMarksTold
from support.clusters.killed_daemons import send_over_kills
from support.clusters.served import Served, served
from support.clusters.sites import until
from support.harness.loops import in_loop


async def remembered(remote: Client) -> None:
    """Until the group remembers clients: its first request begins that."""
    await (await remote.multicast("alpha", b"0")).stable()
    await until(lambda: bool(remote._outgoing.marks))


def stamped(remote: Client) -> list[int]:
    return [one.stamp for one in remote._outgoing.requests.values()]


def all_stamped(remote: Client) -> None:
    assert all(stamped(remote))


@in_loop
async def test_a_client_moves_at_once_and_each_request_is_delivered_once_and_in_order(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b", "c") as remote:
        await remembered(remote)
        await send_over_kills(
            running, remote, lambda n: remote.multicast("alpha", b"%d" % n), pause_s=0.01
        )
        await (await remote.multicast("alpha", b"61")).stable()
        for site in "abc":
            assert await delivered(running, site, b"61") == numbered(range(62))


OUTSIDE = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["e"]}
"""d is in the domain of alpha, and no member; e is in another domain."""


@in_loop
async def test_a_client_moves_between_daemons_of_members_and_of_other_sites(
    tmp_path: Path,
) -> None:
    async with (
        running_three(tmp_path, OUTSIDE) as running,
        client(running, "d", "e", "a") as remote,
    ):
        await remembered(remote)
        await send_over_kills(
            running, remote, lambda n: remote.multicast("alpha", b"%d" % n),
            pause_s=0.003, moved=lambda: all_stamped(remote),
        )  # fmt: skip
        await (await remote.multicast("alpha", b"61")).stable()
        for site in "abc":
            assert await delivered(running, site, b"61") == numbered(range(62))


async def moving_list(running: Served, remote: Client, groups: Sequence[str]) -> None:
    """A client that sends to several groups at once, and to listed sites, over kills of its
    daemons."""

    async def send(number: int) -> Any:
        if number % 2:
            return await remote.multicast(groups, b"%d" % number)
        return await remote.multicast_to(sorted(union), b"%d" % number)

    union = {site for group in groups for site in OUTSIDE[group]}
    name = implicit_group(union)
    await (await send(0)).stable()
    await until(lambda: bool(remote._outgoing.marks.get(name)))
    await send_over_kills(running, remote, send, pause_s=0.003, moved=lambda: all_stamped(remote))
    await (await send(61)).stable()
    for site in sorted(union):
        assert await delivered(running, site, b"61") == numbered(range(62))


@in_loop
async def test_lists_of_sites_and_several_groups_remember_clients(tmp_path: Path) -> None:
    async with running_three(tmp_path, OUTSIDE) as running:
        async with client(running, "a", "b", "c") as remote:
            await moving_list(running, remote, ["alpha", "beta"])
            told = await remote.status()
            lists = [one for one in told["producers"] if one["group"].startswith("@")]
            assert [(one["producer"], one["number"]) for one in lists] == [("+clients", 1)]
            await remote.change(RemoveProducer(CLIENT_WINDOW, lists[0]["group"]))
            await until(lambda: not remote._outgoing.marks[lists[0]["group"]])
            await (await remote.multicast_to([*"abcd"], b"62")).stable()
        async with client(running, "e") as remote:
            await (await remote.multicast_to([*"abcd"], b"63")).stable()


@in_loop
async def test_a_list_remembers_clients_of_daemons_that_are_not_in_it(tmp_path: Path) -> None:
    async with (
        running_three(tmp_path, OUTSIDE) as running,
        client(running, "d", "e", "a") as remote,
    ):
        await moving_list(running, remote, ["alpha"] * 2)


@in_loop
async def test_a_site_that_is_no_member_knows_what_comes_too_late(tmp_path: Path) -> None:
    """One member does not answer it, and answers to other questions count for nothing."""
    with patch.object(core_clients, "REMEMBERED", 4):
        async with running_three(tmp_path, OUTSIDE) as running, client(running, "e") as remote:
            await remembered(remote)
            asking, silent = (site_of(running.cluster[site]).outside for site in "ea")
            before = asking.told("alpha")
            number = asking.questions.number
            for peer, question in (("a", 5), ("d", number), ("e", number)):
                asking.take(peer, ClientMarksTold("alpha", question, 9, 1 << 50, 0))
            assert asking.told("alpha") is before
            silent._answer = lambda *_: None  # type: ignore[method-assign]
            for _ in range(3):
                await (await remote.multicast("alpha", b"1")).stable()
            old = dict(remote._outgoing.marks)
            for number in range(9):
                async with client(running, "a") as other:
                    await (await other.multicast("alpha", b"x%d" % number)).stable()
            remote._outgoing.marks = old
            remote._outgoing._stamped.clear()
            with pytest.raises(Expired, match="came too late for group 'alpha'"):
                await (await remote.multicast("alpha", b"late")).stable()
            async with client(running, "a") as other:
                await (await other.multicast("alpha", b"end")).stable()
            found = await delivered(running, "b", b"end")
            assert found == [
                b"0",
                b"1",
                b"1",
                b"1",
                *(b"x%d" % number for number in range(9)),
                b"end",
            ]


@in_loop
async def test_a_group_that_goes_while_its_members_are_asked_keeps_nobody_waiting(
    tmp_path: Path,
) -> None:
    """What is stable and what is not yet sent: each is told within the time of a question."""
    async with running_three(tmp_path, OUTSIDE) as running, client(running, "e") as remote:
        await remembered(remote)
        for site in OUTSIDE["alpha"]:
            silent = site_of(running.cluster[site]).outside
            silent._answer = lambda *_: None  # type: ignore[method-assign]
        asking = site_of(running.cluster["e"]).outside
        doubtful = await remote.multicast("alpha", b"1")
        await doubtful.ordered()
        await until(lambda: any(one.waiting for one in asking.questions.rounds.values()))
        asking._told.clear()
        unsent = await remote.multicast("alpha", b"2")
        await asyncio.sleep(0.05)
        async with client(running, "a") as other:
            await other.remove_group("alpha")
        with pytest.raises(Expired, match="was removed before a member could tell"):
            await doubtful.stable()
        with pytest.raises(UnknownGroup):
            await unsent.stable()
        assert asking.questions.rounds == {}


@in_loop
async def test_a_replica_gets_its_results_though_its_daemon_is_killed(tmp_path: Path) -> None:
    """The daemon is killed when others have a command that its own slow disk does not have."""
    commit = Writer._commit

    def slow(self: Writer, *given: Any) -> Any:
        time.sleep(0.05)
        return commit(self, *given)

    async with running_three(tmp_path) as running, client(running, "a") as remote:
        await remembered(remote)
        async with Replica(remote, "alpha", lambda command, _: command) as replica:
            for turn in range(6):
                with patch.object(Writer, "_commit", slow):
                    commands = [b"%d %d" % (turn, number) for number in range(5)]
                    tasks = [asyncio.create_task(replica.submit(each)) for each in commands]
                    await asyncio.sleep(0.03 * turn)
                    await running.kill("a")
                await running.start("a")
                async with asyncio.timeout(20):
                    assert await asyncio.gather(*tasks) == commands


@in_loop
async def test_what_a_daemon_did_not_answer_is_sent_through_another_one(tmp_path: Path) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b") as remote:
        await remembered(remote)
        hold(running, "a")
        doubtful = await remote.multicast("alpha", b"1")
        await until(lambda: any(s._queue for s in running.admins["a"].desk._sessions.values()))
        assert stamped(remote) == [remote._outgoing.marks["alpha"]]
        await running.kill("a")
        await doubtful.stable()
        assert remote.site == "b"
        assert await delivered(running, "c", b"1") == numbered(range(2))


@in_loop
async def test_an_excluded_site_that_comes_back_with_a_copy_delivers_nothing_twice(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b") as remote:
        await remembered(remote)
        running.cluster.split(["a"], ["b", "c"])
        receipts = [await remote.multicast("alpha", b"%d" % n) for n in range(1, 6)]
        await receipts[-1].accepted()  # a has it, and can tell nobody
        await running.admins["a"].close()
        for receipt in receipts:
            await receipt.stable()
        assert remote.site == "b"
        running.cluster.heal()
        at_a = site_of(running.cluster["a"])
        await until(
            lambda: at_a.core.layout.home("a") is not None and at_a.core.window.unstable == 0
        )
        await (await remote.multicast("alpha", b"6")).stable()
        for site in "abc":
            assert await delivered(running, site, b"6") == numbered(range(7))


@in_loop
async def test_a_refusal_in_the_middle_lets_nothing_behind_it_pass(tmp_path: Path) -> None:
    """Otherwise the refused one, sent again, would be taken for a copy."""
    async with running_three(tmp_path) as running, client(running, "a") as remote:
        await remembered(remote)
        sender = site_of(running.cluster["a"]).sender
        send = sender.send_batch

        async def refuses(group: str, batch: list[bytes], *more: Any) -> Any:
            if batch == [b"1"]:
                raise Error("not now")
            return await send(group, batch, *more)

        with patch.object(sender, "send_batch", refuses):
            receipts = []
            for number in (1, 2):
                receipts.append(await remote.multicast("alpha", b"%d" % number))
                await asyncio.sleep(0)  # a request of its own
            for receipt in receipts:
                with pytest.raises(Error, match="not now"):
                    await receipt.accepted()
        assert not remote._outgoing.requests
        await (await remote.multicast("alpha", b"3")).stable()
        assert await delivered(running, "b", b"3") == [b"0", b"3"]


@in_loop
async def test_a_request_that_comes_too_late_says_so(tmp_path: Path) -> None:
    with patch.object(core_clients, "REMEMBERED", 2):
        async with running_three(tmp_path) as running, client(running, "a") as remote:
            await remembered(remote)
            old = dict(remote._outgoing.marks)
            for _ in range(5):
                async with client(running, "a") as other:
                    await (await other.multicast("alpha", b"x")).stable()
            remote._outgoing.marks = old
            with pytest.raises(Expired, match="came too late for group 'alpha'"):
                await (await remote.multicast("alpha", b"late")).stable()
            found = await delivered(running, "b", b"x")
            assert b"late" not in found


@in_loop
async def test_a_window_that_is_removed_ends_what_was_stamped_and_a_new_one_begins(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running, client(running, "a") as remote:
        await remembered(remote)
        old = remote._outgoing.marks["alpha"]
        await remote.change(RemoveProducer(CLIENT_WINDOW, "alpha"))
        await until(lambda: not remote._outgoing.marks)
        await (await remote.multicast("alpha", b"1")).stable()
        site_of(running.cluster["a"]).repeats._asked.clear()  # as after a restart
        await (await remote.multicast("alpha", b"2")).stable()
        await until(lambda: bool(remote._outgoing.marks))
        assert remote._outgoing.marks["alpha"] >> MARK_BITS > old >> MARK_BITS
        remote._outgoing.marks = {"alpha": old}
        with pytest.raises(Expired):
            await (await remote.multicast("alpha", b"late")).stable()
        assert await delivered(running, "b", b"2") == numbered(range(3))


@in_loop
async def test_only_the_first_request_to_a_list_goes_by_the_daemons_own_memory(
    tmp_path: Path,
) -> None:
    groups = {"alpha": ["a", "b"], "beta": ["b", "c"]}
    async with served(tmp_path, groups) as running, running.connect("a") as remote:
        await remembered(remote)
        assert list(remote._outgoing.marks) == ["alpha"]
        receipts = [
            await remote.multicast("alpha", b"1"),
            await remote.multicast_to(["a", "b"], b"3"),
        ]
        for receipt in receipts:
            await receipt.stable()
        assert [bool(one._sent.stamp) for one in receipts] == [True, False]
        await until(lambda: len(remote._outgoing.marks) == 2)
        again = await remote.multicast_to(["a", "b"], b"4")
        await again.stable()
        assert again._sent.stamp


@in_loop
async def test_a_daemon_that_lost_its_store_takes_a_repeat_for_what_it_is(tmp_path: Path) -> None:
    groups, quick = {"alpha": ["a", "b", "c"]}, {"suspect": "200ms"}
    async with served(tmp_path, groups, timeouts=quick) as running:
        async with running.connect("a", patience_s=60.0) as remote:
            await remembered(remote)
            desk = running.admins["a"].desk
            with patch.object(desk.served()[0].session, "_news_of"):  # the client hears nothing
                receipt = await remote.multicast("alpha", b"1")
                await until(lambda: site_of(running.cluster["b"]).core.logged >= 2)
                await running.kill("a")
            for file in tmp_path.glob("a.db*"):
                file.unlink()
            await running.start("a")
            await receipt.stable()
            await (await remote.multicast("alpha", b"2")).stable()
        assert await delivered(running, "b", b"2") == numbered(range(3))
