"""Two queries of Spark whose driver, executors, Python workers and daemons are killed: from one
group to another, and all that three sites deliver into files.

All are real processes. In the end both members of the second group must have delivered the even
numbers of the first, each once, in order; and the files must have all deliveries of each site, each
once, in the order of the site.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ordercast.model.errors import Error
from ordercast.net.client.client import Client, connect
from ordercast.net.client.requests import ClientReceipt
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster
from support.clusters.campaigns.reader_kills import log_of
from support.clusters.node_processes import NodeProcesses
from support.clusters.processes import ROOT, write_cluster
from support.harness import loops
from support.harness.spark_cluster import SparkCluster, family, python_workers, spark_cluster
from support.judges.kept_rows import judge_kept, judge_sent, kept_rows
from support.programs.stream_query import KEEPING, ROWS, SENDING

PROGRAM = ROOT / "tests" / "support" / "programs" / "stream_query.py"
GROUPS = {"alpha": ["a", "b"], "gamma": ["b", "c"]}
PATIENCE_S = 120.0
EXECUTOR = "an executor"
AHEAD = 30_000  # positions that the sender may be before a query


@dataclass(frozen=True)
class StreamCase:
    """`kills`: of what, one after another; where executors are among them, the query runs on two
    workers of a standalone cluster. `batches`: how many of both queries must be done between two
    kills, at most. `most`: messages of one batch of the sender; ranges of the source end within
    them."""

    seed: int
    kills: tuple[str, ...]
    batches: int = 6
    most: int = 500
    per_s: float = 2_500.0  # messages, as long as the queries keep up


@dataclass
class StreamResult:
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class _Query:
    """The program, as a process group of its own. Its executors are on `cluster`, or in its JVM."""

    def __init__(
        self, folder: Path, file: Path, stores: Path, cluster: SparkCluster | None
    ) -> None:
        self.folder = folder / "queries"
        self.words = [str(file), str(stores), str(self.folder)]
        self._cluster = cluster
        self._log = folder / "query.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, mode: str) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *self.words, mode, *self._master()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _master(self) -> list[str]:
        return [] if self._cluster is None else [self._cluster.master]

    def kill(self) -> None:
        """Driver and JVM at once; the workers end when the JVM is gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_worker(self, chance: random.Random) -> bool:
        """One of the Python workers. Whether there was any."""
        assert self._process is not None
        roots = [self._process.pid]
        if self._cluster is not None:
            roots = [worker.pid for worker in self._cluster.workers]
        workers = [pid for root in roots for pid in python_workers(root)]
        if not workers:
            return False
        with suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)
        return True

    def kill_executor(self, chance: random.Random) -> bool:
        """A JVM with executors, and the Python that it runs. Whether there was one that works."""
        assert self._cluster is not None
        families = [family(worker.pid)[:-1] for worker in self._cluster.workers]
        working = [pids for pids in families if len(pids) > 1]
        if not working:
            return False
        for pid in reversed(chance.choice(working)):  # the JVM first: it shall tell nobody
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True

    def finish(self) -> list[str]:
        """Read what is there now; what is wrong with that."""
        self.start("finish")
        assert self._process is not None
        code = self._process.wait(300)
        self._process = None
        return [f"the query ended with {code}: {self.log()}"] if code else []

    def done(self) -> int:
        """How many batches both queries together have done."""
        return sum(len(self._numbered(name, "commits")) for name in (SENDING, KEEPING))

    def position(self) -> int:
        """Up to which position of b the batches go that both queries have begun."""
        return min(self._position(name) for name in (SENDING, KEEPING))

    def _position(self, name: str) -> int:
        begun = self._numbered(name, "offsets")
        if not begun:
            return 0
        offset = begun[-1].read_text(encoding="utf-8").splitlines()[-1:]
        return int(json.loads(offset[0])["b"][1]) if offset and offset[0] != "-" else 0

    def forget_the_last(self) -> None:
        """Delete the last commit of each checkpoint: Spark runs these batches again."""
        for name in (SENDING, KEEPING):
            for last in self._numbered(name, "commits")[-1:]:
                last.unlink()
                last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def _numbered(self, name: str, kind: str) -> list[Path]:
        """The files of a checkpoint, by their numbers."""
        files = (self.folder / name / kind).glob("*")
        return sorted((path for path in files if path.name.isdecimal()), key=lambda p: int(p.name))

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]


@contextmanager
def _running(folder: Path, *, executors: bool) -> Iterator[tuple[NodeProcesses, _Query, Path]]:
    options = {"durability": "os", "unnamed_reader": False}
    file = write_cluster(folder, GROUPS, options, tls=False, timeouts={"suspect": "500ms"})
    daemons = NodeProcesses(folder, dict.fromkeys("abc", file), [ROOT / "src"])
    with ExitStack() as stack:
        cluster = None
        if executors:
            cluster = stack.enter_context(spark_cluster(folder, workers=2))
        query = _Query(folder, file, daemons.stores, cluster)
        stack.callback(daemons.end)
        stack.callback(query.kill)
        for site in "abc":
            daemons.start(site)
        query.start("go")
        yield daemons, query, file


