"""Connections that no site would make: garbage, oversize, slow, foreign, replayed, half-finished.

`Attacker` makes them one kind at a time or mixed by a seed, against the address of any transport,
in this process or another. Each attack ends when the other side has closed the connection.
"""

import asyncio
import random
import ssl
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import msgspec

from ordercast.model.epochs import AddGroup
from ordercast.model.limits import MEMBERS
from ordercast.net.link.hello import VERSION as HELLO_VERSION
from ordercast.net.link.hello import Hello, encode_hello
from ordercast.wire.codec import MAGIC, VERSION
from ordercast.wire.epochs import ChangeRequest, Fed, Feed, InEpoch
from ordercast.wire.frames import Ack
from ordercast.wire.voting import Vote

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter, random.Random], Awaitable[None]]

HEADER = struct.Struct(">3sBII")
LIFE_S = 30.0


@dataclass
class Attacker:
    """`claims` is a site of the cluster that is not running: in its name frames can be sent."""

    address: tuple[str, int]
    cluster: str
    site: str  # that is attacked
    claims: str
    terms: Mapping[str, str] = field(default_factory=dict)
    foreign: Path | None = None  # certificates of another authority: of a cluster that speaks TLS
    counts: Counter[str] = field(default_factory=Counter)
    drip_s: float = 0.05

    def __post_init__(self) -> None:
        self._number = 0
        self._contexts: dict[str, ssl.SSLContext] = {}

    def hello(self, **changes: object) -> Hello:
        """A right one but for the changes. The instance is always the same, the number grows."""
        self._number += 1
        fields: dict[str, object] = {
            "cluster": self.cluster, "site": self.claims, "to": self.site, "incarnation": 1,
            "boot": 1, "instance": b"attacker", "number": self._number, "answers": 0, "gone": 0,
            "terms": dict(self.terms),
        }  # fmt: skip
        return Hello(**{**fields, **changes})  # type: ignore[arg-type]

    # --- kinds: what they write, the wait for the end is common ---------------------------------

    def kinds(self) -> dict[str, Attack]:
        """Those that make sense against this transport, by name."""
        common = {
            "garbage": self._garbage,
            "half hello": self._half_hello,
            "oversize hello": self._oversize_hello,
            "slow-loris": self._slow_loris,
            "silence": self._silence,
        }
        if self.foreign is not None:
            return {**common, "foreign certificate": self._tls, "no certificate": self._tls}
        return {
            **common,
            "damaged hello": self._damaged_hello,
            "other cluster": self._hello_with(cluster="elsewhere"),
            "other terms": self._hello_with(terms={"protocol": "none"}),
            "unknown site": self._hello_with(site="nobody"),
            "other addressee": self._hello_with(to="another"),
            "replayed hello": self._replayed,
            "oversize frame": self._oversize_frame,
            "wrong frame": self._wrong_frame,
            "wrong change": self._wrong_change,
            "TLS to plain": self._tls_bytes,
        }

    async def one(self, kind: str, rng: random.Random) -> None:
        """Make one such connection, and wait until it is closed."""
        self.counts[kind] += 1
        try:
            async with asyncio.timeout(LIFE_S):
                await self._one(kind, rng)
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
            pass  # reset, which is what we are here for

    async def _one(self, kind: str, rng: random.Random) -> None:
        attack = self.kinds()[kind]
        context = self._context(kind) if attack == self._tls else None
        reader, writer = await asyncio.open_connection(*self.address, ssl=context)
        try:
            await attack(reader, writer, rng)
            while await reader.read(65_536):
                pass
        finally:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def many(self, count: int, seed: object, at_once: int = 16) -> None:
        """So many connections of all kinds in turn, a few at a time."""
        rng = random.Random(f"{seed}")
        kinds = sorted(self.kinds())
        todo = iter([(kinds[n % len(kinds)], rng.random()) for n in range(count)])

        async def worker() -> None:
            for kind, chance in todo:
                await self.one(kind, random.Random(chance))

        await asyncio.gather(*(worker() for _ in range(at_once)))

    async def _garbage(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        writer.write(rng.randbytes(rng.randrange(1, 100_000)))

    async def _silence(
        self, _: asyncio.StreamReader, __: asyncio.StreamWriter, ___: random.Random
    ) -> None:
        """Nothing, until the other side has had enough."""

    async def _half_hello(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        whole = encode_hello(self.hello())
        writer.write(whole[: rng.randrange(1, len(whole))])
        if writer.can_write_eof():
            writer.write_eof()

    async def _slow_loris(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: random.Random
    ) -> None:
        for byte in encode_hello(self.hello()):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(self.drip_s)
            if writer.is_closing():
                return

    async def _oversize_hello(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        header = HEADER.pack(b"och", HELLO_VERSION, rng.randrange(5_000, 2**32), 0)
        writer.write(header + rng.randbytes(5_000))

    async def _damaged_hello(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        whole = bytearray(encode_hello(self.hello()))
        whole[rng.randrange(12, len(whole))] ^= 1 << rng.randrange(8)
        writer.write(whole)

    def _hello_with(self, **changes: object) -> Attack:
        async def attack(
            _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: random.Random
        ) -> None:
            writer.write(encode_hello(self.hello(**changes)))

        return attack

    async def _replayed(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        writer.write(encode_hello(self.hello(number=rng.randint(1, max(self._number // 2, 1)))))

    async def _oversize_frame(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        length = rng.randrange(2**24, 2**32)
        writer.write(encode_hello(self.hello()) + HEADER.pack(MAGIC, VERSION, length, 0))
        writer.write(rng.randbytes(20_000))

    async def _wrong_frame(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        body = rng.randbytes(rng.randrange(1, 500))
        writer.write(encode_hello(self.hello()) + HEADER.pack(MAGIC, VERSION, len(body), 0) + body)

    async def _wrong_change(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        """Right bytes of a frame about epochs that breaks one rule."""
        broken = (
            InEpoch(0, Ack(1, 1, ())),
            Feed(-1, (), 0, ()),
            Fed(0, (("c", (("a", 1, "g", 0),)),)),
            ChangeRequest("c", (AddGroup("g", ("a",) * (MEMBERS + 1)),)),
            Vote(-1, 0, 0, True),
        )
        body = msgspec.msgpack.encode(rng.choice(broken))
        header = HEADER.pack(MAGIC, VERSION, len(body), crc32(body))
        writer.write(encode_hello(self.hello()) + header + body)

    async def _tls_bytes(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(32))

    async def _tls(
        self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: random.Random
    ) -> None:
        """The handshake is done as far as we can see; TLS 1.3 refuses clients after it."""
        writer.write(encode_hello(self.hello()))

    def _context(self, kind: str) -> ssl.SSLContext:
        if kind not in self._contexts:
            context = self._contexts[kind] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            if kind == "foreign certificate":
                assert self.foreign is not None
                name = self.foreign / self.claims
                context.load_cert_chain(name.with_suffix(".pem"), name.with_suffix(".key"))
        return self._contexts[kind]
