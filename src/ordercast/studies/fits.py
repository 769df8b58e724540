"""What fits measured points: a power of x, an order of growth, and how alike two columns are."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from math import log

from ordercast.studies.reproduction import Spot


def power(spots: Sequence[Spot]) -> float:
    """The power of x that fits best: least squares on logarithms."""
    xs, ys = [log(spot.x) for spot in spots], [log(spot.y) for spot in spots]
    if len(set(xs)) < 2:
        return 0.0
    return round(statistics.linear_regression(xs, ys).slope, 2) + 0.0  # never "-0.00"


ORDERS: Mapping[str, Callable[[float], float]] = {
    "1": lambda _: 1.0,
    "log n": log,
    "n": lambda n: n,
    "n log n": lambda n: n * log(n),
    "n²": lambda n: n * n,
}


def order(spots: Sequence[Spot]) -> str:
    """The order of growth that fits best: the one whose ratio to the points varies least. So `n`
    and `n log n` exclude each other."""

    def unsteady(growth: Callable[[float], float]) -> float:
        return statistics.pstdev(log(spot.y / growth(spot.x)) for spot in spots)

    return min(ORDERS, key=lambda name: unsteady(ORDERS[name]))


def end_to_end(spots: Sequence[Spot]) -> float:
    """The power of x by the first and the last point alone."""
    return power((spots[0], spots[-1]))


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Pearson's; 0 where one side does not vary."""
    try:
        return statistics.correlation(*zip(*pairs, strict=True))
    except statistics.StatisticsError:
        return 0.0
