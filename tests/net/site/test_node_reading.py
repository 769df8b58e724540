"""Reading from a `Node`: where a reader starts, several readers, cancellation, confirming, and what
an application finds again after a restart."""

import asyncio
import gc
import random
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.model.errors import ConfigError, Error, Forgotten
from ordercast.net.export.history import collect
from ordercast.net.local import local_cluster
from ordercast.net.site.node import site_of
from ordercast.net.site.running_site import RunningSite
from ordercast.net.store.ledger import Commit
from ordercast.net.store.rows import state_row
from ordercast.net.store.writer import Writer
from support.clusters.sites import GROUPS, is_quiet, read, read_messages, turns, until
from support.harness.loops import in_loop

ONE = {"alpha": ["a", "b"]}


def sequence(items: list[Any]) -> list[tuple[int, bytes]]:
    return [(item.position, item.payload) for item in items]


def expected(first: int, last: int) -> list[tuple[int, bytes]]:
    return [(n, b"%d" % n) for n in range(first, last + 1)]


def forget_deliveries(path: Path) -> None:
    """As after a kill: how far deliveries went is written in a while."""
    with sqlite3.connect(path) as db:
        crc = state_row("delivered", 0)
        db.execute("UPDATE state SET value = ?, crc = ? WHERE key = ?", (*crc[1:], crc[0]))
    db.close()


async def send(node: Any, first: int, last: int, *, batch: int = 7) -> None:
    """Payload n is at position n, in batches of several."""
    for begin in range(first, last + 1, batch):
        payloads = [b"%d" % n for n in range(begin, min(begin + batch, last + 1))]
        await node.multicast_many("alpha", payloads)
    await node.flush("stable")


@in_loop
async def test_a_reader_starts_at_the_position_asked_for(tmp_path: Path) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="os") as cluster:
        await send(cluster["a"], 1, 50)
        b = cluster["b"]
        assert sequence(await read(b, 50)) == expected(1, 50)
        assert sequence(await read(b, 31, start=20)) == expected(20, 50)
        batches = b.batches(start=20)
        first = await anext(batches)
        assert isinstance(first, ordercast.DeliveredBatch)
        assert (first.position, first.seq) == (20, 20)
        assert first.payloads == [b"20", b"21"]  # the rest of a batch
        ahead = b.deliveries(start=55)
        assert await is_quiet(ahead)
        await send(cluster["a"], 51, 60)
        assert sequence([await anext(ahead)]) == expected(55, 55)
        with pytest.raises(ConfigError, match="start: 0 is too small"):
            await anext(b.deliveries(start=0))


@in_loop
async def test_readers_each_have_their_own_place(tmp_path: Path) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="os") as cluster:
        await send(cluster["a"], 1, 30)
        slow, fast = cluster["b"].deliveries(), cluster["b"].deliveries()
        assert sequence([await anext(fast) for _ in range(30)]) == expected(1, 30)
        assert sequence([await anext(slow) for _ in range(3)]) == expected(1, 3)
        await send(cluster["a"], 31, 40)
        assert sequence([await anext(fast) for _ in range(10)]) == expected(31, 40)
        assert sequence([await anext(slow) for _ in range(37)]) == expected(4, 40)


@in_loop
async def test_who_stops_within_a_batch_goes_on_with_its_next_message() -> None:
    """Without a store, where the next reader begins behind what was handed over."""
    async with local_cluster(ONE) as cluster:
        await cluster["a"].multicast_many("alpha", [b"%d" % n for n in range(1, 11)])
        b = cluster["b"]
        assert sequence(await read(b, 4)) == expected(1, 4)
        assert sequence(await read(b, 1)) == expected(5, 5)
        assert sequence(await read(b, 5)) == expected(6, 10)
        await turns()
        with pytest.raises(Forgotten, match="position 3 was read before, and nothing is stored"):
            await anext(b.deliveries(start=3))


