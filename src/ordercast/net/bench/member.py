"""One member of a benchmark, a process of its own, and what it says to the process that started it.

Lines of JSON: started → warm → warmed → go → sent → total → result. The system that is measured is
a `BenchTarget`.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ordercast.core.epochs.admission import BATCH_BYTES
from ordercast.net.bench.meter import SAMPLE_EVERY, Meter, pool, stamp
from ordercast.net.daemon.daemon import loop_factory

_BETWEEN_S = 0.002  # looks whether all has come
_LEAST_SLEEP_S = 0.001  # as finely as event loops keep time


class BenchTarget(Protocol):
    """A system under load, at one member. What is delivered to it goes to the meter."""

    async def start(self) -> None: ...

    @property
    def send(self) -> Callable[[bytes], Awaitable[object]]: ...

    @property
    def send_many(self) -> Callable[[list[bytes]], Awaitable[object]]: ...

    async def close(self) -> None: ...


class Load:
    """Sends until told to stop: as fast as it may, or at an even rate of its own."""

    def __init__(self, target: BenchTarget, size: int, *, batch: bool, rate: float) -> None:
        self.target = target
        self.batch = batch
        self.rate = rate
        self.sent = 0
        self.stopped = False
        self._pool = pool(size)
        self._in_batch = max(1, BATCH_BYTES // (size + 5))

    async def run(self) -> None:
        if self.rate:
            await self._evenly()
        elif self.batch:
            await self._batches()
        else:
            await self._messages()

    async def one(self) -> None:
        self.sent += 1
        await self.target.send(stamp(self._pool[0]))

    async def _messages(self) -> None:
        send, payloads, sent = self.target.send, self._pool, self.sent
        most = len(payloads) - 1
        while not self.stopped:
            sent += 1  # which is also its seq
            payload = payloads[sent & most]
            await send(payload if sent % SAMPLE_EVERY else stamp(payload))
        self.sent = sent

    async def _batches(self) -> None:
        count, at = self._in_batch, 0
        payloads = self._pool * (1 + count // len(self._pool))
        while not self.stopped:
            batch = payloads[at : at + count]
            at = (at + count) % (len(payloads) - count + 1)
            batch[0] = stamp(batch[0])
            self.sent += count
            await self.target.send_many(batch)

    async def _evenly(self) -> None:
        clock = asyncio.get_running_loop().time
        payloads, most = self._pool, len(self._pool) - 1
        begun, before = clock(), self.sent
        while not self.stopped:
            due = before + int((clock() - begun) * self.rate)
            while self.sent < due:
                self.sent += 1
                payload = stamp(payloads[self.sent & most])
                if self.batch:
                    await self.target.send_many([payload])
                else:
                    await self.target.send(payload)
            next_at = begun + (self.sent + 1 - before) / self.rate
            await asyncio.sleep(max(_LEAST_SLEEP_S, next_at - clock()))


async def take_part(spec: dict[str, Any], target: BenchTarget, meter: Meter) -> None:
    """`spec`: payload, batch, rate (of this member, 0: as fast as it may), members."""
    loop = asyncio.get_running_loop()
    load = Load(target, spec["payload"], batch=spec["batch"], rate=spec["rate"])

    async def heard(word: str) -> Any:
        line = await loop.run_in_executor(None, sys.stdin.readline)
        if not line:
            raise SystemExit(1)  # the process that started us has gone
        return json.loads(line)[word]

    async def all_here(count: int) -> None:
        while meter.count < count:
            await asyncio.sleep(_BETWEEN_S)

    await target.start()
    _say(started=True)
    await heard("warm")
    await load.one()
    await all_here(spec["members"])  # so all links are up
    _say(warmed=True)
    warm_s, seconds = await heard("go")
    gc.collect()
    gc.freeze()
    sending = loop.create_task(load.run())
    await asyncio.sleep(warm_s)
    meter.mark()
    await asyncio.sleep(seconds)
    meter.mark()
    load.stopped = True
    await sending
    _say(sent=load.sent)
    await all_here(await heard("total"))
    _say(result=meter.result())
    await heard("end")
    await target.close()


def _say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


def run_member(main: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())
