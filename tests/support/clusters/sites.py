"""What tests of running sites share: sending, reading, waiting until something is so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import ordercast

GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}


async def read(
    node: Any, count: int, start: int | None = None, *, limit_s: float = 60
) -> list[Any]:
    """The first `count` deliveries (or gaps) from `start`, or behind the last confirmed."""
    found: list[Any] = []
    async with asyncio.timeout(limit_s):
        async for item in node.deliveries(start):
            found.append(item)
            if len(found) == count:
                break
    return found


async def read_messages(node: Any, count: int, start: int | None = None) -> list[Any]:
    """The same without the epochs that opened in between."""
    found: list[Any] = []
    async for item in node.deliveries(start):
        if not isinstance(item, ordercast.EpochOpened):
            found.append(item)
            if len(found) == count:
                break
    return found


async def is_quiet(items: AsyncIterator[Any], for_s: float = 0.05) -> bool:
    """Whether nothing comes for a while."""
    try:
        async with asyncio.timeout(for_s):
            await anext(items)
    except TimeoutError:
        return True
    return False


async def until(so: Callable[[], bool], *, limit_s: float = 60) -> None:
    async with asyncio.timeout(limit_s):
        while not so():
            await asyncio.sleep(0.002)


async def turns(count: int = 3) -> None:
    """Let the event loop go round: what is due now happens."""
    for _ in range(count):
        await asyncio.sleep(0)
