"""The sending and measuring of one member of a benchmark; the same for every system that is
compared.

Payloads come from a pool of random ones, so that making them costs next to nothing. Some carry the
time at which they were sent: all on this machine read the same monotonic clock. A member hashes
every payload it is given, in order: members with the same count and hash had the same order.
"""

import os
import time
from array import array
from collections.abc import Sequence
from typing import Any
from zlib import crc32

POOL = 4_096  # payloads
STAMP_BYTES = 8
SAMPLE_EVERY = 64  # of the messages sent one by one as fast as possible
MOST_SAMPLES = 200_000


def stamp(payload: bytes) -> bytes:
    """The payload with the present time in its first bytes."""
    return time.monotonic_ns().to_bytes(STAMP_BYTES) + payload[STAMP_BYTES:]


def pool(size: int) -> list[bytes]:
    return [os.urandom(size) for _ in range(POOL)]


class Meter:
    """Counts, hashes and times what one member is given."""

    def __init__(self) -> None:
        self.pending: list[bytes] = []  # given, not yet hashed: one by one would cost too much
        self._count = 0
        self._hash = 0
        self._delays = array("q")
        self._timing = False
        self._marks: list[tuple[int, int, float]] = []  # (time, count, processor time)

    @property
    def count(self) -> int:
        self._hash_pending()
        return self._count

    def took(self, payloads: Sequence[bytes]) -> None:
        self._count += len(payloads)
        self._hash = crc32(b"".join(payloads), self._hash)

    def _hash_pending(self) -> None:
        if self.pending:
            self.took(self.pending)
            self.pending.clear()

    def took_stamped(self, payload: bytes) -> None:
        """Note how long a payload was under way. `took` counts it, before or after."""
        self._hash_pending()
        if self._timing and len(self._delays) < MOST_SAMPLES:
            self._delays.append(time.monotonic_ns() - int.from_bytes(payload[:STAMP_BYTES]))

    def mark(self) -> None:
        """Called twice: the time between is what counts."""
        self._marks.append((time.monotonic_ns(), self.count, time.process_time()))
        self._timing = len(self._marks) == 1

    def result(self) -> dict[str, Any]:
        (begun, before, cpu_before), (ended, after, cpu_after) = self._marks
        delays = sorted(self._delays)
        return {
            "msgs_per_s": (after - before) * 1e9 / (ended - begun),
            "messages": after - before,
            "cpu_s": cpu_after - cpu_before,
            "delays_ns": delays[:: max(1, len(delays) // 2_000)],
            "count": self.count,
            "hash": self._hash,
        }
