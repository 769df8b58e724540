"""The daemon's local socket: the way in for clients of the user who runs the daemon."""

import asyncio
import contextlib
import os
from pathlib import Path

from ordercast.model.errors import ConfigError, reason
from ordercast.model.grants import OWNER
from ordercast.net.admin.frames import Wire
from ordercast.net.cluster.sockets import remove_stale, socket_path
from ordercast.net.daemon.client_connection import ClientConnection
from ordercast.net.daemon.desk import ClientDesk

MOST_CONNECTIONS = 64

_TURNS = 5  # turns of the event loop in which accepted connections come up: three are enough


class AdminSocket:
    """Listens on `DIR/SITE.sock`. Only the user who runs the daemon can open it."""

    def __init__(self, desk: ClientDesk, path: Path) -> None:
        self.desk = desk
        self.path = path
        self._server: asyncio.Server | None = None
        self._there: dict[Wire, ClientConnection] = {}

    async def start(self) -> None:
        remove_stale(self.path)
        loop = asyncio.get_running_loop()
        before = os.umask(0o177)
        try:
            self._server = await loop.create_unix_server(self._accepted, socket_path(self.path))
        except OSError as error:
            raise ConfigError(f"{self.path}: {reason(error)}") from None
        finally:
            os.umask(before)
        self.path.chmod(0o600)

    async def close(self) -> None:
        """A later client finds no socket, and waits for the next daemon. The turns of the loop
        before the server closes let every accepted connection come up: otherwise the loop would
        keep such a connection open, and nobody would own it."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.desk.close()
        if self._server is not None:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self._server.close()
            await asyncio.sleep(0)
            self._server = None

    def _accepted(self) -> Wire:
        return self.desk.wire(self._made)

    def _made(self, wire: Wire) -> None:
        connection = self.desk.made(wire, OWNER)
        self._there = {each: one for each, one in self._there.items() if not each.closed}
        self._there[wire] = connection
        if not self.desk.closed and len(self._there) > MOST_CONNECTIONS:
            self._make_room(connection)

    def _make_room(self, newest: ClientConnection) -> None:
        """Drop the oldest connection that has not said hello. Clients that have said hello stay."""
        others = [each for each in self._there.values() if each is not newest]
        silent = [each for each in others if each.session is None]
        if silent:
            silent[0].wire.fail("it said nothing, and another came")
        else:
            newest.close(f"too many clients ({MOST_CONNECTIONS} at most)")
