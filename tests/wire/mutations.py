"""Ways to damage a frame: its bytes, its header, or a value inside under a right header.

Seeded by a `random.Random`, so a run names every byte string that it tries.
"""

import random
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec

from ordercast.model.limits import BATCH_MESSAGES, LARGEST_NUMBER
from ordercast.wire.codec import HEADER_BYTES, MAGIC, VERSION

Place = tuple[int, ...]

HOSTILE: tuple[Any, ...] = (
    0,
    1,
    2,
    3,
    -1,
    -(2**63),
    BATCH_MESSAGES,
    BATCH_MESSAGES + 1,
    LARGEST_NUMBER,
    LARGEST_NUMBER + 1,
    2**64 - 1,
    1.0,
    True,
    None,
    "",
    "a",
    "D",
    "s",
    "r",
    "a" * 64,
    "a" * 65,
    "é",
    "a\n",
    "@0123456789abcdef",
    b"",
    b"a",
    [],
    [[]],
    {},
    {"a": 1},
    msgspec.msgpack.Ext(5, b"x"),
)


def sealed(body: bytes, version: int = VERSION) -> bytes:
    """A frame's bytes with a right header around any body."""
    return MAGIC + struct.pack(">BII", version, len(body), crc32(body)) + body


def places(value: Any) -> Iterator[Place]:
    """Where there is a value, below `value`: paths of indices."""
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield (index,)
            for rest in places(part):
                yield (index, *rest)


def with_value(value: Any, place: Place, new: Any) -> Any:
    """A copy of nested lists with another value at that place."""
    if not place:
        return new
    first, *rest = place
    return [
        with_value(part, tuple(rest), new) if index == first else part
        for index, part in enumerate(value)
    ]


def replaced(rng: random.Random, frame: bytes) -> bytes:
    """One to three values inside are others, perhaps of another type; the header is right."""
    value = msgspec.msgpack.decode(frame[HEADER_BYTES:])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        place = rng.choice(list(places(value)) or [()])
        value = with_value(value, place, rng.choice(HOSTILE))
    return sealed(msgspec.msgpack.encode(value))


def resized(rng: random.Random, frame: bytes) -> bytes:
    """A list inside has lost or doubled some of its parts; the header is right."""
    value = msgspec.msgpack.decode(frame[HEADER_BYTES:])
    lists = [place for place in places(value) if isinstance(at(value, place), list)]
    place = rng.choice([(), *lists])
    parts = at(value, place)
    cut = rng.randint(0, len(parts))
    many = parts * 1_100 if rng.random() < 0.05 else parts * 2
    new = rng.choice((parts[:cut], parts[cut:], parts + parts[cut:], many))
    return sealed(msgspec.msgpack.encode(with_value(value, place, new)))


def at(value: Any, place: Place) -> Any:
    for index in place:
        value = value[index]
    return value


def flipped(rng: random.Random, frame: bytes) -> bytes:
    damaged = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2, 8))):
        bit = rng.randrange(8 * len(damaged))
        damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def truncated(rng: random.Random, frame: bytes) -> bytes:
    return frame[: rng.randrange(len(frame))]


def extended(rng: random.Random, frame: bytes) -> bytes:
    return frame + rng.randbytes(rng.randint(1, 40))


def spliced(rng: random.Random, frame: bytes, other: bytes) -> bytes:
    return frame[: rng.randint(0, len(frame))] + other[rng.randint(0, len(other)) :]


def random_bytes(rng: random.Random, _frame: bytes) -> bytes:
    return rng.randbytes(rng.randint(0, 200))


def other_header(rng: random.Random, frame: bytes) -> bytes:
    """Some field of the header is another; what follows is right."""
    start = rng.choice((0, 3, 4, 8))
    width = 3 if start == 0 else 1 if start == 3 else 4
    return frame[:start] + rng.randbytes(width) + frame[start + width :]


def resealed(damaged: bytes) -> bytes:
    """The same damage with the length and the checksum made right for it."""
    return sealed(damaged[HEADER_BYTES:])


def opcodes(rng: random.Random, frame: bytes) -> bytes:
    """A byte inside is another opcode, lengths of 4 GB among them; the header is right."""
    body = bytearray(frame[HEADER_BYTES:])
    place = rng.randrange(len(body))
    opcode = rng.choice(
        b"\x80\x90\xa0\xc0\xc1\xc4\xc6\xc7\xc9\xca\xcb\xcf\xd3\xd9\xdb\xdc\xdd\xde\xdf\xff"
    )
    body[place : place + 1] = bytes([opcode]) + rng.choice((b"", b"\xff" * 4))
    return sealed(bytes(body))
