"""Ports for the sites of a test.

They lie below those that the system gives to connections (32768 and up on Linux), or a connection
could take a port between the search and the site that listens there. Each process that runs tests
has a range to itself while it lives, whichever run it belongs to. A port that somebody still holds,
such as a child of a test that hung, is passed over.
"""

import fcntl
import functools
import itertools
import os
import socket
import tempfile
from pathlib import Path

_FIRST, _RANGE, _RANGES = 10_000, 500, 44


def free_ports(count: int) -> list[int]:
    """Different ones, also from those of the calls before, as far as the range goes."""
    first, steps = _range()
    found: list[int] = []
    for step in itertools.islice(steps, _RANGE):
        port = first + step % _RANGE
        if _free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"fewer than {count} free ports from {first} on")


def _free(port: int) -> bool:
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        try:
            stream.bind(("127.0.0.1", port))
            datagrams.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@functools.cache
def _range() -> tuple[int, "itertools.count[int]"]:
    """The first port of a range that no other process has, and where to look next in it."""
    for number in range(_RANGES):
        lock = Path(tempfile.gettempdir()) / f"ordercast-ports-{os.getuid()}-{number}"
        held = os.open(lock, os.O_CREAT | os.O_RDWR)  # never closed: the lock ends with the process
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            continue
        return _FIRST + number * _RANGE, itertools.count(os.getpid() * 37)
    raise OSError(f"all {_RANGES} ranges of ports are taken")
