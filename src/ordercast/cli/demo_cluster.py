"""The demo's cluster: real processes under one folder, traffic from all sites, one of them killed.

Whatever happens, no process is left behind; a folder that a demo did not make is not touched.
"""

import asyncio
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ordercast.cli.command import UsageError
from ordercast.cli.demo_stream import LAKE, STREAM
from ordercast.model.errors import Error, reason
from ordercast.model.groups import Group, Site

if TYPE_CHECKING:
    from ordercast.net.client.client import Client
    from ordercast.net.client.requests import ClientReceipt
    from ordercast.net.cluster.config import Cluster

NAME = "figure3"
FILE = "cluster.toml"
HISTORY = "history"
MADE = (HISTORY, LAKE, STREAM)  # folders
SEED = 1
AT_ONCE = 10  # messages that a site sends before it waits until they are durable
FLUSH_S = 60.0
_LOOK_S = 0.02
OnDemoEvent: TypeAlias = Callable[[str], None]
"""Told what has happened, in a line that stays."""
OnDemoProgress: TypeAlias = Callable[[str], None]
"""Told how far it is, in a line that is replaced."""
_MADE = "# Made by 'ordercast demo', which replaces it the next time."
# Below those that systems give to dialling sockets: a killed site must find its own free.
_PORTS = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class DemoTraffic:
    """The messages that were sent, and the events meanwhile. Times are those of the machine's
    clock."""

    sent: int
    killed: Site
    down_s: float
    meanwhile: int  # sent by the others while it was down
    went_on: int  # of those, at all their living members before it was back
    pause_s: float  # the longest time in which none of those became stable
    caught_up: int  # deliveries that the killed site had missed, and got after its return
    catch_up_s: float  # from its start until it had them
    seconds: float
    begun_ns: int
    killed_ns: int
    back_ns: int

    def as_json(self) -> dict[str, Any]:
        return {
            "sent": self.sent,
            "killed": self.killed,
            "down_seconds": round(self.down_s, 3),
            "accepted_meanwhile": self.meanwhile,
            "stable_meanwhile": self.went_on,
            "longest_pause_seconds": round(self.pause_s, 3),
            "caught_up": self.caught_up,
            "catch_up_seconds": round(self.catch_up_s, 3),
            "seconds": round(self.seconds, 3),
        }


# --- the folder -----------------------------------------------------------------------------------


def prepare(
    directory: Path,
    groups: Mapping[Group, Sequence[Site]],
    tell: OnDemoEvent,
    tie: Sequence[Site] = (),
) -> "Cluster":
    """The folder with a cluster file and nothing else; an earlier demo's processes are stopped."""
    from ordercast.net.cluster import processes
    from ordercast.net.cluster.directory import make_directory
    from ordercast.net.cluster.file import read_cluster

    file = directory / FILE
    sites = sorted({site for members in groups.values() for site in members})
    try:
        if directory.exists() and any(directory.iterdir()):
            _require_ours(directory)
        make_directory(directory)
        file.write_text(_cluster_file(sites, groups, tie), encoding="utf-8")
        cluster = read_cluster(file)
        left = processes.all_running(cluster, directory)
        if left:
            tell(f"an earlier demo still ran from {directory}: stopped")
            processes.stop(left)
        _clear(directory, sites)
    except OSError as error:
        raise UsageError(f"--dir {directory}: {reason(error)}") from None
    return cluster


def _require_ours(directory: Path) -> None:
    with suppress(OSError, UnicodeDecodeError):
        if (directory / FILE).read_text(encoding="utf-8").startswith(_MADE):
            return
    raise UsageError(f"--dir {directory}: is not empty, and no earlier demo made it")


def _clear(directory: Path, sites: Sequence[Site]) -> None:
    for path in directory.iterdir():
        if path.name in MADE:
            shutil.rmtree(path)
        elif path.name.partition(".")[0] in sites:
            path.unlink()


def _cluster_file(
    sites: Sequence[Site], groups: Mapping[Group, Sequence[Site]], tie: Sequence[Site]
) -> str:
    lines = [
        _MADE,
        "[cluster]",
        f'name = "{NAME}"',
        'dir = "."',
        'builder = "greedy"',
        f"tie = [{_quoted(tie)}]",
        "[limits]",
        'retention = "24h"  # everything is still there when the history is exported',
    ]
    for site, port in zip(sites, _free_ports(len(sites)), strict=True):
        lines += [f"[sites.{site}]", f'address = "127.0.0.1:{port}"']
    lines.append("[groups]")
    for group, members in groups.items():
        lines.append(f"{group} = [{_quoted(members)}]")
    return "\n".join(lines) + "\n"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise Error(f"no {count} ports are free between {_PORTS.start} and {_PORTS.stop}")


