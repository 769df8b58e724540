"""The server processes of a peer, in a directory of its own, and the processor time they take."""

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from ordercast.model.errors import Error

READY_S = 20.0
END_S = 5.0


class Servers:
    """Use it with `with`: the processes are ended with the block, whatever happens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._children: list[subprocess.Popen[bytes]] = []
        self._last: list[Sequence[str]] = []

    def __enter__(self) -> "Servers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for child in self._children:
            child.terminate()
        for child in self._children:
            try:
                child.wait(END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for command in self._last:
            subprocess.run(command, check=False, stderr=subprocess.DEVNULL)

    def at_end(self, command: Sequence[str]) -> None:
        """Run this when all servers have ended."""
        self._last.append(command)

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        log = self.directory / f"server{len(self._children) + 1}.log"
        with log.open("wb") as out:
            self._children.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env={**os.environ, **(env or {})},
                    cwd=self.directory,
                    process_group=0,
                )
            )

    def wait_for(self, *ports: int) -> None:
        """Until all of them listen."""
        end = time.monotonic() + READY_S
        for port in ports:
            while not _listens(port):
                self.require_all(end)
                time.sleep(0.02)

    def require_all(self, end: float) -> None:
        for number, child in enumerate(self._children, 1):
            if child.poll() is not None or time.monotonic() > end:
                log = self.directory / f"server{number}.log"
                last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
                raise Error(": ".join([f"{child.args[0]!r} did not come up", *last]))  # type: ignore[index]

    def cpu_s(self) -> float:
        """Processor time of the servers and what they started, so far."""
        ticks = 0
        for child in self._children:
            for pid in (child.pid, *_children(child.pid)):
                try:
                    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
                except OSError:
                    continue
                fields = stat.rsplit(")", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _children(pid: int) -> list[int]:
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in listed.split()]
