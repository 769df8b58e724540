"""An event loop in a thread, for programs and rooms whose calls block."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ordercast.model.errors import Error

T = TypeVar("T")


class LoopThread:
    """It runs until `close`, which also cancels the calls of other threads."""

    def __init__(self) -> None:
        self.closed = False
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ordercast", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and wait; an interrupt here cancels it there."""
        if self.closed:
            work.close()
            raise Error("the node is closed")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self.call(_end_others())
        self.closed = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        self.loop.run_forever()
        # In this thread: the one that closes may have a loop that runs, as in a notebook.
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


async def _end_others() -> None:
    """End the calls of other threads that still wait; most have failed already."""
    for _ in range(10):
        await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
