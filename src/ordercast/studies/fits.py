"""What fits measured points: a power of x, and how alike two columns are."""

import statistics
from collections.abc import Sequence
from math import log

from ordercast.studies.reproduction import Spot


def power(spots: Sequence[Spot]) -> float:
    """The power of x that fits best: least squares on logarithms."""
    xs, ys = [log(spot.x) for spot in spots], [log(spot.y) for spot in spots]
    if len(set(xs)) < 2:
        return 0.0
    return round(statistics.linear_regression(xs, ys).slope, 2) + 0.0  # never "-0.00"


def end_to_end(spots: Sequence[Spot]) -> float:
    """The power of x by the first and the last point alone."""
    return power((spots[0], spots[-1]))


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Pearson's; 0 where one side does not vary."""
    try:
        return statistics.correlation(*zip(*pairs, strict=True))
    except statistics.StatisticsError:
        return 0.0