@in_loop
async def test_with_a_store_a_new_reader_sees_again_what_is_not_confirmed(tmp_path: Path) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="os") as cluster:
        await send(cluster["a"], 1, 20)
        b = cluster["b"]
        assert sequence(await read(b, 10)) == expected(1, 10)
        await b.confirm(4)  # within a batch
        assert sequence(await read(b, 16)) == expected(5, 20)
        await b.confirm(20)
        assert await is_quiet(b.deliveries())


@pytest.mark.parametrize("face", ["deliveries", "batches"])
@pytest.mark.parametrize("stored", [True, False])
def test_a_cancelled_anext_loses_and_doubles_nothing(
    face: str, stored: bool, tmp_path: Path
) -> None:
    """Timeouts strike at random moments while messages arrive in random pieces."""

    @in_loop
    async def run() -> None:
        rng = random.Random(f"{face} {stored}")
        options: dict[str, Any] = {"dir": tmp_path, "durability": "os"} if stored else {}
        async with local_cluster(ONE, **options) as cluster:
            items = getattr(cluster["b"], face)()
            got: list[bytes] = []
            cancelled = 0

            async def produce() -> None:
                for n in range(400):
                    cluster["a"].multicast_nowait("alpha", b"%d" % n)
                    if rng.random() < 0.3:
                        await asyncio.sleep(rng.random() * 0.004)

            producing = asyncio.create_task(produce())
            while len(got) < 400:
                waiting = asyncio.ensure_future(anext(items))
                try:
                    if rng.random() < 0.5:
                        await turns(rng.randrange(6))
                        waiting.cancel()
                    item = await waiting
                except asyncio.CancelledError:
                    cancelled += 1
                    continue
                got.extend([item.payload] if face == "deliveries" else item.payloads)
            await producing
            assert got == [b"%d" % n for n in range(400)]
            assert cancelled > 10

    run()


@in_loop
async def test_a_reader_that_was_cancelled_and_dropped_holds_nobody() -> None:
    async with local_cluster(ONE, limits={"unread_messages": 10}) as cluster:
        kept = cluster["b"].deliveries()
        dropped = cluster["b"].deliveries()
        for items in (kept, dropped):
            assert await is_quiet(items, 0.005)
        assert len(site_of(cluster["b"]).stream._readers) == 2
        del items, dropped
        gc.collect()
        await turns()
        assert len(site_of(cluster["b"]).stream._readers) == 1
        await kept.aclose()
        assert not site_of(cluster["b"]).stream._readers
        with pytest.raises(StopAsyncIteration):
            await anext(kept)


@in_loop
async def test_two_cannot_wait_for_the_next_item_of_one_reader() -> None:
    async with local_cluster(ONE) as cluster:
        items = cluster["b"].deliveries()
        first = asyncio.ensure_future(anext(items))
        await turns()
        with pytest.raises(Error, match="one reader is waited for twice at a time"):
            await anext(items)
        await cluster["a"].multicast("alpha", b"1")
        assert sequence([await first]) == expected(1, 1)


