"""Processes that run a campaign's cases, and what happens when one of them dies.

Each worker holds one chunk of seeds at a time and notes, in memory shared with the parent, which
seed it is at. So when it is killed (native code that crashes, memory that runs out) the parent
knows the very case, counts it as failed, and gives the rest of the chunk to a new worker.
"""

import multiprocessing
import signal
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tools.soak.campaign import Campaign, load_campaign
from tools.soak.record import Chunk, Failure

CHUNK_S = 1.0  # so long a chunk should take: what Ctrl-C waits for
LARGEST_CHUNK = 5000

_spawn = multiprocessing.get_context("spawn")  # forking a process with threads is unsound


@dataclass(slots=True)
class _Worker:
    process: Any  # of the spawn context
    pipe: Connection
    at: Any  # shared: the seed being run
    span: tuple[int, int]  # of the chunk it holds: first, end


class Pool:
    """Runs spans of seeds on `jobs` processes; `stop()` lets those under way finish."""

    def __init__(self, campaign: Campaign, jobs: int) -> None:
        self.campaign = campaign
        self.jobs = jobs
        self._stopping = False
        self._case_s = CHUNK_S  # of one case, as measured lately: the first chunks hold one

    def stop(self) -> None:
        self._stopping = True

    def run(self, spans: Iterable[tuple[int, int]]) -> Iterator[Chunk]:
        """Finished chunks as they come; between them they cover all spans unless stopped."""
        todo = deque(spans)
        idle: list[_Worker] = []
        busy: list[_Worker] = []
        try:
            while True:
                while todo and not self._stopping and len(busy) < self.jobs:
                    worker = idle.pop() if idle else self._start()
                    worker.span = self._take(todo)
                    worker.pipe.send(worker.span)
                    busy.append(worker)
                if not busy:
                    return
                for pipe in wait([worker.pipe for worker in busy]):
                    worker = next(w for w in busy if w.pipe is pipe)
                    busy.remove(worker)
                    try:
                        chunk = worker.pipe.recv()
                    except (EOFError, OSError):
                        chunk = self._died(worker, todo)
                    else:
                        self._case_s = chunk.seconds / chunk.count
                        idle.append(worker)
                    yield chunk
        finally:
            for worker in [*idle, *busy]:
                worker.process.kill()
                worker.process.join()

    def _take(self, todo: deque[tuple[int, int]]) -> tuple[int, int]:
        first, end = todo.popleft()
        count = int(CHUNK_S / max(self._case_s, CHUNK_S / LARGEST_CHUNK))
        middle = min(first + max(count, 1), end)
        if middle < end:
            todo.appendleft((middle, end))
        return first, middle

    def _start(self) -> _Worker:
        ours, theirs = _spawn.Pipe()
        at = _spawn.Value("q", 0, lock=False)
        process = _spawn.Process(target=_work, args=(self.campaign.path, theirs, at), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, at, (0, 0))

    def _died(self, worker: _Worker, todo: deque[tuple[int, int]]) -> Chunk:
        """The case it was at has failed; the others of its chunk are still to be done."""
        worker.process.join()
        first, end = worker.span
        seed = min(max(worker.at.value, first), end - 1)
        todo.extendleft(span for span in ((seed + 1, end), (first, seed)) if span[0] < span[1])
        message = f"the process died (exit code {worker.process.exitcode})"
        return Chunk(seed, 1, 0.0, {}, (Failure(seed, message, self.campaign.replay(seed)),))


def _work(path: Path, pipe: Connection, at: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which lets us finish
    campaign = load_campaign(path)
    while True:
        try:
            first, end = pipe.recv()
            pipe.send(run_chunk(campaign, first, end, at))
        except (EOFError, OSError):  # the parent has gone
            return


def run_chunk(campaign: Campaign, first: int, end: int, at: Any = None) -> Chunk:
    begun = time.perf_counter()
    counters: Counter[str] = Counter()
    failures = []
    for seed in range(first, end):
        if at is not None:
            at.value = seed
        outcome = campaign.outcome(seed)
        counters.update(outcome.counters)
        if not outcome.ok:
            failures.append(Failure(seed, outcome.message, outcome.replay))
    return Chunk(first, end - first, time.perf_counter() - begun, counters, tuple(failures))
