"""Programs that send with ids of their own through daemons that are killed, at times with their
stores; the programs are killed too, and begin again from their journals (docs/ids.md).

Programs and daemons are real processes. Each id must be delivered once at every member, whole, in
the order of its program.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.clusters.campaigns.client_kills import Case, Found, running
from support.clusters.campaigns.moving_clients import (
    GROUP,
    SETTLE_S,
    Daemons,
    Life,
    MovingClients,
    judge,
)
from support.clusters.processes import ROOT
from support.harness import loops
from support.programs.id_sender import payloads_of

_OF_JOURNALS = (
    "ids", "sent again", "under way", "expired", "raised", "accepted", "moves", "starts",
)  # fmt: skip
SENDER = ROOT / "tests" / "support" / "programs" / "id_sender.py"


def run_moving_ids(case: Case, folder: Path, losses: int) -> Found:
    """`losses`: so many of the kills take the store along."""
    found = Found()
    with running(folder, case) as daemons:
        campaign = _MovingIds(case, daemons, found, losses)
        campaign.folder = folder
        try:
            loops.run(campaign.run(), limit_s=SETTLE_S + 30)
        finally:
            campaign.end()
        found.wrong += daemons.stop()
    if not found.wrong:
        campaign.read()
        judge(case, daemons.stores, campaign, found)
    return found


class _MovingIds(MovingClients):
    """A life is that of a journal: it goes on when its program is killed."""

    folder: Path

    def __init__(self, case: Case, daemons: Daemons, found: Found, losses: int) -> None:
        super().__init__(case, daemons, found, losses)
        self._programs: dict[int, subprocess.Popen[bytes]] = {}

    async def _until_remembered(self) -> None:
        """The group begins to remember ids when their mark is first asked for."""
        async with self._at(self.daemons.sites[0]) as client:
            await client.id_mark(GROUP)

    def _sent(self) -> set[bytes]:
        self.read()
        return super()._sent()

    async def _lives(self, number: int) -> None:
        """One process after the other, on one journal."""
        chance = random.Random(f"{self.case.seed} {number}")
        while True:
            begun = self._size(number)
            process = self._programs[number] = self._start(number)
            ends = asyncio.create_task(asyncio.to_thread(process.wait))
            while self._size(number) == begun and not ends.done():
                await asyncio.sleep(0.05)  # a program that has not begun shows nothing
            lasts = None if self._over else 0.2 + chance.random() * 5
            done, _ = await asyncio.wait([ends], timeout=lasts)
            if not done and not self._over:
                self.found.counts["clients killed"] += 1
                process.kill()
            if await ends == 0:
                return
            if done:  # a receipt has raised, or no daemon answered: it begins again
                self.found.counts["begun again by themselves"] += 1

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        sockets = [self.daemons.stores / f"{site}.sock" for site in self.daemons.sites]
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        with (self.folder / f"sender{number}.log").open("ab") as log:
            return subprocess.Popen(
                [
                    sys.executable, str(SENDER), str(self._journal(number)), str(number),
                    str(self.folder / "over"), *map(str, sockets),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip

    def _size(self, number: int) -> int:
        journal = self._journal(number)
        return journal.stat().st_size if journal.exists() else 0

    def _journal(self, number: int) -> Path:
        return self.folder / f"{number}.journal"

    def _end_of_kills(self) -> None:
        (self.folder / "over").touch()

    def end(self) -> None:
        for process in self._programs.values():
            process.kill()
            process.wait()

    def read(self) -> None:
        """What the journals have now."""
        counts = self.found.counts
        for key in _OF_JOURNALS:
            counts[key] = 0
        self.lives = [self._read(number) for number in range(self.case.clients)]

    def _read(self, number: int) -> Life:
        life, counts, sites = Life(str(number)), self.found.counts, list[str]()
        sent: dict[str, list[bytes]] = {}
        told: dict[str, str] = {}
        for line in _lines(self._journal(number)):
            what = line["what"]
            if what == "send":
                sent[line["id"]] = payloads_of(line["id"], line["count"])
            elif what == "at":
                sites.append(line["site"])
            elif what == "again":
                counts["sent again"] += 1
            elif what == "start":
                counts["starts"] += 1
            elif told.get(line["id"]) != "raised":  # no order is promised for it from then on
                told[line["id"]] = what
            elif what == "stable":
                life.stable += sent[line["id"]]
        for name, payloads in sent.items():
            life.sent += payloads
            what = told.get(name, "under way")
            counts["accepted" if what == "stable" else what] += 1
            if what == "stable":
                life.stable += payloads
            elif what != "under way":
                life.refused += payloads
        counts["ids"] += len(sent)
        counts["moves"] += sum(one != other for one, other in pairwise(sites))
        return life


def _lines(journal: Path) -> list[dict[str, Any]]:
    found = []
    for line in journal.read_bytes().splitlines() if journal.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:  # its program was killed in the middle of it, or it is empty
            continue
    return [line for line in found if isinstance(line, dict)]
