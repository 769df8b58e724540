"""Datagrams of a multicast stream as bytes (docs/dissemination.md).

    magic "ocd" | version u8 | kind u8 | flags u8 | stream u64 | serial u64 | what the kind says

Integers are big-endian. A stream belongs to one site in one epoch; its number is drawn at random.
The sender of a datagram authenticates the header and seals the rest with the stream's key; here
both are plain. The serial of a piece is its number in the stream, and stays the same when another
site sends it again. All other datagrams are numbered by their sender.
"""

import struct
from typing import Final, TypeAlias

import msgspec

from ordercast.model.errors import FrameError
from ordercast.model.limits import LARGEST_NUMBER

MAGIC: Final = b"ocd"
VERSION: Final = 1
PIECE, ASK, BEAT = 1, 2, 3
FIRST, LAST = 1, 2  # flags of a piece
HOLES: Final = 32  # in one PieceRequest
WIDEST_HOLE: Final = 65_535
LARGEST_DATAGRAM: Final = 65_000  # bytes, whatever is configured

_HEADER = struct.Struct(">3sBBBQQ")
HEADER_BYTES: Final = _HEADER.size
_HOLE = struct.Struct(">QH")
_BEAT = struct.Struct(">QQ")
_STREAM = struct.Struct(">Q")


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A part of a packet: all of it when it is the `first` and the `last`."""

    stream: int
    number: int
    first: bool
    last: bool
    body: bytes


class PieceRequest(msgspec.Struct, frozen=True, gc=False):
    """The sender lacks pieces of the stream `of`: from each number on, this many."""

    stream: int
    serial: int
    of: int
    holes: tuple[tuple[int, int], ...]


class Beat(msgspec.Struct, frozen=True, gc=False):
    """The stream has got to `last`; its sender has everything from `oldest` on."""

    stream: int
    serial: int
    last: int
    oldest: int


Datagram: TypeAlias = Piece | PieceRequest | Beat


def split_header(data: bytes | memoryview) -> tuple[int, int, int, int]:
    """Kind, flags, stream and serial; FrameError unless it is a header of ours."""
    if len(data) < HEADER_BYTES:
        raise FrameError(f"datagram of {len(data):,} bytes: a header alone has {HEADER_BYTES}")
    magic, version, kind, flags, stream, serial = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise FrameError(f"datagram begins with {magic!r} and version {version}")
    if kind not in (PIECE, ASK, BEAT) or flags > (FIRST | LAST if kind == PIECE else 0):
        raise FrameError(f"datagram of kind {kind} with flags {flags}")
    if not 1 <= serial <= LARGEST_NUMBER:
        raise FrameError(f"serial: {serial} is not within 1 and {LARGEST_NUMBER}")
    return kind, flags, stream, serial


def encode_datagram(datagram: Datagram) -> tuple[bytes, bytes]:
    """The header and what follows it."""
    if type(datagram) is Piece:
        flags = (FIRST if datagram.first else 0) | (LAST if datagram.last else 0)
        return _header(PIECE, flags, datagram.stream, datagram.number), datagram.body
    if type(datagram) is PieceRequest:
        holes = b"".join(_HOLE.pack(first, count) for first, count in datagram.holes)
        rest = _STREAM.pack(datagram.of) + holes
        return _header(ASK, 0, datagram.stream, datagram.serial), rest
    assert type(datagram) is Beat
    rest = _BEAT.pack(datagram.last, datagram.oldest)
    return _header(BEAT, 0, datagram.stream, datagram.serial), rest


def _header(kind: int, flags: int, stream: int, serial: int) -> bytes:
    return _HEADER.pack(MAGIC, VERSION, kind, flags, stream, serial)


def decode_datagram(header: tuple[int, int, int, int], rest: bytes) -> Datagram:
    """What a header and the opened rest are; FrameError when they break a rule."""
    kind, flags, stream, serial = header
    if kind == PIECE:
        return Piece(stream, serial, bool(flags & FIRST), bool(flags & LAST), rest)
    if kind == BEAT:
        if len(rest) != _BEAT.size:
            raise FrameError(f"beat of {len(rest):,} bytes")
        last, oldest = _BEAT.unpack(rest)
        if not 1 <= oldest <= last + 1 <= LARGEST_NUMBER:
            raise FrameError(f"beat from {oldest} to {last}")
        return Beat(stream, serial, last, oldest)
    count, odd = divmod(len(rest) - _STREAM.size, _HOLE.size)
    if odd or not 1 <= count <= HOLES:
        raise FrameError(f"ask of {len(rest):,} bytes")
    holes = tuple(_HOLE.iter_unpack(rest[_STREAM.size :]))
    if any(not 1 <= first <= LARGEST_NUMBER or not number for first, number in holes):
        raise FrameError(f"ask for {holes}")
    return PieceRequest(stream, serial, _STREAM.unpack_from(rest)[0], holes)
