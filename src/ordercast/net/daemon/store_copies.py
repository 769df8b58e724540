"""A copy of the site's store, which a client fetches in pieces.

There is one at a time, so disk and memory are bounded whatever clients ask for. The copy is a file
beside the store that loses its name as soon as it is open: nothing is left when the daemon is
killed, but for a draft, which the next copy replaces.
"""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import IO, Final, NamedTuple

from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Site
from ordercast.net.admin.frames import PIECE_BYTES, Wire
from ordercast.net.store.backup import back_up

IDLE_S: Final = 60.0  # a client that asks for nothing this long loses the copy to another one
UNSENT_BYTES: Final = 16 * PIECE_BYTES  # the most that waits for a client that does not read


class StoreCopy(NamedTuple):
    file: IO[bytes]
    told: dict[str, str | int]


class StoreCopies:
    """`_owner`: the connection that has a copy, or for which one is being made. If nobody wants it
    any more, the making of a copy ends at its next step."""

    def __init__(self, site: Site, store: Path | None) -> None:
        self._site = site
        self._store = store
        self._owner: Wire | None = None
        self._copy: StoreCopy | None = None
        self._making: asyncio.Future[StoreCopy] | None = None
        self._asked_s = 0.0
        self._reading = asyncio.Lock()

    def close(self) -> None:
        if self._owner is not None:
            self.end(self._owner)

    def end(self, owner: Wire) -> None:
        """The connection is gone, or needs its copy no more."""
        if self._owner is owner:
            self._owner = None
            if self._copy is not None:
                self._copy.file.close()
                self._copy = None

    async def begin(self, owner: Wire) -> dict[str, str | int]:
        """Make a copy. Returns `site`, `bytes` and `sha256`. Error if another client has one."""
        if self._store is None:
            raise ConfigError("durability is 'memory': there are no stores")
        loop = asyncio.get_running_loop()
        idle = self._making is None and loop.time() > self._asked_s + IDLE_S
        if self._making is not None or (self._owner not in (None, owner) and not idle):
            raise Error("this store is being copied for another client: try again later")
        self.close()
        self._owner, self._asked_s = owner, loop.time()
        making = loop.run_in_executor(None, self._make, self._store, owner)
        self._making = making
        making.add_done_callback(self._made)
        return (await asyncio.shield(making)).told

    def _make(self, store: Path, owner: Wire) -> StoreCopy:
        """In a thread."""

        def go_on(_left: int, _pages: int) -> None:
            if self._owner is not owner:
                raise Error("nobody waits for this copy any more")

        path = store.with_name(f"{self._site}.copy")
        path.unlink(missing_ok=True)
        try:
            back_up(store, path, go_on)
            file = path.open("rb")
        finally:
            path.unlink(missing_ok=True)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = os.fstat(file.fileno()).st_size
        return StoreCopy(file, {"site": self._site, "bytes": size, "sha256": digest})

    def _made(self, making: "asyncio.Future[StoreCopy]") -> None:
        self._making = None
        if making.cancelled() or making.exception() is not None:
            self._owner = None
        elif self._owner is None:
            making.result().file.close()
        else:
            self._copy = making.result()

    async def piece(self, owner: Wire, offset: int) -> bytes:
        """Bytes of the copy; b"" at its end, and then the copy is gone."""
        async with self._reading:  # one copy at a time, whoever asks
            if self._owner is not owner or self._copy is None:
                raise Error("there is no copy of the store for this connection: begin again")
            if owner.unsent > UNSENT_BYTES:
                raise Error("this client does not read the pieces that it asks for")
            self._asked_s = asyncio.get_running_loop().time()
            data = await asyncio.to_thread(_read, self._copy.file, offset)
            if not data:
                self.end(owner)
            return data


def _read(file: IO[bytes], offset: int) -> bytes:
    file.seek(offset)
    return file.read(PIECE_BYTES)
