"""Sending through a `Node`: to groups, several groups, listed sites; receipts, batches, the window,
and what is refused."""

import asyncio
import random
from array import array
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.model.errors import (
    ConfigError,
    CrossDomain,
    Error,
    TooLarge,
    UnknownGroup,
    WindowFull,
)
from ordercast.model.implicit import implicit_group
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.node import Node, site_of
from support.clusters.layouts import primary_of
from support.clusters.sites import GROUPS, is_quiet, read, turns, until
from support.harness.loops import in_loop

TWO_DOMAINS = {"alpha": ["a", "b"], "gamma": ["x", "y"]}


def holding(cluster: LocalCluster, site: str, held: bool) -> None:
    """Let a site take nothing more, as a slow application does: the origins' windows fill."""
    site_of(cluster[site]).driver.hold(held)


def untouched(node: Node) -> tuple[Any, ...]:
    own = site_of(node).core.window
    last = {group: own.last_seq(group) for group in own.groups()}
    return own.unstable, own.unstable_bytes, last, site_of(node).core.admission.messages


@in_loop
async def test_a_message_to_a_group_reaches_its_members_and_nobody_else() -> None:
    async with local_cluster(GROUPS) as cluster:
        receipt = await cluster["a"].multicast("beta", b"hello")  # open groups: a is no member
        assert (receipt.group, receipt.seq) == ("beta", 1)
        for site in "bc":
            [item] = await read(cluster[site], 1)
            assert (item.position, item.group, item.origin, item.seq) == (1, "beta", "a", 1)
            assert (item.payload, item.incarnation, item.epoch) == (b"hello", 1, 1)
            assert item.id == ("a", 1, "beta", 1)
        assert await is_quiet(cluster["a"].deliveries())


@in_loop
async def test_a_message_to_several_groups_is_delivered_once_at_each_site() -> None:
    async with local_cluster(GROUPS) as cluster:
        receipt = await cluster["c"].multicast(["alpha", "beta"], b"all")
        assert receipt.group == implicit_group(("a", "b", "c"))
        for site in "abc":
            items = cluster[site].deliveries()
            item = await anext(items)
            assert isinstance(item, ordercast.Delivery)
            assert (item.payload, item.group) == (b"all", receipt.group)
            assert await is_quiet(items)


@in_loop
async def test_a_message_to_listed_sites_goes_to_those_sites() -> None:
    async with local_cluster(GROUPS) as cluster:
        first = await cluster["a"].multicast_to(["c", "a", "c"], b"one")
        second = await cluster["a"].multicast_to(("a", "c"), [b"two", b"three"])
        assert (first.seq, second.seq) == (1, 3)
        for site in "ac":
            assert [i.payload for i in await read(cluster[site], 3)] == [b"one", b"two", b"three"]
        assert await is_quiet(cluster["b"].deliveries())


class Name(StrEnum):
    ALPHA = "alpha"
    BETA = "beta"


@in_loop
async def test_names_may_be_members_of_an_enum() -> None:
    async with local_cluster(GROUPS) as cluster:
        a = cluster["a"]
        assert (await a.multicast(Name.ALPHA, b"1")).seq == 1
        assert (await a.multicast("alpha", b"2")).seq == 2
        assert a.multicast_nowait(Name.ALPHA, b"3").seq == 3
        assert (await a.multicast_many(Name.ALPHA, [b"4"])).seq == 4
        listed = await a.multicast([Name.ALPHA, Name.BETA], b"5")
        assert listed.group == implicit_group(("a", "b", "c"))
        assert {type(item.group) for item in await read(cluster["b"], 5)} == {str}


@in_loop
async def test_payloads_of_one_turn_to_one_group_are_one_batch() -> None:
    async with local_cluster(GROUPS) as cluster:
        for n in range(10):
            await cluster["a"].multicast("alpha", b"%d" % n)
        await turns(20)
        for n in range(10, 15):
            cluster["a"].multicast_nowait("alpha", b"%d" % n)
        await cluster["a"].flush()
        found = []
        async for batch in cluster["b"].batches():
            assert isinstance(batch, ordercast.DeliveredBatch)
            found.append(batch)
            if batch.last == 15:
                break
        assert [(b.position, b.count, b.seq) for b in found] == [(1, 10, 1), (11, 5, 11)]
        assert [p for b in found for p in b.payloads] == [b"%d" % n for n in range(15)]


