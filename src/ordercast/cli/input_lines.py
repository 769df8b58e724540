"""The lines of standard input, for a verb that must still end on Ctrl-C while none comes."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator

_READ = 1 << 16  # bytes
_AHEAD = 16  # blocks that may wait to be taken


async def input_lines() -> AsyncIterator[bytes]:
    """Each line without its end. The last one may lack it.

    A thread reads, and the loop does not wait for it: a thread of asyncio's own would keep the
    process alive until the next line. It reads the descriptor: a lock of `sys.stdin` that a thread
    holds when the process ends is a fatal error of Python."""
    loop = asyncio.get_running_loop()
    blocks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD)
    descriptor = sys.stdin.fileno()

    def read() -> None:
        block: bytes | OSError = b"."
        while block and not isinstance(block, OSError):
            room.acquire()
            try:
                block = os.read(descriptor, _READ)
            except OSError as error:
                block = error
            try:
                loop.call_soon_threadsafe(blocks.put_nowait, block)
            except RuntimeError:  # the loop has ended, and with it the verb
                return

    threading.Thread(target=read, name="standard input", daemon=True).start()
    rest = b""
    while block := await blocks.get():
        if isinstance(block, OSError):
            raise block
        room.release()
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest.removesuffix(b"\r")
