"""Redis Streams: one server orders by `XADD`, and every member reads the stream by `XREAD`."""

import asyncio
import shutil
from typing import Any, cast

from bench.peers.servers import Servers
from bench.peers.target import PeerTarget, TurnWriter
from bench.peers.tls import files_for, member_context, told, with_tls
from ordercast.net.bench.run import free_ports

DURABLE = "appendfsync always"


class Redis:
    name = "Redis Streams"
    promise = "one server orders; durable: one fsync of the server, no replica's disk"
    variants = with_tls("", DURABLE)

    def missing(self) -> str:
        return "" if shutil.which("redis-server") else "redis-server is not installed"

    def serve(self, servers: Servers, members: int, variant: str) -> list[dict[str, Any]]:
        (port,) = free_ports(1)
        words = ["redis-server", "--bind", "127.0.0.1", "--save", ""]
        words += ["--dir", str(servers.directory), "--protected-mode", "no"]
        files = files_for(servers, variant)
        if files is None:
            words += ["--port", str(port)]
        else:
            words += ["--port", "0", "--tls-port", str(port), "--tls-protocols", "TLSv1.3"]
            words += ["--tls-ca-cert-file", files.authority]
            words += ["--tls-cert-file", files.certificate, "--tls-key-file", files.key]
        if variant.startswith(DURABLE):
            words += ["--appendonly", "yes", "--appendfsync", "always"]
        servers.start(words)
        servers.wait_for(port)
        return [{"port": port, **told(files)}] * members


def command(*words: bytes) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


class Adds(asyncio.Protocol):
    """The connection that adds. Its answers are ids; an error ends the run."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data[:1] == b"-" or b"\n-" in data:
            raise SystemExit(f"redis: {data[:200]!r}")


class Reads(asyncio.Protocol):
    def __init__(self, target: "RedisTarget") -> None:
        self._target = target
        self._buffer = bytearray()
        self._last = b"0"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        words = (b"XREAD", b"COUNT", b"1000", b"BLOCK", b"0", b"STREAMS", b"all", self._last)
        self.transport.write(command(*words))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            found, end = walk(bytes(self._buffer))
        except (ValueError, IndexError):
            return  # more is to come
        del self._buffer[:end]
        entries = found[0][1]
        self._last = entries[-1][0]
        self._ask()
        self._target.took([fields[1] for _, fields in entries])


def walk(data: bytes, at: int = 0) -> tuple[Any, int]:
    """One value of the protocol, and where it ends. ValueError or IndexError: it is not whole."""
    end = data.index(b"\r\n", at)
    kind, count = data[at], int(data[at + 1 : end])
    at = end + 2
    if kind == 36:  # $
        if len(data) < at + count + 2:
            raise ValueError
        return data[at : at + count], at + count + 2
    if kind != 42:  # *
        raise SystemExit(f"redis: {data[:200]!r}")
    values = []
    for _ in range(count):
        value, at = walk(data, at)
        values.append(value)
    return values, at


class RedisTarget(PeerTarget):
    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        port, tls = self.spec["port"], member_context(self.spec)
        _, adds = await loop.create_connection(Adds, "127.0.0.1", port, ssl=tls)
        self._writer = TurnWriter(adds.transport)
        self._adds = adds
        _, self._reads = await loop.create_connection(
            lambda: Reads(self), "127.0.0.1", port, ssl=tls
        )

    def put(self, marked: bytes) -> None:
        head = b"*5\r\n$4\r\nXADD\r\n$3\r\nall\r\n$1\r\n*\r\n$1\r\np\r\n"
        self._writer.write(head, b"$%d\r\n%b\r\n" % (len(marked), marked))

    async def close(self) -> None:
        self._adds.transport.close()
        self._reads.transport.close()
