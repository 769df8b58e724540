"""An application with a site inside, as a process: `worker.py CLUSTER SITE DIR NOTES COUNT SEED`.

Only the public face is used. It sends so many messages, reads and confirms, and notes what it does
and sees in a file (`applog`), which also tells it after a restart how much is left to send. A line
on standard input ends it. Further words: `deaf` reads nothing, `fast` does not pause, `steady`
sends on until there is a file `enough` beside the notes.
"""

import asyncio
import json
import logging
import os
import random
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ordercast
from support.judges.applog import Note, accepted, read_notes, saw

PACE_S = 0.07  # between bursts, on average


class Notes:
    """Appended in order; on disk before the application does anything that follows from them."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lines: list[str] = []
        os.write(self._file, b"\n")  # the last line of the life before may be torn

    def add(self, note: Note) -> None:
        self._lines.append(json.dumps(note))

    def write(self) -> None:
        if self._lines:
            os.write(self._file, ("\n".join(self._lines) + "\n").encode())
            self._lines = []


async def send(
    node: Any,
    groups: list[str],
    notes: Notes,
    count: int,
    steady: Callable[[], bool],
    pace_s: float,
    rng: random.Random,
) -> None:
    while count > 0 or steady():
        payloads = [rng.randbytes(rng.randrange(60)) for _ in range(rng.choice([1, 1, 2, 5, 20]))]
        payloads = payloads[: max(count, 1)]
        group = rng.choice(groups)
        way = rng.random()
        try:
            if way < 0.8:
                receipt = await node.multicast_many(group, payloads)
            elif way < 0.9:
                receipt = await node.multicast_many([group, rng.choice(groups)], payloads)
            else:
                payloads = payloads[:1]
                receipt = await node.multicast(group, payloads[0])
        except ordercast.NotInMajority as error:  # nothing was sent
            notes.add(("refused", str(error)))
            notes.write()
            await asyncio.sleep(0.1)
            continue
        await receipt.accepted()
        notes.add(accepted(receipt, payloads))
        notes.write()
        count -= len(payloads)
        await asyncio.sleep(rng.random() * 2 * pace_s)
    await node.flush("stable")


async def read(node: Any, notes: Notes, rng: random.Random) -> None:
    async for batch in node.batches():
        if isinstance(batch, ordercast.EpochOpened):
            continue
        if isinstance(batch, ordercast.Rollback):
            notes.add(("rolled", batch.position, len(batch.annulled)))
            notes.write()
            continue
        for item in batch.deliveries():
            notes.add(saw(item))
        notes.write()
        if rng.random() < 0.05:
            position = rng.randrange(batch.position, batch.last + 1)
            notes.add(("confirming", position))
            notes.write()
            await node.confirm(position)
            notes.add(("confirmed", position))
            notes.write()


async def tell_idle(node: Any, notes: Notes, sending: "asyncio.Task[None]") -> None:
    """Once everything sent from here is stable; again after a restart."""
    await sending
    while (await node.status())["window"]["messages"]:
        await asyncio.sleep(0.05)
    notes.add(("idle",))
    notes.write()


async def tell_status(node: Any, notes: Notes) -> None:
    """Who leads the voters, how the site stands and its epoch, each when it changes; and each
    change of the sites through which it reaches others."""
    before: dict[str, Any] = {}
    while True:
        status = await node.status()
        links = {link["peer"]: link["through"] for link in status["links"] if link["through"]}
        told = {**{word: status[word] for word in ("manager", "standing", "epoch")}, "links": links}
        for word, value in told.items():
            if word not in before or value != before[word]:
                before[word] = value
                notes.add((word, value))
        notes.write()
        await asyncio.sleep(0.1)


async def main(words: list[str]) -> None:
    cluster, site, directory, path, count, seed, *more = words
    before = read_notes(Path(path)) if Path(path).exists() else []
    left = int(count) - sum(len(note[3]) for note in before if note[0] == "accepted")
    notes = Notes(Path(path))
    enough = Path(path).with_name("enough")

    def steady() -> bool:
        return "steady" in more and not enough.exists()

    pace_s = 0.0 if "fast" in more else PACE_S
    rng = random.Random(f"{seed} {site} {len(before)}")
    groups = sorted(tomllib.loads(Path(cluster).read_text(encoding="utf-8"))["groups"])
    async with ordercast.Node.open(cluster, site, dir=directory) as node:
        notes.add(("open",))
        notes.write()
        sending = asyncio.create_task(send(node, groups, notes, left, steady, pace_s, rng))
        tasks = [sending, asyncio.create_task(tell_idle(node, notes, sending))]
        if "deaf" not in more:
            tasks.append(asyncio.create_task(read(node, notes, rng)))
        telling = asyncio.create_task(tell_status(node, notes))
        loop = asyncio.get_running_loop()
        told = asyncio.ensure_future(loop.run_in_executor(None, sys.stdin.readline))
        done, _ = await asyncio.wait([told, *tasks[2:]], return_when=asyncio.FIRST_COMPLETED)
        for task in (telling, *tasks):
            task.cancel()
        for task in done:
            task.result()  # a reader that ended tells why
    notes.add(("closed",))
    notes.write()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(main(sys.argv[1:]))
