"""A rolling upgrade of real daemons under load: from an earlier commit to a newer release, one site
after the other (docs/operations.md).

The earlier side is built from its commit. The newer side is the present source as `newer.py` runs
it, which differs from every release in the versions it speaks, in a feature and in its store.
"""

import asyncio
import io
import os
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ordercast.model.features import known_features
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.file import read_cluster
from support.clusters.applications import PATIENCE_S, Applications, Pace, Timed
from support.clusters.processes import write_cluster
from support.programs.golden import ALL
from support.programs.newer import FEATURE

ROOT = Path(__file__).resolve().parents[3]
NEWER = ROOT / "tests" / "support" / "programs" / "newer.py"
COMMIT = ALL / "COMMIT"  # the first commit that agrees on versions
GROUPS: Mapping[str, Sequence[str]] = {"alpha": ("a", "b", "c"), "beta": ("b", "c")}
SITES = ("a", "b", "c")
_SLACK_S = 1.0  # a reader looks at a busy machine


def first_commit() -> str:
    return COMMIT.read_text("ascii").strip()


def has_commit(commit: str) -> bool:
    words = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def has_history() -> bool:
    """Whether this checkout has all commits: a shallow clone, or an archive, has not."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    return subprocess.run(words, capture_output=True, check=False).stdout.strip() == b"false"


def source_of(commit: str, to: Path) -> Path:
    """The source of a commit, ready to run."""
    words = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"]
    packed = subprocess.run(words, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(to, filter="data")
    return to / "src"


@dataclass
class Found:
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    pauses: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By step: seconds until the site was back, and the longest time without a delivery."""


class Upgrade:
    """State: the processes, which of them are newer, and what was found."""

    def __init__(
        self, folder: Path, commit: str, policy: str, order: Sequence[str] = SITES
    ) -> None:
        options = {"on_failure": policy, "durability": "os"}
        self.file = write_cluster(folder, GROUPS, options, tls=False)
        self.cluster = read_cluster(self.file)
        self.stores = folder / "stores"
        self.found = Found()
        self._folder = folder
        self._order = order
        self._paths = {
            False: source_of(commit, folder / "earlier"),
            True: os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests"))),
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._applications = Applications(self._connect, GROUPS, Pace(0.02, 4))
        self._going = True

    def _connect(self, site: str) -> Client:
        return connect(
            self.cluster, site, self.stores,
            start_s=PATIENCE_S, patience_s=PATIENCE_S, flush_s=PATIENCE_S,
        )  # fmt: skip

    # --- processes --------------------------------------------------------------------------------

    def command(self, *words: str, newer: bool) -> tuple[list[str], dict[str, str]]:
        program = [str(NEWER)] if newer else ["-m", "ordercast.cli"]
        environment = {**os.environ, "PYTHONPATH": str(self._paths[newer])}
        return [sys.executable, *program, *words], environment

    def start(self, site: str, *, newer: bool) -> None:
        words = ("node", str(self.file), "--site", site, "--dir", str(self.stores))
        command, environment = self.command(*words, newer=newer)
        with (self._folder / f"{site}.log").open("ab") as log:
            self._running[site] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def log(self, site: str) -> str:
        return (self._folder / f"{site}.log").read_text("utf-8", errors="replace")

    def end(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    # --- the run ----------------------------------------------------------------------------------

    async def run(self) -> Found:
        """A restart of the earlier program first: an upgrade must cost no more."""
        for site in SITES:
            self.start(site, newer=False)
        await self._applications.run(self._work)
        self.found.wrong += self._applications.wrong
        self.found.counts += self._applications.counts
        for process in self._running.values():
            process.terminate()
        for site, process in self._running.items():
            code = await asyncio.to_thread(process.wait, 60)
            if code:
                self.found.wrong.append(f"{site} ended with {code}: {self.log(site)[-600:]}")
        return self.found

    async def _work(self) -> None:
        send = self._applications.send_while
        sending = [asyncio.ensure_future(send(site, lambda: self._going)) for site in SITES]
        try:
            await self._until_met({})
            await self._restart(self._order[0], "restart", {}, newer=False)
            newer: dict[str, None] = {}
            for site in self._order:
                newer[site] = None
                await self._restart(site, f"upgrade of {site}", newer, newer=True)
            await self._until_used()
        finally:
            self._going = False
            await asyncio.gather(*sending)

    async def _restart(
        self, site: str, step: str, upgraded: Mapping[str, None], *, newer: bool
    ) -> None:
        timed = self._applications.timed = Timed()
        begun = time.monotonic()
        process = self._running[site]
        process.terminate()
        if await asyncio.to_thread(process.wait, 60):
            self.found.wrong.append(f"{step}: it ended with {process.returncode}")
        self.start(site, newer=newer)
        await self._until_met(upgraded)
        took = time.monotonic() - begun
        others = [timed.longest_s.get(other, took) for other in SITES if other != site]
        self.found.pauses[step] = took, max(others)
        if max(others) > took + _SLACK_S:
            self.found.wrong.append(f"{step}: others paused {max(others):.1f} s, it {took:.1f} s")

    async def _until_met(self, upgraded: Mapping[str, None]) -> None:
        """Until all sites are present, and each link speaks the highest version of both ends."""
        deadline, told = time.monotonic() + PATIENCE_S, dict[str, Any]()
        while not (told and all(self._is_met(told, site, upgraded) for site in SITES)):
            assert time.monotonic() < deadline, f"not met: {told}"
            await asyncio.sleep(0.05)
            clients = self._applications.clients
            told = {site: await clients[site].status() for site in SITES}
        if len(upgraded) < len(SITES) and any(told[site]["features"]["used"] for site in SITES):
            self.found.wrong.append(f"a feature is used while {sorted(upgraded)} alone have it")

    def _is_met(self, told: Mapping[str, Any], site: str, upgraded: Mapping[str, None]) -> bool:
        status = told[site]
        if status["wire"][1] != _wire(site in upgraded) or status["standing"] != "present":
            return False
        wanted = {other: _wire(site in upgraded and other in upgraded) for other in SITES}
        links = {link["peer"]: link["wire"] for link in status["links"]}
        return all(links.get(other) == wanted[other] for other in SITES if other != site)

    async def _until_used(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for site in SITES:
            wanted = sorted([*known_features(), FEATURE])
            while (await self._applications.clients[site].status())["features"]["used"] != wanted:
                assert time.monotonic() < deadline, f"{site} does not use the feature"
                await asyncio.sleep(0.05)


def _wire(newer: bool) -> int:
    from ordercast.wire.codec import VERSION

    return VERSION + newer