# --- a slow reader --------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
def test_a_slow_reader_holds_the_origins_up_and_memory_stays_bounded(
    stored: bool, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        options: dict[str, Any] = {"dir": tmp_path, "durability": "os"} if stored else {}
        limits = {"unread_messages": 50, "window_messages": 20}
        async with local_cluster(ONE, limits=limits, **options) as cluster:
            a, b = cluster["a"], cluster["b"]

            async def swallow() -> None:
                async for _ in a.deliveries():
                    pass

            async def produce() -> None:
                for n in range(1, 1_001):
                    await a.multicast("alpha", b"%d" % n)

            swallowing = asyncio.create_task(swallow())
            producing = asyncio.create_task(produce())
            await until(lambda: site_of(b).stream.holding)
            await asyncio.sleep(0.1)
            assert not producing.done()
            assert site_of(b).stream.delivered <= 50 + 2 * 20
            assert site_of(a).core.window.unstable + site_of(a).core.admission.messages <= 20
            assert (await b.status())["holds_others"]
            assert (await a.status())["window"]["held_by"] == ["b"]
            most = 0
            got = []
            async for item in b.deliveries():
                got.append(item)
                most = max(most, site_of(b).stream.lag)
                if item.position == 1_000:
                    break
                if rng.random() < 0.02:
                    await asyncio.sleep(0.001)
            assert sequence(got) == expected(1, 1_000)
            assert most <= 50 + 2 * 20
            await producing
            swallowing.cancel()

    rng = random.Random(3)
    run()


@in_loop
async def test_an_application_that_never_reads_and_never_confirms_holds_the_origins_up() -> None:
    async with local_cluster(
        ONE, limits={"unread_bytes": "64KB", "message_bytes": 8_000}
    ) as cluster:
        a, b = cluster["a"], cluster["b"]
        waiting = asyncio.create_task(read(a, 10_000))
        accepted = 0

        async def produce() -> None:
            nonlocal accepted
            while True:
                await (await a.multicast("alpha", bytes(8_000))).stable()
                accepted += 1

        producing = asyncio.create_task(produce())
        await until(lambda: accepted >= 6)
        await asyncio.sleep(0.3)
        assert accepted <= 12
        producing.cancel()
        assert site_of(b).stream._recent_bytes <= 65_536 + 8_192 + 100
        await b.confirm(site_of(b).stream.delivered)  # without reading: that counts as done
        await (await a.multicast("alpha", b"")).stable()
        waiting.cancel()


@in_loop
async def test_a_slow_reader_that_leaves_lets_the_others_go_on() -> None:
    """The one that waits at the end has nothing to read, and nothing comes while the site holds."""
    async with local_cluster(ONE, limits={"unread_messages": 10}) as cluster:
        a, b = cluster["a"], cluster["b"]
        ours = asyncio.create_task(read(a, 40))
        slow = b.deliveries()
        ahead = asyncio.create_task(read(b, 40))
        a.multicast_nowait("alpha", b"1")
        await anext(slow)
        for n in range(2, 41):
            a.multicast_nowait("alpha", b"%d" % n)
            await turns()
        await until(lambda: site_of(b).stream.holding)
        assert not ahead.done()
        await slow.aclose()
        assert sequence(await ahead) == expected(1, 40)
        await ours


@pytest.mark.parametrize("stored", [True, False])
def test_under_shed_a_slow_reader_finds_gaps_at_their_places(stored: bool, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        options: dict[str, Any] = {"dir": tmp_path, "durability": "os"} if stored else {}
        async with local_cluster(
            ONE, limits={"unread_messages": 20}, slow_member="shed", **options
        ) as cluster:
            a, b = cluster["a"], cluster["b"]
            await send(a, 1, 60, batch=5)  # nobody is held up
            first = await read(b, 60)
            await until(lambda: not stored or not site_of(b).driver._unwritten)
            again = await read(b, 60, start=1) if stored else first
            assert again == first
            assert [item.position for item in first] == list(range(1, 61))
            kinds = [type(item) for item in first]
            assert kinds == [ordercast.Delivery] * 20 + [ordercast.Gap] * 40
            assert [item.id for item in first] == [("a", 1, "alpha", n) for n in range(1, 61)]
            items = b.batches(start=60 if stored else None)
            if stored:
                gap = await anext(items)
                assert isinstance(gap, ordercast.GapBatch)
                assert (gap.position, gap.seq, gap.count) == (60, 60, 1)
            await send(a, 61, 65)
            batch = await anext(items)
            assert isinstance(batch, ordercast.DeliveredBatch)
            assert batch.position == 61
            if not stored:
                return
            await b.confirm(33)  # within a gap of five
            await cluster.kill("b")
            b = await cluster.restart("b")
            assert [(i.position, i.epoch, *i.id) for i in await read(b, 32)] == [
                *[(item.position, item.epoch, *item.id) for item in first[33:]],
                *[(n, 1, "a", 1, "alpha", n) for n in range(61, 66)],
            ]
            assert [type(item) for item in await read(b, 32)] == [
                *[ordercast.Gap] * 27,
                *[ordercast.Delivery] * 5,
            ]

    run()


@in_loop
async def test_what_may_have_been_seen_is_not_shed_after_a_restart(tmp_path: Path) -> None:
    """The site delivers again what is in its log; the application, not there yet, lags far."""
    async with local_cluster(
        ONE,
        limits={"unread_messages": 5},
        slow_member="shed",
        dir=tmp_path,
        durability="os",
    ) as cluster:
        items = cluster["b"].deliveries()
        for n in range(1, 21):
            await cluster["a"].multicast("alpha", b"%d" % n)
            await anext(items)  # in time
        await cluster.kill("b")
        forget_deliveries(tmp_path / "b.db")
        assert sequence(await read(await cluster.start("b"), 20)) == expected(1, 20)


# --- confirming -----------------------------------------------------------------------------------


@in_loop
async def test_what_is_not_delivered_cannot_be_confirmed(tmp_path: Path) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="os") as cluster:
        await send(cluster["a"], 1, 5)
        with pytest.raises(ConfigError, match="position 6 cannot be confirmed: 5 is the last"):
            await cluster["b"].confirm(6)
        await cluster["b"].confirm(5)
        await cluster["b"].confirm(3)  # done already
        assert site_of(cluster["b"]).store.confirmed == 5


@in_loop
async def test_what_was_seen_before_a_restart_is_confirmed_when_it_is_delivered_again(
    tmp_path: Path,
) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="os", on_failure="wait") as cluster:
        await send(cluster["a"], 1, 5)
        await read(cluster["b"], 5)
        for site in sorted(cluster.nodes):
            await cluster.kill(site)
        forget_deliveries(tmp_path / "b.db")
        again = await cluster.start("b")
        confirming = asyncio.ensure_future(again.confirm(5))
        with pytest.raises(ConfigError, match="position 6 cannot be confirmed"):
            await again.confirm(6)
        assert not confirming.done()  # alone it does not know that they are stable
        await cluster.start("a")
        await confirming
        assert site_of(again).store.confirmed == 5


