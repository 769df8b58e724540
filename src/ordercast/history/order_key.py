"""Order keys as a history holds them: bytes that sort as the keys do (docs/core.md)."""

from ordercast.model.messages import Key


def order_key(key: Key) -> bytes:
    """A prefix first, the placing site's name last."""
    numbers = b"".join(b"\1" + (number + (1 << 63)).to_bytes(8, "big") for number in key.path)
    return numbers + b"\0" + key.site.encode("ascii")
