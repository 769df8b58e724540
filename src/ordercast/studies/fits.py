"""What fits measured points: a power of x, and how alike two columns are."""

from collections.abc import Sequence
from math import fsum, log, sqrt

from ordercast.studies.reproduction import Spot


def power(spots: Sequence[Spot]) -> float:
    """The power of x that fits best: least squares on logarithms."""
    xs, ys = [log(spot.x) for spot in spots], [log(spot.y) for spot in spots]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((x - mean_x) ** 2 for x in xs)
    if not across:
        return 0.0
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / across
    return round(slope, 2) + 0.0  # never "-0.00"


def end_to_end(spots: Sequence[Spot]) -> float:
    """The power of x by the first and the last point alone."""
    return power((spots[0], spots[-1]))


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Pearson's; 0 where one side does not vary."""
    count = len(pairs)
    mean_a, mean_b = fsum(a for a, _ in pairs) / count, fsum(b for _, b in pairs) / count
    both = fsum((a - mean_a) * (b - mean_b) for a, b in pairs)
    spread = sqrt(fsum((a - mean_a) ** 2 for a, _ in pairs))
    spread *= sqrt(fsum((b - mean_b) ** 2 for _, b in pairs))
    return both / spread if spread else 0.0
