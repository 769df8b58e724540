"""Real daemons for tests: a cluster file with free ports, and the command that runs them."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from ordercast.cli import main
from support.harness.ports import free_ports

COMMAND = (sys.executable, "-m", "ordercast.cli")
GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}
Finished = subprocess.CompletedProcess[str]


def soon(check: Callable[[], bool], limit_s: float = 60.0) -> bool:
    """Wait until it is so. False: it was not within the limit."""
    until = time.monotonic() + limit_s
    while not check():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class Daemons:
    """A cluster file in a directory of its own; verbs run there."""

    def __init__(
        self,
        place: Path,
        groups: Mapping[str, Sequence[str]] = GROUPS,
        *,
        name: str = "demo",
        tables: str = "",
        metrics: bool = False,
        clients: bool = False,
        tls: bool = False,
        in_process: bool = False,
        **options: object,
    ) -> None:
        self.place = place
        self.tls = tls
        self.in_process = in_process  # verbs that start no daemon
        self._added: list[subprocess.Popen[bytes]] = []
        self.sites = sorted({site for members in groups.values() for site in members})
        count = len(self.sites)
        ports = free_ports(3 * count)
        self.address = dict(zip(self.sites, ports, strict=False))
        self.metrics = dict(zip(self.sites, ports[count:], strict=False))
        self.clients = dict(zip(self.sites, ports[2 * count :], strict=True))
        self.file = place / "cluster.toml"
        self.dir = place / ".ordercast" / name
        lines = ["[cluster]", f'name = "{name}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in options.items()]
        lines.append(tables)
        if tls:
            lines += ["[tls]", 'dir = "certs"']
        for site in self.sites:
            lines += [f"[sites.{site}]", f'address = "127.0.0.1:{self.address[site]}"']
            if metrics:
                lines.append(f'metrics = "127.0.0.1:{self.metrics[site]}"')
            if clients:
                lines.append(f'clients = "127.0.0.1:{self.clients[site]}"')
        lines.append("[groups]")
        lines += [f"{group} = {json.dumps(list(members))}" for group, members in groups.items()]
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if tls:
            self.good("certs", "cluster.toml")

    def command(self, *words: str) -> list[str]:
        return [*COMMAND, *words]

    def run(self, *words: str, text: str | None = None, timeout: float = 60) -> Finished:
        if self.in_process and words[0] not in ("cluster", "node") and text is None:
            return self._run_here(words)
        return subprocess.run(
            self.command(*words),
            cwd=self.place,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def _run_here(self, words: Sequence[str]) -> Finished:
        """A process of its own takes half a second to start; what the verb does is the same."""
        out, err = io.StringIO(), io.StringIO()
        with chdir(self.place), redirect_stdout(out), redirect_stderr(err):
            code = main(words)
        return subprocess.CompletedProcess(list(words), code, out.getvalue(), err.getvalue())

    def good(self, *words: str, text: str | None = None) -> str:
        done = self.run(*words, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str, text: str | None = None) -> Any:
        return json.loads(self.good(*words, "--json", text=text))

    def lines(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self.good(*words, "--json").splitlines()]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words),
            cwd=self.place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_newcomer(self, site: str, *options: str) -> str:
        """The daemon of a site that is not in the file, in the background; where it listens."""
        if self.tls:
            self.good("certs", "cluster.toml", "--site", site)
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        with (self.dir / f"{site}.log").open("ab") as log:
            words = ("node", "cluster.toml", "--site", site, "--address", address, *options)
            node = self.command(*words)
            self._added.append(
                subprocess.Popen(
                    node, cwd=self.place, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            )
        return address

    def reap(self) -> None:
        """Newcomers that were stopped: their parent is this process."""
        for child in self._added:
            child.wait(20)

    def pids(self) -> dict[str, int]:
        found = {}
        for path in sorted(self.dir.glob("*.pid")):
            pid = int(path.read_text(encoding="ascii").split()[0])
            if is_running(pid):
                found[path.stem] = pid
        return found


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def up(place: Path, **options: Any) -> Iterator[Daemons]:
    """A running cluster; nothing of it is left behind."""
    daemons = Daemons(place, **options)
    try:
        daemons.good("cluster", "up", "cluster.toml", "--detach")
        yield daemons
    finally:
        done = daemons.run("cluster", "down", "cluster.toml")
        daemons.reap()
        assert done.returncode == 0, done.stderr
        assert _gone(daemons), daemons.pids()


def _gone(daemons: Daemons, limit_s: float = 10.0) -> bool:
    """Also those that were killed, when whoever inherited them has noticed."""
    until = time.monotonic() + limit_s
    while daemons.pids() and time.monotonic() < until:
        time.sleep(0.05)
    return not daemons.pids()
