"""A site of ours as a member of a benchmark, by the public face alone.

Run as `python -m ordercast.net.bench.site SPEC`, with the spec in JSON.
"""

import asyncio
import contextlib
import json
import sys
from functools import partial
from typing import Any

from ordercast.model.messages import DeliveredBatch, Delivery
from ordercast.net.bench.member import run_member, take_part
from ordercast.net.bench.meter import SAMPLE_EVERY, Meter
from ordercast.net.site.node import Node, site_of

GROUP = "all"
_CONFIRM_EVERY_S = 0.05


class NodeTarget:
    def __init__(self, spec: dict[str, Any], meter: Meter) -> None:
        self._spec = spec
        self._meter = meter
        self._opening = Node.open(spec["cluster"], spec["site"], dir=spec["dir"])
        self._tasks: list[asyncio.Task[None]] = []
        self._read = 0

    async def start(self) -> None:
        self._node = await self._opening.__aenter__()
        self.send = partial(self._node.multicast, GROUP)
        self.send_many = partial(self._node.multicast_many, GROUP)
        loop = asyncio.get_running_loop()
        reading = self._batches() if self._spec["batch"] else self._deliveries()
        self._tasks.append(loop.create_task(reading))
        if self._spec["durability"] != "memory":
            self._tasks.append(loop.create_task(self._confirm()))

    async def _batches(self) -> None:
        meter = self._meter
        async for batch in self._node.batches():
            assert isinstance(batch, DeliveredBatch)
            payloads = batch.payloads
            meter.took_stamped(payloads[0])
            meter.took(payloads)
            self._read = batch.last

    async def _deliveries(self) -> None:
        meter = self._meter
        every = 1 if self._spec["rate"] else SAMPLE_EVERY
        take = meter.pending.append
        async for item in self._node.deliveries():
            assert isinstance(item, Delivery)
            take(item.payload)
            if item.seq % every == 0:
                meter.took_stamped(item.payload)
                self._read = item.position

    async def _confirm(self) -> None:
        while True:
            await asyncio.sleep(_CONFIRM_EVERY_S)
            if self._read:
                await self._node.confirm(self._read)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await site_of(self._node).abandon()


async def _main(spec: dict[str, Any]) -> None:
    meter = Meter()
    await take_part(spec, NodeTarget(spec, meter), meter)


if __name__ == "__main__":
    run_member(lambda: _main(json.loads(sys.argv[1])))
