"""The daemon's address for clients elsewhere: what strangers do to it, and what stays."""

import asyncio
import random
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ordercast.model.errors import ConfigError, NotGranted
from ordercast.model.grants import SITE, ClientSubject
from ordercast.model.messages import CLIENT_BYTES
from ordercast.model.options import SECOND
from ordercast.net.admin import channel
from ordercast.net.admin.channel import CLIENT_WORD
from ordercast.net.admin.frames import (
    VERSION,
    ClientHello,
    DaemonFrame,
    DaemonRefusal,
    StatusRequest,
    Welcome,
    decode_reply,
    frame_of,
)
from ordercast.net.client.client import connect
from ordercast.net.cluster.certificates import (
    add_certificates,
    add_client_certificates,
    write_certificates,
)
from ordercast.net.daemon import client_connection, remote_listener
from ordercast.net.link.connection import LinkLimits, LinkTimes
from ordercast.net.link.hello import Hello, encode_hello
from ordercast.net.link.proof import PROOF_BYTES, Proof
from ordercast.net.site.node import site_of
from support.clusters.served import Served, served
from support.clusters.sites import until
from support.harness.loops import in_loop


def hello(number: int = 0) -> bytes:
    return frame_of(ClientHello(VERSION, "local", "", bytes([number]) * CLIENT_BYTES))


HELLO = hello()
PATIENT = LinkTimes(handshake=600 * SECOND, hurry=600 * SECOND)


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    found = tmp_path / "certs"
    write_certificates("local", ["a", "b", "c"], found)
    add_client_certificates("local", ["billing"], found)
    return found


@asynccontextmanager
async def listening(tmp_path: Path, certs: Path, **options: Any) -> AsyncIterator[Served]:
    grants = {name: ["send", "read", "observe", "admin"] for name in ("socket", "site:*")}
    grants["client:billing"] = ["send", "observe"]
    tls = {"dir": str(certs)}
    async with served(tmp_path, remote=True, tls=tls, grants=grants, **options) as running:
        yield running


def context(certs: Path, name: str) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname = False
    found.load_verify_locations(certs / "ca.pem")
    found.load_cert_chain(certs / f"{name}.pem", certs / f"{name}.key")
    return found


