"""Long work of the page, in a thread that nobody waits for when the server stops."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """As `asyncio.to_thread`; but the threads of an executor are joined at the end of a process, so
    Ctrl-C would wait for them."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[R] = loop.create_future()

    def tell(found: R | None, error: Exception | None) -> None:
        if result.done():  # cancelled
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(found)  # type: ignore[arg-type]

    def run() -> None:
        found, failed = None, None
        try:
            found = work(*args, **kwargs)
        except Exception as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped
            loop.call_soon_threadsafe(tell, found, failed)

    threading.Thread(target=run, daemon=True).start()
    return await result