def run_stream(
    case: StreamCase, folder: Path, finish: Callable[[list[str]], list[str]] | None = None
) -> StreamResult:
    """`finish`: runs the query to its end on a session that is there; default: a new process."""
    found = StreamResult()
    with _running(folder, executors=EXECUTOR in case.kills) as (daemons, query, file):
        loops.run(_campaign(case, read_cluster(file), daemons, query, found), limit_s=1_500.0)
        query.kill()
        query.forget_the_last()
        words = [*query.words, "finish"]
        found.wrong += query.finish() if finish is None else finish(words)
        found.counts["batches of both queries"] = query.done()
        found.wrong += daemons.stop()
    if not found.wrong:
        sent = found.counts["sent"]
        wanted = [str(n) for n in range(1, sent + 1) if n % 2 == 0]
        logs = {site: log_of(daemons.stores / f"{site}.db") for site in "abc"}
        for site in "bc":
            got = [text for _, group, text in logs[site] if group == "gamma"]
            found.wrong += judge_sent(site, wanted, got)
        kept = kept_rows(query.folder / ROWS)
        found.wrong += judge_kept(logs, kept)
        found.counts["rows kept"] = sum(map(len, kept.values()))
    return found


async def _campaign(
    case: StreamCase, cluster: Cluster, daemons: NodeProcesses, query: _Query, found: StreamResult
) -> None:
    chance = random.Random(f"stream {case.seed}")
    over = asyncio.Event()
    times = {"start_s": PATIENCE_S, "patience_s": PATIENCE_S, "flush_s": PATIENCE_S}
    async with connect(cluster, "a", daemons.stores, **times) as client:  # type: ignore[arg-type]
        sending = asyncio.create_task(_send(client, case, query, over, found))
        for n, what in enumerate(case.kills, start=1):
            await _until_done(query, query.done() + chance.randint(1, case.batches), found)
            if found.wrong:
                break
            last = n == len(case.kills)
            await _kill(what, chance, daemons, query, again=not last)
            found.counts[f"kills of {what}"] += 1
        over.set()
        await sending


async def _kill(
    what: str, chance: random.Random, daemons: NodeProcesses, query: _Query, *, again: bool
) -> None:
    """`again`: a driver is started again at once."""
    await asyncio.sleep(chance.random() * 0.3)  # anywhere within a batch
    if what == "the driver":
        query.kill()
        if chance.random() < 0.5:
            query.forget_the_last()
        if again:
            query.start("go")
    elif what in ("a worker", EXECUTOR):
        kill = query.kill_executor if what == EXECUTOR else query.kill_worker
        while not kill(chance):
            await asyncio.sleep(0.05)
    else:
        site = chance.choice("abc")
        daemons.kill(site)
        await asyncio.sleep(chance.random())
        daemons.start(site)


async def _until_done(query: _Query, batches: int, found: StreamResult) -> None:
    until = time.monotonic() + 300
    while query.done() < batches:
        if time.monotonic() > until:
            found.wrong.append(f"{query.done()} of {batches} batches are done: {query.log()}")
            return
        await asyncio.sleep(0.05)


async def _first(client: Client) -> ClientReceipt:
    """The first message of the producer. It is refused until the cluster is founded; then the same
    number comes next."""
    while True:
        try:
            receipt = await client.produce("sender", 1, "alpha", [b"1"])
            await receipt.stable()
            return receipt
        except Error:
            await asyncio.sleep(0.05)


async def _send(
    client: Client, case: StreamCase, query: _Query, over: asyncio.Event, found: StreamResult
) -> None:
    """Numbers, as a producer, in batches of 1 to `most`: its own daemon is killed, too."""
    chance = random.Random(f"sizes {case.seed}")
    number, sent, receipt = 1, 1, await _first(client)
    began = time.monotonic()
    while not over.is_set():
        number += 1
        size = chance.choice((1, chance.randint(1, case.most)))
        while 3 * sent > 2 * (query.position() + AHEAD) and not over.is_set():  # gamma has half
            await asyncio.sleep(0.1)
        batch = [str(n).encode() for n in range(sent + 1, sent + size + 1)]
        receipt = await client.produce("sender", number, "alpha", batch)
        sent += size
        await asyncio.sleep(size / case.per_s)
    found.counts["sent"] = sent
    found.counts["sent in batches"] = number
    found.counts["seconds of sending"] = round(time.monotonic() - began)
    await receipt.stable()
