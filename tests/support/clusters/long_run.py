"""Five real daemons for minutes or hours: moderate load, changes, kills, and bounded stores.

An application at each site sends, reads, and confirms what it has read, so that the store may drop
it. Meanwhile sites join and leave groups, groups come and go, protocols, builders and voters are
changed, and daemons are killed and started again. Some sites are never killed: their processes show
whether anything grows. Every delivery is judged as soon as no rollback can take it back.
"""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from ordercast.core.epochs.records import EpochOpened
from ordercast.core.epochs.returning import Rollback
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
from ordercast.model.errors import ConfigError, Error, NotInMajority, UnknownGroup
from ordercast.model.messages import DeliveredBatch
from ordercast.net.client.client import Client, connect
from ordercast.net.client.requests import ClientReceipt
from ordercast.net.cluster import processes
from ordercast.net.cluster.file import read_cluster
from ordercast.net.site.changes import new_change_name
from processes.daemons import Daemons
from support.judges.flatness import Sample, judge_flatness, read_sample
from support.judges.running_judge import Message, RunningJudge

GROUPS: Mapping[str, Sequence[str]] = {
    "alpha": ("a", "b", "c"), "beta": ("c", "d"), "gamma": ("d", "e", "a"),
}  # fmt: skip
PASSING = "delta"  # a group that comes and goes
SITES = tuple("abcde")
STEADY = ("a", "b")  # never killed
SEND_EVERY_S = 0.2
BURST = 20  # messages at once, at most
CONFIRM_EVERY_S = 1.0
CHANGE_EVERY_S = 12.0
KILL_EVERY_S = 40.0
LONGEST_AWAY_S = 6.0
PATIENCE_S = 120.0
QUIET_S = 180.0


