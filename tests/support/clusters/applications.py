"""An application at each site of running daemons: it sends, reads, and confirms what it has read.

Every delivery is judged as soon as no rollback can take it back; then it is confirmed, so that the
store may drop it.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.epochs import Edit
from ordercast.model.errors import ConfigError, Expired, NotInMajority, UnknownGroup
from ordercast.model.messages import DeliveredBatch
from ordercast.net.client.client import Client
from ordercast.net.client.requests import ClientReceipt
from ordercast.net.site.changes import new_change_name
from support.judges.running_judge import Message, RunningJudge

CONFIRM_EVERY_S = 1.0
MOST_UNDER_WAY = 2_000  # messages of one application that are not known to be stable
PATIENCE_S = 120.0
QUIET_S = 180.0


@dataclass(frozen=True)
class Pace:
    """Of one application: a burst to one group every so often."""

    every_s: float
    burst: int  # messages at once, at most
    sizes: tuple[int, ...] = (8, 80, 800)


@dataclass(frozen=True)
class Joined:
    """Groups that a site has come into: of earlier messages to them it has none."""

    groups: tuple[str, ...]


@dataclass
class Timed:
    """Seconds from the call that sends to the delivery at each member, and the longest time
    between two deliveries at a site."""

    sent: dict[Message, float] = field(default_factory=dict)
    delivered: list[float] = field(default_factory=list)
    longest_s: dict[str, float] = field(default_factory=dict)  # by site
    _last: dict[str, float] = field(default_factory=dict)

    def saw(self, site: str, message: Message, now: float) -> None:
        if message in self.sent:
            self.delivered.append(now - self.sent[message])
        between = now - self._last.get(site, now)
        self.longest_s[site] = max(self.longest_s.get(site, 0.0), between)
        self._last[site] = now


async def change_at_last(client: Client, *edits: Edit) -> None:
    """Ask until it is done, or refused for another reason than that a site is absent."""
    name = new_change_name()
    while True:
        try:
            await client.change(*edits, name=name)
            return
        except NotInMajority:  # it may still be done: under its name, once
            pass
        except ConfigError as error:
            if "absent" not in str(error):
                raise
            name = new_change_name()
        await asyncio.sleep(0.1)


class Applications:
    """`groups`: each with the members that never leave it; `passing`: groups that come and go.
    State: the judge, and of each site what is not settled yet: deliveries, and between them the
    groups that it joined."""

    def __init__(
        self,
        client_of: Callable[[str], Client],
        groups: Mapping[str, Sequence[str]],
        pace: Pace,
        *,
        passing: Iterable[str] = (),
    ) -> None:
        self.sites = sorted({site for members in groups.values() for site in members})
        self.judge = RunningJudge(groups)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.clients: dict[str, Client] = {}
        self.timed: Timed | None = None
        self._client_of = client_of
        self._targets = [*groups, *groups, *passing]
        self._pace = pace
        self._numbers: Counter[tuple[str, str]] = Counter()  # of site and group: messages sent
        self._unsettled = {site: deque[tuple[int, Message | Joined]]() for site in self.sites}
        self._judged = dict.fromkeys(self.sites, 0)  # the last position

    async def run(self, work: Callable[[], Any]) -> None:
        """Call `work` while all sites are read, and wait until all is quiet."""
        async with AsyncExitStack() as stack:
            for site in self.sites:
                self.clients[site] = await stack.enter_async_context(self._client_of(site))
            reading = [asyncio.ensure_future(self._read(site)) for site in self.sites]
            reading += [asyncio.ensure_future(self._settle(site)) for site in self.sites]
            working = asyncio.ensure_future(work())
            try:
                await asyncio.wait([working, *reading], return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    await working
                    await self._quiet()
            finally:
                for task in (working, *reading):
                    task.cancel()
                done = await asyncio.gather(working, *reading, return_exceptions=True)
                self.wrong += [repr(each) for each in done if isinstance(each, Exception)]
        self.judge.end()
        self.wrong += self.judge.wrong
        self.counts += self.judge.counts

    async def _quiet(self) -> None:
        """Until every site has judged all that is stable."""
        until = time.monotonic() + QUIET_S
        busy = list(self.sites)
        while busy and time.monotonic() < until:
            await asyncio.sleep(0.5)
            told = {site: await self.clients[site].status() for site in self.sites}
            busy = [
                site
                for site in self.sites
                if not told[site]["quiet"] or self._judged[site] < told[site]["position"]
            ]
        if busy:
            self.wrong.append(f"not quiet after {QUIET_S:.0f} s: {', '.join(busy)}")

    # --- sending ----------------------------------------------------------------------------------

    async def send_while(self, site: str, going: Callable[[], bool]) -> None:
        rng = random.Random(f"sends {site}")
        under_way: deque[tuple[Message, ClientReceipt]] = deque()
        while going():
            await asyncio.sleep(self._pace.every_s * (0.5 + rng.random()))
            group = rng.choice(self._targets)
            for _ in range(rng.randint(1, self._pace.burst)):
                sent = await self.send(site, group, rng.choice(self._pace.sizes))
                under_way += [] if sent is None else [sent]
            while under_way and (
                under_way[0][1].stage == "stable" or len(under_way) > MOST_UNDER_WAY
            ):
                await self.end_of(*under_way.popleft())
        while under_way:
            await self.end_of(*under_way.popleft())

    async def send(self, site: str, group: str, size: int) -> tuple[Message, ClientReceipt] | None:
        """None: it was refused at once."""
        number = self._numbers[site, group] + 1
        payload = b"%s %s %d " % (site.encode(), group.encode(), number)
        begun = time.monotonic()
        try:
            receipt = await self.clients[site].multicast(group, payload + b"." * size)
        except (UnknownGroup, NotInMajority):
            self.counts["refused at once"] += 1
            return None
        self._numbers[site, group] = number
        self.counts["sent"] += 1
        message = (site, group, number)
        if self.timed is not None:
            self.timed.sent[message] = begun
        return message, receipt

    async def end_of(self, message: Message, receipt: ClientReceipt) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await receipt.stable()
        except (UnknownGroup, NotInMajority):
            self.judge.refused(message)
        except Expired:  # its group was removed, and nobody can tell: it may be delivered or not
            self.counts["expired"] += 1
        else:
            self.judge.stable(message)

    # --- reading ----------------------------------------------------------------------------------

    async def _read(self, site: str) -> None:
        unsettled = self._unsettled[site]
        async for item in self.clients[site].batches():
            if isinstance(item, EpochOpened):
                self.counts["epochs, at all sites"] += 1
                unsettled.append((item.position, Joined(item.joined)))
            elif isinstance(item, Rollback):
                self.counts["rollbacks"] += 1
                if item.position < self._judged[site]:
                    self.wrong.append(f"{site} takes back what was settled: {item.position}")
                while unsettled and unsettled[-1][0] > item.position:
                    unsettled.pop()
            else:
                assert isinstance(item, DeliveredBatch), f"{site}: {item}"
                unsettled.extend(self._messages(site, item))

    def _messages(self, site: str, batch: DeliveredBatch) -> Iterable[tuple[int, Message]]:
        now, timed = time.monotonic(), self.timed
        for place, payload in enumerate(batch.payloads, batch.position):
            sender, group, number, _ = payload.split(b" ", 3)
            if group.decode() != batch.group or sender.decode() != batch.origin:
                self.wrong.append(f"{site} has {payload[:40]!r} as of {batch.group}")
            message = (sender.decode(), batch.group, int(number))
            if timed is not None:
                timed.saw(site, message, now)
            yield place, message

    async def _settle(self, site: str) -> None:
        """Judge and confirm whatever no rollback can take back."""
        client, unsettled = self.clients[site], self._unsettled[site]
        confirmed = 0
        while True:
            await asyncio.sleep(CONFIRM_EVERY_S)
            settled = (await client.status())["settled"]
            while unsettled and unsettled[0][0] <= settled:
                position, item = unsettled.popleft()
                if isinstance(item, Joined):
                    self.judge.joined(site, item.groups, self.sites)
                else:
                    self.judge.delivered(site, position, item, time.monotonic())
                    self._judged[site] = position
            self.judge.forget(time.monotonic())
            if self._judged[site] > confirmed:
                confirmed = self._judged[site]
                await client.confirm(confirmed)

    # --- changing ---------------------------------------------------------------------------------

    async def change(self, via: str, edit: Edit) -> float:
        """Ask, again while a site is absent, until it is done; how many seconds that took."""
        begun = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            await change_at_last(self.clients[via], edit)
        return time.monotonic() - begun
