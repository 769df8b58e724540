"""The floor: a bare batched sequencer on asyncio, what one could have without any guarantee.

    python bench/floor.py [--members 3] [--payload 100] [--seconds 5] [--json]

Real processes on the loopback, as in `ordercast bench`, with the same load, clock and hash. The
first member is the sequencer. The others send it frames of up to 64 KiB; it stamps each with its
place, without decoding it, and passes on what a turn of the loop brought, with one write per peer.
A frame is filled and taken apart message by message, as an application wants them. Nobody keeps
anything: what is lost is lost, a member that dies stops all, nothing is durable or acknowledged.
"""

import argparse
import asyncio
import json
import struct
import sys
from pathlib import Path
from typing import Any, cast

from ordercast.core.epochs.admission import BATCH_BYTES
from ordercast.net.bench.member import run_member, take_part
from ordercast.net.bench.meter import Meter
from ordercast.net.bench.run import free_ports, run_members

HEADER = struct.Struct(">IIQ")  # bytes of the body, origin, place in the order
LENGTH = struct.Struct(">I")
WINDOW = 8  # frames of a member that it has not got back
READ_BYTES = 1 << 20


class FloorMember:
    """`number` 0 is the sequencer."""

    def __init__(self, spec: dict[str, Any], meter: Meter) -> None:
        self.number: int = spec["number"]
        self.sequencer = self.number == 0
        self._port: int = spec["port"]
        self._others: int = spec["members"] - 1 if self.sequencer else 1
        self._meter = meter
        self.peers: list[Peer] = []
        self._place = 0
        self._frames = 0  # of ours that are under way
        self._out: list[bytes | bytearray] = []
        self._flushing = False
        self._room = asyncio.Event()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self.sequencer:
            self._server = await self._loop.create_server(
                lambda: Peer(self), "127.0.0.1", self._port
            )
        else:
            while not self.peers:
                try:
                    await self._loop.create_connection(lambda: Peer(self), "127.0.0.1", self._port)
                except OSError:
                    await asyncio.sleep(0.02)
        while len(self.peers) < self._others:
            await asyncio.sleep(0.005)

    # --- sending ----------------------------------------------------------------------------------

    async def send(self, payload: bytes) -> None:
        await self.send_many([payload])

    async def send_many(self, payloads: list[bytes]) -> None:
        while self._full():
            self._room.clear()
            await self._room.wait()
        frame, pack = bytearray(HEADER.size), LENGTH.pack
        for payload in payloads:
            frame += pack(len(payload))
            frame += payload
        HEADER.pack_into(frame, 0, len(frame) - HEADER.size, self.number, self._next_place())
        self._frames += 1
        self._out.append(frame)
        if self.sequencer:
            self._deliver(self.number, memoryview(frame)[HEADER.size :])
        self._flush_soon()

    def _full(self) -> bool:
        if self.sequencer:
            return len(self._out) >= WINDOW or any(peer.paused for peer in self.peers)
        return self._frames >= WINDOW

    def _next_place(self) -> int:
        if self.sequencer:
            self._place += 1
        return self._place

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """The end of a turn: one write per peer."""
        self._flushing = False
        if self._out:
            data = b"".join(self._out)
            self._out = []
            for peer in self.peers:
                peer.transport.write(data)
        self.may_have_room()

    def may_have_room(self) -> None:
        if not self._full():
            self._room.set()

    # --- receiving --------------------------------------------------------------------------------

    def took(self, buffer: memoryview, frames: list[tuple[int, int, int]]) -> None:
        """Whole frames, one behind the other: where each begins and ends, and its origin."""
        if self.sequencer:
            for begin, end, origin in frames:
                HEADER.pack_into(
                    buffer, begin, end - begin - HEADER.size, origin, self._next_place()
                )
            self._out.append(bytes(buffer[frames[0][0] : frames[-1][1]]))
            self._flush_soon()
        for begin, end, origin in frames:
            self._deliver(origin, buffer[begin + HEADER.size : end])

    def _deliver(self, origin: int, body: memoryview) -> None:
        data = bytes(body)
        payloads: list[bytes] = []
        at, end, unpack, step = 0, len(data), LENGTH.unpack_from, LENGTH.size
        while at < end:
            begin = at + step
            at = begin + unpack(data, at)[0]
            payloads.append(data[begin:at])
        self._meter.took_stamped(payloads[0])
        self._meter.took(payloads)
        if origin == self.number:
            self._frames -= 1
            self.may_have_room()

    async def close(self) -> None:
        for peer in self.peers:
            peer.transport.close()
        if self.sequencer:
            self._server.close()


class Peer(asyncio.BufferedProtocol):
    """A connection: finds whole frames in what comes."""

    def __init__(self, member: FloorMember) -> None:
        self._member = member
        self._view = memoryview(bytearray(READ_BYTES))
        self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(WINDOW * BATCH_BYTES)
        self.paused = False
        self._member.peers.append(self)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._member.may_have_room()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        view = self._view
        at, end = 0, self._end + nbytes
        frames: list[tuple[int, int, int]] = []
        while end - at >= HEADER.size:
            length, origin, _ = HEADER.unpack_from(view, at)
            after = at + HEADER.size + length
            if after > end:
                break
            frames.append((at, after, origin))
            at = after
        if frames:
            self._member.took(view, frames)
        rest = end - at
        if at and rest:
            view[:rest] = bytes(view[at:end])
        self._end = rest


def run_floor(members: int, payload: int, seconds: float, rate: float = 0.0) -> dict[str, Any]:
    """As `ordercast bench` reports; the load is as with its API by the batch."""
    (port,) = free_ports(1)
    specs = [
        {
            "members": members, "payload": payload, "batch": True, "rate": rate / members,
            "number": number, "port": port,
        }
        for number in range(members)
    ]  # fmt: skip
    commands = [
        [sys.executable, str(Path(__file__).resolve()), "--member", json.dumps(spec)]
        for spec in specs
    ]
    measured = run_members(commands, seconds)
    return {"system": "floor", "members": members, "payload": payload, **measured}


async def _member(spec: dict[str, Any]) -> None:
    meter = Meter()
    await take_part(spec, FloorMember(spec, meter), meter)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=0.0, help="of all members together")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        run_member(lambda: _member(json.loads(options.member)))
        return 0
    found = run_floor(options.members, options.payload, options.seconds, options.rate)
    if options.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['msgs_per_s']:,} messages/s by each of {options.members} members,"
            f" {options.payload} B; {found['cpu_us_per_msg']} µs of processor time each,"
            f" {found['p50_ms']} ms median; order"
            f" {'the same' if found['same_order'] else 'NOT THE SAME'}"
        )
    return 0 if found["same_order"] else 1


if __name__ == "__main__":
    sys.exit(main())
