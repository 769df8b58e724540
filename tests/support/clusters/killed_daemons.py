"""A client that sends while the daemons that it talks to are killed, one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from ordercast.net.client.client import Client
from support.clusters.served import Served
from support.clusters.sites import until

SENT = 60
_KILLED_AFTER = (10, 30, 50)


class Stable(Protocol):
    async def stable(self) -> None: ...


async def send_over_kills(
    running: Served,
    remote: Client,
    send: Callable[[int], Awaitable[Stable]],
    *,
    pause_s: float = 0.0,
    moved: Callable[[], None] = lambda: None,
) -> None:
    """Send 1 to 60, and wait until all is stable. The daemon that the client talks to is killed
    after some of them, and started when the client has moved. `pause_s`: before a kill, times the
    number. `moved` is called after each move."""
    receipts = []
    for number in range(1, SENT + 1):
        receipts.append(await send(number))
        if number in _KILLED_AFTER:
            await asyncio.sleep(pause_s * number)
            gone = remote.site
            await running.kill(gone)
            await until(lambda gone=gone: remote.site != gone)  # type: ignore[misc]
            await running.start(gone)
            moved()
    for receipt in receipts:
        await receipt.stable()
