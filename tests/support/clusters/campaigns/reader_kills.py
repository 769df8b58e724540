"""Named readers that are followed by programs which are killed, at daemons which are killed.

The daemons and the programs are real processes. Each program notes what it is handed and what it
has confirmed. In the end the notes are compared with the site's log: every message of a reader's
groups was handed over, in order, and nothing again that was confirmed.
"""

import asyncio
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ordercast.model.errors import NotInMajority
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster
from ordercast.net.store.reader import LogReader
from support.clusters.node_processes import NodeProcesses
from support.clusters.processes import ROOT, write_cluster
from support.harness import loops

PROGRAM = ROOT / "tests" / "support" / "programs" / "reader_child.py"
GROUPS = {"alpha": ["a", "b"], "beta": ["a", "b"], "gamma": ["a"]}
SITE = "a"
PATIENCE_S = 60.0
SETTLE_S = 150.0


@dataclass(frozen=True)
class ReaderCase:
    seed: int
    readers: int = 50
    programs: int = 2
    kills: int = 20
    level: str = "safe"
    policy: str = "exclude"
    rate_s: float = 0.01  # between messages
    pause_s: float = 1.0  # between kills, at most


@dataclass
class ReaderResult:
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class _Programs:
    """Each follows all readers, in an order of its own."""

    def __init__(self, case: ReaderCase, folder: Path, file: Path, stores: Path) -> None:
        self.folder = folder / "notes"
        self.folder.mkdir()
        self._words = [str(file), str(stores), SITE, str(self.folder)]
        self._log = folder / "programs.log"
        self._case = case
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        chance = random.Random(f"readers {case.seed}")
        names = [f"r{n}" for n in range(case.readers)]
        count = len(GROUPS)
        self.groups = {name: sorted(chance.sample(sorted(GROUPS), 1 + chance.randrange(count)))
                       for name in names}  # fmt: skip

    def start(self, number: int) -> None:
        readers = [f"{name}={','.join(groups)}" for name, groups in self.groups.items()]
        random.Random(f"{self._case.seed} {number}").shuffle(readers)
        with self._log.open("ab") as log:
            self._running[number] = subprocess.Popen(
                [sys.executable, str(PROGRAM), *self._words, *readers],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self, number: int) -> None:
        self._running[number].send_signal(signal.SIGKILL)
        self._running[number].wait()

    def ended(self) -> list[str]:
        gone = [n for n, process in self._running.items() if process.poll() is not None]
        return [f"program {n} ended: {self._log.read_text()[-1500:]}" for n in gone]

    def end(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def _running(folder: Path, case: ReaderCase) -> Iterator[tuple[NodeProcesses, _Programs, Path]]:
    options = {"deliver": case.level, "on_failure": case.policy, "durability": "os"}
    file = write_cluster(folder, GROUPS, options, tls=False, timeouts={"suspect": "500ms"})
    daemons = NodeProcesses(folder, dict.fromkeys("ab", file), [ROOT / "src"])
    programs = _Programs(case, folder, file, daemons.stores)
    try:
        for site in "ab":
            daemons.start(site)
        for number in range(case.programs):
            programs.start(number)
        yield daemons, programs, file
    finally:
        programs.end()
        daemons.end()


def run_readers(case: ReaderCase, folder: Path) -> ReaderResult:
    found = ReaderResult()
    with _running(folder, case) as (daemons, programs, file):
        cluster = read_cluster(file)
        loops.run(_campaign(case, cluster, daemons, programs, found))
        found.wrong += programs.ended()
        programs.end()
        found.wrong += daemons.stop()
    if not found.wrong:
        log = log_of(daemons.stores / f"{SITE}.db")
        for name, groups in programs.groups.items():
            notes = (programs.folder / f"{name}.notes").read_text().splitlines()
            truth = [(position, text) for position, group, text in log if group in groups]
            found.wrong += [f"{name}: {each}" for each in judge(truth, notes, found.counts)]
    return found


async def _campaign(
    case: ReaderCase,
    cluster: Cluster,
    daemons: NodeProcesses,
    programs: _Programs,
    found: ReaderResult,
) -> None:
    chance = random.Random(f"kills {case.seed}")
    over = asyncio.Event()
    async with connect(
        cluster, "a", daemons.stores, start_s=PATIENCE_S, patience_s=PATIENCE_S, flush_s=PATIENCE_S
    ) as client:
        sending = asyncio.create_task(_send(client, case, over, found))
        for _ in range(case.kills):
            await asyncio.sleep(0.3 + chance.random() * case.pause_s)
            if chance.random() < 0.5:
                number = chance.randrange(case.programs)
                programs.kill(number)
                programs.start(number)
                found.counts["kills of programs"] += 1
            else:
                daemons.kill("a")
                await asyncio.sleep(chance.random() * 0.2)
                daemons.start("a")
                found.counts["kills of daemons"] += 1
        over.set()
        try:
            async with asyncio.timeout(SETTLE_S):
                await sending
                while not await _all_confirmed(client, case):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            found.wrong.append(f"not all is confirmed after {SETTLE_S:.0f} s: {daemons.log('a')}")


async def _send(client: Client, case: ReaderCase, over: asyncio.Event, found: ReaderResult) -> None:
    chance = random.Random(f"sends {case.seed}")
    receipts = []
    n = 0
    while not over.is_set():
        n += 1
        group = chance.choice(sorted(GROUPS))
        receipts.append(await client.multicast(group, b"%d" % n))
        await asyncio.sleep(case.rate_s)
    for receipt in receipts:
        try:
            await receipt.stable()
        except NotInMajority:  # the machine may be so busy that no majority is heard for long
            found.counts["refused"] += 1
    found.counts["messages"] += n


async def _all_confirmed(client: Client, case: ReaderCase) -> bool:
    """`lag` is 0 when everything of the reader's groups is confirmed."""
    status = await client.status()
    readers = status["readers"]
    return (
        status["quiet"]
        and len(readers) == case.readers
        and not any(told["lag"] for told in readers.values())
    )


def log_of(store: Path) -> list[tuple[int, str, str]]:
    """Position, group and text of all that a site has delivered."""
    reader = LogReader(store)
    log: list[tuple[int, str, str]] = []
    try:
        position = 1
        while batches := reader.read(position, 10_000):
            items = [item for batch in batches for item in batch.deliveries()]
            log += [(item.position, item.group, item.payload.decode()) for item in items]
            position = batches[-1].last + 1
    finally:
        reader.close()
    return log


def judge(
    truth: Sequence[tuple[int, str]], notes: Sequence[str], counts: Counter[str]
) -> list[str]:
    """What is wrong with the notes of one reader."""
    place = {position: index for index, (position, _) in enumerate(truth)}
    before: dict[str, int] = {}  # by follow: the index of the last message that it was handed
    confirmed: list[tuple[int, int]] = [(-1, 0)]  # (index, boot), both growing
    furthest = -1
    wrong: list[str] = []
    handed: set[int] = set()
    for line in notes:
        kind, who, boot, position, *text = line.split()
        if kind == "F":
            continue
        index = place.get(int(position))
        if index is None:
            wrong.append(f"{line}: there is no such message of its groups")
            continue
        if kind == "C":
            if index > before.get(who, -1):
                wrong.append(f"{line}: it was not handed over")
            confirmed.append((max(index, confirmed[-1][0]), int(boot)))
            counts["confirmed"] += 1
            continue
        counts["handed over"] += 1
        if truth[index][1] != text[0]:
            wrong.append(f"{line}: not the message of that position: {truth[index]}")
        if who in before and index != before[who] + 1:
            wrong.append(f"{line}: {truth[before[who]]} came before it")
        if index > furthest + 1:
            wrong.append(f"{line}: {truth[furthest + 1]} was left out")
        # What a program had got before its daemon was killed it may note a little later.
        again = [at for at, of in confirmed if at >= index and of <= int(boot)]
        if again:
            wrong.append(f"{line}: it was confirmed before")
        before[who] = index
        furthest = max(furthest, index)
        handed.add(index)
    if len(handed) != len(truth):
        missing = [each for index, each in enumerate(truth) if index not in handed]
        wrong.append(f"{len(missing)} never came: {missing[:3]}")
    return wrong[:5]