@in_loop
async def test_a_site_that_closes_tells_who_waits_to_confirm(tmp_path: Path) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="os", on_failure="wait") as cluster:
        await send(cluster["a"], 1, 5)
        await read(cluster["b"], 5)
        for site in sorted(cluster.nodes):
            await cluster.kill(site)
        forget_deliveries(tmp_path / "b.db")
        confirming = asyncio.ensure_future((await cluster.start("b")).confirm(5))
        await asyncio.sleep(0)
        await cluster.kill("b")
        with pytest.raises(Error, match="position 5 cannot be confirmed: site b"):
            await confirming


@in_loop
async def test_a_repeated_confirm_too_returns_when_it_is_durable(tmp_path: Path) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="sync") as cluster:
        await send(cluster["a"], 1, 5)
        b = cluster["b"]
        cancelled = asyncio.create_task(b.confirm(5))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        again = asyncio.create_task(b.confirm(5))
        lower = asyncio.create_task(b.confirm(2))
        await again
        assert site_of(b).store.confirmed == 5
        await lower


@in_loop
async def test_a_confirm_does_not_return_with_the_commit_before_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, written, confirmed = threading.Event(), threading.Event(), threading.Event()
    execute = Writer._execute

    def slowly(self: Writer, commit: Commit) -> None:
        if commit.batches:
            writing.set()
            assert written.wait(60)
        if any(key == "confirmed" for key, *_ in commit.state):
            assert confirmed.wait(60)
        execute(self, commit)

    async with local_cluster({"alpha": ["a"]}, dir=tmp_path, durability="os") as cluster:
        a = cluster["a"]
        await send(a, 1, 5)
        monkeypatch.setattr(Writer, "_execute", slowly)
        receipt = await a.multicast("alpha", b"6")
        await until(writing.is_set)
        confirming = asyncio.create_task(a.confirm(5))
        await turns()
        written.set()
        await receipt.accepted()
        await turns()
        early = confirming.done(), site_of(a).store.confirmed
        confirmed.set()
        await confirming
        assert early == (False, 0)
        assert site_of(a).store.confirmed == 5


