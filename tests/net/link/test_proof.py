"""Links without certificates: who does not know the secret of the cluster is told nothing."""

import asyncio
import logging
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.options import MILLISECOND
from ordercast.net.cluster.secret import ClusterSecret
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import LinkTimes
from ordercast.net.link.hello import Hello, Identity, encode_hello
from ordercast.net.link.proof import NOT_PROVED, PROOF_BYTES, REFUSED, Proof
from ordercast.wire.codec import encode_frame
from support.network.hostile import Attacker
from support.network.links import (
    CLUSTER,
    QUICK,
    TERMS,
    End,
    Runner,
    anywhere,
    both_loops,
    connected,
    frame,
    on_asyncio,
    started,
    until,
)

AB = anywhere("ab")
LISTEN_S = 10.0


@pytest.fixture
def secret(tmp_path: Path) -> ClusterSecret:
    return ClusterSecret(tmp_path / "one" / "secret", make=True)


@pytest.fixture
def another(tmp_path: Path) -> ClusterSecret:
    return ClusterSecret(tmp_path / "two" / "secret", make=True)


def end(name: str, secret: ClusterSecret | None, terms: dict[str, str] = TERMS) -> End:
    return End(name, AB, Identity(CLUSTER, terms=terms), times=QUICK, secret=secret)


async def hear(address: tuple[str, int], data: bytes) -> bytes:
    """All that is said to one who says this."""
    reader, writer = await asyncio.open_connection(*address)
    heard = b""
    try:
        async with asyncio.timeout(LISTEN_S):
            writer.write(data)
            with suppress(ConnectionError):
                while piece := await reader.read(65_536):
                    heard += piece
    finally:
        writer.transport.abort()
    return heard


class Relay:
    """Passes bytes on between one site and the others, and keeps them."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.to_site: list[bytes] = []  # of each connection
        self.heard = b""

    async def start(self) -> tuple[str, int]:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(*self._address)
        number = len(self.to_site)
        self.to_site.append(b"")
        self._writers += [writer, there[1]]
        for source, drain, up in ((reader, there[1], True), (there[0], writer, False)):
            self._tasks.append(asyncio.create_task(self._pass(source, drain, number, up)))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, up: bool
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                self.heard += piece
                if up:
                    self.to_site[number] += piece
                writer.write(piece)
        writer.close()

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@both_loops
def test_sites_with_one_secret_are_connected_and_it_is_never_on_the_wire(
    run: Runner, secret: ClusterSecret
) -> None:
    async def main() -> None:
        a, b = end("a", secret), end("b", secret)
        async with started(a, b):
            relay = Relay(a.transport.address)
            b.transport.addresses["a"] = await relay.start()
            a.transport.addresses["b"] = ("127.0.0.1", 1)
            b.transport.connect("a")
            await until(lambda: connected(a, b), "connected")
            b.transport.send("a", [frame(n) for n in range(1, 4)])
            a.transport.send("b", [frame(n) for n in range(1, 4)])
            await until(lambda: a.received("b") == b.received("a") == [1, 2, 3], "frames pass")
            await b.transport.close()
            await relay.close()
            await until(lambda: len(a.events) == 2, "lost")
            assert len(relay.heard) > 500
            assert secret.now() not in relay.heard
            assert secret.now().hex().encode() not in relay.heard
            # What was recorded is of no use: the other nonce is a new one.
            for recorded in relay.to_site:
                answer = await hear(a.transport.address, recorded)
                assert answer.endswith(REFUSED)
                assert len(answer) == 4 + 2 * PROOF_BYTES + len(REFUSED)
                assert a.events == [("connected", "b"), ("lost", "b")]
            assert a.transport.refusals[NOT_PROVED] == len(relay.to_site)

    run(main())


@both_loops
def test_with_another_secret_nobody_is_connected_and_both_logs_say_why(
    run: Runner, secret: ClusterSecret, another: ClusterSecret, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = end("a", secret), end("b", another)
        async with started(a, b):
            b.transport.connect("a")
            await until(lambda: b.transport.refusals[NOT_PROVED] > 1, "refused")
            await until(lambda: a.transport.refusals[NOT_PROVED] > 1, "told so")
            assert a.events == b.events == []

    with caplog.at_level(logging.WARNING, "ordercast.net.transport"):
        run(main())
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"a: {NOT_PROVED}: it has another secret than {another.path}: the sites of a cluster share"
        " one file ('secret' under [cluster] says where)",
        f"127.0.0.1: {NOT_PROVED}: it refused: it may have another secret than {secret.path}",
    ]


def hellos() -> dict[str, Hello]:
    right = (CLUSTER, "b", "a", 1, 1, b"stranger", 1, 0, 0)
    return {
        "right": Hello(*right, dict(TERMS)),
        "other cluster": Hello("elsewhere", *right[1:], dict(TERMS)),
        "unknown site": Hello(CLUSTER, "nobody", *right[2:], dict(TERMS)),
        "other addressee": Hello(CLUSTER, "b", "another", *right[3:], dict(TERMS)),
        "other terms": Hello(*right, {"deliver": "agreed"}),
        "ourselves": Hello(CLUSTER, "a", *right[2:], dict(TERMS)),
    }


def plain(hello: Hello) -> bytes:
    """As a site without a secret would say it, and more."""
    return encode_hello(hello) + encode_frame(frame(1))


def guessed(hello: Hello) -> bytes:
    """With proofs of another secret, all that is possible without the other end's nonce."""
    proof = Proof(b"guessed", "", dialled=True)
    return proof.begin() + proof.seal(encode_hello(hello)) + encode_frame(frame(1))


