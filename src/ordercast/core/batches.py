"""What may be in one batch: payloads that are bytes, each and together within the limits."""

from ordercast.model.errors import ConfigError, TooLarge
from ordercast.model.limits import BATCH_MESSAGES, BODY_BYTES

PER_MESSAGE = 5  # packing adds at most so many bytes to a payload, and once to the batch
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
        raise TooLarge(f"a message of {len(message)} bytes; the limit is {message_bytes}")
    return message


def batch_bytes(payloads: list[bytes], message_bytes: int) -> int:
    """How large the packed batch is, at most. Bytes-like payloads become bytes in place. Raises
    ConfigError if there are no payloads or one is not bytes-like, TooLarge beyond the limits."""
    if not payloads:
        raise ConfigError("payloads: a batch of no messages")
    if set(map(type, payloads)) != _ONLY_BYTES:
        payloads[:] = map(as_bytes, payloads)
    require_message(max(payloads, key=len), message_bytes)
    count = len(payloads)
    size = sum(map(len, payloads)) + PER_MESSAGE * (count + 1)
    if count > BATCH_MESSAGES or size > BODY_BYTES:
        raise TooLarge(
            f"a batch of {count} messages, {size} bytes;"
            f" the limits are {BATCH_MESSAGES} and {BODY_BYTES}"
        )
    return size