@in_loop
async def test_multicast_many_is_one_batch_with_the_receipt_of_its_last_message() -> None:
    async with local_cluster(GROUPS) as cluster:
        a = cluster["a"]
        cluster["a"].multicast_nowait("alpha", b"before")
        receipt = await a.multicast_many("alpha", [b"1", b"2", b"3"])
        a.multicast_nowait("alpha", b"after")
        assert receipt.seq == 4
        await a.flush("stable")
        batches = cluster["b"].batches()
        found = [await anext(batches) for _ in range(3)]
        assert [b.payloads for b in found if isinstance(b, ordercast.DeliveredBatch)] == [
            [b"before"],
            [b"1", b"2", b"3"],
            [b"after"],
        ]
        several = await a.multicast_many(["alpha", "beta"], [b"x", b"y"])
        assert several.seq == 2


@pytest.mark.parametrize("durability", ["sync", "os", "memory"])
def test_receipts_come_in_the_order_accepted_ordered_stable(
    durability: str, tmp_path: Path
) -> None:
    directory = None if durability == "memory" else tmp_path

    @in_loop
    async def run() -> None:
        seen: list[str] = []

        async def note(stage: str, reached: Any) -> None:
            await reached
            seen.append(stage)

        async with local_cluster(GROUPS, dir=directory, durability=durability) as cluster:
            receipt = await cluster["c"].multicast("alpha", b"x")
            await asyncio.gather(
                note("stable", receipt.stable()),
                note("ordered", receipt.ordered()),
                note("accepted", receipt.accepted()),
            )
            await receipt.accepted()  # and again, at once
            assert seen == ["accepted", "ordered", "stable"]

    run()


@in_loop
async def test_a_message_is_accepted_without_its_primary_and_ordered_with_it(
    tmp_path: Path,
) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        primary = primary_of(cluster.cluster, "beta")
        await cluster.kill(primary)
        receipt = await cluster["a"].multicast("beta", b"x")
        await receipt.accepted()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await receipt.ordered()
        await cluster.restart(primary)
        await receipt.ordered()
        await receipt.stable()


@in_loop
async def test_flush_waits_for_everything_sent_so_far() -> None:
    async with local_cluster(GROUPS) as cluster:
        a = cluster["a"]
        receipts = [a.multicast_nowait(group, b"x") for group in ["alpha", "beta"] * 5]
        receipts.append(a.multicast_nowait(["alpha", "beta"], b"x"))
        await a.flush("stable")
        for receipt in receipts:
            with pytest.raises(StopIteration):  # it is reached: nothing is waited for
                receipt.stable().send(None)
        with pytest.raises(ConfigError, match="until: 'later' is none of accepted"):
            await a.flush("later")


# --- what is refused ------------------------------------------------------------------------------