@pytest.mark.parametrize("way", [plain, guessed])
def test_whatever_a_stranger_says_it_is_told_the_same(
    way: Callable[[Hello], bytes], secret: ClusterSecret
) -> None:
    async def main() -> None:
        a = end("a", secret)
        async with started(a):
            answers = {
                kind: await hear(a.transport.address, way(hello))
                for kind, hello in hellos().items()
            }
            assert {answer[-len(REFUSED) :] for answer in answers.values()} == {REFUSED}
            assert len({len(answer) for answer in answers.values()}) == 1
            assert a.events == []
            assert a.frames == []
            assert a.transport.refusals == {NOT_PROVED: len(answers)}

    on_asyncio(main())


def test_every_kind_of_hostile_connection_is_refused_before_its_hello(
    secret: ClusterSecret, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a = End("a", AB, times=LinkTimes(handshake=150 * MILLISECOND), secret=secret)
        async with started(a):
            attacker = Attacker(a.transport.address, CLUSTER, "a", "b", TERMS)
            kinds = attacker.kinds()
            for n in range(4):
                await asyncio.gather(*(attacker.one(kind, random.Random(n)) for kind in kinds))
            await until(lambda: a.transport.connections == 0, "closed")
            assert a.events == []
            assert set(a.transport.refusals) == {NOT_PROVED, "too slow to say hello"}
            assert a.transport.refusals.total() == 4 * len(kinds)

    with caplog.at_level(logging.WARNING, "ordercast.net.transport"):
        on_asyncio(main())
    assert len(caplog.records) == 2, "one line for each cause"


def test_without_a_secret_a_refusal_is_one_word() -> None:
    async def main() -> None:
        a = end("a", None)
        async with started(a):
            for kind, hello in hellos().items():
                if kind != "right":
                    answer = await hear(a.transport.address, encode_hello(hello))
                    assert answer.endswith(b"\xa7refused\xc0\xc2\x05\x05\xa0\x90\xa0")

    on_asyncio(main())


def test_one_who_has_proved_the_secret_is_told_the_difference(
    secret: ClusterSecret, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = end("a", secret), end("b", secret, {**TERMS, "deliver": "agreed"})
        new = End("new", anywhere(["a", "new"]), a.identity, times=QUICK, secret=secret)
        async with started(a, b, new):
            b.transport.connect("a")
            new.transport.connect("a")
            await until(lambda: b.transport.refusals["other terms"] > 0, "refused")
            await until(lambda: new.transport.refusals["it refuses us"] > 0, "refused")

    with caplog.at_level(logging.WARNING, "ordercast.net.transport"):
        on_asyncio(main())
    said = {record.getMessage() for record in caplog.records}
    assert "b: other terms: 'deliver' is 'agreed' there, 'safe' here" in said
    assert "a: other terms: 'deliver' is 'safe' there, 'agreed' here" in said
    assert any(line.startswith("a: it refuses us: unknown site: 'new' is not") for line in said)


def test_a_site_with_a_secret_and_one_without_say_what_is_wrong(
    secret: ClusterSecret, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = end("a", secret), end("b", None)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: b.transport.refusals["no hello"] > 0, "asked")
            b.transport.connect("a")
            await until(lambda: a.transport.refusals[NOT_PROVED] > 0, "refused")
            assert a.events == b.events == []

    with caplog.at_level(logging.WARNING, "ordercast.net.transport"):
        on_asyncio(main())
    assert "asks for the proof of a secret, and this site has none" in caplog.text


def test_one_who_listens_in_place_of_a_site_hears_no_hello(secret: ClusterSecret) -> None:
    """A port is free while its site is down. Also not with the dialler's own words sent back."""

    async def main() -> None:
        heard: list[bytes] = []

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            first = await reader.read(65_536)
            proof = first[4:] if len(heard) % 2 else os.urandom(PROOF_BYTES)
            writer.write(first + proof)
            heard.append(first + await reader.read())
            writer.close()

        a = end("a", secret)
        async with started(a):
            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            a.transport.addresses["b"] = server.sockets[0].getsockname()[:2]
            a.transport.connect("b")
            await until(lambda: len(heard) > 3, "dialled")
            server.close()
        assert all(len(each) <= 4 + 32 + len(REFUSED) for each in heard)
        assert not any(CLUSTER.encode() in each for each in heard)

    on_asyncio(main())


def test_a_new_secret_is_used_for_new_connections_and_those_that_are_there_stay(
    secret: ClusterSecret,
) -> None:
    async def main() -> None:
        a, b = end("a", secret), end("b", ClusterSecret(secret.path, make=False))
        async with started(a, b):
            b.transport.connect("a")
            await until(lambda: connected(a, b), "connected")
            secret.path.unlink()
            a.transport.send("b", [frame(1)])
            ClusterSecret(secret.path, make=True)
            await until(lambda: b.received("a") == [1], "it goes on")
            await b.transport.close()
            again = End(
                "b", AB, Identity(CLUSTER, 2, terms=TERMS), times=QUICK,
                secret=ClusterSecret(secret.path, make=False),
            )  # fmt: skip
            async with started(again):
                again.knows(a)
                again.transport.connect("a")
                await until(lambda: connected(a, again), "with the new one")

    on_asyncio(main())


def pair(secret: bytes, other: bytes) -> tuple[Proof, Proof]:
    return Proof(secret, "file", dialled=True), Proof(other, "file", dialled=False)


@given(where=st.integers(0, 10_000), bit=st.integers(0, 7), cut=st.integers(1, 200))
def test_one_changed_bit_of_what_was_said_is_found(where: int, bit: int, cut: int) -> None:
    """In any word of either end, however the bytes are cut."""
    dialler, acceptor = pair(b"s" * 32, b"s" * 32)
    said = bytearray(dialler.begin())
    answer = bytearray()
    for begin in range(0, len(said), cut):
        held = said[: begin + cut]
        if len(held) == len(said):
            answer = bytearray(acceptor.take(held) or b"")
        else:
            assert acceptor.take(held) is None
    assert acceptor.ready
    dialler.take(bytearray(answer))
    hello = dialler.seal(b"hello of the dialler")
    acceptor.check(hello[:-PROOF_BYTES], hello[-PROOF_BYTES:])
    back = bytearray(acceptor.seal(b"hello of the acceptor"))
    back[where % len(back)] ^= 1 << bit
    with pytest.raises(LinkTrouble, match="wrong proof"):
        dialler.check(bytes(back[:-PROOF_BYTES]), bytes(back[-PROOF_BYTES:]))
    assert acceptor.proved
    assert not dialler.proved


def test_no_proof_can_stand_in_place_of_another() -> None:
    """What one end said is no answer of the other: each proof has its number."""
    dialler, acceptor = pair(b"s" * 32, b"s" * 32)
    dialler.take(bytearray(acceptor.take(bytearray(dialler.begin())) or b""))
    said = dialler.seal(b"hello")
    mirror = Proof(b"s" * 32, "file", dialled=True)
    mirror._nonce, mirror._said, mirror.ready = dialler._nonce, dialler._said[:-5], True
    with pytest.raises(LinkTrouble, match="wrong proof"):
        mirror.check(said[:-PROOF_BYTES], said[-PROOF_BYTES:])
