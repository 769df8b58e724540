"""Arguments of callers in Python, checked as strictly as files and commands."""

from collections.abc import Iterable
from typing import Any, TypeVar

from ordercast.model.errors import ConfigError
from ordercast.model.limits import GENERATIONS, ID_CHARACTERS, LARGEST_NUMBER, PRODUCER_NUMBERS
from ordercast.model.names import require_name, shown

T = TypeVar("T")
_ONE = (str, bytes, bytearray, memoryview)  # iterable, but no lists


def plain(name: T) -> T | str:
    """A name of another type of string (a member of an enum) as the string it is."""
    return str.__str__(name) if isinstance(name, str) else name


def require_list(names: Iterable[T], what: str) -> tuple[T, ...]:
    """A string is iterable too, and would be taken for a list of its letters."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise ConfigError(f"{what}: a list of names is needed, not {shown(names)}")
    return tuple(names)


def require_names(names: Iterable[str], what: str) -> tuple[str, ...]:
    found = require_list(names, what)
    for name in found:
        if not isinstance(name, str):
            raise ConfigError(f"{what}: {shown(name)} is not a name")
    return tuple(map(plain, found))


def require_payloads(payloads: object) -> list[Any]:
    """The payloads of a batch. Each of them is checked with the batch. Bytes are iterable too, and
    would be taken for a list of numbers."""
    if isinstance(payloads, _ONE) or not isinstance(payloads, Iterable):
        raise ConfigError(f"payloads: a list of bytes is needed, not {shown(payloads)}")
    return list(payloads)


def one_or_many(payload: object) -> list[Any]:
    """The payloads of a batch, or the one payload that is given in its place."""
    if isinstance(payload, _ONE) or not isinstance(payload, Iterable):
        return [payload]
    return list(payload)


def require_flag(value: object, what: str) -> None:
    """No frame takes 1 or "yes" for True."""
    if type(value) is not bool:
        raise ConfigError(f"{what}: True or False is needed, not {shown(value)}")


def require_number(value: object, what: str, least: int) -> None:
    """True and 1.0 are no numbers of anything. What no frame or store can have is refused, too."""
    if type(value) is not int:
        raise ConfigError(f"{what}: a whole number is needed, not {shown(value)}")
    if value < least:
        raise ConfigError(f"{what}: {shown(value)} is too small (at least {least})")
    if value > LARGEST_NUMBER:
        raise ConfigError(f"{what}: {shown(value)} is too large (at most {LARGEST_NUMBER:,})")


def require_seconds(**times: object) -> None:
    """Raise ConfigError unless each can be waited for."""
    for what, value in times.items():
        if isinstance(value, bool) or not (isinstance(value, (int, float)) and value >= 0):
            raise ConfigError(f"{what}: seconds are needed, not {shown(value)}")


def require_producer(group: object, producer: object, number: object, generation: object) -> None:
    """Raise ConfigError unless a message to the group can have this producer, number and
    generation."""
    require_name(producer, "producer")
    for field, value, least, most in (
        ("number", number, 1, PRODUCER_NUMBERS),
        ("generation", generation, 0, GENERATIONS),
    ):
        if type(value) is not int or not least <= value <= most:
            raise ConfigError(f"{field}: {shown(value)} is none from {least} to {most}")
    if not isinstance(group, str):
        raise ConfigError("group: a producer sends to one group, not to a list of them")


def require_id(group: object, chosen: object, since: object) -> None:
    """Raise ConfigError unless a message to the group can have this id of its sender's own, and
    was sent first after this mark."""
    if not isinstance(chosen, str) or not (
        0 < len(chosen) <= ID_CHARACTERS and chosen.isprintable()
    ):
        raise ConfigError(f"id: {shown(chosen)} is not 1 to {ID_CHARACTERS:,} printable characters")
    if since is not None and (type(since) is not int or not 0 < since <= LARGEST_NUMBER):
        raise ConfigError(f"since: {shown(since)} is no mark that id_mark has told")
    if not isinstance(group, str):
        raise ConfigError("id: a message with an id goes to one group, not to a list of them")
