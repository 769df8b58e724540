"""What an application hands over, as the plain values that the rest works with; or why not."""

from collections.abc import Iterable
from typing import TypeVar

from ordercast.model.errors import ConfigError, TooLarge
from ordercast.model.limits import BATCH_MESSAGES, BODY_BYTES

OVERHEAD = 5  # bytes that packing adds to a payload, at most
_ONLY_BYTES = {bytes}

T = TypeVar("T")


def as_bytes(payload: object) -> bytes:
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise ConfigError(f"payload: bytes are needed, not {type(payload).__name__}")
    return bytes(payload)


def plain(group: T) -> T | str:
    """A name of another type of string (a member of an enum) as the string it is."""
    return str.__str__(group) if isinstance(group, str) else group


def names_of(names: Iterable[str], what: str) -> tuple[str, ...]:
    """A string is iterable too, and would be taken for a list of its letters."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise ConfigError(f"{what}: a list of names is needed, not {names!r}")
    found = tuple(names)
    for name in found:
        if not isinstance(name, str):
            raise ConfigError(f"{what}: {name!r} is not a name")
    return tuple(map(plain, found))


def measured(payloads: list[bytes], message_bytes: int) -> int:
    """The bytes of a batch; refused if it is empty, too large, or not of bytes."""
    if not payloads:
        raise ConfigError("payloads: a batch of no messages")
    if set(map(type, payloads)) != _ONLY_BYTES:
        payloads[:] = map(as_bytes, payloads)
    largest = max(map(len, payloads))
    if largest > message_bytes:
        raise TooLarge(f"a message of {largest} bytes; the limit is {message_bytes}")
    count = len(payloads)
    size = sum(map(len, payloads)) + OVERHEAD * (count + 1)
    if count > BATCH_MESSAGES or size > BODY_BYTES:
        raise TooLarge(
            f"a batch of {count} messages, {size} bytes;"
            f" the limits are {BATCH_MESSAGES} and {BODY_BYTES}"
        )
    return size
