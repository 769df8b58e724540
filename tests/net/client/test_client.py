"""`connect`: the face of a Node through a daemon, over connections that break."""

import asyncio
import random
from pathlib import Path

import pytest

from ordercast.model.errors import (
    ConfigError,
    Error,
    Forgotten,
    TooLarge,
    UnknownGroup,
    WindowFull,
)
from ordercast.model.messages import DeliveredBatch
from ordercast.net.client.calls import Away
from ordercast.net.client.client import NotFlushed, connect
from ordercast.net.cluster.sockets import socket_path
from ordercast.net.local import local_cluster
from ordercast.net.site.node import site_of
from support.clusters.served import served
from support.clusters.sites import read, read_messages, until
from support.harness.loops import in_loop


@in_loop
async def test_a_client_sends_and_reads_as_a_node_does(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a, running.connect("b") as b:
        receipt = await a.multicast("alpha", b"one")
        await receipt.stable()
        assert (receipt.group, receipt.seq) == ("alpha", 1)
        many = await a.multicast_many("alpha", [b"two", b"three"])
        await many.ordered()
        assert many.seq == 3
        listed = await a.multicast_to(["a", "b"], b"four")
        both = await a.multicast(["alpha", "beta"], b"five")
        await both.accepted()
        await listed.accepted()
        assert listed.group.startswith("@")
        assert both.group != listed.group
        outside = await a.multicast("beta", b"six")
        await outside.stable()
        await a.flush("stable")
        found = await read(b, 6)
        assert [item.payload for item in found][:3] == [b"one", b"two", b"three"]
        assert sorted(item.payload for item in found[3:]) == [b"five", b"four", b"six"]
        assert [item.position for item in found] == [1, 2, 3, 4, 5, 6]
        assert found[0].origin == "a"


@in_loop
async def test_batches_are_those_of_the_site(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a:
        await a.multicast_many("alpha", [b"1", b"2"])
        await a.multicast_many("alpha", [b"3"])
        found = []
        async for batch in a.batches():
            found.append((batch.position, [item.payload for item in batch.deliveries()]))  # type: ignore[union-attr]
            if len(found) == 2:
                break
        assert found == [(1, [b"1", b"2"]), (3, [b"3"])]


@in_loop
async def test_payloads_of_one_turn_travel_together(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a:
        receipts = [await a.multicast("alpha", b"%d" % n) for n in range(100)]
        await a.flush()
        assert [receipt.seq for receipt in receipts] == list(range(1, 101))
        async for batch in a.batches():
            assert isinstance(batch, DeliveredBatch)
            assert batch.count == 100
            break


@in_loop
async def test_a_reader_that_was_waited_for_in_vain_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a:
        reader = a.deliveries()
        for n in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(reader)
            await a.multicast_many("alpha", [b"%d" % n, b"-"])
            assert (await anext(reader)).payload == b"%d" % n  # type: ignore[union-attr]
            assert (await anext(reader)).position == 2 * n + 2
        await reader.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(reader)


@in_loop
@pytest.mark.parametrize("policy", ["wait", "shed"])
async def test_nobody_waits_for_one_who_only_looks_on(tmp_path: Path, policy: str) -> None:
    small = {"unread_messages": 10}
    async with (
        served(tmp_path, limits=small, slow_member=policy) as running,
        running.connect("a") as a,
        running.connect("b") as b,
    ):
        for node in running.cluster.nodes.values():
            site_of(node).stream.embedded = False  # as in a daemon
        looking = b.deliveries(start=1, observe=True)
        for n in range(200):
            await a.multicast("alpha", b"%d" % n)
            if n == 0:
                await anext(looking)  # and then it does not look for a while
        await a.flush("stable")
        stream = site_of(running.cluster["b"]).stream
        assert (stream.holding, stream.delivered) == (False, 200)
        rest = [await anext(looking) for _ in range(199)]
        assert [item.payload for item in rest] == [b"%d" % n for n in range(1, 200)]  # type: ignore[union-attr]


@in_loop
async def test_readers_that_are_dropped_are_gone_at_the_daemon_too(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as a:
        await (await a.multicast("alpha", b"x")).stable()
        for _ in range(40):  # more than a connection may have at a time
            assert len(await read(a, 1, start=1)) == 1


@in_loop
async def test_what_is_confirmed_is_not_seen_again(tmp_path: Path) -> None:
    async with served(tmp_path) as running:
        async with running.connect("a") as a:
            await a.multicast_many("alpha", [b"1", b"2", b"3"])
            await read(a, 3)
            await a.confirm(2)
        async with running.connect("a") as again:
            assert [item.payload for item in await read(again, 1)] == [b"3"]
            assert [item.position for item in await read(again, 3, start=1)] == [1, 2, 3]
            with pytest.raises(ConfigError, match="position 9 cannot be confirmed"):
                await again.confirm(9)


@in_loop
async def test_mistakes_are_the_callers_and_known_at_once(tmp_path: Path) -> None:
    small = {"message_bytes": 1000}
    async with served(tmp_path, limits=small) as running, running.connect("a") as a:
        with pytest.raises(UnknownGroup, match="did you mean 'alpha'"):
            await a.multicast("alhpa", b"")
        with pytest.raises(TooLarge, match="1,001 bytes; the limit is 1,000"):
            await a.multicast("alpha", bytes(1001))
        with pytest.raises(ConfigError, match="bytes are needed, not str"):
            await a.multicast("alpha", "text")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="no messages"):
            await a.multicast_many("alpha", [])
        with pytest.raises(ConfigError, match="there is no site 'z'"):
            await a.multicast_to(["z"], b"")
        with pytest.raises(ConfigError, match="until: 'done'"):
            await a.flush("done")
        await (await a.multicast("alpha", bytearray(b"fine"))).ordered()  # type: ignore[arg-type]


@in_loop
async def test_status_is_the_served(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("b") as b:
        await (await b.multicast("alpha", b"x")).stable()
        status = await b.status()
        assert (status["site"], status["cluster"], status["position"]) == ("b", "local", 1)
        assert status["window"]["messages"] == 0


@in_loop
async def test_no_daemon_is_told_with_what_to_start() -> None:
    cluster = {"alpha": ["a", "b"]}
    async with local_cluster(cluster) as running:
        with pytest.raises(Away, match=r"no daemon answers .*ordercast node cluster --site a"):
            async with connect(running.cluster, "a", "no/such/place", start_s=0.2):
                pass


@in_loop
async def test_a_daemon_of_another_site_refuses(tmp_path: Path) -> None:
    async with served(tmp_path) as running:
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "b.sock").symlink_to(tmp_path / "a.sock")
        with pytest.raises(Error, match="this is site 'a' of cluster 'local', not 'b'"):
            async with connect(running.cluster.cluster, "b", tmp_path / "x"):
                pass


@in_loop
async def test_the_socket_is_for_its_user_alone(tmp_path: Path) -> None:
    async with served(tmp_path):
        assert (tmp_path / "a.sock").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "a.sock").exists()


@in_loop
async def test_a_full_window_reaches_the_caller(tmp_path: Path) -> None:
    small = {"window_messages": 5}
    async with served(tmp_path, limits=small) as running, running.connect("a") as a:
        await running.kill("b")  # nothing becomes stable now
        for n in range(5):
            await a.multicast_nowait("alpha", b"%d" % n).accepted()
        waiting = [asyncio.ensure_future(a.multicast("alpha", b"w")) for _ in range(20)]
        await until(lambda: sum(task.done() for task in waiting) == 5)
        await asyncio.sleep(0.2)
        done = [task for task in waiting if task.done()]
        assert len(done) == 5  # on their way to the daemon, which has no room
        with pytest.raises(WindowFull, match="not yet accepted"):
            a.multicast_nowait("alpha", b"x")
        for task in waiting[5:15]:
            task.cancel()
        await running.start("b")
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(result, BaseException) for result in results) == 10
        await a.flush("stable")
        assert site_of(running.cluster["a"]).core.window.last_seq("alpha") == 5 + 10


@in_loop
async def test_leaving_tells_what_was_not_handed_over(tmp_path: Path) -> None:
    async with served(tmp_path, limits={"window_messages": 2}) as running:
        await running.kill("b")
        a = await running.connect("a", flush_s=0.2).__aenter__()
        await a.multicast_many("alpha", [b"1", b"2"])
        await a.flush("accepted")
        await a.multicast_many("alpha", [b"3", b"4"])
        with pytest.raises(NotFlushed, match="left before all was accepted: 2 to alpha"):
            await a.__aexit__(None, None, None)
        await running.start("b")


@in_loop
async def test_a_daemon_that_stays_away_is_told_to_all_who_wait(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a", patience_s=0.3) as a:
        await running.kill("a")
        receipt = await a.multicast("alpha", b"x")
        reading = asyncio.ensure_future(read(a, 1))
        asking = asyncio.ensure_future(a.status())
        with pytest.raises(Away, match="it is not known whether"):
            await receipt.accepted()
        for waiting in (reading, asking):
            with pytest.raises(Away, match=r"no daemon has answered for 0\.3 s"):
                await waiting
        with pytest.raises(Away):  # and so is who comes later
            await (await a.multicast("alpha", b"x")).accepted()
        with pytest.raises(Away):
            await a.status()
        await running.start("a")
        await until(lambda: a.boot == running.cluster["a"].boot)  # else it may be given up again
        await (await a.multicast("alpha", b"y")).ordered()  # and it goes on


@in_loop
async def test_a_killed_daemon_takes_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    """The daemon is stopped at random moments while a client sends; it never sees but waits."""
    chance = random.Random(3)
    count = 400
    async with served(tmp_path) as running, running.connect("a") as a, running.connect("b") as b:
        reading = asyncio.ensure_future(read_messages(b, count))
        own = asyncio.ensure_future(read_messages(a, count))

        async def send() -> None:
            for n in range(count):
                await a.multicast("alpha", b"%d" % n)
                if chance.random() < 0.3:
                    await asyncio.sleep(0.002)

        sending = asyncio.ensure_future(send())
        for _ in range(8):
            await asyncio.sleep(chance.random() * 0.05)
            await running.kill("a")
            await asyncio.sleep(chance.random() * 0.02)
            await running.start("a")
        await sending
        await a.flush("stable")
        expected = [b"%d" % n for n in range(count)]
        assert [item.payload for item in await reading] == expected
        assert [item.payload for item in await own] == expected
        seqs = [item.seq for item in await own]
        assert seqs == sorted(set(seqs)), "each start skips some"


class Cutting:
    """Between a client and a daemon: passes bytes on, and cuts after a number of them. That number
    grows with the cuts: a client that has very much to repeat would never come to an answer."""

    def __init__(self, real: Path, path: Path, chance: random.Random, mean: int) -> None:
        self.real, self.path, self.chance, self.mean = real, path, chance, mean
        self.cuts = 0
        self.serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Cutting":
        self.server = await asyncio.start_unix_server(self._serve, socket_path(self.path))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await asyncio.gather(*self.serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._pass(reader, writer))
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_unix_connection(socket_path(self.real))
        left = self.chance.randrange(1, 2 * (self.mean + 100 * self.cuts))

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            nonlocal left
            while left > 0 and (data := await source.read(4096)):
                sink.write(data[:left])
                left -= len(data)
                await sink.drain()

        pumps = [asyncio.ensure_future(pump(reader, down)), asyncio.ensure_future(pump(up, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        self.cuts += left <= 0
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for end in (writer, down):
            end.transport.abort()
            await asyncio.sleep(0)


@pytest.mark.parametrize(("seed", "durability"), [(1, "os"), (2, "os"), (3, "memory")])
@in_loop
async def test_cuts_at_any_byte_lose_double_and_reorder_nothing(
    tmp_path: Path, seed: int, durability: str
) -> None:
    chance = random.Random(seed)
    count = 600
    (tmp_path / "cut").mkdir()
    stored = tmp_path if durability == "os" else None
    async with served(tmp_path, durability=durability, dir=stored) as running:
        proxy = Cutting(tmp_path / "a.sock", tmp_path / "cut" / "a.sock", chance, 3_000)
        async with proxy, connect(running.cluster.cluster, "a", tmp_path / "cut") as a:
            reading = asyncio.ensure_future(read(a, count))
            receipts = []
            for n in range(count):
                receipts.append(await a.multicast("alpha", b"%d" % n))
                if n % 5 == 0:
                    await asyncio.sleep(0.001)
                if n % 50 == 0:
                    assert (await a.status())["site"] == "a"
            await a.flush("stable")
            expected = [b"%d" % n for n in range(count)]
            assert [item.payload for item in await reading] == expected
            assert [receipt.seq for receipt in receipts] == list(range(1, count + 1))
            assert proxy.cuts > 3
        inside = await read(running.cluster["b"], count)
        assert [item.payload for item in inside] == expected


@in_loop
async def test_a_site_that_comes_without_its_store_is_noticed_before_the_others_admit_it(
    tmp_path: Path,
) -> None:
    """Else readers would go on at positions that are those of other messages now, or of none."""
    groups = {"alpha": ["b"], "beta": ["a", "b", "c"]}
    quick = {"suspect": "200ms"}
    async with served(tmp_path, groups, timeouts=quick) as running, running.connect("b") as client:
        for payload in (b"1", b"2", b"3"):
            await (await client.multicast("alpha", payload)).stable()
        following, looking = client.deliveries(), client.deliveries(1, observe=True)
        for reader in (following, looking):
            for _ in range(3):
                await anext(reader)
        for site in ("a", "c"):
            await running.kill(site)
        stuck = await client.multicast("beta", b"stuck")
        await stuck.accepted()
        await running.kill("b")
        late = asyncio.ensure_future(client.confirm(2))
        for file in tmp_path.glob("b.db*"):
            file.unlink()
        await running.start("b")
        for reader in (following, looking):
            with pytest.raises(Forgotten, match="site b came back without its store"):
                await anext(reader)
        with pytest.raises(Forgotten, match="site b came back without its store"):
            await late
        with pytest.raises(Error, match="it is not known what it sent"):
            await stuck.stable()
        for site in ("a", "c"):
            await running.start(site)
        await (await client.multicast("beta", b"anew")).stable()
        assert [item.payload for item in await read_messages(client, 1)] == [b"anew"]
