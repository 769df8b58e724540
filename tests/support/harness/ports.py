"""Ports for the sites of a test.

From below those that the system gives to connections (32768 and up on Linux): a port that was found
free would else be taken by any connection before the site listens there. Test processes that run
side by side look in ranges of their own."""

import itertools
import os
import socket

_FIRST, _RANGE, _RANGES = 10_000, 2_000, 10
_steps = itertools.count(os.getpid() * 37)


def free_ports(count: int) -> list[int]:
    """Different ones, also from those of the calls before, as far as the range goes."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _RANGES
    found: list[int] = []
    for step in itertools.islice(_steps, _RANGE):
        port = _FIRST + worker * _RANGE + step % _RANGE
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"fewer than {count} free ports from {_FIRST + worker * _RANGE} on")
