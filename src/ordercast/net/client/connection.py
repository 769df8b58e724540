"""A client's connection to its daemon: made again whenever it breaks, with back-off."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from ordercast.model.errors import ConfigError, Error
from ordercast.net.admin.frames import (
    ADMIN_CODECS,
    ClientHello,
    DaemonFrame,
    DaemonRefusal,
    Welcome,
    Wire,
    decode_reply,
)
from ordercast.net.cluster.sockets import socket_path

_FIRST_S, _MOST_S = 0.02, 1.0  # between attempts
_WELCOME_S = 5.0


class DaemonConnection:
    """`on_up` when a daemon has welcomed us, `on_frame` for all it says then, `on_down` after."""

    def __init__(
        self,
        path: Path,
        hello: ClientHello,
        on_up: Callable[[Welcome], None],
        on_frame: Callable[[DaemonFrame], None],
        on_down: Callable[[], None],
    ) -> None:
        self.path = path
        self.up = False
        self.trouble = "it was not tried yet"
        self.refused: Error | None = None  # by the daemon, for good
        self._hello = hello
        self._on_up = on_up
        self._on_frame = on_frame
        self._on_down = on_down
        self._wire: Wire | None = None
        self._lost: asyncio.Event = asyncio.Event()
        self._welcomed = False  # on this connection, or the last
        self._farewell = ""  # why the daemon closes it
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._wire is not None:
            self._wire.close()

    def send(self, message: object) -> None:
        """Send a frame. Without a connection it does nothing: the client sends all that counts
        again."""
        if self.up and self._wire is not None:
            self._wire.send(message)  # type: ignore[arg-type]

    def break_off(self, reason: str) -> None:
        if self._wire is not None:
            self._wire.fail(reason)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        pause = _FIRST_S
        while self.refused is None:
            self._lost = asyncio.Event()
            self._welcomed = False
            self._farewell = ""
            try:
                _, self._wire = await loop.create_unix_connection(
                    lambda: Wire(decode_reply, self._frame, self._gone), socket_path(self.path)
                )
            except ConfigError as error:
                self.refused = error
                self._on_down()
                return
            except OSError as error:
                self.trouble = (error.strerror or str(error)).lower()
            else:
                self._wire.send(self._hello)
                try:
                    async with asyncio.timeout(_WELCOME_S) as patience:
                        self._patience = patience
                        await self._lost.wait()
                except TimeoutError:
                    self.trouble = "the daemon does not answer"
                    self._wire.fail(self.trouble)
                    await self._lost.wait()
            if self._welcomed:
                pause = _FIRST_S
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MOST_S)

    def _frame(self, wire: Wire, frame: DaemonFrame) -> None:
        if isinstance(frame, DaemonRefusal):
            self._farewell = frame.reason
            if frame.final:
                self.refused = Error(f"{self.path}: {frame.reason}")
                self._on_down()
        elif isinstance(frame, Welcome):
            codec = ADMIN_CODECS.get(frame.version)
            if codec is None:
                self.refused = Error(f"{self.path}: the daemon speaks version {frame.version}")
                self.break_off("version")
                return
            wire.use(codec.encode, codec.reply)
            self._patience.reschedule(None)
            self.up = self._welcomed = True
            self._on_up(frame)
        elif self.up:
            self._on_frame(frame)

    def _gone(self, wire: Wire) -> None:
        if wire.failure:
            self.trouble = wire.failure
        else:
            self.trouble = self._farewell or "the connection broke"
        if self.up:
            self.up = False
            self._on_down()
        self._wire = None
        self._lost.set()
