"""A client's connection to a daemon: made again whenever it breaks, with back-off."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence

from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Site
from ordercast.net.admin.frames import (
    ADMIN_CODECS,
    ClientHello,
    DaemonFrame,
    DaemonRefusal,
    Welcome,
    Wire,
    decode_reply,
    error_of,
)
from ordercast.net.client.endpoints import Endpoint
from ordercast.net.cluster.addresses import why

_FIRST_S, _MOST_S = 0.02, 1.0  # between attempts
_OPEN_S = 5.0  # until there is a connection, and until the daemon's welcome


class DaemonConnection:
    """`on_up` is called when a daemon has welcomed us, `on_frame` with each later frame, `on_down`
    when that connection has ended. The endpoints are tried in turn, beginning with the one that was
    used last. `may_use` says whether a site that answers can be used."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        hello: ClientHello,
        may_use: Callable[[Site], bool],
        on_up: Callable[[Welcome], None],
        on_frame: Callable[[DaemonFrame], None],
        on_down: Callable[[], None],
    ) -> None:
        self.up = False
        self.trouble = "it was not tried yet"
        self.refused: Error | None = None  # by all daemons, for good
        self._endpoints = list(endpoints)
        self._at = 0  # the endpoint that is tried, or used
        self._refusals: dict[int, Error] = {}  # final ones, by endpoint
        self._hello = hello
        self._may_use = may_use
        self._on_up = on_up
        self._on_frame = on_frame
        self._on_down = on_down
        self._wire: Wire | None = None
        self._lost: asyncio.Event = asyncio.Event()
        self._welcomed = False  # on this connection, or the last
        self._farewell = ""  # why the daemon closes it
        self._task: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return ", ".join(map(str, self._endpoints))

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

    async def _keep(self) -> None:
        """A pause comes after each round of all endpoints, and after a connection that was lost."""
        pause, tried = _FIRST_S, 0
        while self.refused is None:
            try:
                await self._connect(self._endpoints[self._at])
            except ConfigError as error:
                self.refused = error
                self._on_down()
                return
            if self._welcomed:
                pause, tried = _FIRST_S, 0
            else:
                tried += 1
                self._at = (self._at + 1) % len(self._endpoints)
            if self.refused is None and tried % len(self._endpoints) == 0:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MOST_S)

    async def _connect(self, endpoint: Endpoint) -> None:
        """Returns when the connection has ended, or cannot be made."""
        self._lost = asyncio.Event()
        self._welcomed = False
        self._farewell = ""
        wire = Wire(decode_reply, self._frame, self._gone, self._made)
        self._wire = wire
        try:
            async with asyncio.timeout(_OPEN_S) as self._patience:
                await endpoint.open(wire)
                await self._lost.wait()
        except TimeoutError:
            self.trouble = "the daemon does not answer"
        except OSError as error:
            self.trouble = (os.strerror(error.errno) if error.errno else why(error)).lower()
        finally:
            if self._wire is wire:  # nothing has told of its end yet
                self._wire = None
                wire.close()

    def _made(self, wire: Wire) -> None:
        wire.send(self._hello)

    def _frame(self, wire: Wire, frame: DaemonFrame) -> None:
        if isinstance(frame, DaemonRefusal):
            self._farewell = frame.reason
            if frame.final:
                self._refuse(error_of(frame.kind, f"{self._here}: {frame.reason}"))
        elif isinstance(frame, Welcome):
            self._welcome(wire, frame)
        elif self.up:
            self._on_frame(frame)

    def _welcome(self, wire: Wire, frame: Welcome) -> None:
        shown = self._here.site
        codec = ADMIN_CODECS.get(frame.version)
        if codec is None:
            self._refuse(Error(f"{self._here}: the daemon speaks version {frame.version}"))
            wire.fail("version")
        elif shown not in ("", frame.site):
            wire.fail(f"it says that it is site {frame.site!r}, and its certificate says {shown!r}")
        elif not self._may_use(frame.site):
            wire.fail(f"site {frame.site} answers, and another is waited for")
        else:
            self._patience.reschedule(None)
            self._refusals.clear()
            wire.use(codec.encode, codec.reply)
            self.up = self._welcomed = True
            self._on_up(frame)

    @property
    def _here(self) -> Endpoint:
        return self._endpoints[self._at]

    def _refuse(self, error: Error) -> None:
        """One endpoint refuses us. If all do, that is final."""
        self._refusals[self._at] = error
        if len(self._refusals) == len(self._endpoints) and self.refused is None:
            self.refused = error
            self._on_down()

    def _gone(self, wire: Wire) -> None:
        if wire is not self._wire:
            return
        if wire.failure:
            self.trouble = wire.failure
        else:
            self.trouble = self._farewell or "the connection broke"
        if self.up:
            self.up = False
            self._on_down()
        self._wire = None
        self._lost.set()
