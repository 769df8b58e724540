"""What the examples share: worker processes that talk in lines of JSON, and their cluster's file.

A worker is the example itself, started again with other arguments. It gets lines of JSON on
standard input, answers on standard output, and leaves when its standard input ends: so none
outlives the example, however that ends.
"""

import asyncio
import json
import os
import random
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0  # for what workers are asked
LEAVE_S = 20.0


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody uses now, below those that the system gives to dialling
    sockets: a killed site must find its own free when it returns."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 1_000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"no {count} free ports between 20000 and 32000")


def write_cluster(
    path: Path, name: str, sites: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> None:
    """A cluster file as docs/ describe it, with every default: durable, delivered when safe."""
    lines = ["[cluster]", f'name = "{name}"']
    for site, port in zip(sites, free_ports(len(sites)), strict=True):
        lines += [f"[sites.{site}]", f'address = "127.0.0.1:{port}"']
    lines.append("[groups]")
    lines += [f"{group} = {json.dumps(list(members))}" for group, members in groups.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- the example's side ---------------------------------------------------------------------------


class WorkerFailed(Exception):
    """A worker ended, or did not do what it should; its own complaint is on standard error."""


class Worker:
    """A process, seen from the example."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self._passed: list[dict[str, Any]] = []

    @classmethod
    async def start(cls, name: str, script: str, *arguments: str) -> "Worker":
        process = await asyncio.create_subprocess_exec(
            sys.executable, script, *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=64 * 1024 * 1024,
            start_new_session=True,  # Ctrl-C is for the example, which ends them
        )  # fmt: skip
        return cls(name, process)

    async def heard(self) -> dict[str, Any]:
        """The next line it says."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise WorkerFailed(f"{self.name} ended with code {await self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    async def hears(self, key: str) -> Any:
        """The first value it says under this key; what it says before is kept for who asks."""
        for found in self._passed:
            if key in found:
                self._passed.remove(found)
                return found[key]
        while True:
            found = await self.heard()
            if key in found:
                return found[key]
            self._passed.append(found)

    def tell(self, **fields: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fields).encode() + b"\n")

    async def kill(self) -> None:
        """SIGKILL: it gets no chance to tidy up."""
        self._process.kill()
        await self._process.wait()

    async def leave(self) -> None:
        if self._process.returncode is not None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
            raise WorkerFailed(f"{self.name} did not leave in {LEAVE_S:.0f} s") from None


@asynccontextmanager
async def workers(script: str, commands: Mapping[str, Sequence[str]]) -> "AsyncIterator[Workers]":
    """Start them all, wait until each has said that it is ready, and end all of them."""
    running = Workers(script, commands)
    try:
        for name in commands:
            await running.start(name)
        running.ready = await running.all("ready")
        yield running
        await asyncio.gather(*(worker.leave() for worker in running.by_name.values()))
    finally:
        for worker in running.by_name.values():
            with suppress(ProcessLookupError):
                await worker.kill()


class Workers:
    def __init__(self, script: str, commands: Mapping[str, Sequence[str]]) -> None:
        self._script = script
        self._commands = commands
        self.by_name: dict[str, Worker] = {}
        self.ready: dict[str, Any] = {}  # what each said with it

    def __getitem__(self, name: str) -> Worker:
        return self.by_name[name]

    async def start(self, name: str) -> Worker:
        """Also again, after it was killed."""
        worker = await Worker.start(name, self._script, *self._commands[name])
        self.by_name[name] = worker
        return worker

    async def all(self, key: str, names: Iterable[str] | None = None) -> dict[str, Any]:
        """What each says under this key."""
        wanted = list(self.by_name if names is None else names)
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await asyncio.gather(*(self.by_name[name].hears(key) for name in wanted))
        except TimeoutError:
            raise WorkerFailed(f"nothing heard of {key!r} in {PATIENCE_S:.0f} s") from None
        return dict(zip(wanted, found, strict=True))


def ending(example: Callable[[], int]) -> int:
    """Run the example; its exit code, also when it is interrupted or a worker fails."""
    try:
        return example()
    except KeyboardInterrupt:
        return 130
    except WorkerFailed as failure:
        print(failure, file=sys.stderr)
        return 1


# --- the worker's side ----------------------------------------------------------------------------


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def orders() -> AsyncIterator[dict[str, Any]]:
    """What the example tells this worker, until it should leave; and then it must."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    told: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen() -> None:
        while line := await reader.readline():
            told.put_nowait(line)
        told.put_nowait(b"")
        loop.call_later(LEAVE_S / 2, os._exit, 1)  # the example may be gone, and others with it

    listening = asyncio.create_task(listen())
    while line := await told.get():
        yield json.loads(line)
    await listening
