"""A program that sends with ids of its own, and may be killed at any moment.

It keeps a journal. Before a message is first sent, its id and its mark are there; when the message
is stable, or expired, that is there too. After a restart it sends again, in order and with their
marks, the messages that it does not know to be settled, before anything new: as docs/ids.md says.

    id_sender.py JOURNAL SEED OVER SOCKET…
"""

import asyncio
import json
import os
import random
import sys
from collections import deque
from pathlib import Path
from typing import Any

from ordercast.model.errors import Error, Expired
from ordercast.net.admin.frames import ClientFrame, SendById
from ordercast.net.client.client import Client
from ordercast.net.client.endpoints import SocketEndpoint
from ordercast.net.client.requests import ClientReceipt

GROUP = "alpha"
PATIENCE_S = 120.0
UNDER_WAY = 200  # messages with ids that this program has under way


class Journal:
    """Lines of JSON, appended. The system keeps what was written when the program is killed."""

    def __init__(self, path: Path) -> None:
        self.sent: dict[str, tuple[int, int]] = {}  # by id: how many payloads, and the mark
        self.settled: dict[str, str] = {}
        self.starts = 0
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                self._learn(json.loads(line))
            except ValueError:  # the last line, of a program that was killed
                continue
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(self._handle, b"\n")  # behind half a line

    def _learn(self, line: dict[str, Any]) -> None:
        what = line["what"]
        if what == "send":
            self.sent[line["id"]] = (line["count"], line["since"])
        elif what in ("stable", "expired", "raised"):
            self.settled[line["id"]] = what
        elif what == "start":
            self.starts += 1

    def note(self, what: str, **more: object) -> None:
        os.write(self._handle, json.dumps({"what": what, **more}).encode() + b"\n")

    def doubtful(self) -> list[tuple[str, int, int]]:
        """Ids that may have been sent and are not known to be settled, in order."""
        unknown = [
            name for name in self.sent if self.settled.get(name) not in ("stable", "expired")
        ]
        return [(name, *self.sent[name]) for name in unknown]


def payloads_of(name: str, count: int) -> list[bytes]:
    return [f"{name} {number}".encode() for number in range(count)]


class Sender:
    def __init__(self, journal: Journal, client: Client, over: Path, chance: random.Random) -> None:
        self.journal, self.client, self.over, self.chance = journal, client, over, chance
        self._under_way: deque[tuple[str, ClientReceipt]] = deque()

    async def run(self, name: str) -> None:
        for chosen, count, since in self.journal.doubtful():
            self.journal.note("again", id=chosen)
            await self._send(chosen, count, since)
        number = len(self.journal.sent)
        while not self.over.exists():
            since = await self.client.id_mark(GROUP)
            for _ in range(self.chance.choice([1, 5, 20])):
                chosen, count = f"{name}.{number}", self.chance.choice([1, 1, 1, 3])
                number += 1
                self.journal.note("send", id=chosen, count=count, since=since)
                await self._send(chosen, count, since)
            await asyncio.sleep(self.chance.choice([0, 0.02, 0.05]))
        while self._under_way:
            await self._answer()

    async def _send(self, chosen: str, count: int, since: int) -> None:
        while len(self._under_way) >= UNDER_WAY:
            await self._answer()
        payloads = payloads_of(chosen, count)
        receipt = await self.client.multicast_many(GROUP, payloads, id=chosen, since=since)
        self._under_way.append((chosen, receipt))

    async def _answer(self) -> None:
        chosen, receipt = self._under_way.popleft()
        try:
            await receipt.stable()
        except Expired:
            self.journal.note("expired", id=chosen)
        except Error as error:  # what became of it is not known: begin again from the journal
            self.journal.note("raised", id=chosen, why=str(error))
            raise
        else:
            self.journal.note("stable", id=chosen)


def count_repeats(client: Client, journal: Journal) -> None:
    """Note the frames that the client itself sends again, and each move to another site."""
    outgoing, seen = client._outgoing, set[int]()
    send, move = outgoing._send, client._move

    def counted(frame: ClientFrame) -> None:
        if isinstance(frame, SendById):
            if frame.number in seen:
                journal.note("again", id=frame.chosen)
            seen.add(frame.number)
        send(frame)

    def moved(site: str) -> None:
        journal.note("at", site=site)
        move(site)

    outgoing._send, client._move = counted, moved  # type: ignore[method-assign]


async def main(journal: Journal, seed: str, over: Path, sockets: list[Path]) -> None:
    journal.note("start")
    chance = random.Random(f"{seed} {journal.starts}")
    places = [SocketEndpoint(path) for path in sockets]
    chance.shuffle(places)
    async with Client(places, "", "", PATIENCE_S, PATIENCE_S, PATIENCE_S) as client:
        journal.note("at", site=client.site)
        count_repeats(client, journal)
        await Sender(journal, client, over, chance).run(seed)


if __name__ == "__main__":
    _, where, seed, over, *sockets = sys.argv
    asyncio.run(main(Journal(Path(where)), seed, Path(over), [Path(path) for path in sockets]))
