"""Five real daemons for minutes or hours: moderate load, changes, kills, and bounded stores.

Sites join and leave groups, a group comes and goes, protocols, builders and voters are changed, and
daemons are killed and started again. Some sites are never killed: their processes show whether
anything grows.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.epochs import (
    AddGroup,
    AddVoter,
    Edit,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RemoveVoter,
    UseBuilder,
    UseProtocol,
)
from ordercast.model.errors import Error
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster import processes
from ordercast.net.cluster.file import read_cluster
from processes.daemons import Daemons
from support.clusters.applications import PATIENCE_S, Applications, Pace
from support.judges.flatness import Sample, judge_flatness, read_sample

GROUPS: Mapping[str, Sequence[str]] = {
    "alpha": ("a", "b", "c"),
    "beta": ("c", "d"),
    "gamma": ("d", "e", "a"),
}
PASSING = "delta"  # a group that comes and goes
SITES = tuple("abcde")
STEADY = ("a", "b")  # never killed
PACE = Pace(0.2, 20)  # 250 messages/s of five sites
CHANGE_EVERY_S = 12.0
KILL_EVERY_S = 40.0
LONGEST_AWAY_S = 6.0


class LongRun:
    """`daemons` run already. State: the samples, and how groups and voters are now."""

    def __init__(self, daemons: Daemons, seed: int, samples: Path, *, sample_s: float) -> None:
        self.daemons = daemons
        self.cluster = read_cluster(daemons.file)
        self.applications = Applications(self._connect, GROUPS, PACE, passing=[PASSING])
        self.counts: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self._file = samples
        self._sample_s = sample_s
        self._rng = random.Random(f"long run {seed}")
        self._groups = {group: set(members) for group, members in GROUPS.items()}
        self._voters = set(SITES)
        self._children: list[processes.Child] = []
        self._begun = time.monotonic()

    def _connect(self, site: str) -> Client:
        return connect(
            self.cluster, site, self.daemons.dir,
            start_s=PATIENCE_S, patience_s=PATIENCE_S, flush_s=PATIENCE_S,
        )  # fmt: skip

    async def run(self, seconds: float) -> list[str]:
        """What is wrong with it."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("", encoding="utf-8")
        applications = self.applications
        watching = asyncio.ensure_future(self._watch())
        wrong = applications.wrong
        try:
            await applications.run(lambda: self._work(time.monotonic() + seconds))
        except (Error, TimeoutError, AssertionError) as error:
            wrong.append(f"{type(error).__name__}: {error}")
        finally:
            watching.cancel()
            await asyncio.to_thread(self.daemons.run, "cluster", "down", "cluster.toml")
            for child in self._children:
                await asyncio.to_thread(child.wait, 20)
        self.counts += applications.counts
        return [*wrong, *judge_flatness(self.samples)]

    async def _work(self, until: float) -> None:
        send = self.applications.send_while
        sending = [send(site, lambda: time.monotonic() < until) for site in SITES]
        await asyncio.gather(*sending, self._change_until(until), self._kill_until(until))

    # --- churn ------------------------------------------------------------------------------------

    async def _change_until(self, until: float) -> None:
        while await self._pause(CHANGE_EVERY_S, until):
            edit = self._draw_change()
            took_s = await self.applications.change(STEADY[0], edit)
            self.counts[f"changes: {type(edit).__name__}"] += 1
            slowest = "slowest change, ms"
            self.counts[slowest] = max(self.counts[slowest], round(took_s * 1000))

    async def _pause(self, mean_s: float, until: float) -> bool:
        """Sleep for about `mean_s`; False if the run is over."""
        pause = mean_s * (0.5 + self._rng.random())
        await asyncio.sleep(min(pause, max(until - time.monotonic(), 0.0)))
        return time.monotonic() < until

    def _draw_change(self) -> Edit:
        rng = self._rng
        kind = rng.choice(["member", "member", "member", "protocol", "builder", "group", "voter"])
        if kind == "member":
            group = rng.choice(sorted(GROUPS))
            site = rng.choice([one for one in SITES if one not in GROUPS[group]])
            return self._toggle(self._groups[group], group, site)
        if kind == "protocol":
            return UseProtocol(rng.choice(list(PROTOCOLS)), rng.choice(["", *SITES]))
        if kind == "builder":
            return UseBuilder(rng.choice(["auto", "greedy", "star", "balanced"]))
        if kind == "group":
            if self._groups.pop(PASSING, None):
                return RemoveGroup(PASSING)
            members = rng.sample(SITES, rng.randint(2, 4))
            self._groups[PASSING] = set(members)
            return AddGroup(PASSING, tuple(members))
        if len(self._voters) < len(SITES):
            (site,) = set(SITES) - self._voters
            self._voters.add(site)
            return AddVoter(site)
        site = rng.choice(SITES)
        self._voters.discard(site)
        return RemoveVoter(site)

    @staticmethod
    def _toggle(members: set[str], group: str, site: str) -> Edit:
        if site in members:
            members.discard(site)
            return LeaveGroup(group, site)
        members.add(site)
        return JoinGroup(group, site)

    async def _kill_until(self, until: float) -> None:
        others = [site for site in SITES if site not in STEADY]
        while await self._pause(KILL_EVERY_S, until):
            site = others[self.counts["kills"] % len(others)]
            daemon = processes.running(self.daemons.dir, site)
            assert daemon is not None, f"{site} does not run"
            await asyncio.to_thread(processes.kill, daemon)
            self.counts["kills"] += 1
            await asyncio.sleep(self._rng.random() * LONGEST_AWAY_S)
            started = await asyncio.to_thread(
                processes.start, self.cluster, [site], self.daemons.dir, detached=True
            )
            self._children += started.values()
            await asyncio.to_thread(processes.wait_ready, started, self.daemons.dir)
            self._children = [child for child in self._children if child.poll() is None]

    # --- samples ----------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            self._take_samples()
            await asyncio.sleep(self._sample_s)

    def _take_samples(self) -> None:
        at_s = time.monotonic() - self._begun
        lines = []
        for daemon in processes.all_running(self.cluster, self.daemons.dir):
            sample = read_sample(at_s, daemon.site, daemon.pid, self.daemons.dir)
            if sample is not None:
                self.samples.append(sample)
                lines.append(json.dumps(sample.as_json()))
        judge = self.applications.judge
        totals = {"at_s": round(at_s, 1), "kept by the judge": judge.kept}
        so_far = {**totals, **self.counts, **self.applications.counts, **judge.counts}
        lines.append(json.dumps(so_far))
        with self._file.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
