"""Times counted in buckets, as Prometheus has them, and their sum."""

from bisect import bisect_left
from typing import Any, Final

BOUNDS: Final = (
    0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064,
    0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0,
)  # fmt: skip
"""Seconds. The last bucket is for all that took longer."""


class Histogram:
    """State: a count for each bucket, and the sum of all times."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum_ns = 0

    def add(self, nanoseconds: int) -> None:
        self.counts[bisect_left(BOUNDS, nanoseconds / 1e9)] += 1
        self.sum_ns += nanoseconds

    def told(self) -> dict[str, Any]:
        """Plain data. `buckets`: bound, and how many times were in it. The last has no bound."""
        return {
            "count": sum(self.counts),
            "sum_s": self.sum_ns / 1e9,
            "buckets": [list(each) for each in zip((*BOUNDS, None), self.counts, strict=True)],
        }
