"""Frames as bytes: a fixed header, then the frame in MessagePack.

    magic "ocf" | version u8 | length u32 | CRC-32 u32 | `length` bytes of MessagePack

Integers are big-endian. The checksum covers what follows the header; the header's own fields are
each compared with what they must be. CRC-32 because it is there to find damage (a bug in a buffer,
a bad memory module, a datagram network's weak checksum), not an enemy, whom TLS keeps out: it finds
every burst of up to 32 bits, is one C call, and costs a quarter of what parsing a small frame does.

Whatever the bytes are, the answer is a frame that keeps all rules, or FrameError.
"""

import struct
from collections.abc import Sequence
from typing import Final, NoReturn, TypeAlias
from zlib import crc32

import msgspec

from ordercast.model.errors import FrameError
from ordercast.model.limits import FRAME_BYTES, ITEMS
from ordercast.wire.complaint import complaint
from ordercast.wire.dissemination import DisseminationFrame
from ordercast.wire.epochs import Feed, InEpoch, SiteFrame
from ordercast.wire.frames import DOWN, Ack, Data, Frame, Repair
from ordercast.wire.handover import HandoverFrame
from ordercast.wire.lineage import LineageFrame, StoredRow
from ordercast.wire.pipes import PipeFrame
from ordercast.wire.replica_digest import ReplicaDigest
from ordercast.wire.voting import Append

WireFrame: TypeAlias = (
    Frame
    | SiteFrame
    | HandoverFrame
    | DisseminationFrame
    | LineageFrame
    | ReplicaDigest
    | PipeFrame
)

MAGIC: Final = b"ocf"
VERSION: Final = 5

_HEADER = struct.Struct(">III")
HEADER_BYTES: Final = _HEADER.size
_START = int.from_bytes(MAGIC) << 8 | VERSION
_MOST = FRAME_BYTES - HEADER_BYTES

_COMMON = (Ack, Repair, StoredRow)  # they hold numbers of this site's own making
_read_header = _HEADER.unpack_from
_write_header = _HEADER.pack
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WireFrame).decode


def encode_frame(frame: WireFrame) -> bytes:
    """The frame's bytes. Of a frame of a link, only the sizes are checked, which configuration
    could get wrong. Any other frame is rare, and is checked in full, by decoding it: if the other
    end refused it, that would cost the connection, and the next one too."""
    try:
        body = _encode(frame)
    except (ValueError, OverflowError, TypeError) as error:
        raise FrameError(complaint(error, b"", WireFrame, "frame cannot be encoded")) from None
    if len(body) > _MOST:
        raise FrameError(f"frame of {len(body) + HEADER_BYTES} bytes, at most {FRAME_BYTES}")
    checksum = crc32(body)
    inner = frame.frame if type(frame) is InEpoch else frame
    if type(inner) is Data:
        if len(inner.items) > ITEMS:
            raise FrameError(f"frame of {len(inner.items)} items, at most {ITEMS}")
    elif type(inner) not in _COMMON:
        _decode_body(body, checksum)
    return _write_header(_START, len(body), checksum) + body


class FrameEncoder:
    """Encodes what is written to several peers in turn.

    A site relays the same frame to all children that have had as many frames before. It is encoded,
    and its checksum computed, for the first of them. So is a record that the manager tells to all.
    """

    def __init__(self) -> None:
        # to children, in the last write, by number and epoch
        self._known: dict[tuple[int, int], tuple[Data, bytes]] = {}
        self._told: tuple[WireFrame | None, bytes] = (None, b"")  # the last frame with records

    def encode(self, frames: Sequence[WireFrame]) -> list[bytes]:
        """The bytes of each frame. They are not joined: that would take a large piece of memory
        fresh from the system, which costs more than the checksum."""
        known = self._known
        now: dict[tuple[int, int], tuple[Data, bytes]] = {}
        encoded = []
        for frame in frames:
            epoch, inner = (frame.epoch, frame.frame) if type(frame) is InEpoch else (0, frame)
            if type(inner) is Data and inner.lane == DOWN:
                place = (inner.number, epoch)
                before = known.get(place)
                data = encode_frame(frame) if before is None or before[0] != inner else before[1]
                now[place] = (inner, data)
            elif type(inner) is Feed or type(inner) is Append:
                if self._told[0] != frame:
                    self._told = (frame, encode_frame(frame))
                data = self._told[1]
            else:
                data = encode_frame(frame)
            encoded.append(data)
        if now:
            self._known = now
        return encoded


