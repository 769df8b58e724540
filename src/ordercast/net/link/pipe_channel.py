"""An end of a pipe, as the transport of a connection. It takes the place of TCP."""

import asyncio
from typing import Any, Final

from ordercast.model.groups import Site
from ordercast.model.limits import PIPE_WINDOW
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import WRONG_FRAME, Connection
from ordercast.net.link.pipe_carrier import PipeWriter

ROOM_BYTES: Final = PIPE_WINDOW // 4  # read, after which the other end is told of the room


class PipeChannel(asyncio.Transport):
    """State: the bytes that wait to be written; the bytes that were read since the other end was
    told."""

    def __init__(self, connection: Connection, writer: PipeWriter, relay: Site) -> None:
        super().__init__({"peername": (f"through {relay}", 0)})
        self._connection = connection
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._high = self._low = 0
        self._paused = False
        self._read = 0  # bytes read that the other end was not told of
        self._closing = False
        self._over = False

    # --- what the carrier tells -------------------------------------------------------------------

    def took(self, data: bytes) -> None:
        self._read += len(data)
        if self._read > PIPE_WINDOW:
            raise LinkTrouble(WRONG_FRAME, f"more than {PIPE_WINDOW:,} bytes of a pipe at once")
        rest = memoryview(data)
        while rest and not self._over:
            buffer = self._connection.get_buffer(-1)
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            rest = rest[count:]
            self._connection.buffer_updated(count)
        if self._read >= ROOM_BYTES and not self._over:
            self._writer.carrier.make_room(self._writer.number, self._read)
            self._read = 0

    def given_room(self, count: int) -> None:
        self._writer.allow(count)

    def wrote(self) -> None:
        if self._paused and len(self._writer.buffer) <= self._low:
            self._paused = False
            self._connection.resume_writing()
        if self._closing and not self._writer.buffer:
            self._finish(None)

    def ended(self, why: str) -> None:
        self._finish(ConnectionResetError(why) if why else None)

    def _finish(self, error: Exception | None) -> None:
        if not self._over:
            self._over = self._closing = True
            self._writer.buffer.clear()
            self._loop.call_soon(self._connection.connection_lost, error)

    # --- what the connection calls ----------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return len(self._writer.buffer)

    def write(self, data: Any) -> None:
        if self._closing:
            return
        self._writer.write(data)
        if not self._paused and len(self._writer.buffer) > self._high:
            self._paused = True
            self._connection.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._writer.finish("")

    def abort(self) -> None:
        if not self._over:
            self._writer.carrier.end(self._writer.number, "")
            self._finish(None)
