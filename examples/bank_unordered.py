"""The bank without ordercast: a plain connection from every sender to every main computer.

Nothing is lost, and each sender's operations arrive in its order; across senders there is none.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

from bank import AT_ONCE, pause, wait_for_the_end
from bank_books import MAINS, Operation, main_computer, operations_of
from workers import orders, say


async def unordered_site(site: str, operations: int, seed: int) -> None:
    told = orders()
    if site not in MAINS:
        say(ready=True)
        go = await anext(told)
        mine = operations_of(site, operations, seed)
        await _send_plainly(site, mine, go["ports"], go["until"])
        async for _ in told:
            pass
        return
    arrived = Arrivals()
    server = await asyncio.start_server(arrived.connection, "127.0.0.1", 0)
    async with server:
        say(ready=server.sockets[0].getsockname()[1])
        await main_computer(arrived.operations(), operations)
        async for _ in told:
            pass


class Arrivals:
    """A main computer's end of the plain connections: one queue, in order of arrival."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Operation] = asyncio.Queue()
        self._have: Counter[str] = Counter()
        self._locks: dict[str, asyncio.Lock] = {}

    async def operations(self) -> AsyncIterator[Operation]:
        while True:
            yield await self._queue.get()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Says how many it has of this sender, and again after each part that it takes."""
        sender = (await reader.readline()).decode().strip()
        # A restarted sender waits until all of its last connection has been taken.
        async with self._locks.setdefault(sender, asyncio.Lock()):
            try:
                writer.write(f"{self._have[sender]}\n".encode())
                while (line := await reader.readline()).endswith(b"\n"):
                    part: list[Operation] = json.loads(line)
                    for operation in part:
                        self._queue.put_nowait(operation)
                    self._have[sender] += len(part)
                    writer.write(f"{self._have[sender]}\n".encode())
            except ConnectionError:
                pass  # the sender was killed
            finally:
                writer.close()


async def _send_plainly(site: str, mine: list[Operation], ports: list[int], until: int) -> None:
    """A stream to each main computer, at the pace of that one."""
    have = [0] * len(ports)
    links = [await asyncio.open_connection("127.0.0.1", port) for port in ports]
    for index, (reader, writer) in enumerate(links):
        writer.write(f"{site}\n".encode())
        have[index] = int(await reader.readline())

    async def stream(index: int) -> None:
        reader, writer = links[index]
        while have[index] < len(mine):
            part = mine[have[index] : have[index] + AT_ONCE]
            writer.write(json.dumps(part).encode() + b"\n")
            have[index] = int(await reader.readline())
            if min(have) >= until:
                await wait_for_the_end(min(have))
            await pause(site)
        writer.close()

    await asyncio.gather(*(stream(index) for index in range(len(ports))))
    say(done=len(mine))
