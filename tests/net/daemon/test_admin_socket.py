"""The daemon's admin socket: what a broken or hostile client does to it, and what stays."""

import asyncio
import logging
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.epochs import JoinGroup
from ordercast.model.errors import ConfigError, FrameError, TooLarge
from ordercast.model.grants import OWNER
from ordercast.model.messages import CLIENT_BYTES, Delivery, by_id, pack_payloads, producer_id
from ordercast.net.admin.frames import (
    ADMIN_CODECS,
    FRAME_BYTES,
    VERSION,
    Answer,
    Change,
    ClientHello,
    ConfirmRead,
    Credit,
    DaemonFrame,
    DaemonRefusal,
    Decode,
    Encode,
    Failed,
    Follow,
    GrantsRequest,
    Produce,
    Rejected,
    Send,
    Splitter,
    StagesReached,
    StatusRequest,
    Subscribe,
    SubscribedBatches,
    TimesRequest,
    TurnGiven,
    Unsubscribe,
    Watch,
    Welcome,
    Wire,
    decode_reply,
    decode_request,
    error_of,
    frame_of,
)
from ordercast.net.cluster.config import LimitsConfig
from ordercast.net.cluster.sockets import remove_stale, socket_path
from ordercast.net.daemon import admin_socket, client_connection, session, subscription
from ordercast.net.daemon import desk as desk_module
from ordercast.net.site.node import site_of
from ordercast.net.site.running_site import RunningSite
from ordercast.net.site.status import status_of
from support.clusters.served import Served, served
from support.clusters.sites import turns, until
from support.harness.loops import in_loop, run
from support.network.versions import pretended_admin

CLIENT = bytes(range(CLIENT_BYTES))
WINDOW = LimitsConfig().window_messages


