"""A program that follows named readers of a daemon, and notes what it gets: it is killed at will.

Arguments: cluster file, directory, site, folder for notes, and readers as `name=group,group`. Each
reader has a file of lines, written before and after each step: `F` follow begins, `H` a message was
handed over, `C` a position is confirmed. Lines carry process, follow, boot of the daemon, position.
"""

import asyncio
import os
import sys
from pathlib import Path

from ordercast import Client, Delivery, Gap, TurnLost, connect

PER_CLIENT = 12  # readers of one connection
EVERY = 7  # messages, then they are confirmed
IDLE_S = 0.1  # without a message, then they are confirmed too
PATIENCE_S = 60.0


class Notes:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *words: object) -> None:
        os.write(self._file, f"{' '.join(map(str, words))}\n".encode())


async def follow(client: Client, name: str, groups: list[str], folder: Path) -> None:
    notes = Notes(folder / f"{name}.notes")
    number = 0
    while True:
        number += 1
        who = f"{os.getpid()}.{number}"
        notes.write("F", who, client.boot, 0)
        items = client.deliveries(reader=name, groups=groups)
        try:
            await _read(client, name, items, notes, who)
        except TurnLost:
            await items.aclose()


async def _read(client: Client, name: str, items: object, notes: Notes, who: str) -> None:
    last, open_ = 0, 0
    while True:
        try:
            async with asyncio.timeout(IDLE_S if open_ else None):
                item = await anext(items)  # type: ignore[call-overload]
        except TimeoutError:
            item = None
        if isinstance(item, Gap):
            raise SystemExit(f"reader {name}: {item}")
        if isinstance(item, Delivery):
            notes.write("H", who, client.boot, item.position, item.payload.decode())
            last, open_ = item.position, open_ + 1
        if open_ and (item is None or open_ >= EVERY):
            await client.confirm(last, reader=name)
            notes.write("C", who, client.boot, last)
            open_ = 0


async def main(file: str, directory: str, site: str, folder: str, *readers: str) -> None:
    wanted = [reader.split("=") for reader in readers]
    async with asyncio.TaskGroup() as tasks:
        for at in range(0, len(wanted), PER_CLIENT):
            tasks.create_task(
                _serve(
                    connect(file, site, directory, start_s=PATIENCE_S, patience_s=PATIENCE_S),
                    wanted[at : at + PER_CLIENT],
                    Path(folder),
                )
            )


async def _serve(opening: Client, wanted: list[list[str]], folder: Path) -> None:
    async with opening as client, asyncio.TaskGroup() as tasks:
        for name, groups in wanted:
            tasks.create_task(follow(client, name, groups.split(","), folder))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
