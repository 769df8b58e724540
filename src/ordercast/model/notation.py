"""How values are written: durations, counts, lists of name=value.

A duration is an integer number of nanoseconds inside; outside it is written `250us`, `5ms`, `1.5s`.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest

UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000}


def duration(value: object, where: str) -> int:
    """`5ms` in nanoseconds. A bare number is refused: nobody can tell its unit."""
    if isinstance(value, str):
        text = value.strip()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = text[len(number) :]
        if unit in UNITS:
            amount = _fraction(number)
            if amount is not None:
                return int(amount * UNITS[unit])
    raise ConfigError(f"{where}: {value!r} is not a duration (write 250us, 5ms or 1.5s)")


def show_duration(nanoseconds: int) -> str:
    """The shortest way to write it that reads back as the same number."""
    for unit in ("s", "ms", "us"):
        if nanoseconds and nanoseconds % UNITS[unit] == 0:
            return f"{nanoseconds // UNITS[unit]}{unit}"
    return f"{nanoseconds}ns"


def probability(value: object, where: str) -> float:
    number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise ConfigError(f"{where}: {_shown(value)} is not a probability (0 to 1)")
    return number


def count(value: object, where: str, least: int = 0) -> int:
    if isinstance(value, str):
        text = value.strip()
        value = int(text) if text.isascii() and text.isdigit() else value
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{where}: {_shown(value)} is not a count ({least} or more)")
    return value


def pairs(text: str, where: str) -> Iterator[tuple[str, str]]:
    """`a=1,b=2`, each name once."""
    seen: dict[str, None] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not value:
            raise ConfigError(f"{where}: {part.strip()!r} is not of the form name=value")
        if name in seen:
            raise ConfigError(f"{where}: {name!r} is given twice")
        seen[name] = None
        yield name, value


def require_known(name: str, known: Sequence[str] | Mapping[str, object], where: str) -> None:
    if name not in known:
        raise ConfigError(f"{where}: there is no {name!r}{nearest(name, known)}")


def _fraction(text: str) -> Fraction | None:
    """A plain decimal, exactly; no sign, no exponent."""
    whole, _, part = text.partition(".")
    if not (whole + part).isascii() or not (whole + part).isdigit():
        return None
    return Fraction(text if whole else f"0{text}")


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        exact = _fraction(value.strip())
        return None if exact is None else float(exact)
    return None


def _shown(value: object) -> str:
    return value if isinstance(value, str) else repr(value)
