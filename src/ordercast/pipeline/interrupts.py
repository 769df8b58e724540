"""Ctrl-C and SIGTERM in the verbs: one line, nothing left behind, no page of the bridge to Java."""

import importlib
import logging
import signal
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_AGAIN_S = 0.05


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends the work as Ctrl-C does: in order, with nothing left behind.

    The bridge to the JVM talks to it where Python forgets an object. An exception there goes no
    further: it would be printed, and the interrupt lost. So the interrupt is raised again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    def unraisable(lost: Any) -> None:
        if lost.exc_type is KeyboardInterrupt:
            main = threading.main_thread().ident or 0
            again = (main, signal.SIGINT)
            threading.Timer(_AGAIN_S, signal.pthread_kill, again).start()  # not within this hook
        else:
            hook(lost)

    before = signal.signal(signal.SIGTERM, interrupt)
    hook, sys.unraisablehook = sys.unraisablehook, unraisable
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_interrupts(end: Callable[[], None]) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM call `end`, which kills the JVM that is being started: the start then
    fails at once. They raise nothing themselves, because that would lose the JVM."""
    held: list[int] = []

    def hold(number: int, _frame: object) -> None:
        held.append(number)
        end()

    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, hold) for number in numbers]
    try:
        yield held
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """Ctrl-C ends the work with KeyboardInterrupt and nothing else.

    The bridge to the JVM logs a page about every interrupted call, by its own loggers and by the
    root one. It also does so when the session is closed after an error: then the silence stays.
    Spark's own server for the counters of tasks prints one when the JVM has gone.
    """
    root, bridge = logging.getLogger(), logging.getLogger("py4j")
    level = bridge.level
    root.addFilter(_not_the_bridge)
    bridge.setLevel(logging.CRITICAL + 1)
    servers = _counting_servers()
    if any("handle_error" in vars(server) for server in servers):
        servers = []  # a block around this one sees to it
    for server in servers:
        server.handle_error = _unless_gone
    yield
    for server in servers:
        del server.handle_error
    root.removeFilter(_not_the_bridge)
    bridge.setLevel(level)


def _counting_servers() -> list[Any]:
    """The classes of Spark's servers that the JVM sends counters of tasks to."""
    found = vars(importlib.import_module("pyspark.accumulators")).values()
    kinds = [kind for kind in found if isinstance(kind, type)]
    return [kind for kind in kinds if issubclass(kind, socketserver.BaseServer)]


def _unless_gone(server: socketserver.BaseServer, request: Any, address: Any) -> None:
    if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError, RuntimeError)):
        socketserver.BaseServer.handle_error(server, request, address)


def _not_the_bridge(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname
