"""How numbers are told in findings."""

from collections.abc import Sequence

from ordercast.studies.reproduction import Spot


def with_interval(spot: Spot, digits: int) -> str:
    """The mean, and the half width of its 95 % interval unless nothing varies."""
    mean = f"{spot.y:.{digits}f}"
    return f"{mean} ± {spot.ci:.{digits}f}" if round(spot.ci, digits) else mean


def with_intervals(spots: Sequence[Spot], digits: int) -> str:
    return ", ".join(with_interval(spot, digits) for spot in spots)


def means(spots: Sequence[Spot], digits: int = 0) -> str:
    return ", ".join(f"{spot.y:,.{digits}f}" for spot in spots)


def places(spots: Sequence[Spot]) -> str:
    """The values of x."""
    return ", ".join(f"{spot.x:,g}" for spot in spots)


def percents(part: Sequence[Spot], whole: Sequence[Spot]) -> str:
    return ", ".join(f"{100 * a.y / b.y:.0f} %" for a, b in zip(part, whole, strict=True))


def span(numbers: Sequence[float], digits: int) -> str:
    return f"{min(numbers):,.{digits}f} to {max(numbers):,.{digits}f}"