# --- the processes --------------------------------------------------------------------------------


class Daemons:
    """The cluster's processes; those that were started here are waited for."""

    def __init__(self, cluster: "Cluster", directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self._children: list[subprocess.Popen[bytes]] = []

    def launch(self, sites: Sequence[Site]) -> "dict[Site, subprocess.Popen[bytes]]":
        from ordercast.net.cluster import processes

        started = processes.start(self.cluster, sites, self.directory, detached=True)
        self._children += started.values()
        return started

    def restart(self, site: Site) -> None:
        from ordercast.net.cluster import processes

        processes.wait_ready(self.launch([site]), self.directory)

    def kill(self, site: Site) -> None:
        from ordercast.net.cluster import processes

        daemon = processes.running(self.directory, site)
        if daemon is None:
            raise Error(f"site {site} has ended by itself; see {self.directory / site}.log")
        processes.kill(daemon)

    def stop(self) -> list[Site]:
        """Stop all of them cleanly. Returns the sites that had to be killed."""
        from ordercast.net.cluster import processes

        stubborn = processes.stop(processes.all_running(self.cluster, self.directory))
        processes.abandon(self._children)
        return stubborn

    def discard(self) -> None:
        """Kill all of them: their stores are not needed."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait()


@contextmanager
def running(cluster: "Cluster", directory: Path) -> Iterator[Daemons]:
    """All sites, ready; none is left at the end, also after Ctrl-C or SIGTERM."""
    from ordercast.net.cluster import processes

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    daemons = Daemons(cluster, directory)
    try:
        with _uninterrupted():  # a process that nobody knows of could not be stopped
            started = daemons.launch(sorted(cluster.sites))
        processes.wait_ready(started, directory)
        yield daemons
    except KeyboardInterrupt:  # it ends at once
        with _uninterrupted():
            daemons.discard()
        raise
    finally:
        with _uninterrupted():
            daemons.stop()
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the block is done."""
    pressed: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {n: signal.signal(n, lambda number, _: pressed.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if pressed:
        raise KeyboardInterrupt


# --- the traffic ----------------------------------------------------------------------------------


async def traffic(
    daemons: Daemons, victim: Site, messages: int, tell: OnDemoEvent, show: OnDemoProgress
) -> DemoTraffic:
    """A third of the messages from all sites; the victim is killed while they are under way; a
    third from the others, which go on without it; it is restarted and catches up; and the rest,
    until everything is everywhere."""
    from ordercast.net.client.client import connect

    async with AsyncExitStack() as stack:
        clients = {}
        for site in sorted(daemons.cluster.sites):
            client = connect(daemons.cluster, site, daemons.directory, patience_s=FLUSH_S)
            clients[site] = await stack.enter_async_context(client)
        return await _Story(daemons, clients, victim, messages, tell, show).run()


class _Story:
    def __init__(
        self,
        daemons: Daemons,
        clients: "Mapping[Site, Client]",
        victim: Site,
        messages: int,
        tell: OnDemoEvent,
        show: OnDemoProgress,
    ) -> None:
        self._daemons, self._clients, self._victim = daemons, clients, victim
        self._messages = messages
        self._tell, self._show = tell, show
        self._senders = {
            site: _Sender(site, client, daemons.cluster) for site, client in clients.items()
        }
        self._pause_s = 0.0

    async def run(self) -> DemoTraffic:
        begun, begun_ns = time.monotonic(), time.time_ns()
        victim, third = self._victim, self._messages // 3
        others = [site for site in self._clients if site != victim]
        await self._send(third, list(self._clients), "from all nine sites")
        self._tell(f"{third:,} messages sent from all nine sites; now killing {victim} (SIGKILL)")
        await asyncio.to_thread(self._daemons.kill, victim)
        killed, killed_ns = time.monotonic(), time.time_ns()
        meanwhile: list[ClientReceipt] = []
        sending = asyncio.ensure_future(self._send(third, others, "", meanwhile))
        try:
            await self._go_on(third, meanwhile, killed)
        except BaseException:  # Ctrl-C, or the others did not go on
            sending.cancel()
            await asyncio.wait([sending])
            if not sending.cancelled():
                sending.result()  # why they did not
            raise
        await sending
        went_on = _stable(meanwhile)
        self._tell(
            f"{went_on:,} of {third:,} more messages are everywhere else, without {victim};"
            f" the longest pause was {self._pause_s:.1f} s"
        )
        had = (await self._clients[others[0]].status())["records"]  # also: the others still answer
        started = time.monotonic()
        await asyncio.to_thread(self._daemons.restart, victim)
        back, back_ns = time.monotonic(), time.time_ns()
        self._tell(f"{victim} is started again, {back - killed:.1f} s after its death")
        await self._return(int(had))
        groups = self._daemons.cluster.groups
        missed = sum(victim in groups[receipt.group] for receipt in meanwhile)
        caught_up = time.monotonic()
        self._tell(f"{victim} is back in its groups, and has the {missed:,} messages it missed")
        rest = self._messages - 2 * third
        await self._send(rest, list(self._clients), "from all nine sites again")
        self._tell(f"{self._messages:,} messages sent; waiting until all are everywhere")
        await _finish(list(self._clients.values()))
        return DemoTraffic(
            self._messages, victim, back - killed, third, went_on, self._pause_s, missed,
            caught_up - started, time.monotonic() - begun, begun_ns, killed_ns, back_ns,
        )  # fmt: skip

    async def _send(
        self,
        count: int,
        sites: Sequence[Site],
        when: str,
        receipts: "list[ClientReceipt] | None" = None,
    ) -> None:
        """Send this many messages. `when`: shown as progress, unless it is empty."""
        gathered: list[ClientReceipt] = [] if receipts is None else receipts
        shares = _shares(count, sites)
        try:
            async with asyncio.TaskGroup() as senders:
                sending = [
                    senders.create_task(self._senders[site].send(shares[site], gathered))
                    for site in sites
                ]
                while not all(task.done() for task in sending):
                    if when:
                        self._show(f"sending {when}: {len(gathered):,} of {count:,}")
                    await asyncio.wait(sending, timeout=5 * _LOOK_S)
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _go_on(self, count: int, receipts: "Sequence[ClientReceipt]", since: float) -> None:
        """Wait until this many messages are at all their living members. Measures the longest
        pause."""
        victim, stable, last = self._victim, 0, since
        try:
            async with asyncio.timeout(FLUSH_S):
                while stable < count:
                    await asyncio.sleep(_LOOK_S)
                    now, before, stable = time.monotonic(), stable, _stable(receipts)
                    self._pause_s = max(self._pause_s, now - last)
                    if stable > before:
                        last = now
                    self._show(
                        f"without {victim}: {len(receipts):,} of {count:,} sent,"
                        f" {stable:,} of them everywhere"
                    )
        except TimeoutError:
            raise Error(f"the other sites did not go on without {victim}") from None

    async def _return(self, records: int) -> None:
        """Until the victim is in its groups again: the voters have decided so, and it knows."""
        client, victim = self._clients[self._victim], self._victim
        try:
            async with asyncio.timeout(FLUSH_S):
                while True:
                    status = await client.status()
                    if status["standing"] == "present" and status["records"] > records:
                        return
                    self._show(f"{victim} catches up: {status['standing']}")
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise Error(f"site {victim} did not come back") from None


class _Sender:
    """Sends from one site to groups drawn at random; it need not be a member."""

    def __init__(self, site: Site, client: "Client", cluster: "Cluster") -> None:
        self.site = site
        self.client = client
        self._groups = sorted(cluster.groups)
        self._chance = random.Random(f"{SEED}/{site}")
        self._sent = 0

    async def send(self, count: int, receipts: "list[ClientReceipt]") -> None:
        """Returns when all are durable at this site."""
        for number in range(1, count + 1):
            self._sent += 1
            payload = f"message {self._sent} of {self.site}".encode()
            receipt = await self.client.multicast(self._chance.choice(self._groups), payload)
            receipts.append(receipt)
            if number % AT_ONCE == 0:
                await receipt.accepted()
        await self.client.flush("accepted")


async def _finish(clients: "Sequence[Client]") -> None:
    """Until every message is everywhere, and every site knows that."""
    try:
        async with asyncio.timeout(FLUSH_S):
            await asyncio.gather(*(client.flush("stable") for client in clients))
            while not all([(await client.status())["quiet"] for client in clients]):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise Error(f"not all messages were everywhere after {FLUSH_S:.0f} s") from None


def _stable(receipts: "Sequence[ClientReceipt]") -> int:
    return sum(receipt.stage == "stable" for receipt in receipts)


def _shares(count: int, sites: Sequence[Site]) -> dict[Site, int]:
    share, rest = divmod(count, len(sites))
    return {site: share + (index < rest) for index, site in enumerate(sites)}
