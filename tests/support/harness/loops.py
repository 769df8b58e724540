"""Tests that are coroutines: each runs in an event loop of its own, with a time limit.

A coroutine that takes too long is cancelled, and fails. A loop that cannot be closed, because a
thread or a connection hangs, ends the process: pytest gives the rest of the tests to another one.
"""

import asyncio
import faulthandler
import functools
import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LIMIT_S = 180.0  # only against hanging: a machine may be busy with other things
CLOSING_S = 30.0  # the same for the end of a loop


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def runs(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            await test(*args, **kwargs)

        run(main())

    return runs


def run(
    main: Coroutine[Any, Any, T],
    *,
    limit_s: float | None = None,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """As `asyncio.run`, and it comes back or ends the process."""

    async def limited() -> T:
        async with asyncio.timeout(LIMIT_S if limit_s is None else limit_s):
            return await main

    runner = asyncio.Runner(loop_factory=loop)
    try:
        result = runner.run(limited())
    except BaseException:
        with _or_the_process_ends(traceback.format_exc()):
            runner.close()
        raise
    with _or_the_process_ends("the test itself is through"):
        runner.close()
    return result


@contextmanager
def _or_the_process_ends(so_far: str) -> Iterator[None]:
    """The report goes where pytest does not collect it: what is collected is lost."""

    def end() -> None:
        os.write(_stderr, f"\n{so_far}\nand its loop cannot be closed:\n".encode())
        faulthandler.dump_traceback(_stderr, all_threads=True)
        os._exit(1)

    timer = threading.Timer(CLOSING_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


_stderr = sys.__stderr__.fileno() if sys.__stderr__ is not None else 2


def limit(whole_test_s: float) -> None:
    """Set the limits so that a coroutine is cancelled before pytest ends the process, and say
    where to report. To be called while pytest does not collect what is written."""
    global LIMIT_S, CLOSING_S, _stderr
    LIMIT_S, CLOSING_S = whole_test_s * 0.6, whole_test_s * 0.1
    _stderr = os.dup(_stderr)