@in_loop
async def test_what_is_refused_raises_the_right_error_and_changes_nothing() -> None:
    async with local_cluster(TWO_DOMAINS, limits={"message_bytes": 100}) as cluster:
        a = cluster["a"]
        before = untouched(a)
        wrong: list[tuple[Any, Any, type[Error], str]] = [
            ("alhpa", b"", UnknownGroup, "there is no group 'alhpa'.*alpha"),
            (["alpha", "nope"], b"", UnknownGroup, "there is no group 'nope'"),
            (["alpha", "gamma"], b"", CrossDomain, "no one domain has all of these sites"),
            ([], b"", ConfigError, "sites: none is listed"),
            (7, b"", ConfigError, "group: a list of names is needed, not 7"),
            ([7], b"", ConfigError, "group: 7 is not a name"),
            ("alpha", b"x" * 101, TooLarge, "a message of 101 bytes; the limit is 100"),
            (["alpha"], b"x" * 101, TooLarge, "a message of 101 bytes"),
            ("alpha", "text", ConfigError, "payload: bytes are needed, not str"),
            ("alpha", None, ConfigError, "payload: bytes are needed, not NoneType"),
            ("alpha", 5, ConfigError, "payload: bytes are needed, not int"),
            (["alpha"], "text", ConfigError, "payload: bytes are needed, not str"),
        ]
        for group, payload, kind, told in wrong:
            with pytest.raises(kind, match=told):
                await a.multicast(group, payload)
            with pytest.raises(kind, match=told):
                a.multicast_nowait(group, payload)
        many: list[tuple[Any, type[Error], str]] = [
            ([], ConfigError, "a batch of no messages"),
            ([b"", "x"], ConfigError, "bytes are needed, not str"),
            ([b"x" * 101], TooLarge, "a message of 101 bytes"),
            ([b""] * 65_537, TooLarge, "a batch of 65,537 messages"),
        ]
        for payloads, kind, told in many:
            with pytest.raises(kind, match=told):
                await a.multicast_many("alpha", payloads)
        with pytest.raises(ConfigError, match="sites: there is no site 'z'"):
            await a.multicast_to(["a", "z"], b"")
        with pytest.raises(ConfigError, match="sites: a list of names is needed, not 'ab'"):
            await a.multicast_to("ab", b"")
        with pytest.raises(CrossDomain):
            await a.multicast_to(["a", "x"], b"")
        assert untouched(a) == before
        assert (await a.multicast("alpha", b"fine")).seq == 1
        assert (await a.multicast_to(["a", "b"], b"fine")).seq == 1


@in_loop
async def test_other_kinds_of_bytes_are_copied_when_they_are_sent() -> None:
    async with local_cluster(GROUPS) as cluster:
        a = cluster["a"]
        changing = bytearray(b"before")
        await a.multicast("alpha", changing)  # type: ignore[arg-type]
        await a.multicast_to(["a", "b"], changing)  # type: ignore[arg-type]
        await a.multicast_many("alpha", [changing, memoryview(changing)])  # type: ignore[list-item]
        changing[:] = b"after!"
        numbers = memoryview(array("I", [1, 2, 3]))
        await a.multicast("alpha", numbers)  # type: ignore[arg-type]
        payloads = sorted(item.payload for item in await read(cluster["b"], 5))
        assert payloads == sorted([b"before"] * 4 + [numbers.tobytes()])


@in_loop
async def test_the_name_of_an_implicit_group_is_no_name_to_send_to() -> None:
    async with local_cluster(GROUPS) as cluster:
        a = cluster["a"]
        listed = await a.multicast_to(["a", "c"], b"1")
        for _ in range(2):
            with pytest.raises(UnknownGroup):
                await a.multicast(listed.group, b"2")
            with pytest.raises(UnknownGroup):
                await a.multicast_many(listed.group, [b"2"])
        await (await a.multicast("alpha", b"3")).stable()


# --- the window -----------------------------------------------------------------------------------


@in_loop
async def test_multicast_waits_while_the_window_is_full_and_goes_on() -> None:
    async with local_cluster(GROUPS, limits={"window_messages": 5}) as cluster:
        a = cluster["a"]
        holding(cluster, "b", True)
        sent: list[int] = []

        async def send() -> None:
            for n in range(20):
                receipt = await a.multicast("alpha", b"%d" % n)
                sent.append(receipt.seq)

        task = asyncio.create_task(send())
        await until(lambda: len(sent) == 5)
        await asyncio.sleep(0.05)
        assert sent == [1, 2, 3, 4, 5]
        with pytest.raises(WindowFull, match=r"5 messages .* are accepted and not yet stable"):
            a.multicast_nowait("alpha", b"too many")
        assert (await a.status())["window"]["held_by"] == ["b"]
        holding(cluster, "b", False)
        await task
        assert sent == list(range(1, 21))
        assert [i.payload for i in await read(cluster["b"], 20)] == [b"%d" % n for n in range(20)]