class Raw:
    """A connection that says what it is told to, within TLS or without."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, running: Served, tls: ssl.SSLContext | None = None) -> "Raw":
        address = running.remotes["a"].address
        return cls(*await asyncio.open_connection(*address, ssl=tls))

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def hear(self) -> DaemonFrame:
        (length,) = struct.unpack(">I", await self.reader.readexactly(4))
        return decode_reply(await self.reader.readexactly(length))  # type: ignore[no-any-return]

    async def closed(self) -> bool:
        """Whether the daemon ends the connection, whatever it says before."""
        try:
            async with asyncio.timeout(60):
                while await self.reader.read(65_536):
                    pass
        except (ConnectionError, ssl.SSLError):
            return True
        finally:
            self.writer.transport.abort()
        return True


async def still_serves(running: Served, certs: Path) -> None:
    cert = certs / "clients" / "billing.pem"
    async with connect(running.address("a"), cert=cert, start_s=30) as client:
        await (await client.multicast("alpha", b"still here")).ordered()


@in_loop
async def test_garbage_ends_that_connection_and_nothing_else(tmp_path: Path, certs: Path) -> None:
    chance = random.Random(3)
    async with listening(tmp_path, certs) as running:
        for rubbish in (
            b"GET / HTTP/1.1\r\n\r\n",
            HELLO,  # without TLS
            b"och\3" + bytes(40),
            b"\x16\x03\x01\x40\x00" + bytes(20_000),
            chance.randbytes(70_000),
        ):
            raw = await Raw.open(running)
            raw.say(rubbish)
            assert await raw.closed()
        mine = context(certs, "clients/billing")
        for rubbish in (
            struct.pack(">I", 2**31),
            struct.pack(">I", 3) + b"\xc1\xc1\xc1",
            frame_of(StatusRequest(1)),  # no hello before
            HELLO + HELLO,
            HELLO + struct.pack(">I", 4) + b"abcd",
            struct.pack(">I", 50_000) + bytes(50_000),  # more than a stranger may say
        ):
            raw = await Raw.open(running, mine)
            raw.say(rubbish)
            assert await raw.closed(), rubbish[:20]
        await still_serves(running, certs)
        await until(lambda: not running.remotes["a"]._deadlines)
        await until(lambda: not running.remotes["a"]._clients)


@in_loop
async def test_a_stranger_has_little_time_and_few_bytes(
    tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_listener, "TIMES", LinkTimes(handshake=200_000_000))
    monkeypatch.setattr(client_connection, "HELLO_S", 60.0)
    async with listening(tmp_path, certs) as running:
        mine = context(certs, "clients/billing")
        silent, unsaid = await Raw.open(running), await Raw.open(running, mine)
        assert await silent.closed()
        assert await unsaid.closed()  # TLS alone is no hello
        monkeypatch.setattr(remote_listener, "TIMES", PATIENT)
        monkeypatch.setattr(channel, "STRANGER_BYTES", 10_000)
        much = await Raw.open(running, mine)
        much.say(struct.pack(">I", 15_000) + bytes(12_000))  # a frame that does not end
        assert await much.closed()
        await still_serves(running, certs)


@in_loop
async def test_strangers_keep_no_client_out_and_clients_no_stranger(
    tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_listener, "LIMITS", LinkLimits(strangers=4, strangers_elsewhere=4))
    monkeypatch.setattr(remote_listener, "TIMES", PATIENT)
    limits = {"subject_connections": 2}
    async with listening(tmp_path, certs, limits=limits) as running:
        strangers = [await Raw.open(running) for _ in range(30)]
        await still_serves(running, certs)
        assert await strangers[0].closed()
        mine = context(certs, "clients/billing")
        there = []
        for number in (1, 2):
            raw = await Raw.open(running, mine)
            raw.say(hello(number))
            assert isinstance(await raw.hear(), Welcome)
            there.append(raw)
        raw = await Raw.open(running, mine)
        raw.say(HELLO)
        refusal = await raw.hear()
        assert isinstance(refusal, DaemonRefusal)
        assert "too many clients that are client:billing (2 at most)" in refusal.reason
        site = await Raw.open(running, context(certs, "b"))
        site.say(HELLO)
        assert isinstance(await site.hear(), Welcome)  # others still get in
        async with running.connect("a") as owner:
            assert (await owner.status())["clients"]["connected"]["client:billing"] == 2
        for each in (*strangers, *there, raw, site):
            each.writer.transport.abort()


@in_loop
async def test_a_site_that_is_not_of_the_cluster_is_not_let_in_by_its_certificate(
    tmp_path: Path, certs: Path
) -> None:
    add_certificates("local", ["d"], certs)
    async with listening(tmp_path, certs) as running:
        assert "d" not in site_of(running.cluster["a"]).core.layout.roster
        raw = await Raw.open(running, context(certs, "d"))
        raw.say(HELLO)
        assert await raw.closed()
        permits = running.admins["a"].desk.permits
        assert permits.grants.allows(ClientSubject(SITE, "b"), "send", "alpha")
        with pytest.raises(NotGranted, match="site:d: the site is not, or no longer, of this clus"):
            async with connect(running.address("a"), cert=certs / "d.pem"):
                pass
        assert permits.refused == {("site:d", "connect"): 2}


# --- the secret -----------------------------------------------------------------------------------


@asynccontextmanager
async def proving(tmp_path: Path) -> AsyncIterator[Served]:
    secret = tmp_path / "secret"
    secret.write_text(f"{7:064x}\n")
    secret.chmod(0o600)
    async with served(tmp_path, remote=True, secret=str(secret)) as running:
        yield running


async def proved(running: Served, secret: bytes, say: Callable[[Proof], bytes]) -> bytes:
    """What one hears who proves like this, up to the end of the connection or its answer."""
    raw = await Raw.open(running)
    proof = Proof(secret, "test", dialled=True)
    raw.say(proof.begin())
    first = bytearray(await raw.reader.readexactly(4 + 32 + PROOF_BYTES))
    proof.take(first)
    raw.say(say(proof))
    try:
        async with asyncio.timeout(60):
            return await raw.reader.read(1_000)
    finally:
        raw.writer.transport.abort()


@in_loop
async def test_a_proof_that_is_meant_for_a_link_is_of_no_use_here(tmp_path: Path) -> None:
    right = bytes(31) + b"\7"
    link = Hello("local", "b", "a", 1, 1, bytes(8), 1, 0, 0, {})
    async with proving(tmp_path) as running:
        answer = await proved(running, right, lambda proof: proof.seal(CLIENT_WORD))
        assert answer.startswith(b"ocd")
        told = await proved(running, right, lambda proof: proof.seal(encode_hello(link)))
        assert told == b"ocp\0"
        told = await proved(running, right, lambda proof: proof.seal(b"och\3"))
        assert told == b"ocp\0"
        told = await proved(running, right, lambda _: CLIENT_WORD + bytes(PROOF_BYTES))
        assert told == b"ocp\0"
        other = await Raw.open(running)
        other.say(HELLO + bytes(100))  # no proof at all
        assert await other.reader.read(100) == b"ocp\0"
        assert await other.closed()


@in_loop
async def test_a_daemon_with_nothing_to_ask_for_has_no_such_address(tmp_path: Path) -> None:
    async with served(tmp_path, insecure=True) as running:
        listener = remote_listener.RemoteListener(running.admins["a"].desk, ("127.0.0.1", 0))
        with pytest.raises(ConfigError, match=r"sites\.a\.clients: has neither certificates"):
            await listener.start()
