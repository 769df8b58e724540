"""Processes that a test started and did not end (Linux only; elsewhere none are found).

A child is known by its environment, where pytest-xdist names the run and the worker: so daemons
that have left their parent are found too, and so are those whose worker is gone.
"""

import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_HELPERS = ("pyspark", "multiprocessing.resource_tracker")
_RUN, _WORKER = "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER"


@dataclass(frozen=True, slots=True)
class Child:
    pid: int
    parent: int
    command: str


def living(run: str, worker: str) -> list[Child]:
    """The processes that this worker of this run has started, and theirs."""
    marks = {f"{_RUN}={run}".encode(), f"{_WORKER}={worker}".encode()}
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):  # it has ended meanwhile, or is somebody else's
            if marks.issubset((place / "environ").read_bytes().split(b"\0")):
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(Child(int(place.name), parent, command))
    return found


def kill(children: list[Child]) -> None:
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)


class Watch:
    """Of one worker, over all its tests. It looks only after a test that has started something."""

    def __init__(self) -> None:
        self._run, self._worker = os.environ.get(_RUN, ""), os.environ.get(_WORKER, "")
        self._started = False
        self._kept: set[int] = set()
        if self._run:
            sys.addaudithook(self._note)

    def _note(self, event: str, _: object) -> None:
        if event == "subprocess.Popen":
            self._started = True

    def keep(self) -> None:
        """Those that live now are a fixture's that outlives the test."""
        if self._started:
            self._kept |= {child.pid for child in self._mine()}

    def left(self) -> list[Child]:
        """Those that the test has left. Helpers of a process, as PySpark's JVM, end with it."""
        if not self._started:
            return []
        children = {child.pid: child for child in self._mine()}
        self._kept |= {pid for pid, c in children.items() if any(h in c.command for h in _HELPERS)}
        while more := {c.pid for c in children.values() if c.parent in self._kept} - self._kept:
            self._kept |= more
        self._started = not self._kept.isdisjoint(children)
        return [child for pid, child in children.items() if pid not in self._kept]

    def _mine(self) -> list[Child]:
        return living(self._run, self._worker) if self._run else []