def decode_frame(data: bytes | memoryview) -> WireFrame:
    """The frame that these bytes are, all of them; otherwise FrameError."""
    if len(data) < HEADER_BYTES:
        raise FrameError(f"frame of {len(data)} bytes: a header alone has {HEADER_BYTES}")
    start, length, checksum = _read_header(data)
    body = data[HEADER_BYTES:]
    if start != _START or length > _MOST:
        _refuse_header(start, length, FRAME_BYTES)
    if length != len(body):
        raise FrameError(f"frame of {len(body)} bytes after the header, which says {length}")
    return _decode_body(body, checksum)


def _decode_body(body: bytes | memoryview, checksum: int) -> WireFrame:
    if crc32(body) != checksum:
        raise FrameError(f"checksum is {crc32(body):08x}, the header says {checksum:08x}")
    try:
        frame: WireFrame = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(complaint(error, body, WireFrame, "not a frame")) from None
    if type(frame) is InEpoch:  # nearly all are
        frame.frame.check()
    elif type(frame) is not StoredRow:  # that is a number alone
        frame.check()
    return frame


def _refuse_header(start: int, length: int, limit: int) -> NoReturn:
    magic = (start >> 8).to_bytes(3)
    if magic != MAGIC:
        raise FrameError(f"not a frame: it begins with {magic!r}, not {MAGIC!r}")
    if start != _START:
        raise FrameError(f"frame of version {start & 0xFF}, this is version {VERSION}")
    raise FrameError(f"frame of {length + HEADER_BYTES} bytes, at most {limit}")


class FrameSplitter:
    """Finds whole frames in a byte stream; for TCP. Holds at most the one frame that is under way.

    Once it has raised it raises at every call: after wrong bytes nobody knows where a frame
    begins, and the connection is of no more use.
    """

    def __init__(self, limit: int = FRAME_BYTES) -> None:
        self._limit = min(limit, FRAME_BYTES)
        self._part = bytearray()  # the beginning of a frame whose end has not come
        self._wanted = HEADER_BYTES  # bytes that `_part` must have before there is more to do
        self._broken: str | None = None

    @property
    def held(self) -> int:
        """Bytes of an unfinished frame: at the end of a stream, 0 or it was cut."""
        return len(self._part)

    def feed(self, data: bytes | bytearray | memoryview) -> list[WireFrame]:
        """The frames that end in these bytes, in order."""
        if self._broken is not None:
            raise FrameError(self._broken)
        view = memoryview(data)
        frames: list[WireFrame] = []
        at, end = 0, len(view)
        try:
            if self._part:
                at = self._complete(view, frames)
            while end - at >= HEADER_BYTES:
                start, length, checksum = _read_header(view, at)
                if start != _START or length + HEADER_BYTES > self._limit:
                    _refuse_header(start, length, self._limit)
                after = at + HEADER_BYTES + length
                if after > end:
                    self._wanted = HEADER_BYTES + length
                    break
                frames.append(_decode_body(view[at + HEADER_BYTES : after], checksum))
                at = after
        except FrameError as error:
            self._broken = str(error)
            self._part = bytearray()
            raise
        self._part += view[at:]
        return frames

    def _complete(self, view: memoryview, frames: list[WireFrame]) -> int:
        """Take from `view` what the frame under way lacks, no more; how much that was."""
        at = 0
        while at < len(view):
            taken = view[at : at + self._wanted - len(self._part)]
            self._part += taken
            at += len(taken)
            if len(self._part) < self._wanted:
                break
            start, length, checksum = _read_header(self._part)
            if start != _START or length + HEADER_BYTES > self._limit:
                _refuse_header(start, length, self._limit)
            self._wanted = HEADER_BYTES + length
            if len(self._part) == self._wanted:
                whole, self._part, self._wanted = self._part, bytearray(), HEADER_BYTES
                frames.append(_decode_body(memoryview(whole)[HEADER_BYTES:], checksum))
                break
        return at
