"""Names of sites and groups: the rule for them, and the nearest right name for a wrong one."""

import difflib
import re
import reprlib
from collections.abc import Iterable

from ordercast.model.errors import ConfigError

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_abbreviated = reprlib.Repr()
_abbreviated.maxstring = _abbreviated.maxother = 80
_FEW = 12  # known names: up to here all are listed when none of them is close


def is_name(value: object) -> bool:
    return isinstance(value, str) and NAME_PATTERN.fullmatch(value) is not None


def require_name(value: object, where: str) -> str:
    """Return the name, or raise with `where` (file and field) in the message."""
    if isinstance(value, str) and NAME_PATTERN.fullmatch(value):
        return value
    raise ConfigError(
        f"{where}: {shown(value)} is not a name"
        " (1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit)"
    )


def require_distinct(names: Iterable[str], where: str) -> None:
    """Names are unique ignoring case: file systems and people confuse `A` with `a`."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise ConfigError(f"{where}: {name!r} and {other!r} differ only in case")


def shown(value: object) -> str:
    """A value in an error message: recognisable, on one line, and never long."""
    try:
        return _abbreviated.repr(value)
    except ValueError:  # a number of thousands of digits
        return f"this {type(value).__name__}"


def require_keys(given: Iterable[str], known: Iterable[str], where: str, what: str = "key") -> None:
    """ConfigError for a name that is not known."""
    names = tuple(known)
    for name in given:
        if name not in names:
            raise ConfigError(f"{where}: unknown {what} {shown(name)}{nearest(name, names)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after an unknown name: the closest known one, or all of them when few."""
    candidates = list(known)
    folded = [c for c in candidates if c.lower() == name.lower()]
    close = folded or difflib.get_close_matches(name, candidates, n=1, cutoff=0.5)
    if close:
        return f" (did you mean {close[0]!r}?)"
    if 0 < len(candidates) <= _FEW:
        return f" (known: {', '.join(candidates)})"
    return ""