@in_loop
async def test_the_window_is_bounded_in_bytes_too() -> None:
    async with local_cluster(
        GROUPS, limits={"window_bytes": 10_000, "message_bytes": 9_000}
    ) as cluster:
        a = cluster["a"]
        holding(cluster, "b", True)
        for _ in range(9):
            a.multicast_nowait("alpha", bytes(1_000))
        with pytest.raises(WindowFull):
            a.multicast_nowait("alpha", bytes(1_000))
        holding(cluster, "b", False)
        await a.flush("stable")
        await a.multicast_many("alpha", [bytes(9_000)] * 5)  # larger than the window: alone
        await a.flush("stable")


@in_loop
async def test_waiters_are_served_in_the_order_they_came_large_or_small() -> None:
    async with local_cluster(
        GROUPS, limits={"window_messages": 8, "window_bytes": 20_000, "message_bytes": 20_000}
    ) as cluster:
        a = cluster["a"]
        holding(cluster, "b", True)
        for _ in range(8):
            a.multicast_nowait("alpha", b"")
        done: list[int] = []
        rng = random.Random(7)

        async def send(n: int) -> None:
            kind = n % 4
            if kind == 0:
                await a.multicast("alpha", bytes(rng.choice([1, 5_000, 19_000])))
            elif kind == 1:
                await a.multicast_many("alpha", [b"x"] * rng.choice([1, 7, 30]))
            elif kind == 2:
                await a.multicast(["alpha", "beta"], bytes(100))
            else:
                await a.multicast_to(["a", "b"], bytes(rng.choice([1, 9_000])))
            done.append(n)

        tasks = []
        for n in range(60):
            tasks.append(asyncio.create_task(send(n)))
            await asyncio.sleep(0)
        holding(cluster, "b", False)
        for _ in range(50):  # newcomers come behind
            await asyncio.sleep(0.001)
            if not done or done[-1] < 59:
                with pytest.raises(WindowFull):
                    a.multicast_nowait("alpha", b"pushing in")
        await asyncio.gather(*tasks)
        assert done == list(range(60))


@in_loop
async def test_one_who_is_refused_while_others_wait_does_not_keep_them_waiting() -> None:
    async with local_cluster(GROUPS, limits={"window_messages": 1}) as cluster:
        a = cluster["a"]
        holding(cluster, "b", True)
        await a.multicast("alpha", b"first")
        good = [asyncio.create_task(a.multicast("alpha", b"second"))]
        await asyncio.sleep(0)
        with pytest.raises(UnknownGroup):
            async with asyncio.timeout(1):
                await a.multicast("nowhere", b"")
        good.append(asyncio.create_task(a.multicast("alpha", b"third")))
        await asyncio.sleep(0)
        holding(cluster, "b", False)
        assert [receipt.seq for receipt in await asyncio.gather(*good)] == [2, 3]


@pytest.mark.parametrize("seed", range(6))
def test_cancelled_waiters_send_nothing_and_the_others_all(seed: int) -> None:
    """Random cancellations, before and after room is there; sizes differ."""

    @in_loop
    async def run() -> None:
        rng = random.Random(seed)
        limits = {"window_messages": 6, "window_bytes": 4_000, "message_bytes": 1_000}
        async with local_cluster(GROUPS, limits=limits) as cluster:
            a = cluster["a"]
            sent: dict[int, int] = {}

            async def send(n: int) -> None:
                payload = b"%d " % n + bytes(rng.randrange(900))
                if n % 5 == 0:
                    receipt = await a.multicast_many("alpha", [payload] * rng.randrange(1, 8))
                else:
                    receipt = await a.multicast("alpha", payload)
                sent[n] = receipt.seq

            tasks = {}
            for n in range(200):
                tasks[n] = asyncio.create_task(send(n))
                if rng.random() < 0.2:
                    holding(cluster, "b", rng.random() < 0.5)
                if rng.random() < 0.5:
                    await turns(rng.randrange(4))
                if rng.random() < 0.4:
                    tasks[rng.choice(list(tasks))].cancel()
            holding(cluster, "b", False)
            ended = await asyncio.gather(*tasks.values(), return_exceptions=True)
            cancelled = {n for n, end in enumerate(ended) if end is not None}
            assert all(isinstance(ended[n], asyncio.CancelledError) for n in cancelled)
            assert cancelled
            assert cancelled.isdisjoint(sent), f"seed {seed}"
            await a.flush("stable")
            got = [
                int(item.payload.split()[0])
                for item in await read(cluster["b"], max(sent.values()))
            ]
            once = list(dict.fromkeys(got))
            assert once == sorted(sent), f"seed {seed}"

    run()


