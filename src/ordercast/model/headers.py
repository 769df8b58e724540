"""Headers of messages: small named values beside the payload, and the rules that they keep.

A message has its headers as pairs, by name, each name once. So the same headers are the same bytes,
whatever the order in which the application gave them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from ordercast.model.errors import ConfigError, TooLarge
from ordercast.model.limits import HEADER_CHARACTERS, HEADERS_BYTES, MESSAGE_HEADERS
from ordercast.model.names import shown

Headers: TypeAlias = Mapping[str, bytes] | None
"""Headers as an application gives them."""

BatchHeaders: TypeAlias = Headers | Sequence[Headers]
"""The headers of a batch: one mapping for all its messages, or a list with one for each."""

HeaderItems: TypeAlias = tuple[tuple[str, bytes], ...]
"""The headers of a message: name and value, by name."""

PER_HEADER: Final = 8  # the most bytes that packing adds to a header


def header_items(headers: Headers) -> HeaderItems:
    """The headers that an application gives. Raises ConfigError if they are no headers, and
    TooLarge beyond the limits."""
    if not headers:
        return ()
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers: a mapping is needed, not {shown(headers)}")
    if len(headers) > MESSAGE_HEADERS:
        raise TooLarge(f"{len(headers):,} headers; the limit is {MESSAGE_HEADERS:,}")
    given = [(_name(name), _value(name, value)) for name, value in headers.items()]
    items = tuple(sorted(given))
    size = header_bytes(items)
    if size > HEADERS_BYTES:
        raise TooLarge(f"headers of {size:,} bytes; the limit is {HEADERS_BYTES:,} for one message")
    return items


def _name(name: Any) -> str:
    if not isinstance(name, str) or not _is_header_name(name):
        raise ConfigError(
            f"headers: {shown(name)} is not a name: 1 to {HEADER_CHARACTERS} printable characters"
            " of ASCII"
        )
    return str.__str__(name)


def _value(name: str, value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ConfigError(f"headers: {name}: bytes are needed, not {shown(value)}")
    return bytes(value)


def _is_header_name(name: str) -> bool:
    return 0 < len(name) <= HEADER_CHARACTERS and name.isascii() and name.isprintable()


def header_bytes(items: HeaderItems) -> int:
    """The bytes of the names and values."""
    return sum(len(name) + len(value) for name, value in items)


def fault_in(items: Sequence[tuple[str, bytes]]) -> str:
    """What is wrong with the headers of a message; "" if they keep the rules."""
    if not 0 < len(items) <= MESSAGE_HEADERS:
        return f"{len(items):,} headers, not 1 to {MESSAGE_HEADERS:,}"
    before = ""
    for name, _ in items:
        if not _is_header_name(name):
            return f"{shown(name)} is not a header's name"
        if name <= before:
            return f"header {name!r} stands behind {before!r}"
        before = name
    size = header_bytes(tuple(items))
    return f"headers of {size:,} bytes, at most {HEADERS_BYTES:,}" if size > HEADERS_BYTES else ""
