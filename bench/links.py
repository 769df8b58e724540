"""How much a link carries, in frames and bytes, beside a bare asyncio protocol on the same bytes.

`make bench BENCH=links`. Two processes on the loopback: one sends as long as it is not congested,
the other counts. The bare one writes the same bytes, encoded once, and counts what it reads without
decoding any of it: what is missing to it is the price of frames, checksums and TLS. The share of a
processor that each end had stands beside, for machines that do other things too.
"""

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ordercast.model.messages import Batch
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.link.connection import READ_BYTES, LinkTimes
from ordercast.net.link.hello import Identity
from ordercast.net.link.tls import TlsConfig
from ordercast.net.link.transport import Transport
from ordercast.wire.codec import WireFrame, encode_frame
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import UP, Data, Submit

CASES = [  # bytes of a batch, frames in one send
    (100, 1),
    (100, 64),
    (16_384, 8),
    (262_144, 1),
]
WARM_S = 0.3


def frame_of(size: int) -> WireFrame:
    """As sites send it: within an epoch."""
    return InEpoch(1, Data(1, 1, UP, 1, (Submit(Batch("a", 1, "g", 1, 1, bytes(size))),)))


class Link:
    """One end of a link; the receiver counts."""

    def __init__(self, site: str, certs: Path | None) -> None:
        self.frames = 0
        self.clear = asyncio.Event()
        self.up = asyncio.Event()
        addresses = {"a": ("127.0.0.1", 0), "b": ("127.0.0.1", 0)}
        self.transport = Transport(
            site, Identity("bench"), addresses, TlsConfig(certs) if certs else None,
            on_frames=self._took, on_connected=lambda _: self.up.set(), on_lost=lambda _: None,
            on_congested=self._congested, times=LinkTimes(suspect=5_000_000_000),
        )  # fmt: skip
        self.clear.set()

    def _took(self, _: str, frames: list[WireFrame]) -> None:
        self.frames += len(frames)

    def _congested(self, _: str, congested: bool) -> None:
        (self.clear.clear if congested else self.clear.set)()


class Bare(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.bytes = 0
        self.clear = asyncio.Event()
        self.clear.set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=1_048_576, low=262_144)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes += nbytes

    def pause_writing(self) -> None:
        self.clear.clear()

    def resume_writing(self) -> None:
        self.clear.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.clear.set()


async def receive_link(pipe: Connection, certs: Path | None, seconds: float) -> None:
    link = Link("b", certs)
    await link.transport.start()
    pipe.send(link.transport.address)
    await link.up.wait()
    await measure(pipe, lambda: link.frames, seconds)
    await asyncio.to_thread(pipe.recv)  # the sender has stopped
    await link.transport.close()


async def receive_bare(pipe: Connection, frame_bytes: int, seconds: float) -> None:
    bare = Bare()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: bare, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname())
    while not bare.bytes:
        await asyncio.sleep(0.001)
    await measure(pipe, lambda: bare.bytes // frame_bytes, seconds)
    await asyncio.to_thread(pipe.recv)  # the sender has stopped
    bare.transport.abort()
    server.close()


async def measure(pipe: Connection, count: Callable[[], int], seconds: float) -> None:
    await asyncio.sleep(WARM_S)
    before, begun, cpu = count(), time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    frames, took = count() - before, time.perf_counter() - begun
    pipe.send((frames / took, (time.process_time() - cpu) / took))


async def send_link(
    address: tuple[str, int], certs: Path | None, size: int, each: int, done: Connection
) -> float:
    link = Link("a", certs)
    await link.transport.start()
    link.transport.addresses["b"] = address
    link.transport.connect("b")
    await link.up.wait()
    frames = [frame_of(size)] * each
    send = link.transport.send

    def write() -> None:
        send("b", frames)

    cpu = await pour(write, link.clear, done)
    await link.transport.close()
    return cpu


async def send_bare(address: tuple[str, int], size: int, each: int, done: Connection) -> float:
    loop = asyncio.get_running_loop()
    transport, bare = await loop.create_connection(Bare, *address)
    data = encode_frame(frame_of(size)) * each
    cpu = await pour(lambda: transport.write(data), bare.clear, done)
    transport.abort()
    return cpu


async def pour(write: Callable[[], None], clear: asyncio.Event, done: Connection) -> float:
    """Write until the other process has measured; how busy this one was meanwhile."""
    begun, cpu = time.perf_counter(), time.process_time()
    while not done.poll():
        for _ in range(16):
            if clear.is_set():
                write()
        await clear.wait()
        await asyncio.sleep(0)
    return (time.process_time() - cpu) / (time.perf_counter() - begun)


def run(main: Coroutine[Any, Any, Any], loop: str) -> Any:
    if loop == "asyncio":
        return asyncio.run(main)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def receiver(pipe: Connection, loop: str, kind: str, size: int, certs: Any, seconds: float) -> None:
    if kind == "bare":
        run(receive_bare(pipe, len(encode_frame(frame_of(size))), seconds), loop)
    else:
        run(receive_link(pipe, certs, seconds), loop)


def case(loop: str, kind: str, size: int, each: int, certs: Path, seconds: float) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    place = certs if kind == "tls" else None
    process = context.Process(target=receiver, args=(theirs, loop, kind, size, place, seconds))
    process.start()
    address = ours.recv()
    if kind == "bare":
        sender = send_bare(address, size, each, ours)
    else:
        sender = send_link(address, place, size, each, ours)
    sender_cpu = run(sender, loop)
    rate, receiver_cpu = ours.recv()
    ours.send("stopped")
    process.join()
    return {
        "loop": loop, "link": kind, "batch_bytes": size, "frames_per_send": each,
        "frames_per_s": round(rate), "mb_per_s": round(rate * size / 1e6, 1),
        "sender_cpu": round(sender_cpu, 2), "receiver_cpu": round(receiver_cpu, 2),
        "mb_per_s_of_receiver_cpu": round(rate * size / 1e6 / max(receiver_cpu, 0.01), 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench BENCH=links")
    parser.add_argument("--seconds", type=float, default=1.5, help="per case")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), action="append")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        write_certificates("bench", ["a", "b"], Path(place))
        for loop in options.loop or ("asyncio", "uvloop"):
            for size, each in CASES:
                for kind in ("bare", "plain", "tls"):
                    row = case(loop, kind, size, each, Path(place), options.seconds)
                    rows.append(row)
                    print(row, file=sys.stderr, flush=True)
    print(json.dumps({"links": rows}))


if __name__ == "__main__":
    main()