# --- receipts and cancellation --------------------------------------------------------------------


@in_loop
async def test_a_cancelled_receipt_can_be_awaited_again_and_disturbs_no_other() -> None:
    async with local_cluster(GROUPS) as cluster:
        a = cluster["a"]
        holding(cluster, "b", True)
        holding(cluster, "a", True)
        receipts = [a.multicast_nowait("alpha", b"%d" % n) for n in range(5)]
        waiting = [asyncio.create_task(receipt.stable()) for receipt in reversed(receipts)]
        for _ in range(50):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await receipts[2].stable()
        assert (
            len(site_of(a).stages._waiting["stable", "alpha"]) == 5
        )  # the cancelled ones are gone
        waiting[0].cancel()
        holding(cluster, "a", False)
        holding(cluster, "b", False)
        await asyncio.gather(*waiting[1:])
        await receipts[4].stable()
        await receipts[2].stable()
        assert not site_of(a).stages._waiting


# --- leaving --------------------------------------------------------------------------------------


@in_loop
async def test_leaving_the_block_flushes_what_was_sent(tmp_path: Path) -> None:
    cluster = local_cluster(GROUPS, dir=tmp_path, durability="os")
    async with cluster as running:
        for n in range(100):
            running["a"].multicast_nowait("alpha", b"%d" % n)
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as again:
        assert [i.payload for i in await read(again["b"], 100)] == [b"%d" % n for n in range(100)]


@in_loop
async def test_leaving_tells_what_was_not_flushed(tmp_path: Path) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os", on_failure="wait") as cluster:
        primary = primary_of(cluster.cluster, "beta")
        await cluster.kill(primary)
        a = cluster["a"]
        for _ in range(3):
            a.multicast_nowait("beta", b"x")
        with pytest.raises(
            Error,
            match="site a closed before all was flushed: messages not ordered yet: 3 to beta;"
            " they are stored, and the next start sends them",
        ):
            await a.close(timeout_s=0.1)
        del cluster.nodes["a"]
        await cluster.restart(primary)
        await cluster.start("a")
        assert [i.payload for i in await read(cluster["c"], 3)] == [b"x"] * 3


@in_loop
async def test_where_nothing_is_stored_leaving_waits_until_others_have_it() -> None:
    async with local_cluster(GROUPS) as cluster:
        primary = primary_of(cluster.cluster, "beta")
        holding(cluster, "c", True)
        await (await cluster[primary].multicast("beta", b"x")).ordered()
        with pytest.raises(Error, match="messages not stable yet: 1 to beta; they may be lost"):
            await cluster[primary].close(timeout_s=0.1)
        del cluster.nodes[primary]


@in_loop
async def test_a_closed_site_says_so_to_everyone_who_waits() -> None:
    async with local_cluster(GROUPS, limits={"window_messages": 1}) as cluster:
        a = cluster["a"]
        holding(cluster, "b", True)
        holding(cluster, "a", True)
        receipt = await a.multicast("alpha", b"x")
        waiting = [
            asyncio.create_task(work)
            for work in (
                receipt.stable(),
                a.multicast("alpha", b"y"),
                a.multicast_to(["a"], b"z"),
                anext(a.deliveries()),
                a.flush("stable"),
            )
        ]
        await turns()
        await cluster.kill("a")
        for ended in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(ended, Error), ended
            assert "site a is closed" in str(ended)
        for call in (a.multicast("alpha", b""), a.multicast_to(["a"], b""), receipt.stable()):
            with pytest.raises(Error, match="site a is closed"):
                await call
        with pytest.raises(Error, match="site a is closed"):
            a.multicast_nowait("alpha", b"")
        holding(cluster, "b", False)
