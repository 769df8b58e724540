"""A direct connection as the carrier of pipes: their numbers, and which pipe writes next.

The bytes of pipes wait here while much else waits to be written to the connection. So pipes never
delay the connection's own frames by more than SHARE_BYTES. Pipes take turns, one piece each.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from ordercast.model.groups import Site
from ordercast.model.limits import PIPE_BYTES, PIPE_WINDOW
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import WRONG_FRAME, Connection
from ordercast.wire.pipes import PipeData, PipeEnd, PipeFrame, PipeRoom

SHARE_BYTES: Final = 262_144  # waiting to be written, at which pipes add no more
AGAIN_S: Final = 0.005  # pause before the carrier tries again


class PipeSide(Protocol):
    """What a number on a carrier leads to: the end of a pipe, or a relay."""

    def took(self, data: bytes) -> None: ...
    def given_room(self, count: int) -> None: ...
    def wrote(self) -> None:
        """A piece has been written to the carrier."""

    def ended(self, why: str) -> None: ...


class PipeWriter:
    """The bytes of one pipe that wait for its carrier."""

    def __init__(self, carrier: "PipeCarrier", number: int) -> None:
        self.carrier = carrier
        self.number = number
        self.buffer = bytearray()
        self.room = PIPE_WINDOW  # bytes that the other end has room for
        self._end: str | None = None  # why the pipe ends; told after the last byte
        self.queued = False  # it stands in the carrier's line

    def fits(self, count: int) -> bool:
        """Whether the other end has made room for this many more bytes."""
        return len(self.buffer) + count <= self.room

    def write(self, data: bytes) -> None:
        self.buffer += data
        self.carrier.want(self)

    def allow(self, count: int) -> None:
        if self.room + count > PIPE_WINDOW:
            raise LinkTrouble(WRONG_FRAME, f"room for {count:,} bytes of a pipe that were not sent")
        self.room += count
        self.carrier.want(self)

    def finish(self, why: str) -> None:
        """End the pipe after the bytes that were written so far."""
        self._end = why
        self.carrier.want(self)

    @property
    def ready(self) -> bool:
        return self.room > 0 if self.buffer else self._end is not None

    def step(self) -> None:
        """Write one piece, or tell the end."""
        if self.buffer:
            piece = bytes(self.buffer[: min(PIPE_BYTES, self.room)])
            del self.buffer[: len(piece)]
            self.room -= len(piece)
            self.carrier.say(PipeData(self.number, piece))
        elif self._end is not None:
            self.carrier.end(self.number, self._end)


class PipeCarrier:
    """State: the pipes on a connection, by number; the line of those that have bytes to write."""

    def __init__(self, connection: Connection, us: Site, peer: Site) -> None:
        self.connection = connection
        self.peer = peer
        self.sides: dict[int, PipeSide] = {}
        self._line: deque[PipeWriter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False
        self._next = 1 if us < peer else 2
        self._theirs = 0 if us < peer else -1  # the last number that the peer has used

    # --- numbers ----------------------------------------------------------------------------------

    def number(self) -> int:
        """A number for a pipe that this site opens on this carrier."""
        self._next += 2
        return self._next - 2

    def opened(self, number: int) -> None:
        """The peer opens a pipe. Raises LinkTrouble unless its number is new."""
        if number <= self._theirs or (number - self._theirs) % 2:
            raise LinkTrouble(WRONG_FRAME, f"a new pipe has the number {number}")
        self._theirs = number

    def side(self, number: int) -> PipeSide | None:
        """The pipe's side here. None: the pipe has ended here, and the peer does not know yet."""
        found = self.sides.get(number)
        ours = number % 2 == self._next % 2
        if found is None and number > (self._next - 2 if ours else self._theirs):
            raise LinkTrouble(WRONG_FRAME, f"pipe {number} was never opened")
        return found

    # --- writing ----------------------------------------------------------------------------------

    def say(self, frame: PipeFrame) -> None:
        self.connection.send([frame])

    def make_room(self, number: int, count: int) -> None:
        self.say(PipeRoom(number, count))

    def end(self, number: int, why: str) -> None:
        """Tell the peer that a pipe has ended, unless either side has told so before."""
        if self.sides.pop(number, None) is not None:
            self.say(PipeEnd(number, why))

    def want(self, writer: PipeWriter) -> None:
        """Put the writer in line if it can write."""
        if writer.queued or not writer.ready or writer.number not in self.sides:
            return
        writer.queued = True
        self._line.append(writer)
        if self._timer is None and not self._writing:
            self._write()

    def _write(self) -> None:
        self._timer, self._writing = None, True
        while self._line and not self.connection.over:
            if self.connection.waiting > SHARE_BYTES:
                self._timer = asyncio.get_running_loop().call_later(AGAIN_S, self._write)
                break
            writer = self._line.popleft()
            writer.queued = False
            side = self.sides.get(writer.number)
            if side is not None:
                writer.step()
                side.wrote()
                self.want(writer)
        self._writing = False

    # --- the end ----------------------------------------------------------------------------------

    def lost(self, why: str) -> None:
        """The connection has ended, and with it all its pipes."""
        if self._timer is not None:
            self._timer.cancel()
        self._line.clear()
        sides, self.sides = self.sides, {}
        for side in sides.values():
            side.ended(why)
