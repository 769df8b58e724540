"""A site as a process of its own: the node, its admin socket, metrics and health, until a signal
comes.

Events are logged for operators. The command that runs the daemon decides where the log goes.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ordercast.model.errors import Error
from ordercast.model.groups import Site
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.directory import make_directory
from ordercast.net.cluster.processes import (
    note_retired,
    remove_pid,
    require_site,
    write_pid,
)
from ordercast.net.daemon.admin_socket import AdminSocket
from ordercast.net.daemon.desk import ClientDesk
from ordercast.net.daemon.http import Http
from ordercast.net.daemon.operator_log import OperatorLog
from ordercast.net.daemon.remote_listener import RemoteListener
from ordercast.net.daemon.session import ClientLimits
from ordercast.net.site.node import open_site
from ordercast.net.site.running_site import RunningSite

_log = logging.getLogger("ordercast.net.daemon")

CLOSE_S = 2.0  # time for what is under way when a signal comes; the store keeps the rest

OnEvent = Callable[[str, dict[str, Any]], None]
"""A function that is called with events: a kind, and its fields."""


@dataclass(frozen=True, slots=True)
class LateSite:
    """A site that was added later: the facts that the cluster file does not have. The site's store
    keeps the address."""

    address: str = ""
    metrics: tuple[str, int] | None = None
    clients: tuple[str, int] | None = None


def run_daemon(
    cluster: Cluster,
    site: Site,
    directory: Path,
    tell: OnEvent,
    late: LateSite | None = None,
    *,
    new: bool = False,
) -> signal.Signals | None:
    """Serve until SIGTERM or SIGINT, and return which. An error is one line, and the site's store
    is closed before it is raised. `new`: as for `Node.open`."""
    late = late or LateSite()
    if not late.address:
        require_site(cluster, site, directory)
    make_directory(directory)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(cluster, site, directory, tell, late, new))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, if the extra `fast` is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(
    cluster: Cluster, site: Site, directory: Path, tell: OnEvent, late: LateSite, new: bool
) -> signal.Signals | None:
    stopped = asyncio.Event()
    got: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        got.append(number)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    written = cluster.sites.get(site)
    clients = late.clients or (None if written is None else written.clients)
    node = await open_site(
        cluster, site, directory, new=new, embedded=False, address=late.address, clients=clients
    )
    unflushed = ""
    try:
        async with contextlib.AsyncExitStack() as stack:
            await _open_faces(stack, node, directory, clients, late.metrics)
            layout = _LayoutLog(node, directory, tell)
            stack.callback(layout.close)
            watcher = OperatorLog(node, tell)
            stack.callback(watcher.close)
            node.on_failed = stopped.set
            if node.failed:  # it failed while it started
                stopped.set()
            _tell_started(node, tell)
            await stopped.wait()
            _log.info("stopping")
    finally:
        try:
            await node.close(timeout_s=CLOSE_S)
        except Error as error:
            unflushed = str(error)
            _log.warning("%s", error)
        remove_pid(directory, site)
        tell("stopped", {"site": site, "position": node.stream.delivered, "unflushed": unflushed})
        _log.info("stopped at position %d", node.stream.delivered)
    if node.failed:
        raise Error(node.failed)
    return got[0] if got else None


async def _open_faces(
    stack: contextlib.AsyncExitStack,
    node: RunningSite,
    directory: Path,
    clients: tuple[str, int] | None,
    metrics: tuple[str, int] | None,
) -> None:
    limits = node.cluster.limits
    desk = ClientDesk(node, ClientLimits(limits.window_messages, limits.window_bytes))
    admin = AdminSocket(desk, directory / f"{node.site}.sock")
    await admin.start()
    stack.push_async_callback(admin.close)
    write_pid(directory, node.site)
    if clients is not None:
        remote = RemoteListener(desk, clients)
        await remote.start()
        stack.push_async_callback(remote.close)
    written = node.cluster.sites.get(node.site)
    address = metrics or (None if written is None else written.metrics)
    if address is not None:
        http = Http(desk.status, address, node.site)
        await http.start()
        stack.push_async_callback(http.close)


class _LayoutLog:
    """Logs which epoch the site is in. Writes a file when the site hears that it is retired."""

    def __init__(self, node: RunningSite, directory: Path, tell: OnEvent) -> None:
        self.node = node
        self.directory = directory
        self.tell = tell
        self._epoch = self._now()
        self._retired: bool | None = None
        node.on_layout.append(self._look)
        self._look()

    def close(self) -> None:
        self.node.on_layout.remove(self._look)

    def _now(self) -> int:
        home = self.node.core.layout.home(self.node.site)
        return 0 if home is None else home.epoch

    def _look(self) -> None:
        node = self.node
        if node.retired is not self._retired:
            self._retired = node.retired
            note_retired(self.directory, node.site, node.retired)
            if node.retired:
                _log.warning("this site is retired: it takes part no longer, and may be stopped")
                self.tell("retired", {"site": node.site})
        epoch = self._now()
        if epoch == self._epoch:
            return
        self._epoch = epoch
        home = node.core.layout.home(node.site)
        if home is None:
            away = node.site in node.core.layout.absent
            _log.info("in no epoch: this site is %s", "excluded" if away else "in no group")
            self.tell("epoch", {"epoch": 0, "protocol": "", "groups": []})
            return
        groups = list(home.structure.groups_at(node.site))
        named = ", ".join(groups) or "none, as a relay"
        _log.info("epoch %d, protocol %s; this site's groups: %s", epoch, home.protocol, named)
        self.tell("epoch", {"epoch": epoch, "protocol": home.protocol, "groups": groups})


def _tell_started(node: RunningSite, tell: OnEvent) -> None:
    host, port = node.address
    _log.info(
        "site %s of cluster %s: listening on %s port %d, process %d, start %d, position %d",
        node.site,
        node.cluster.name,
        host,
        port,
        os.getpid(),
        node.boot,
        node.stream.delivered,
    )
    tell(
        "ready",
        {
            "site": node.site,
            "cluster": node.cluster.name,
            "pid": os.getpid(),
            "boot": node.boot,
            "incarnation": node.incarnation,
            "position": node.stream.delivered,
            "address": f"{host}:{port}",
        },
    )
