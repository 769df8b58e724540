"""Checks of the values that a spec file gives to options."""

from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest, shown
from ordercast.pipeline.sweeps.subject import Check, Read


def whole(least: int) -> Check:
    def check(value: Any, where: str, _read: Read) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{where}: {shown(value)} is not a whole number from {least} on")

    return check


def number(least: float, most: float) -> Check:
    def check(value: Any, where: str, _read: Read) -> None:
        good = not isinstance(value, bool) and isinstance(value, int | float)
        if not good or not least <= value <= most:
            raise ConfigError(f"{where}: {shown(value)} is not a number from {least:g} to {most:g}")

    return check


def one_of(*known: str) -> Check:
    def check(value: Any, where: str, _read: Read) -> None:
        if value not in known:
            hint = nearest(value, known) if isinstance(value, str) else ""
            raise ConfigError(f"{where}: {shown(value)} is none of {', '.join(known)}{hint}")

    return check


def flag(value: Any, where: str, _read: Read) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {shown(value)} is neither true nor false")


def text(value: Any, where: str, _read: Read) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: must be a text, not {shown(value)}")
    return value


def word(value: Any, where: str, read: Read) -> None:
    text(value, where, read)


def names(value: Any, where: str, read: Read) -> None:
    names = value if isinstance(value, list) else text(value, where, read).split(",")
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise ConfigError(f"{where}: {shown(value)} is not a list of names")


def name_list(names: str | list[str]) -> tuple[str, ...]:
    """`"a,b"` or a list."""
    return tuple(name.strip() for name in (names.split(",") if isinstance(names, str) else names))
