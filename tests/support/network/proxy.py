"""A TCP proxy that disturbs what passes through it: resets, stalls, truncates, corrupts, delays; or
is only a long line, on which all that passes is under way for a while.

What happens to the n-th connection, and after how many bytes, follows from the seed and n. It runs
on the test's event loop (`async with Proxy(…)`) or, for sites that are other processes, on a loop
of its own in a thread (`with in_thread([…])`).
"""

import asyncio
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self

KINDS = ("reset", "stall", "truncate", "corrupt", "delay")
CHUNK = 65_536
UNDER_WAY = 256  # chunks of one direction on a line


@dataclass(frozen=True)
class Manners:
    """How rude it is. A third of the disturbances come within the first bytes, so in the hello or
    the TLS handshake; the others after `mean_bytes` on average."""

    kinds: tuple[str, ...] = KINDS
    mean_bytes: int = 60_000
    early_bytes: int = 400
    stall_s: float = 0.15  # at most
    delay_s: float = 0.01  # at most
    line_s: tuple[float, float] = (0.0, 0.0)  # every chunk is under way for so long, in order


class Proxy:
    """Listens on a free port and passes everything on to `target`, disturbed while not `calm`."""

    def __init__(
        self, target: tuple[str, int], seed: object, manners: Manners | None = None
    ) -> None:
        self.target = target
        self.seed = seed
        self.manners = manners or Manners()
        self.calm = False
        self.stalled = False  # nothing passes, nothing is closed
        self.stalled_forth = self.stalled_back = False  # the same, only to or from the target
        self.record: bytearray | None = None  # what passes is added to it
        self.disturbances: Counter[str] = Counter()
        self.connections = 0
        self.address = ("127.0.0.1", 0)
        self._server: asyncio.Server | None = None
        self._pipes: set[_Pipe] = set()
        self._active = 0  # connections being accepted, passed through or ended
        self._closed = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.address[1])
        self.address = self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        self._closed = True
        if self._server is not None:
            self._server.close()
        quiet = 0
        while quiet < 3:  # one may be on its way to us
            self.cut()
            await asyncio.sleep(0.002)
            quiet = 0 if self._active else quiet + 1

    def stalls(self, *, back: bool) -> bool:
        return self.stalled or (self.stalled_back if back else self.stalled_forth)

    def cut(self) -> None:
        """Reset whatever passes through it now."""
        for pipe in list(self._pipes):
            pipe.reset()

    def forget_far_ends(self) -> None:
        """Reset the connections to the target alone: those who dialled notice nothing."""
        for pipe in list(self._pipes):
            pipe.forget_far_end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._active += 1
        try:
            await self._pass(reader, writer, random.Random(f"{self.seed}/{self.connections}"))
        finally:
            self._active -= 1

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> None:
        try:
            further = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        pipe = _Pipe(self, rng, (reader, writer), further)
        self._pipes.add(pipe)
        if self._closed:
            pipe.reset()
        try:
            await pipe.run()
        finally:
            self._pipes.discard(pipe)


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Line:
    """Chunks in one direction of a connection, each under way for a while, none past another."""

    def __init__(self, writer: asyncio.StreamWriter, rng: random.Random, manners: Manners) -> None:
        self._writer = writer
        self._rng = rng
        self._least_s, self._most_s = manners.line_s
        self._chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(UNDER_WAY)

    async def send(self, data: bytes) -> None:
        if not self._most_s:
            self._writer.write(data)
            await self._writer.drain()
            return
        delay_s = self._rng.uniform(self._least_s, self._most_s)
        await self._chunks.put((asyncio.get_running_loop().time() + delay_s, data))

    async def arrive(self) -> None:
        """Until cancelled, or the far end is gone; then chunks are taken and lost."""
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._chunks.get()
            await asyncio.sleep(due - loop.time())
            with suppress(OSError):
                self._writer.write(data)
                await self._writer.drain()
            self._chunks.task_done()

    async def empty(self) -> None:
        await self._chunks.join()


class _Pipe:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, rng: random.Random, near: Ends, far: Ends) -> None:
        self._proxy = proxy
        self._rng = rng
        self._near = near
        self._far = far
        self._passed = 0
        self._at = 0
        self._kind = ""
        self._half = False  # the far end is gone, the near one must not notice
        self._draw()

    def _draw(self) -> None:
        manners = self._proxy.manners
        self._kind = self._rng.choice(manners.kinds)
        if self._rng.random() < 1 / 3:
            ahead = self._rng.randrange(1, manners.early_bytes)
        else:
            ahead = int(self._rng.expovariate(1 / manners.mean_bytes)) + 1
        self._at = self._passed + ahead

    async def run(self) -> None:
        both = [
            asyncio.create_task(self._pump(self._near[0], self._far[1], back=False)),
            asyncio.create_task(self._pump(self._far[0], self._near[1], back=True)),
        ]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        while self._half:
            await asyncio.sleep(0.01)
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        for _, writer in (self._near, self._far):
            writer.close()  # after what was written, but not for ever
            try:
                async with asyncio.timeout(1):
                    await writer.wait_closed()
            except OSError:
                writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool
    ) -> None:
        line = _Line(writer, self._rng, self._proxy.manners)
        arriving = asyncio.create_task(line.arrive())
        try:
            await self._pass_on(reader, writer, line, back=back)
            await line.empty()
        finally:
            arriving.cancel()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        line: _Line,
        *,
        back: bool,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                while self._proxy.stalls(back=back):
                    await asyncio.sleep(0.002)
                if self._proxy.record is not None:
                    self._proxy.record += data
                before, self._passed = self._passed, self._passed + len(data)
                if self._passed >= self._at and not self._proxy.calm:
                    offset = min(max(self._at - before, 0), len(data) - 1)
                    left = await self._disturb(data, offset, writer)
                    if left is None:
                        return
                    data = left
                await line.send(data)

    async def _disturb(self, data: bytes, at: int, writer: asyncio.StreamWriter) -> bytes | None:
        """What becomes of these bytes, or None when the connection has ended."""
        kind, manners = self._kind, self._proxy.manners
        self._proxy.disturbances[kind] += 1
        self._draw()
        if kind == "reset":
            self.reset()
            return None
        if kind == "truncate":
            writer.write(data[:at])
            await writer.drain()
            return None
        if kind == "corrupt":
            flipped = data[at] ^ (1 << self._rng.randrange(8))
            return data[:at] + bytes([flipped]) + data[at + 1 :]
        most = manners.stall_s if kind == "stall" else manners.delay_s
        await asyncio.sleep(self._rng.uniform(0, most))
        return data

    def reset(self) -> None:
        """So that both ends see a reset, not an orderly end."""
        self._half = False
        for _, writer in (self._near, self._far):
            _reset(writer)

    def forget_far_end(self) -> None:
        self._half = True
        _reset(self._far[1])


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:  # else its end has been noticed already (uvloop)
        with suppress(OSError, ValueError):  # closed already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def in_thread(proxies: Sequence[Proxy]) -> Iterator[None]:
    """Run the proxies on a loop in a thread of their own; their addresses are there at once."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> None:
        for proxy in proxies:
            await proxy.start()

    async def close() -> None:
        for proxy in proxies:
            await proxy.close()

    asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
