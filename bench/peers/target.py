"""What the members of all peers share: how a message is marked, counted and held back.

A message travels with two bytes before its payload: the number of its origin, and whether it
carries the time at which it was sent. A member has at most `WINDOW` messages under way.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from ordercast.net.bench.meter import SAMPLE_EVERY, Meter

WINDOW = 4_096  # messages of a member that it has not got back
MARK_BYTES = 2


class PeerTarget:
    """A `BenchTarget`. `put` sends one marked message, without waiting."""

    def __init__(self, spec: dict[str, Any], meter: Meter) -> None:
        self.spec = spec
        self.number: int = spec["number"]
        self.meter = meter
        self.window = WINDOW
        self._every = 1 if spec["rate"] else SAMPLE_EVERY
        self._sent = 0
        self._under_way = 0
        self._room = asyncio.Event()

    async def start(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    def put(self, marked: bytes) -> None:
        raise NotImplementedError

    async def send(self, payload: bytes) -> None:
        while self._under_way >= self.window:
            self._room.clear()
            await self._room.wait()
        self._sent += 1
        self._under_way += 1
        stamped = self._sent == 1 or self._sent % self._every == 0
        self.put(bytes((self.number, stamped)) + payload)

    async def send_many(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            await self.send(payload)

    def took(self, messages: Sequence[bytes]) -> None:
        """Messages in the order of the system."""
        meter, mine, own = self.meter, self.number, 0
        take = meter.pending.append
        for message in messages:
            payload = message[MARK_BYTES:]
            take(payload)
            if message[1]:
                meter.took_stamped(payload)
            if message[0] == mine:
                own += 1
        if own:
            self._under_way -= own
            if self._under_way < self.window:
                self._room.set()


class TurnWriter:
    """Collects what a turn of the loop writes to a connection, and writes it at once."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []

    def write(self, *pieces: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces += pieces

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        self._transport.write(b"".join(pieces))
