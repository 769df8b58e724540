"""A configuration from options by name: what the command line, scenarios and sweeps have.

Names are those of `ordercast sim` (`on-failure` or `on_failure`). Values are numbers, or text as on
the command line.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.model.options import Limits, Timing
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import parse_faults
from ordercast.sim.networks import parse_network
from ordercast.sim.notation import UNITS, count, duration, pairs, require_known

Read = Callable[[str], str]
"""Gives the text of a file that an option names."""

_TEXTS = (
    "protocol", "builder", "deliver", "on_failure", "slow_member", "stability", "durability",
    "dissemination", "codec",
)  # fmt: skip
_COUNTS = ("branching", "messages", "batch", "payload", "most_events")
_NUMBERS = ("rate", "implicit", "replies")


def configure(
    table: GroupTable, given: Mapping[str, Any], *, read: Read, source: str = ""
) -> SimConfig:
    """The configuration with these options; `check_config` says whether it can be run."""
    found: dict[str, Any] = {}
    for option, value in given.items():
        name = option.replace("-", "_")
        require_known(name, OPTIONS, "options")
        found[name] = OPTIONS[name](name.replace("_", "-"), value, read)
    return replace(SimConfig(table, source=source), **found)


def _text(name: str, value: Any, _: Read) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name}: {value!r} is not a text")
    return value


def _count(name: str, value: Any, _: Read) -> int:
    return count(value, name)


def _number(name: str, value: Any, _: Read) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}: {value!r} is not a number") from None


def _flag(name: str, value: Any, _: Read) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name}: {value!r} is neither true nor false")
    return value


def _names(name: str, value: Any, read: Read) -> tuple[str, ...]:
    return tuple(part.strip() for part in _text(name, value, read).split(","))


def _origins(name: str, value: Any, read: Read) -> int | tuple[str, ...]:
    """How many, or which: a text of digits is a number."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        return _names(name, value, read)
    return count(value, name, least=1)


def _limits(name: str, value: Any, read: Read) -> Limits:
    return replace(Limits(), **_parts(name, _text(name, value, read), Limits))


def _timing(name: str, value: Any, read: Read) -> Timing:
    return replace(Timing(), **_parts(name, _text(name, value, read), Timing))


def _parts(where: str, text: str, kind: type[Limits] | type[Timing]) -> dict[str, int]:
    """`name=number,…`; a time may have a unit, otherwise it is in nanoseconds. 1 is the least, or 0
    where that is the default."""
    known, usual = [field.name for field in fields(kind)], kind()
    found = {}
    for name, value in pairs(text, where):
        require_known(name, known, where)
        read = duration if value.endswith(tuple(UNITS)) else count
        found[name] = read(value, f"{where}: {name}")
        if found[name] < min(1, getattr(usual, name)):
            raise ConfigError(f"{where}: {name}: {value} is too small (1 or more)")
    return found


OPTIONS: Mapping[str, Callable[[str, Any, Read], Any]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_NUMBERS, _number),
    "causal": _flag,
    "tie": _names,
    "origins": _origins,
    "network": lambda name, value, read: parse_network(_text(name, value, read), read, name),
    "faults": lambda name, value, read: parse_faults(_text(name, value, read), read, name),
    **dict.fromkeys(
        ("wake", "settle", "longest_sync"), lambda name, value, _: duration(value, name)
    ),
    "limits": _limits,
    "timing": _timing,
}
