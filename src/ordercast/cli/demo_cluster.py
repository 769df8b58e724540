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

from ordercast.cli.command import UsageError, reason
from ordercast.model.errors import Error
from ordercast.model.groups import Group, Site

if TYPE_CHECKING:
    from ordercast.net.client.client import Client
    from ordercast.net.client.requests import ClientReceipt
    from ordercast.net.cluster.config import Cluster

NAME = "figure3"
FILE = "cluster.toml"
HISTORY = "history"
SEED = 1
AT_ONCE = 10  # messages that a site sends before it waits until they are durable
QUIET_S = 1.0  # for what can go on without the killed site to do so
FLUSH_S = 60.0
OnDemoEvent: TypeAlias = Callable[[str], None]
_MADE = "# Made by 'ordercast demo', which replaces it the next time."
# Below those that systems give to dialling sockets: a killed site must find its own free.
_PORTS = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class DemoTraffic:
    """What was sent, and what happened meanwhile."""

    sent: int
    killed: Site
    down_s: float
    meanwhile: int  # accepted by the others while it was down
    went_on: int  # of those, at all their members before it was back
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "sent": self.sent,
            "killed": self.killed,
            "down_seconds": round(self.down_s, 3),
            "accepted_meanwhile": self.meanwhile,
            "stable_meanwhile": self.went_on,
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
        if path.name == HISTORY:
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
        'builder = "greedy"',
        f"tie = [{_quoted(tie)}]",
        'on_failure = "wait"',
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
        """All of them, cleanly; those that had to be killed."""
        from ordercast.net.cluster import processes

        stubborn = processes.stop(processes.all_running(self.cluster, self.directory))
        processes.abandon(self._children)
        return stubborn


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


async def traffic(daemons: Daemons, victim: Site, messages: int, tell: OnDemoEvent) -> DemoTraffic:
    """A third of the messages from all sites; the victim is killed while they are under way; a
    third from the others; it is restarted; and the rest, until everything is everywhere."""
    from ordercast.net.client.client import connect

    begun = time.monotonic()
    sites = sorted(daemons.cluster.sites)
    async with AsyncExitStack() as stack:
        clients = {}
        for site in sites:
            client = connect(daemons.cluster, site, daemons.directory, patience_s=FLUSH_S)
            clients[site] = await stack.enter_async_context(client)
        senders = {site: _Sender(site, client, daemons.cluster) for site, client in clients.items()}
        first, second = messages // 3, messages // 3
        shares = _shares(first, sites)
        await asyncio.gather(*(senders[site].send(shares[site]) for site in sites))
        tell(f"{first:,} messages sent from all sites; now killing {victim} (SIGKILL)")
        await asyncio.to_thread(daemons.kill, victim)
        killed = time.monotonic()
        others = [site for site in sites if site != victim]
        shares = _shares(second, others)
        sent = await asyncio.gather(*(senders[site].send(shares[site]) for site in others))
        meanwhile = [receipt for receipts in sent for receipt in receipts]
        await _until_no_more(meanwhile)
        went_on = _stable(meanwhile)
        tell(f"{second:,} more from the others, {went_on:,} of them everywhere without {victim}")
        await asyncio.to_thread(daemons.restart, victim)
        down_s = time.monotonic() - killed
        tell(f"{victim} is back after {down_s:.1f} s")
        shares = _shares(messages - first - second, sites)
        await asyncio.gather(*(senders[site].send(shares[site]) for site in sites))
        tell(f"{messages:,} messages sent; waiting until all are everywhere")
        await _finish(list(clients.values()))
    seconds = time.monotonic() - begun
    return DemoTraffic(messages, victim, down_s, len(meanwhile), went_on, seconds)


class _Sender:
    """Sends from one site to groups drawn at random; it need not be a member."""

    def __init__(self, site: Site, client: "Client", cluster: "Cluster") -> None:
        self.site = site
        self.client = client
        self._groups = sorted(cluster.groups)
        self._chance = random.Random(f"{SEED}/{site}")
        self._sent = 0

    async def send(self, count: int) -> "list[ClientReceipt]":
        """Returns when all are durable at this site; what becomes of them is the sites' affair."""
        receipts = []
        for _ in range(count):
            self._sent += 1
            payload = f"message {self._sent} of {self.site}".encode()
            receipts.append(await self.client.multicast(self._chance.choice(self._groups), payload))
            if len(receipts) % AT_ONCE == 0:
                await receipts[-1].accepted()
        await self.client.flush("accepted")
        return receipts


async def _finish(clients: "Sequence[Client]") -> None:
    """Until every message is everywhere, and every site knows that."""
    try:
        async with asyncio.timeout(FLUSH_S):
            await asyncio.gather(*(client.flush("stable") for client in clients))
            while not all([(await client.status())["quiet"] for client in clients]):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise Error(f"not all messages were everywhere after {FLUSH_S:.0f} s") from None


async def _until_no_more(receipts: "Sequence[ClientReceipt]") -> None:
    """Until for a while no further message has become stable."""
    stable = -1
    while _stable(receipts) > stable:
        stable = _stable(receipts)
        await asyncio.sleep(QUIET_S)


def _stable(receipts: "Sequence[ClientReceipt]") -> int:
    return sum(receipt.stage == "stable" for receipt in receipts)


def _shares(count: int, sites: Sequence[Site]) -> dict[Site, int]:
    share, rest = divmod(count, len(sites))
    return {site: share + (index < rest) for index, site in enumerate(sites)}
