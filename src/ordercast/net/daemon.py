"""A site as a process of its own: the node, its admin socket, metrics and health, until a signal.

What happens is logged for an operator to read; the embedding command decides where to.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ordercast.model.errors import Error
from ordercast.model.groups import Site
from ordercast.net.admin import Admin
from ordercast.net.admin_session import Limits
from ordercast.net.config import Cluster
from ordercast.net.http import Http
from ordercast.net.node import Node
from ordercast.net.processes import make_directory, remove_pid, write_pid
from ordercast.net.status import status_of
from ordercast.net.watch import Watcher

_log = logging.getLogger("ordercast.net.daemon")

CLOSE_S = 2.0  # for what is under way when a signal comes; the store keeps the rest

Tell = Callable[[str, dict[str, Any]], None]
"""Told of events: a kind and what belongs to it."""


def run_daemon(cluster: Cluster, site: Site, directory: Path, tell: Tell) -> None:
    """Serve until SIGTERM or SIGINT. Errors are of one line; the site's store is closed then."""
    cluster.site(site)
    make_directory(directory)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(cluster, site, directory, tell))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where the extra `fast` is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(cluster: Cluster, site: Site, directory: Path, tell: Tell) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    opening = Node.open(cluster, site, dir=directory, embedded=False)
    node = await opening.__aenter__()
    unflushed = ""
    try:
        async with contextlib.AsyncExitStack() as stack:
            await _open_faces(stack, node, directory)
            watcher = Watcher(node, tell)
            stack.callback(watcher.close)
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


async def _open_faces(stack: contextlib.AsyncExitStack, node: Node, directory: Path) -> None:
    limits = node.cluster.limits
    admin = Admin(
        node, directory / f"{node.site}.sock", Limits(limits.window_messages, limits.window_bytes)
    )
    await admin.start()
    stack.push_async_callback(admin.close)
    write_pid(directory, node.site)
    address = node.cluster.site(node.site).metrics
    if address is not None:
        http = Http(lambda: status_of(node), address, node.site)
        await http.start()
        stack.push_async_callback(http.close)


def _tell_started(node: Node, tell: Tell) -> None:
    host, port = node.cluster.address(node.site)
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
