"""An option of a verb, declared once: how its values are written, and where it applies.

The command line, scenarios, the line that replays a run, and the spec file of a sweep are derived
from tables of options. A notation reads a value as the command line or a scenario gives it, checks
a value of a spec file, and shows a value so that it reads back as itself.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest, shown
from ordercast.model.notation import count, duration, show_duration

ReadFile: TypeAlias = Callable[[str], str]
"""Gives the text of a file that an option names."""


class Notation:
    """Any text."""

    def read(self, value: Any, where: str, _read: ReadFile) -> Any:
        """The value of a configuration; numbers may be numbers or text."""
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {value!r} is not a text")
        return value

    def check(self, value: Any, where: str, _read: ReadFile) -> None:
        """Raise ConfigError when a spec file may not have this value."""
        require_text(value, where)

    def show(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class Word(Notation):
    """One of the known words."""

    known: tuple[str, ...]

    def check(self, value: Any, where: str, _read: ReadFile) -> None:
        if value not in self.known:
            hint = nearest(value, self.known) if isinstance(value, str) else ""
            raise ConfigError(f"{where}: {shown(value)} is none of {', '.join(self.known)}{hint}")


@dataclass(frozen=True)
class WholeNumber(Notation):
    """A whole number from `least` on."""

    least: int

    def read(self, value: Any, where: str, _read: ReadFile) -> int:
        return count(value, where)

    def check(self, value: Any, where: str, _read: ReadFile) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            raise ConfigError(f"{where}: {shown(value)} is not a whole number from {self.least} on")


@dataclass(frozen=True)
class Number(Notation):
    """A number from `least` to `most`."""

    least: float
    most: float

    def read(self, value: Any, where: str, _read: ReadFile) -> float:
        try:
            if isinstance(value, bool):
                raise TypeError
            return float(value)
        except (TypeError, ValueError):
            raise ConfigError(f"{where}: {value!r} is not a number") from None

    def check(self, value: Any, where: str, _read: ReadFile) -> None:
        good = not isinstance(value, bool) and isinstance(value, int | float)
        if not good or not self.least <= value <= self.most:
            raise ConfigError(
                f"{where}: {shown(value)} is not a number from {self.least:g} to {self.most:g}"
            )


class Flag(Notation):
    """True or false; on the command line the option alone."""

    def read(self, value: Any, where: str, _read: ReadFile) -> bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{where}: {shown(value)} is neither true nor false")
        return value

    def check(self, value: Any, where: str, read: ReadFile) -> None:
        self.read(value, where, read)


class Time(Notation):
    """A duration, in nanoseconds."""

    def read(self, value: Any, where: str, _read: ReadFile) -> int:
        return duration(value, where)

    def check(self, value: Any, where: str, _read: ReadFile) -> None:
        duration(value, where)

    def show(self, value: Any) -> str:
        return show_duration(value)


class Names(Notation):
    """`a,b`, or a list."""

    def read(self, value: Any, where: str, read: ReadFile) -> tuple[str, ...]:
        names = value if isinstance(value, list) else super().read(value, where, read).split(",")
        return tuple(name.strip() for name in names)

    def check(self, value: Any, where: str, _read: ReadFile) -> None:
        names = value if isinstance(value, list) else require_text(value, where).split(",")
        if not all(isinstance(name, str) and name.strip() for name in names):
            raise ConfigError(f"{where}: {shown(value)} is not a list of names")

    def show(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True)
class VerbOption:
    """`name` is written with underscores, on the command line with hyphens."""

    name: str
    notation: Notation
    help: str
    metavar: str = ""
    default: Any = None
    """On the command line; None: the configuration has the default."""
    configures: bool = True
    """Whether the value is part of what is run; otherwise it is about the command."""
    unswept: str = ""
    """Why a sweep does not vary it; empty: it does."""

    @property
    def flag(self) -> str:
        return flag_of(self.name)


def flag_of(name: str) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')}"


def by_name(options: Iterable[VerbOption]) -> Mapping[str, VerbOption]:
    return {option.name: option for option in options}


def require_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: must be a text, not {shown(value)}")
    return value
