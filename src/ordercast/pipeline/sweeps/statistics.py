"""Mean and 95 % interval of repeated runs, and how many more a bound asks for.

The half width is Student's: t(0.975, n-1) · s / √n. Runs are summed exactly and in the order of
their repetition, so the numbers do not depend on how the work was split.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95

_MOST_GROWTH = 4  # times as many runs in the next round, at most
_LEAST_GROWTH = 1.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """`ci95` is the half width of the interval; None when one run tells nothing about it."""

    mean: float
    ci95: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Precision:
    """How narrow the interval of a measure must be: a share of its mean, or an absolute width."""

    measure: str
    share: float | None = None
    width: float | None = None

    def allowed(self, mean: float) -> float:
        if self.width is not None:
            return self.width
        return abs(mean) * (self.share or 0.0)

    def holds(self, estimate: Estimate) -> bool:
        return estimate.ci95 is not None and estimate.ci95 <= self.allowed(estimate.mean)

    def text(self) -> str:
        if self.width is not None:
            return f"{self.measure} ± {self.width:g}"
        return f"{self.measure} ± {100 * (self.share or 0.0):g} %"


def estimate(values: Sequence[float]) -> Estimate:
    """Of one measure over its runs; at least one."""
    runs = len(values)
    mean = math.fsum(values) / runs
    if runs == 1:
        return Estimate(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (runs - 1)
    return Estimate(mean, student_t(runs - 1) * math.sqrt(variance / runs), runs)


def runs_wanted(estimated: Estimate, bound: Precision, at_most: int) -> int:
    """How many runs in all to try next when the bound does not hold yet.

    The width shrinks with the square root of the runs. The spread itself is only estimated, so a
    round adds at least half as many again and at most three times as many.
    """
    allowed = bound.allowed(estimated.mean)
    least = math.ceil(estimated.runs * _LEAST_GROWTH)
    most = estimated.runs * _MOST_GROWTH
    if estimated.ci95 is None or allowed <= 0:
        return min(most, at_most)
    wanted = math.ceil(min(estimated.runs * (estimated.ci95 / allowed) ** 2, most))
    return min(max(wanted, least), at_most)


@lru_cache(maxsize=4096)
def student_t(freedom: int) -> float:
    """The t of Student's distribution with these degrees of freedom: 95 of 100 values lie between
    -t and t."""
    from scipy.special import stdtrit  # slow to load, and not needed before there are runs

    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom")
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
