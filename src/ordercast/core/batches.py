"""What may be in one batch: payloads that are bytes, each and together within the limits; and the
headers and the time that its envelope has.
"""

from collections.abc import Sequence
from typing import Final, cast

from ordercast.model.envelope import (
    Envelope,
    HeaderRun,
    HeaderRuns,
    bounded_time,
    envelope_bytes,
    pack_envelope,
)
from ordercast.model.errors import ConfigError, TooLarge
from ordercast.model.groups import Group
from ordercast.model.headers import BatchHeaders, Headers, header_items
from ordercast.model.limits import BATCH_MESSAGES, BODY_BYTES
from ordercast.model.messages import pack_payloads

PER_MESSAGE = 5  # the most bytes that packing adds to a payload, and once to the batch
_ONLY_BYTES = {bytes}


def as_bytes(payload: object) -> bytes:
    """The payload as bytes. Raises ConfigError if it is not bytes-like."""
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise ConfigError(f"payload: bytes are needed, not {type(payload).__name__}")
    return bytes(payload)


def require_message(payload: object, message_bytes: int) -> bytes:
    """One payload as bytes. Raises TooLarge if it has more than `message_bytes`."""
    message = as_bytes(payload)
    if len(message) > message_bytes:
        raise TooLarge(f"a message of {len(message):,} bytes; the limit is {message_bytes:,}")
    return message


class Extras:
    """What the messages of a batch have beside their payloads: `headers`, and the `groups` of a
    send to several. `size`: the bytes that they add to a body, at most."""

    __slots__ = ("groups", "headers", "size")

    def __init__(self, headers: HeaderRuns = (), groups: tuple[Group, ...] = ()) -> None:
        self.headers = headers
        self.groups = groups
        self.size = envelope_bytes(headers, groups) if headers or groups else 0


NO_EXTRAS: Final = Extras()


def extras_of(headers: BatchHeaders, count: int, groups: tuple[Group, ...] = ()) -> Extras:
    """The extras of `count` messages, with the headers that an application gives. Raises
    ConfigError if they are no headers, and TooLarge beyond the limits."""
    if not (headers or groups):
        return NO_EXTRAS
    if isinstance(headers, (list, tuple)):
        return Extras(_runs(headers, count), groups)
    items = header_items(cast(Headers, headers))
    return Extras((HeaderRun(0, count, items),) if items and count else (), groups)


def _runs(headers: Sequence[Headers], count: int) -> HeaderRuns:
    """The headers of each message by itself; neighbours that have the same are one run."""
    if len(headers) != count:
        raise ConfigError(f"headers: {len(headers):,} mappings for {count:,} messages")
    found: list[HeaderRun] = []
    for place, items in enumerate(map(header_items, headers)):
        last = found[-1] if found else None
        if last is not None and items == last.items and last.first + last.count == place:
            found[-1] = HeaderRun(last.first, last.count + 1, items)
        elif items:
            found.append(HeaderRun(place, 1, items))
    return tuple(found)


def without_extras(extras: Extras) -> Extras:
    """Not all sites can read an envelope yet: groups are not told, and headers are refused."""
    if extras.headers:
        raise ConfigError(
            "headers: this cluster does not use them yet, because not all of its sites run a"
            " release that has them ('ordercast status' names the sites)"
        )
    return NO_EXTRAS


def packed_body(
    payloads: list[bytes], sent_ns: int, headers: Sequence[HeaderRun], groups: tuple[Group, ...]
) -> bytes:
    """The body of a batch. `sent_ns`: 0 where the time is not told."""
    if sent_ns or headers or groups:
        return pack_envelope(Envelope(payloads, bounded_time(sent_ns), tuple(headers), groups))
    return pack_payloads(payloads)


def batch_bytes(payloads: list[bytes], message_bytes: int, extras: Extras = NO_EXTRAS) -> int:
    """How large the packed batch is, at most, without ENVELOPE_BYTES. Bytes-like payloads become
    bytes in place. Raises ConfigError if there are no payloads or one is not bytes-like, TooLarge
    beyond the limits."""
    if not payloads:
        raise ConfigError("payloads: a batch of no messages")
    if set(map(type, payloads)) != _ONLY_BYTES:
        payloads[:] = map(as_bytes, payloads)
    require_message(max(payloads, key=len), message_bytes)
    count = len(payloads)
    size = sum(map(len, payloads)) + PER_MESSAGE * (count + 1) + extras.size
    if count > BATCH_MESSAGES or size > BODY_BYTES:
        raise TooLarge(
            f"a batch of {count:,} messages, {size:,} bytes;"
            f" the limits are {BATCH_MESSAGES:,} and {BODY_BYTES:,}"
        )
    return size
