"""A client on another machine: sends all the time, and says on its standard output what happens.

    python -m support.programs.far_client ADDRESSES CERTIFICATE FIRST

It sends the numbers from FIRST on to `alpha`, and tries `beta` all the time. One line of JSON for
each thing that it notices; it ends when it is let in no more.
"""

import asyncio
import json
import sys
import time
from collections import deque
from typing import Any

import ordercast
from ordercast.model.errors import Error, NotGranted

UNDER_WAY = 20


def say(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, "at": time.time(), **more}), flush=True)


class FarClient:
    """State: what is stable, what failed, and whether `beta` took the last message."""

    def __init__(self, client: ordercast.Client, first: int) -> None:
        self.client = client
        self.next = first
        self.stable: list[int] = []
        self.failed: list[int] = []
        self.beta: bool | None = None

    async def send(self) -> str:
        """Send until that is not granted. Returns why not."""
        receipts: deque[tuple[int, Any]] = deque()
        while True:
            try:
                number, self.next = self.next, self.next + 1
                receipts.append((number, await self.client.multicast("alpha", b"%d" % number)))
                while len(receipts) > UNDER_WAY:
                    await self._settle(*receipts.popleft())
            except NotGranted as error:
                return str(error)
            except Error:
                self.failed.append(number)
                await asyncio.sleep(0.02)

    async def _settle(self, number: int, receipt: Any) -> None:
        try:
            await receipt.stable()
        except NotGranted:
            raise
        except Error:  # nobody answered for it: it may be delivered or not
            self.failed.append(number)
            return
        self.stable.append(number)
        if len(self.stable) % 50 == 1:
            say("stable", number=number, site=self.client.site)

    async def try_beta(self) -> None:
        while True:
            why = ""
            try:
                await (await self.client.multicast("beta", b"beta")).ordered()
            except NotGranted as error:
                why = str(error)
            except Error:
                await asyncio.sleep(0.05)
                continue
            if self.beta is not (not why):
                self.beta = not why
                say("beta", granted=self.beta, why=why)
            await asyncio.sleep(0.02)


async def main(addresses: str, cert: str, first: int) -> None:
    async with ordercast.connect(
        addresses, cert=cert, unanswered="fail", start_s=30.0, patience_s=30.0, flush_s=0.1
    ) as client:
        far = FarClient(client, first)
        say("in", site=client.site)
        trying = asyncio.create_task(far.try_beta())
        why = await far.send()
        trying.cancel()
        say("out", why=why, stable=far.stable, failed=far.failed, next=far.next)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    except NotGranted as refused:
        sys.exit(str(refused))