class LongRun:
    """`daemons` run already. State: the judge, the samples, and what each site is a member of."""

    def __init__(self, daemons: Daemons, seed: int, samples: Path, *, sample_s: float) -> None:
        self.daemons = daemons
        self.cluster = read_cluster(daemons.file)
        self.judge = RunningJudge(GROUPS)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.samples: list[Sample] = []
        self._file = samples
        self._sample_s = sample_s
        self._rng = random.Random(f"long run {seed}")
        self._clients: dict[str, Client] = {}
        self._groups = {group: set(members) for group, members in GROUPS.items()}
        self._voters = set(SITES)
        self._children: list[processes.Child] = []
        self._unsettled = {site: deque[tuple[int, Message]]() for site in SITES}
        self._judged = dict.fromkeys(SITES, 0)  # the last position
        self._begun = time.monotonic()

    # --- the run ----------------------------------------------------------------------------------

    async def run(self, seconds: float) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("", encoding="utf-8")
        async with contextlib.AsyncExitStack() as stack:
            for site in SITES:
                client = connect(
                    self.cluster, site, self.daemons.dir,
                    start_s=PATIENCE_S, patience_s=PATIENCE_S, flush_s=PATIENCE_S,
                )  # fmt: skip
                self._clients[site] = await stack.enter_async_context(client)
            await self._work(seconds)
        self.judge.end()
        self.wrong += [*self.judge.wrong, *judge_flatness(self.samples)]
        self.counts += self.judge.counts

    async def _work(self, seconds: float) -> None:
        reading = [asyncio.ensure_future(self._read(site)) for site in SITES]
        settling = [asyncio.ensure_future(self._settle(site)) for site in SITES]
        watching = asyncio.ensure_future(self._watch())
        until = time.monotonic() + seconds
        sending = [self._send(site, until) for site in SITES]
        disturbing = [self._change_until(until), self._kill_until(until)]
        background = [*reading, *settling, watching]
        foreground = asyncio.gather(*sending, *disturbing)
        try:
            await asyncio.wait([foreground, *background], return_when=asyncio.FIRST_COMPLETED)
            if foreground.done():
                await foreground
                await self._quiet()
        finally:
            for task in (foreground, *background):
                task.cancel()
            done = await asyncio.gather(foreground, *background, return_exceptions=True)
            self.wrong += [
                repr(each) for each in done
                if isinstance(each, Exception) and not isinstance(each, asyncio.CancelledError)
            ]  # fmt: skip

    async def _quiet(self) -> None:
        """Until every site has judged all that is stable."""
        until = time.monotonic() + QUIET_S
        busy = list(SITES)
        while busy and time.monotonic() < until:
            await asyncio.sleep(0.5)
            told = {site: await self._clients[site].status() for site in SITES}
            busy = [
                site for site in SITES
                if not told[site]["quiet"] or self._judged[site] < told[site]["position"]
            ]  # fmt: skip
        if busy:
            self.wrong.append(f"not quiet after {QUIET_S:.0f} s: {', '.join(busy)}")

    # --- applications -----------------------------------------------------------------------------

    async def _send(self, site: str, until: float) -> None:
        rng = random.Random(f"sends {site}")
        numbers: Counter[str] = Counter()
        under_way: deque[tuple[Message, ClientReceipt]] = deque()
        while time.monotonic() < until:
            await asyncio.sleep(SEND_EVERY_S * (0.5 + rng.random()))
            group = rng.choice([*GROUPS, *GROUPS, PASSING])
            for _ in range(rng.randint(1, BURST)):
                number = numbers[group] + 1
                payload = b"%s %s %d " % (site.encode(), group.encode(), number)
                payload += b"." * rng.choice([8, 80, 800])
                try:
                    receipt = await self._clients[site].multicast(group, payload)
                except (UnknownGroup, NotInMajority):
                    continue
                numbers[group] = number
                self.counts["sent"] += 1
                under_way.append(((site, group, number), receipt))
            while under_way and under_way[0][1].stage == "stable":
                await self._end_of(*under_way.popleft())
            while len(under_way) > 2_000:
                await self._end_of(*under_way.popleft())
        while under_way:
            await self._end_of(*under_way.popleft())

    async def _end_of(self, message: Message, receipt: ClientReceipt) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await receipt.stable()
        except (UnknownGroup, NotInMajority):
            self.judge.refused(message)
        else:
            self.judge.stable(message)

    async def _read(self, site: str) -> None:
        unsettled = self._unsettled[site]
        async for item in self._clients[site].batches():
            if isinstance(item, EpochOpened):
                self.counts["epochs, at all sites"] += 1
                self.judge.joined(site, item.joined, SITES)
            elif isinstance(item, Rollback):
                self.counts["rollbacks"] += 1
                if item.position < self._judged[site]:
                    self.wrong.append(f"{site} takes back what was settled: {item.position}")
                while unsettled and unsettled[-1][0] > item.position:
                    unsettled.pop()
            else:
                assert isinstance(item, DeliveredBatch), f"{site}: {item}"
                for place, payload in enumerate(item.payloads, item.position):
                    sender, group, number, _ = payload.split(b" ", 3)
                    if group.decode() != item.group or sender.decode() != item.origin:
                        self.wrong.append(f"{site} has {payload[:40]!r} as of {item.group}")
                    unsettled.append((place, (sender.decode(), item.group, int(number))))

    async def _settle(self, site: str) -> None:
        """Judge and confirm whatever no rollback can take back."""
        client, unsettled = self._clients[site], self._unsettled[site]
        confirmed = 0
        while True:
            await asyncio.sleep(CONFIRM_EVERY_S)
            settled = (await client.status())["settled"]
            while unsettled and unsettled[0][0] <= settled:
                position, message = unsettled.popleft()
                self.judge.delivered(site, position, message, time.monotonic())
                self._judged[site] = position
            self.judge.forget(time.monotonic())
            if self._judged[site] > confirmed:
                confirmed = self._judged[site]
                await client.confirm(confirmed)

    # --- churn ------------------------------------------------------------------------------------

    async def _change_until(self, until: float) -> None:
        while await self._pause(CHANGE_EVERY_S, until):
            edit = self._draw_change()
            begun = time.monotonic()
            await self._change(edit)
            took = time.monotonic() - begun
            self.counts[f"changes: {type(edit).__name__}"] += 1
            self.counts["slowest change, ms"] = max(
                self.counts["slowest change, ms"], round(took * 1000)
            )

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

    async def _change(self, edit: Edit) -> None:
        """Ask a site that is never killed, again while a site is absent, until it is done."""
        client, name = self._clients[STEADY[0]], new_change_name()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await client.change(edit, name=name)
                    return
                except NotInMajority:  # it may still be done: under its name, once
                    pass
                except ConfigError as error:
                    if "absent" not in str(error):
                        raise
                    name = new_change_name()
                await asyncio.sleep(0.2)

    async def _kill_until(self, until: float) -> None:
        turns = 0
        while await self._pause(KILL_EVERY_S, until):
            others = [site for site in SITES if site not in STEADY]
            site = others[turns % len(others)]
            turns += 1
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

    def reap(self) -> None:
        for child in self._children:
            child.wait(20)

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
        totals = {"at_s": round(at_s, 1), "kept by the judge": self.judge.kept}
        lines.append(json.dumps({**totals, **self.counts, **self.judge.counts}))
        with self._file.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


async def run_long(run: LongRun, seconds: float) -> None:
    try:
        await run.run(seconds)
    except (Error, TimeoutError, AssertionError) as error:
        run.wrong.append(f"{type(error).__name__}: {error}")
    finally:
        await asyncio.to_thread(run.daemons.run, "cluster", "down", "cluster.toml")
        await asyncio.to_thread(run.reap)