@in_loop
async def test_a_confirm_under_way_when_the_site_closes_does_not_wait_for_ever(
    tmp_path: Path,
) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="os") as cluster:
        await send(cluster["a"], 1, 5)
        b = cluster["b"]
        under_way = asyncio.create_task(b.confirm(2))
        await asyncio.sleep(0)
        killing = asyncio.create_task(cluster.kill("b"))
        await asyncio.sleep(0)
        late = asyncio.create_task(b.confirm(4))
        await killing
        async with asyncio.timeout(60):
            ended = await asyncio.gather(under_way, late, return_exceptions=True)
        with pytest.raises(Error, match="position 5 cannot be confirmed: site b is closed"):
            await b.confirm(5)
        b = await cluster.start("b")
        for position, end in zip((2, 4), ended, strict=True):
            if end is None:  # it said that it is durable
                assert site_of(b).stream.confirmed >= position
            else:
                assert "site b is closed" in str(end)


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("protocol", ["propagation", "centralized"])
def test_after_a_restart_all_that_is_not_confirmed_is_seen_again(
    protocol: str, deliver: str, tmp_path: Path
) -> None:
    """Every position above the confirmed one, none at or below, the same content, no hole; while
    the others go on sending."""

    @in_loop
    async def run() -> None:
        rng = random.Random(f"{protocol} {deliver}")
        async with local_cluster(
            GROUPS,
            dir=tmp_path,
            protocol=protocol,
            deliver=deliver,
            durability="os",
            on_failure="wait",
        ) as cluster:
            told: dict[int, Any] = {}
            confirmed = 0
            sent = 0
            for _ in range(12):
                b = cluster["b"]
                receipts = []
                for _ in range(rng.randrange(1, 30)):
                    origin, group = rng.choice("abc"), rng.choice(["alpha", "beta"])
                    receipts.append(await cluster[origin].multicast(group, rng.randbytes(9)))
                    await turns(rng.randrange(3))
                sent += len(receipts)
                for receipt in receipts:  # what is not accepted goes with the site that is killed
                    await receipt.accepted()
                items = b.deliveries()
                at = confirmed
                for _ in range(rng.randrange(40)):
                    try:
                        async with asyncio.timeout(0.02):
                            item = await anext(items)
                    except TimeoutError:
                        break
                    at += 1
                    assert item.position == at
                    assert told.setdefault(at, item) == item
                if at and rng.random() < 0.7:
                    confirmed = max(confirmed, rng.randrange(at + 1))
                    await b.confirm(confirmed)
                await cluster.kill("b")
                assert confirmed <= site_of(await cluster.restart("b")).stream.confirmed
            await until(lambda: site_of(cluster["b"]).stream.delivered == sent)
            left = await read(cluster["b"], site_of(cluster["b"]).stream.delivered - confirmed)
            assert [item.position for item in left] == list(
                range(confirmed + 1, confirmed + 1 + len(left))
            )
            for item in left:
                assert told.setdefault(item.position, item) == item
            assert len(told) == sent == len({item.id for item in told.values()})

    run()


@in_loop
async def test_positions_that_are_confirmed_are_forgotten_and_say_so(tmp_path: Path) -> None:
    async with local_cluster(ONE, dir=tmp_path, durability="os") as cluster:
        await send(cluster["a"], 1, 3_000, batch=1)
        b = cluster["b"]
        await b.confirm(3_000)
        await send(cluster["a"], 3_001, 6_000, batch=1)
        await cluster.kill("b")
        b = await cluster.start("b")
        await until(lambda: site_of(b).store.first > 1)
        with pytest.raises(Forgotten, match="position 1 is no longer kept"):
            await anext(b.deliveries(start=1))
        assert sequence(await read(b, 3_000)) == expected(3_001, 6_000)


@in_loop
async def test_a_site_that_is_closed_while_others_talk_to_it_has_noted_what_it_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export at `safe` has what was noted, and a site that ends quietly has delivered all."""
    monkeypatch.setattr(RunningSite, "quiet", lambda _: False)
    async with local_cluster(ONE, dir=tmp_path) as cluster:
        await (await cluster["a"].multicast("alpha", b"last")).stable()
        for site in "ab":
            assert [item.payload for item in await read_messages(cluster[site], 1)] == [b"last"]
    _, history = collect(tmp_path)
    assert [(row.site, row.position) for row in history.deliveries] == [("a", 1), ("b", 1)]
