"""Times, ages and sizes as a cluster file writes them: `1s`, `24h`, `2GB`.

A bare number is refused for a time (nobody can tell its unit) and is bytes for a size.
"""

import re
from fractions import Fraction

from ordercast.model.errors import ConfigError
from ordercast.model.names import shown

TIMES = {
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}  # nanoseconds
SIZES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}  # bytes
MOST = 2**60  # of either; far below what the store's 64 bits hold

_MEASURE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*([A-Za-z]{1,3})", re.ASCII)


def duration(value: object, where: str, *, least: int = 1) -> int:
    """`250ms`, `1.5s`, `24h` in nanoseconds."""
    return _measured(value, where, TIMES, "a time (write 250ms, 1s, 5min, 24h or 7d)", least)


def size(value: object, where: str, *, least: int = 1) -> int:
    """`8388608`, `64KiB`, `2GB` in bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _within(value, value, where, least)
    return _measured(value, where, SIZES, "a size (write a number of bytes, 64KiB or 2GB)", least)


def age_or_size(value: object, where: str) -> tuple[str, int]:
    """('age', nanoseconds) or ('size', bytes): the unit says which."""
    found = _MEASURE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None and found[2] in TIMES:
        return "age", duration(value, where)
    if found is not None and found[2] in SIZES:
        return "size", size(value, where)
    raise ConfigError(
        f"{where}: {shown(value)} is not a retention (write 'stable', an age like '24h'"
        " or a size like '2GB')"
    )


def _measured(value: object, where: str, units: dict[str, int], what: str, least: int) -> int:
    found = _MEASURE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or found[2] not in units:
        raise ConfigError(f"{where}: {shown(value)} is not {what}")
    return _within(int(Fraction(found[1]) * units[found[2]]), value, where, least)


def _within(amount: int, value: object, where: str, least: int) -> int:
    if amount < least:
        bound = f"{least // TIMES['ms']}ms or more" if least >= TIMES["ms"] else "more than 0"
        raise ConfigError(f"{where}: {shown(value)} is too small ({bound})")
    if amount > MOST:
        raise ConfigError(f"{where}: {shown(value)} is too large")
    return amount
