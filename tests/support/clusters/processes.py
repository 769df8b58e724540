"""A cluster of real processes over TLS: `worker.py` at every site, SIGKILL at any moment, restarts,
and at the end the verdict on the stores and on what the applications noted."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.cluster.file import read_cluster
from ordercast.net.export.history import export
from support.harness.ports import free_ports
from support.judges.applog import compare, judge, read_notes

ROOT = Path(__file__).resolve().parents[3]
WORKER = ROOT / "tests" / "support" / "programs" / "worker.py"
NAME = "trial"
_PATIENCE = 20  # looks, of half a second each


@dataclass
class Verdict:
    wrong: list[str] = field(default_factory=list)
    sent: int = 0
    delivered: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0


def write_cluster(
    folder: Path,
    groups: Mapping[str, Sequence[str]],
    options: Mapping[str, object],
    *,
    tls: bool = True,
    addresses: Mapping[str, str] | None = None,
    limits: Mapping[str, object] | None = None,
    timeouts: Mapping[str, object] | None = None,
    outside: Sequence[str] = (),
    name: str = "cluster.toml",
) -> Path:
    """The cluster file, and certificates for all sites; those `outside` are in no group."""
    sites = sorted({*outside, *(site for members in groups.values() for site in members)})
    if addresses is None:
        ports = free_ports(len(sites))
        addresses = {site: f"127.0.0.1:{port}" for site, port in zip(sites, ports, strict=True)}
    lines = ["[cluster]", f'name = "{NAME}"']
    lines += [f"{key} = {_toml(value)}" for key, value in options.items()]
    lines += ["[limits]", 'retention = "24h"']
    lines += [f"{key} = {_toml(value)}" for key, value in (limits or {}).items()]
    if timeouts:
        lines += ["[timeouts]", *(f"{key} = {_toml(value)}" for key, value in timeouts.items())]
    if tls:
        lines += ["[tls]", 'dir = "certs"']
        write_certificates(NAME, sites, folder / "certs")
    for site in sites:
        lines += [f"[sites.{site}]", f'address = "{addresses[site]}"']
    lines += ["[groups]"]
    lines += [f"{group} = {_toml(list(members))}" for group, members in groups.items()]
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_toml(each) for each in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


class Processes:
    """All sites of a cluster file, one worker each."""

    def __init__(
        self,
        folder: Path,
        cluster: Path,
        *,
        messages: int,
        seed: int,
        deaf: Sequence[str] = (),
        fast: bool = False,
        steady: bool = False,
        cluster_of: Callable[[str], Path] | None = None,
        place_of: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        """`steady`: they send on until `settle`. `place_of`: words before a site's command, if it
        runs in a place of its own."""
        self.folder = folder
        self.cluster = cluster
        self.deaf = deaf
        self.fast = fast
        self.steady = steady
        self.config = read_cluster(cluster)
        self.sites = sorted(self.config.sites)
        self.each = -(-messages // len(self.sites))
        self.seed = seed
        self.verdict = Verdict()
        self.stores = folder / "stores"
        self._cluster_of = cluster_of or (lambda _: cluster)
        self._place_of = place_of or (lambda _: ())
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._opened: dict[str, int] = {}  # how often each had opened before its last start

    def __enter__(self) -> "Processes":
        for site in self.sites:
            self.start(site)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def notes(self, site: str) -> Path:
        return self.folder / f"{site}.notes"

    def log(self, site: str) -> str:
        return (self.folder / f"{site}.log").read_text(encoding="utf-8", errors="replace")

    def pid(self, site: str) -> int:
        return self._running[site].pid

    def start(self, site: str) -> None:
        self._opened[site] = self._turns(site).count("open")
        words = [
            self._cluster_of(site), site, self.stores, self.notes(site), self.each, self.seed,
        ]  # fmt: skip
        if site in self.deaf:
            words.append("deaf")
        if self.fast:
            words.append("fast")
        if self.steady:
            words.append("steady")
        with (self.folder / f"{site}.log").open("ab") as log:
            self._running[site] = subprocess.Popen(
                [*self._place_of(site), sys.executable, str(WORKER), *map(str, words)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
                },
            )

    def told(self, site: str, kind: str) -> list[str]:
        """The notes of a kind that a site's application has written so far: what each says."""
        if not self._has(site):
            return []
        return [note[1] for note in read_notes(self.notes(site)) if note[0] == kind]

    def wait_until(self, what: Callable[[], bool], limit_s: float = 60.0) -> None:
        deadline = time.monotonic() + limit_s
        while not what():
            for site, process in self._running.items():
                assert process.poll() is None, f"{site} ended: {self.log(site)[-600:]}"
            assert time.monotonic() < deadline, f"not so after {limit_s:.0f} s"
            time.sleep(0.05)

    def kill(self, site: str) -> None:
        process = self._running[site]
        process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def restart(self, site: str) -> None:
        self.verdict.restarts += 1
        self.start(site)

    # --- the schedule -----------------------------------------------------------------------------

    def roles(self) -> dict[str, list[str]]:
        """The sites of each role at the start, without the manager."""
        layout = self.config.first_layout()
        roles: dict[str, list[str]] = {"leaf": [], "inner": [], "root": [], "outside": []}
        for site in self.sites:
            home = layout.home(site)
            if home is None:
                roles["outside"].append(site)
                continue
            above, below = home.structure.parent(site), home.structure.children[site]
            roles["leaf" if not below else "root" if above is None else "inner"].append(site)
        found = {role: sites for role, sites in roles.items() if sites}
        return {**found, "voter": list(layout.voters), "manager": []}

    def manager(self) -> str | None:
        """Who leads the voters, as most of the running sites say: their `status` tells it."""
        said: Counter[str] = Counter()
        for site, process in self._running.items():
            if process.poll() is None:
                said.update(name for name in self.told(site, "manager")[-1:] if name)
        return max(sorted(said), key=said.__getitem__, default=None)

    def wait_for_manager(self, down: Sequence[str]) -> str:
        """Wait until the sites name a manager that runs: they may not know yet that theirs was
        killed."""
        deadline = time.monotonic() + 60
        while (found := self.manager()) is None or found in down:
            assert time.monotonic() < deadline, f"no manager; down: {down}"
            time.sleep(0.05)
        return found

    def kill_at_random(self, kills: int, *, pause_s: float = 0.9, down_s: float = 0.5) -> None:
        """Each role in turn, in any order; sometimes two sites are down at a time. A majority of
        the voters always runs, and all of them at first: they found the cluster."""
        self.wait_for_manager([])
        rng = random.Random(f"kills {self.seed}")
        roles = self.roles()
        most = min(2, (len(roles["voter"]) - 1) // 2)
        order = [role for _ in range(kills) for role in rng.sample(list(roles), len(roles))]
        down: list[str] = []
        for role in order[:kills]:
            time.sleep(rng.random() * 2 * pause_s)
            if role == "manager":
                roles[role] = [self.wait_for_manager(down)]
            while all(site in down for site in roles[role]):
                self.restart(down.pop(0))
            site = rng.choice([site for site in roles[role] if site not in down])
            self.kill(site)
            self.verdict.kills[role] += 1
            down.append(site)
            if len(down) == most or rng.random() < 0.7:
                time.sleep(rng.random() * 2 * down_s)
                self.restart(down.pop(0))
        while down:
            self.restart(down.pop(0))

    # --- the end ----------------------------------------------------------------------------------

    def settle(self, limit_s: float) -> None:
        """Wait until every application has sent all, all of that is stable, and nothing more comes.
        A site that lacks what another has seen gets more time: it may only be short of CPU."""
        (self.folder / "enough").touch()
        deadline = time.monotonic() + limit_s
        sizes: list[int] = []
        still = 0
        patience = _PATIENCE
        while time.monotonic() < deadline:
            time.sleep(0.1)
            for site, process in self._running.items():
                if process.poll() is not None:
                    self.verdict.wrong.append(f"{site} ended by itself: {self.log(site)[-600:]}")
                    return
            now = [self.notes(site).stat().st_size for site in self.sites if self._has(site)]
            still = still + 1 if now == sizes and len(now) == len(self.sites) else 0
            sizes = now
            if still >= 5 and all(self._is_idle(site) for site in self.sites):
                if patience <= 0 or self._all_have_seen_the_same():
                    return
                still, patience = 0, patience - 1
        late = [site for site in self.sites if not self._has(site) or not self._is_idle(site)]
        self.verdict.wrong.append(f"not done after {limit_s:.0f} s: {late}")

    def _has(self, site: str) -> bool:
        return self.notes(site).exists()

    def _all_have_seen_the_same(self) -> bool:
        seen: dict[str, dict[str, set[Any]]] = {}  # by group and site
        for site in self.sites:
            for note in read_notes(self.notes(site)):
                if note[0] == "saw" and site not in self.deaf:
                    seen.setdefault(note[2], {}).setdefault(site, set()).add(note[3:6])
        return all(
            len({frozenset(by_site.get(site, ())) for site in members if site not in self.deaf})
            <= 1
            for group, members in self.config.groups.items()
            if (by_site := seen.get(group))
        )

    def _turns(self, site: str) -> list[str]:
        if not self._has(site):
            return []
        return [note[0] for note in read_notes(self.notes(site)) if note[0] in ("open", "idle")]

    def _is_idle(self, site: str) -> bool:
        """Whether it has said so since its last start, not before it was killed."""
        turns = self._turns(site)
        return turns[-1:] == ["idle"] and turns.count("open") > self._opened[site]

    def stop(self) -> None:
        """Ask all to leave; each must end well."""
        for process in self._running.values():
            if process.stdin is not None and process.poll() is None:
                process.stdin.write(b"\n")
                process.stdin.close()
        for site, process in self._running.items():
            try:
                code = process.wait(20)
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                self.verdict.wrong.append(f"{site} ended with {code}: {self.log(site)[-600:]}")

    def judge(self) -> Verdict:
        verdict = self.verdict
        if verdict.wrong:  # what the stores say then explains nothing
            return verdict
        out = self.folder / "history"
        export(self.stores, out)
        history = read_history(out)
        verdict.sent, verdict.delivered = len(history.sent), len(history.deliveries)
        report = check_history(history).as_json()
        if not report["ok"] or report["informative"]["pending"]:
            verdict.wrong.append(
                f"{report['checks']} {report['informative']} {report['witnesses']}"
            )
        ended = {event.site for event in history.events if event.kind == "end"}
        if ended != set(self.sites):
            verdict.wrong.append(f"not quiet at the end: {sorted(set(self.sites) - ended)}")
        notes = {site: read_notes(self.notes(site)) for site in self.sites}
        for site in self.sites:
            if site not in self.deaf:
                verdict.wrong += judge(site, notes[site])
        if not self.deaf:
            verdict.wrong += compare(notes, history)
        return verdict
