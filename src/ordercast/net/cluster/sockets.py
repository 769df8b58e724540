"""Unix sockets at paths, which are at most a hundred bytes and stay behind when a process dies;
addresses that are taken; closing a server of any kind; and the limit of strangers that wait at it.
"""

import asyncio
import contextlib
import os
import socket
import stat
from pathlib import Path

from ordercast.model.errors import ConfigError, reason

LONGEST_PATH = 103  # bytes, of the system that takes least


def socket_path(path: Path) -> str:
    """The path, or the path relative to the working directory if that is shorter."""
    ways = [str(path), os.path.relpath(path)]
    best = min(ways, key=lambda way: len(os.fsencode(way)))
    if len(os.fsencode(best)) > LONGEST_PATH:
        raise ConfigError(
            f"{path}: is too long for a socket ({LONGEST_PATH:,} bytes at most):"
            " choose a shorter --dir, or run from a directory near it"
        )
    return best


def remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens on; any other file in its place is the user's."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{path}: is in the way of the admin socket, and no socket")
    if answers(path):
        raise ConfigError(f"{path}: another daemon answers there already")
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def answers(path: Path) -> bool:
    """Whether somebody listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(socket_path(path))
        except OSError:
            return False
    return True


def why_taken(address: tuple[str, int]) -> str:
    """Why nobody can listen at this address now; empty: it is free."""
    host, port = address
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, where in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
    except OSError as error:
        return reason(error)
    return ""


def share_of_files(most: int) -> int:
    """This many connections of strangers, but at most a quarter of the files that this process may
    have open: without a free file it could accept no connection."""
    try:
        import resource
    except ImportError:  # no such limit
        return most
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else max(1, min(most, limit // 4))


async def close_server(server: asyncio.Server) -> None:
    """First let accepted connections come up: asyncio's loop loses those when a server closes."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(2):
            await asyncio.sleep(0)
    server.close()