class Raw:
    """A connection that says what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    @asynccontextmanager
    async def open(
        cls, running: Served, site: str = "a", *, greet: bool = False
    ) -> AsyncIterator["Raw"]:
        """Closed at the end, also of a test that fails: its socket would trouble the next one."""
        path = socket_path(running.directory / f"{site}.sock")
        raw = cls(*await asyncio.open_unix_connection(path))
        try:
            if greet:
                raw.say(frame_of(ClientHello(VERSION, "local", site, CLIENT)))
                assert isinstance(await raw.hear(), Welcome)
            yield raw
        finally:
            raw.writer.close()
            await asyncio.sleep(0)

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def hear(self) -> DaemonFrame:
        (length,) = struct.unpack(">I", await self.reader.readexactly(4))
        reply: DaemonFrame = decode_reply(await self.reader.readexactly(length))
        return reply

    async def closed(self) -> bool:
        """Whether the daemon ends the connection, whatever it says before."""
        try:
            while await self.reader.read(65_536):
                pass
        except ConnectionError:
            return True
        return True


def send(number: int, *payloads: bytes, again: bool = False, group: str = "alpha") -> bytes:
    body = pack_payloads(list(payloads))
    return frame_of(Send(number, group, (), len(payloads), body, again, 0))


async def still_serves(running: Served) -> None:
    async with running.connect("a") as client:
        await (await client.multicast("alpha", b"still here")).ordered()


@in_loop
async def test_garbage_ends_that_connection_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(5)
    async with served(tmp_path) as running:
        hello = frame_of(ClientHello(VERSION, "local", "a", CLIENT))
        rubbish = [
            b"GET / HTTP/1.1\r\n\r\n",
            struct.pack(">I", FRAME_BYTES + 1),
            struct.pack(">I", 3) + b"\xc1\xc1\xc1",
            frame_of(StatusRequest(1)),  # no hello before
            hello + hello,
            hello + struct.pack(">I", 4) + b"abcd",
            hello.replace(b"local", b"loc\xff\xfe"),  # no UTF-8
            struct.pack(">I", 50_000) + b"\x91" * 50_000,  # arrays in arrays
            *(hello + chance.randbytes(chance.randrange(5, 400)) for _ in range(40)),
        ]
        for data in rubbish:
            async with Raw.open(running) as raw:
                raw.say(data)
                raw.writer.write_eof()
                assert await raw.closed()
        await still_serves(running)
        await until(lambda: not running.admins["a"].desk._connections)
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len([record for record in caplog.records if "dropped" in record.message]) < 8


@in_loop
async def test_text_that_is_no_utf8_is_told_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hello = frame_of(ClientHello(VERSION, "local", "a", CLIENT))
    async with served(tmp_path) as running:
        for _ in range(3):
            async with Raw.open(running) as raw:
                raw.say(hello.replace(b"local", b"loc\xff\xfe"))
                assert await raw.closed()
        await until(lambda: not running.admins["a"].desk._connections)
    said = [record.message for record in caplog.records if "dropped" in record.message]
    assert said == ["a client was dropped: a frame does not decode"]
    assert "Traceback" not in caplog.text


@in_loop
async def test_other_versions_clusters_and_sites_are_told_why(tmp_path: Path) -> None:
    async with served(tmp_path) as running:
        for hello, why in (
            (
                ClientHello(99, "local", "a", CLIENT, 98),
                "this daemon speaks version 5 to 6, the client 98 to 99",
            ),
            (ClientHello(4, "local", "a", CLIENT, 3), "speaks version 5 to 6, the client 3 to 4"),
            (ClientHello(VERSION, "other", "a", CLIENT), "not 'a' of 'other'"),
            (ClientHello(VERSION, "local", "b", CLIENT), "not 'b' of 'local'"),
            (ClientHello(VERSION, "local", "a", producer_id(7)), "id has a meaning of its own"),
            (ClientHello(VERSION, "local", "a", by_id("s", "x")), "id has a meaning of its own"),
        ):
            async with Raw.open(running) as raw:
                raw.say(frame_of(hello))
                answer = await raw.hear()
                assert isinstance(answer, DaemonRefusal)
                assert why in answer.reason
                assert answer.final
                assert await raw.closed()
        assert running.admins["a"].desk.dropped == 6


@pytest.mark.parametrize(
    ("client", "daemon", "version"),
    [(5, 6, 5), (6, 5, 5), (6, 6, 6), (6, 7, 6), (7, 6, 6), (7, 7, 7)],
)
def test_clients_and_daemons_of_two_releases_understand_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: int, daemon: int, version: int
) -> None:
    used: list[int] = []
    codecs = {**ADMIN_CODECS, 7: pretended_admin()}

    def speak(newest: int) -> None:
        for number, codec in codecs.items():
            if number <= newest:
                monkeypatch.setitem(ADMIN_CODECS, number, codec)
            else:
                monkeypatch.delitem(ADMIN_CODECS, number, raising=False)

    async def main() -> None:
        async with served(tmp_path) as running:
            speak(client)
            one = running.connect("b")  # it says what its program speaks
            speak(daemon)
            async with one:
                receipt = await one.multicast("alpha", b"hello")
                await receipt.ordered()
                async for item in one.deliveries(start=1):
                    assert isinstance(item, Delivery)
                    assert item.payload == b"hello"
                    break
                await running.cluster["b"].multicast("alpha", b"more", {"colour": b"red"})
                async for item in one.deliveries(start=2):
                    assert isinstance(item, Delivery)
                    assert item.payload == b"more"
                    assert item.headers == ({} if version == 5 else {"colour": b"red"})
                    assert bool(item.sent_ns) is (version > 5)
                    break
                assert (await one.status())["site"] == "b"

    use = Wire.use

    def noting(wire: Wire, encode: Encode, decode: Decode) -> None:
        used.append(next(v for v, codec in ADMIN_CODECS.items() if codec.encode is encode))
        use(wire, encode, decode)

    monkeypatch.setattr(Wire, "use", noting)
    run(main())
    assert set(used) == {version}


@in_loop
async def test_a_client_that_says_nothing_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "HELLO_S", 0.1)
    async with served(tmp_path) as running:
        async with Raw.open(running) as raw:
            raw.say(b"\0")
            assert await raw.closed()
        await still_serves(running)


@in_loop
async def test_too_many_clients_are_refused_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_socket, "MOST_CONNECTIONS", 3)
    async with served(tmp_path) as running, AsyncExitStack() as opened:
        enter = opened.enter_async_context
        first = await enter(Raw.open(running, greet=True))
        for number in range(2):
            client = bytes([number + 1]) * CLIENT_BYTES
            other = await enter(Raw.open(running))
            other.say(frame_of(ClientHello(VERSION, "local", "a", client)))
            assert isinstance(await other.hear(), Welcome)
        late = await enter(Raw.open(running))
        answer = await late.hear()
        assert isinstance(answer, DaemonRefusal)
        assert "too many clients" in answer.reason
        assert not answer.final  # it may try again
        first.say(frame_of(StatusRequest(7)))
        assert (await first.hear()).id == 7  # type: ignore[union-attr]


@in_loop
async def test_connections_that_say_nothing_keep_no_client_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as running, AsyncExitStack() as opened:
        first = await opened.enter_async_context(Raw.open(running, greet=True))
        for _ in range(200):
            await opened.enter_async_context(Raw.open(running))
        await still_serves(running)
        first.say(frame_of(StatusRequest(7)))
        assert (await first.hear()).id == 7  # type: ignore[union-attr]
    assert len([record for record in caplog.records if "dropped" in record.message]) == 1


@given(chance=st.randoms(use_true_random=False))
def test_a_changed_frame_is_a_frame_or_ends_the_connection(chance: random.Random) -> None:
    """Nothing else comes out of the decoder, whatever bytes a client sends."""
    good = [
        frame_of(ClientHello(VERSION, "local", "a", CLIENT)),
        send(1, b"one"),
        frame_of(Subscribe(1, 1, False)),
        frame_of(Change(1, "c", (JoinGroup("alpha", "a"),))),
    ]
    data = bytearray(b"".join(chance.sample(good, len(good))))
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)

    async def main() -> None:
        wire = Wire(decode_request, lambda *_: None, lambda _: None)
        wire.data_received(bytes(data))
        assert wire.closed is bool(wire.failure)

    asyncio.run(main())


@in_loop
async def test_a_client_that_comes_while_the_daemon_stops_is_not_kept(tmp_path: Path) -> None:
    """However far its connection has come: it must find the next daemon."""
    async with served(tmp_path) as running:
        for between in range(6):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(socket_path(tmp_path / "a.sock"))
                client.sendall(frame_of(ClientHello(VERSION, "local", "a", CLIENT)))
                await turns(between)
                await running.admins.pop("a").close()
                reader, writer = await asyncio.open_unix_connection(sock=client)
                async with asyncio.timeout(20):
                    assert await Raw(reader, writer).closed()
                writer.close()
                await asyncio.sleep(0)
            await running.serve("a")


@in_loop
async def test_one_who_sends_more_than_allowed_is_dropped(tmp_path: Path) -> None:
    small = {"window_messages": 10}
    async with served(tmp_path, limits=small) as running:
        await running.kill("b")  # so nothing of it is taken for good
        async with Raw.open(running, greet=True) as raw:
            for number in range(1, 60):
                raw.say(send(number, b"x"))
            assert await raw.closed()
        await running.start("b")


@in_loop
async def test_a_repeated_request_is_answered_not_sent_again(tmp_path: Path) -> None:
    async with served(tmp_path) as running:
        for attempt in range(3):
            async with Raw.open(running, greet=True) as raw:
                raw.say(send(1, b"one", again=attempt > 0))
                answer = await raw.hear()
                assert isinstance(answer, StagesReached)
                assert answer.reached[0][0] == 1
                assert answer.reached[0][2:] == ("alpha", 1)
        await running.kill("a")
        await running.start("a")
        async with Raw.open(running, greet=True) as raw:
            raw.say(send(1, b"one", again=True) + send(2, b"two"))
            seqs: dict[int, int] = {}
            while len(seqs) < 2:
                answer = await raw.hear()
                assert isinstance(answer, StagesReached)
                seqs.update({number: seq for number, _, _, seq in answer.reached})
            assert seqs[1] == 1
            assert seqs[2] > 2, "what the run before may have relayed and not stored is skipped"


@in_loop
async def test_what_a_site_refuses_is_rejected_with_its_reason(tmp_path: Path) -> None:
    small = {"message_bytes": 100}
    async with served(tmp_path, limits=small) as running, Raw.open(running, greet=True) as raw:
        raw.say(send(1, b"x", group="none") + send(2, bytes(101)))
        raw.say(frame_of(Send(3, "alpha", (), 2, pack_payloads([b"one"]), False, 0)))
        answers = [await raw.hear() for _ in range(3)]
        assert all(isinstance(answer, Rejected) for answer in answers)
        assert [answer.kind for answer in answers] == ["UnknownGroup", "TooLarge", "Error"]  # type: ignore[union-attr]
        raw.say(send(4, b"fine"))
        assert isinstance(await raw.hear(), StagesReached)


@in_loop
async def test_subscriptions_are_bounded_and_wait_for_grants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "MOST_SUBSCRIPTIONS", 2)
    async with served(tmp_path) as running:
        async with running.connect("a") as client:
            await (await client.multicast("alpha", b"x")).stable()
        async with Raw.open(running, greet=True) as raw:
            raw.say(b"".join(frame_of(Subscribe(number, 1, False)) for number in (1, 2, 3)))
            answer = await raw.hear()  # nothing was granted, so no delivery comes before it
            assert isinstance(answer, Failed)
            assert answer.id == 3
            raw.say(frame_of(Subscribe(2, 1, False)))
            assert isinstance(await raw.hear(), Failed)


@in_loop
async def test_old_messages_can_be_watched_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as running:
        async with running.connect("a") as client:
            await (await client.multicast_many("alpha", [b"1", b"2"])).stable()
        await running.kill("a")
        await running.start("a")
        async with Raw.open(running, greet=True) as raw:
            raw.say(frame_of(Watch(5, "alpha", 1, 2)))
            reached: list[int] = []
            while 3 not in reached:
                answer = await raw.hear()
                assert isinstance(answer, StagesReached)
                reached += [stage for number, stage, _, _ in answer.reached if number == 5]


async def fates(raw: Raw, numbers: range) -> dict[int, str]:
    """What each request ended with: stable, or why not."""
    found: dict[int, str] = {}
    async with asyncio.timeout(60):
        while len(found) < len(numbers):
            answer = await raw.hear()
            if isinstance(answer, Rejected):
                found[answer.number] = answer.kind
            elif isinstance(answer, StagesReached):
                found.update(
                    {number: "stable" for number, stage, *_ in answer.reached if stage == 3}
                )
    return found


@in_loop
async def test_a_refusal_that_the_client_did_not_hear_is_told_again(tmp_path: Path) -> None:
    """The group is removed while messages to it are under way, and the connection breaks before
    anything is heard of them. Asked again, each has the same end; so it is when a new group of
    that name gives their seqs to other messages."""
    async with served(tmp_path) as running, running.connect("c") as other:
        async with Raw.open(running, greet=True) as raw:
            raw.say(send(1, b"1", group="beta"))
            assert await fates(raw, range(1, 2)) == {1: "stable"}
            removing = asyncio.ensure_future(other.remove_group("beta"))
            count = 1
            while not removing.done():
                for _ in range(min(4, WINDOW - count)):  # no client has more than that under way
                    count += 1
                    raw.say(send(count, b"%d" % count, group="beta"))
                await asyncio.sleep(0.001)
        again = b"".join(send(n, b"%d" % n, again=True, group="beta") for n in range(1, count + 1))
        numbers = range(1, count + 1)
        async with Raw.open(running, greet=True) as raw:
            raw.say(again)
            first = await fates(raw, numbers)
            assert set(first.values()) == {"stable", "UnknownGroup"}
            accepted = {n: site_of(running.cluster["a"]).store.request(CLIENT, n) for n in numbers}
            assert any(accepted[n] is not None for n, end in first.items() if end == "UnknownGroup")

            await other.add_group("beta", ["b", "c"])
            async with running.connect("a") as client:
                await (await client.multicast_many("beta", [b"other"] * count)).stable()
            raw.say(again)
            assert await fates(raw, numbers) == first


@in_loop
async def test_no_refusal_is_forgotten_of_all_that_a_client_may_have_under_way(
    tmp_path: Path,
) -> None:
    numbers = range(1, WINDOW + 1)
    ends = {n: "TooLarge" if n == 7 else "UnknownGroup" for n in numbers}
    async with served(tmp_path, limits={"message_bytes": 100}) as running:
        for again in (False, True):
            frames = [send(n, b"x", again=again, group="none") for n in numbers]
            frames[6] = send(7, bytes(101), again=again)
            async with Raw.open(running, greet=True) as raw:
                raw.say(b"".join(frames))
                assert await fates(raw, numbers) == ends


@in_loop
async def test_a_refusal_is_known_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("c") as other:
        async with running.connect("a") as client:
            await (await client.multicast_many("beta", [b"1", b"2"])).stable()
            await other.remove_group("beta")
        await running.kill("a")
        await running.start("a")
        async with Raw.open(running, greet=True) as raw:
            raw.say(frame_of(Watch(1, "beta", 1, 2)) + frame_of(Watch(2, "beta", 3, 1)))
            assert await fates(raw, range(1, 3)) == {1: "stable", 2: "UnknownGroup"}


@in_loop
async def test_only_a_dead_socket_is_removed(tmp_path: Path) -> None:
    async with served(tmp_path):
        with pytest.raises(ConfigError, match="another daemon answers there already"):
            remove_stale(tmp_path / "a.sock")
    plain = tmp_path / "plain.sock"
    plain.write_text("a file of the user's")
    with pytest.raises(ConfigError, match="in the way of the admin socket"):
        remove_stale(plain)
    assert plain.exists()


def test_a_path_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too long for a socket"):
        socket_path(tmp_path / ("x" * 120) / "a.sock")


def test_errors_come_back_as_what_they_were() -> None:
    assert type(error_of("TooLarge", "x")) is TooLarge
    for unknown in ("Exception", "nothing", "ConfigErorr", "__doc__"):
        assert str(error_of(unknown, "why")) == "why"


@given(st.lists(st.binary(max_size=50)), st.randoms(use_true_random=False))
def test_frames_are_found_however_the_bytes_arrive(
    bodies: list[bytes], chance: random.Random
) -> None:
    stream = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    splitter = Splitter()
    found = []
    while stream:
        cut = chance.randrange(1, len(stream) + 1)
        found += splitter.feed(stream[:cut])
        stream = stream[cut:]
    assert found == bodies


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(body: bytes) -> None:
    try:
        decode_request(body)
    except msgspec.DecodeError:
        return


def test_a_change_with_no_edit_is_no_request() -> None:
    change = Change(1, "c", (JoinGroup("g", "a"),))
    assert decode_request(msgspec.msgpack.encode(change)) == change
    with pytest.raises(msgspec.ValidationError):
        decode_request(msgspec.msgpack.encode(msgspec.structs.replace(change, edits=())))


def test_a_frame_too_long_is_never_gathered() -> None:
    with pytest.raises(FrameError, match=f"the limit is {FRAME_BYTES:,}"):
        Splitter().feed(struct.pack(">I", FRAME_BYTES + 1))


@in_loop
async def test_who_asks_about_more_messages_than_it_may_have_sent_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_FOLLOWED_MORE", 60)
    async with served(tmp_path, limits={"window_messages": 10}, on_failure="wait") as running:
        await (await running.cluster["a"].multicast("alpha", b"first")).stable()
        await running.kill("b")
        stuck = await running.cluster["a"].multicast("alpha", b"stuck")
        desk = running.admins["a"].desk
        async with Raw.open(running, greet=True) as raw:
            raw.say(b"".join(frame_of(Watch(n, "alpha", stuck.seq, 1)) for n in range(1, 100)))
            await until(lambda: len(next(iter(desk._sessions.values()))._tasks) == 99)
            raw.say(b"".join(frame_of(Watch(n, "alpha", stuck.seq, 1)) for n in range(100, 200)))
            assert await raw.closed()
        [served_session] = desk._sessions.values()
        assert len(served_session._tasks) == 100
        async with Raw.open(running, greet=True) as raw:  # what it asked before still counts
            raw.say(frame_of(Watch(1, "alpha", stuck.seq, 1)))
            await running.start("b")
            while not isinstance(told := await raw.hear(), StagesReached) or told.reached[0][1] < 3:
                pass
        await until(lambda: not served_session._tasks)


@in_loop
async def test_what_is_refused_to_ever_new_producers_takes_no_room_for_ever(
    tmp_path: Path,
) -> None:
    grants = {"socket": ["admin", "send:nosuch"], "site:*": ["send"]}
    async with served(tmp_path, limits={"window_messages": 20}, grants=grants) as running:
        desk = running.admins["a"].desk
        body = pack_payloads([b"x"])
        for group in ("alpha", "nosuch"):  # refused when it comes, and in its turn
            async with Raw.open(running, greet=True) as raw:
                [served_session] = desk._sessions.values()
                refused = 0
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    for n in range(1, 100):
                        raw.say(frame_of(Produce(n, group, 1, body, f"p{n}", 1, 0)))
                        assert isinstance(await raw.hear(), Rejected)
                        refused = n
                assert refused == 60
                assert len(served_session._not_granted) + len(served_session._broken) == 61
        async with Raw.open(running, greet=True):
            assert not served_session._not_granted
            assert not served_session._broken
        assert not site_of(running.cluster["a"]).producing._failures


@in_loop
async def test_a_thousand_questions_about_the_status_are_one_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def counted(site: RunningSite) -> dict[str, object]:
        nonlocal made
        made += 1
        return status_of(site)

    monkeypatch.setattr(desk_module, "status_of", counted)
    async with served(tmp_path) as running, Raw.open(running, greet=True) as raw:
        raw.say(b"".join(frame_of(StatusRequest(n)) for n in range(1, 901)))
        answers = [await raw.hear() for _ in range(900)]
        assert [answer.id for answer in answers if isinstance(answer, Answer)] == [*range(1, 901)]
        assert made <= 3  # the questions come in that many pieces, if the machine is slow
        raw.say(frame_of(StatusRequest(1)))
        assert isinstance(await raw.hear(), Answer)


@in_loop
async def test_so_are_a_thousand_questions_about_the_grants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as running, Raw.open(running, greet=True) as raw:
        desk, made = running.admins["a"].desk, 0
        grants = desk._grants

        def counted() -> dict[str, Any]:
            nonlocal made
            made += 1
            return grants()

        monkeypatch.setattr(desk, "_grants", counted)
        raw.say(b"".join(frame_of(GrantsRequest(n)) for n in range(1, 901)))
        answers = [await raw.hear() for _ in range(900)]
        assert [answer.id for answer in answers if isinstance(answer, Answer)] == [*range(1, 901)]
        assert made <= 3


@in_loop
async def test_questions_that_read_the_store_are_answered_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, {"alpha": ["a"]}) as running:
        await (await running.cluster["a"].multicast("alpha", b"one")).stable()
        store = site_of(running.cluster["a"]).store
        reading, most, times = 0, 0, store.times

        def counted(start: int, count: int) -> object:
            nonlocal reading, most
            reading += 1
            most = max(most, reading)
            found = times(start, count)
            reading -= 1
            return found

        monkeypatch.setattr(store, "times", counted)
        async with Raw.open(running, greet=True) as raw:
            raw.say(b"".join(frame_of(TimesRequest(n, 1)) for n in range(1, 201)))
            answers = [await raw.hear() for _ in range(200)]
        assert all(isinstance(answer, Answer) and len(answer.body) > 9 for answer in answers)
        assert most == 1


@in_loop
async def test_a_reader_that_takes_nothing_has_little_wait_for_it_whatever_credit_it_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "UNREAD_BYTES", 60_000)
    async with served(tmp_path, {"alpha": ["a"]}, durability="memory") as running:
        node, desk = running.cluster["a"], running.admins["a"].desk
        async with Raw.open(running, greet=True) as raw:
            raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
            raw.say(frame_of(Subscribe(1, 1, True)))
            raw.say(frame_of(Credit(1, 10**9, 10**9, 0)))
            for _ in range(6_000):
                await node.multicast("alpha", b"")
                await asyncio.sleep(0)  # a batch of its own
            await node.flush()
            [wire] = desk._connections
            assert 60_000 < wire.unsent < 90_000
            raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
            last = 0
            while last < 6_000:
                found = await raw.hear()
                if isinstance(found, SubscribedBatches):
                    position, _, placed, _ = found.batches[-1]
                    last = position + placed.batch.count - 1


@in_loop
async def test_a_follower_that_lies_about_its_place_confirms_nothing_that_is_to_come(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, {"alpha": ["a"]}) as running:
        await (await running.cluster["a"].multicast("alpha", b"one")).stable()
        async with Raw.open(running, greet=True) as raw:
            raw.say(frame_of(Follow(1, "r", ("alpha",))) + frame_of(Credit(1, 9, 999, 0)))
            given = await raw.hear()
            assert isinstance(given, TurnGiven)
            raw.say(frame_of(Unsubscribe(1)))
            raw.say(frame_of(Follow(2, "r", None, given.number, 1, 7)))
            raw.say(frame_of(Credit(2, 9, 999, 0)))
            while not isinstance(told := await raw.hear(), Failed):
                pass
            assert (told.id, told.reason) == (2, "attempt: 7 was not told by this site: 1 is")
            raw.say(frame_of(Follow(3, "r", None, given.number, 10**9, 1)))
            raw.say(frame_of(Credit(3, 9, 999, 0)))
            assert isinstance(await raw.hear(), TurnGiven)
            for position, attempt, why in (
                (10**9, 0, "position 1000000000 cannot be confirmed: reader 'r' has read up to 1"),
                (1, 7, "attempt: 7 was not told by this site: 1 is"),
            ):
                raw.say(frame_of(ConfirmRead(4, 3, position, attempt)))
                told = await raw.hear()
                assert isinstance(told, Failed)
                assert told.reason == why
            raw.say(frame_of(ConfirmRead(5, 3, 1)))
            assert isinstance(await raw.hear(), Answer)
        status = status_of(site_of(running.cluster["a"]))
        assert status["readers"]["r"]["confirmed"] == 1


@in_loop
async def test_who_reads_nothing_and_says_nothing_more_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "UNSENT_BYTES", 50_000)
    monkeypatch.setattr(desk_module, "MARKS_S", 0.05)
    async with served(tmp_path) as running:
        desk = running.admins["a"].desk
        async with Raw.open(running, greet=True) as raw:
            raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
            raw.say(b"".join(frame_of(StatusRequest(n)) for n in range(1, 901)))
            await until(lambda: not desk._connections)
        assert desk.status()["clients"]["dropped"] == 1
        await still_serves(running)


@in_loop
async def test_a_thousand_answers_in_one_turn_are_no_more_than_may_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, waited = 50_000, 0
    monkeypatch.setattr(desk_module, "UNSENT_BYTES", most)
    async with served(tmp_path) as running:
        desk = running.admins["a"].desk
        answer = len(desk.told_status(OWNER))
        async with Raw.open(running, greet=True) as raw:
            (wire,) = desk._connections
            send = wire.send

            def noted(frame: Any) -> None:
                nonlocal waited
                send(frame)
                waited = max(waited, wire.unsent)

            monkeypatch.setattr(wire, "send", noted)
            raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
            raw.say(b"".join(frame_of(StatusRequest(n)) for n in range(1, 901)))
            await until(lambda: not desk._connections)
        assert most < waited < most + 2 * answer
        await still_serves(running)
