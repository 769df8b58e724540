"""Takes a frame apart, byte by byte: the worked example of docs/wire.md.

`.venv/bin/python -m tools.frame` prints it; `… HEX` takes apart the frame of these bytes.
"""

import sys
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from ordercast.model.messages import Batch, Key, Placed, pack_payloads
from ordercast.wire.codec import HEADER_BYTES, WireFrame, decode_frame, encode_frame
from ordercast.wire.complaint import named_part, struct_of
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import DOWN, Data, Relay

BATCH = Batch("a", 1, "alpha", 17, 1, pack_payloads([b"hello"]))
EXAMPLE = InEpoch(3, Data(1, 1, DOWN, 42, (Relay(Placed(Key((0, 5), "d"), 99, BATCH)),)))
"""Site d, the primary of alpha, has placed the 17th message of a, and relays it to a child."""

_WIDTH = 44  # characters of the column of bytes
_parts = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def taken_apart(data: bytes) -> list[str]:
    """A line for each field of a right frame: its bytes, its name, its value."""
    decode_frame(data)
    header = (
        (data[:3], f"magic: {data[:3]!r}"),
        (data[3:4], f"version: {data[3]}"),
        (data[4:8], f"length of what follows the header: {int.from_bytes(data[4:8])}"),
        (data[8:12], f"CRC-32 of what follows the header: {data[8:12].hex()}"),
    )
    lines = [_line(part, text, 0) for part, text in header]
    return lines + list(_lines(data[HEADER_BYTES:], WireFrame, "frame", 0))


def _lines(data: bytes, kind: Any, name: str, depth: int) -> Iterator[str]:
    value = msgspec.msgpack.decode(data)
    if not isinstance(value, list):
        yield _line(data, f"{name}: {value!r}", depth)
        return
    parts = [bytes(part) for part in _parts(data)]
    inside = struct_of(kind, _parts(data))
    what = inside.__name__ if typing.get_origin(inside) is not tuple else f"array of {len(parts)}"
    yield _line(data[: len(data) - sum(map(len, parts))], f"{name}: {what}", depth)
    for place, part in enumerate(parts):
        field, of = named_part(inside, place)
        yield from _lines(part, of, field.removeprefix("."), depth + 1)


def _line(data: bytes, text: str, depth: int) -> str:
    return f"{'  ' * depth + data.hex(' '):{_WIDTH}} {'  ' * depth}{text}"


def main() -> None:
    data = bytes.fromhex("".join(sys.argv[1:])) or encode_frame(EXAMPLE)
    print("\n".join(taken_apart(data)))


if __name__ == "__main__":
    main()
