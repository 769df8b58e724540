"""The store of a daemon's site, fetched over the connection of a client."""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from ordercast.model.errors import Error
from ordercast.net.admin.frames import PIECE_BYTES, CopyPiece, CopyRequest
from ordercast.net.client.client import Client

AHEAD: Final = 4  # pieces that are asked for before the first of them is there


async def fetch_store(
    client: Client, draft: Path, progress: Callable[[int, int], None] | None = None
) -> None:
    """Write a copy of the site's store, as it is at one moment, to `draft`. It needs the grant
    `admin:*`. `progress` is called with how many bytes are left, and how many there are. Error if
    the bytes are not those that the daemon has copied, or if the connection broke meanwhile."""
    told: dict[str, Any] = msgspec.json.decode(await client._ask(CopyRequest))
    size, digest, have = int(told["bytes"]), hashlib.sha256(), 0

    def ask(offset: int) -> "asyncio.Task[bytes]":
        return asyncio.create_task(client._ask(CopyPiece, offset))

    pieces: deque[asyncio.Task[bytes]] = deque()
    offsets = iter(range(0, size, PIECE_BYTES))
    try:
        with draft.open("wb") as file:
            pieces.extend(ask(offset) for offset in islice(offsets, AHEAD))
            while pieces:
                data = await pieces.popleft()
                if (offset := next(offsets, None)) is not None:
                    pieces.append(ask(offset))
                have += len(data)
                digest.update(data)
                await asyncio.to_thread(file.write, data)
                if progress is not None:
                    progress(size - have, size)
        if told["site"] != client.site or (have, digest.hexdigest()) != (size, told["sha256"]):
            raise Error(f"the copy of {client.site}'s store did not arrive as it was made")
        await ask(size)  # the daemon needs it no more
    finally:
        for task in pieces:
            task.cancel()
