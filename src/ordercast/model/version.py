"""The version of the package: in histories, in reports, on the command line."""

__version__ = "0.1.0"


def told_range(low: int, high: int) -> str:
    """Versions of a format, as errors say them."""
    return f"{low}" if low == high else f"{low} to {high}"
