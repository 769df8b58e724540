"""Frames as bytes: a fixed header, then the frame in MessagePack.

    magic "ocf" | version u8 | length u32 | CRC-32 u32 | `length` bytes of MessagePack

Integers are big-endian. The checksum covers what follows the header; the header's own fields are
each compared with what they must be. It is CRC-32 because it is there to find damage (a bug in a
buffer, a bad memory module, a datagram network's weak checksum); TLS keeps attackers out. CRC-32
finds every burst of up to 32 bits, is one C call, and costs a quarter of parsing a small frame.

Whatever the bytes are, the answer is a frame that keeps all rules, or FrameError.

There is a codec for each version that this program speaks: the newest one, and the one before. Two
sites agree on a version in their hellos, and each connection has the codec of its version.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeAlias
from zlib import crc32

import msgspec

from ordercast.model.errors import FrameError
from ordercast.model.limits import FRAME_BYTES, ITEMS
from ordercast.wire.client_marks import ClientMarksFrame
from ordercast.wire.complaint import complaint
from ordercast.wire.copies import CopyFrame
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
    | ClientMarksFrame
    | CopyFrame
    | PipeFrame
)

MAGIC: Final = b"ocf"
VERSION: Final = 5

_HEADER = struct.Struct(">III")
HEADER_BYTES: Final = _HEADER.size
_MAGIC = int.from_bytes(MAGIC)
_MOST = FRAME_BYTES - HEADER_BYTES

_COMMON = (Ack, Repair, StoredRow)  # they hold numbers of this site's own making
_read_header = _HEADER.unpack_from
_write_header = _HEADER.pack

Pack: TypeAlias = Callable[[Any], bytes]
"""A frame as the bytes that follow the header, in the form that a version has."""
Unpack: TypeAlias = Callable[[bytes | memoryview], WireFrame]
"""A frame from these bytes. Raises what MessagePack raises."""

pack_body: Final[Pack] = msgspec.msgpack.Encoder().encode
unpack_body: Final[Unpack] = msgspec.msgpack.Decoder(WireFrame).decode


class Codec:
    """Frames as bytes, in one version. `pack` and `unpack` are for bodies."""

    def __init__(self, version: int, pack: Pack = pack_body, unpack: Unpack = unpack_body) -> None:
        self.version = version
        self.start = _MAGIC << 8 | version  # the first four bytes of a frame
        self._pack = pack
        self._unpack = unpack

    def encode(self, frame: WireFrame) -> bytes:
        """The frame's bytes. Of a frame of a link, only the sizes are checked, which configuration
        could get wrong. Any other frame is rare, and is checked in full, by decoding it: if the
        other end refused it, that would cost the connection, and the next one too."""
        try:
            body = self._pack(frame)
        except (ValueError, OverflowError, TypeError) as error:
            raise FrameError(complaint(error, b"", WireFrame, "frame cannot be encoded")) from None
        if len(body) > _MOST:
            raise FrameError(
                f"frame of {len(body) + HEADER_BYTES:,} bytes, at most {FRAME_BYTES:,}"
            )
        checksum = crc32(body)
        inner = frame.frame if type(frame) is InEpoch else frame
        if type(inner) is Data:
            if len(inner.items) > ITEMS:
                raise FrameError(f"frame of {len(inner.items):,} items, at most {ITEMS:,}")
        elif type(inner) not in _COMMON:
            self.body(body, checksum)
        return _write_header(self.start, len(body), checksum) + body

    def decode(self, data: bytes | memoryview) -> WireFrame:
        """The frame that these bytes are, all of them; otherwise FrameError."""
        if len(data) < HEADER_BYTES:
            raise FrameError(f"frame of {len(data):,} bytes: a header alone has {HEADER_BYTES}")
        start, length, checksum = _read_header(data)
        body = data[HEADER_BYTES:]
        if start != self.start or length > _MOST:
            self.refuse(start, length, FRAME_BYTES)
        if length != len(body):
            raise FrameError(f"frame of {len(body):,} bytes after the header, which says {length}")
        return self.body(body, checksum)

    def body(self, body: bytes | memoryview, checksum: int) -> WireFrame:
        """The frame that follows a header with this checksum."""
        if crc32(body) != checksum:
            raise FrameError(f"checksum is {crc32(body):08x}, the header says {checksum:08x}")
        try:
            frame = self._unpack(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FrameError(complaint(error, body, WireFrame, "not a frame")) from None
        if type(frame) is InEpoch:  # nearly all are
            frame.frame.check()
        elif type(frame) is not StoredRow:  # that is a number alone
            frame.check()
        return frame

    def refuse(self, start: int, length: int, limit: int) -> NoReturn:
        """Raise FrameError for a header that is wrong."""
        magic = (start >> 8).to_bytes(3)
        if magic != MAGIC:
            raise FrameError(f"not a frame: it begins with {magic!r}, not {MAGIC!r}")
        if start != self.start:
            raise FrameError(f"frame of version {start & 0xFF}, this is version {self.version}")
        raise FrameError(f"frame of {length + HEADER_BYTES:,} bytes, at most {limit:,}")


NEWEST: Final = Codec(VERSION)
CODECS: Final[dict[int, Codec]] = {VERSION: NEWEST}
"""The versions that this program speaks, without a hole."""

encode_frame: Final = NEWEST.encode
decode_frame: Final = NEWEST.decode


class FrameEncoder:
    """Encodes what is written to several peers in turn, in one version.

    A site relays the same frame to all children that have had as many frames before. It is encoded,
    and its checksum computed, for the first of them. So is a record that the manager tells to all.
    """

    def __init__(self, codec: Codec = NEWEST) -> None:
        self._encode = codec.encode
        # to children, in the last write, by number and epoch
        self._known: dict[tuple[int, int], tuple[Data, bytes]] = {}
        self._told: tuple[WireFrame | None, bytes] = (None, b"")  # the last frame with records

    def encode(self, frames: Sequence[WireFrame]) -> list[bytes]:
        """The bytes of each frame. They are not joined: that would take a large piece of memory
        fresh from the system, which costs more than the checksum."""
        known, encode = self._known, self._encode
        now: dict[tuple[int, int], tuple[Data, bytes]] = {}
        encoded = []
        for frame in frames:
            epoch, inner = (frame.epoch, frame.frame) if type(frame) is InEpoch else (0, frame)
            if type(inner) is Data and inner.lane == DOWN:
                place = (inner.number, epoch)
                before = known.get(place)
                data = encode(frame) if before is None or before[0] != inner else before[1]
                now[place] = (inner, data)
            elif type(inner) is Feed or type(inner) is Append:
                if self._told[0] != frame:
                    self._told = (frame, encode(frame))
                data = self._told[1]
            else:
                data = encode(frame)
            encoded.append(data)
        if now:
            self._known = now
        return encoded


class FrameSplitter:
    """Finds whole frames in a byte stream; for TCP. Holds at most the one frame that is under way.

    Once it has raised it raises at every call: after wrong bytes it is not known where a frame
    begins, and the connection is useless.
    """

    def __init__(self, limit: int = FRAME_BYTES, codec: Codec = NEWEST) -> None:
        self._codec = codec
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
        view = data if type(data) is memoryview else memoryview(data)
        right, decode = self._codec.start, self._codec.body
        frames: list[WireFrame] = []
        at, end = 0, len(view)
        try:
            if self._part:
                at = self._complete(view, frames)
            while end - at >= HEADER_BYTES:
                start, length, checksum = _read_header(view, at)
                if start != right or length + HEADER_BYTES > self._limit:
                    self._codec.refuse(start, length, self._limit)
                after = at + HEADER_BYTES + length
                if after > end:
                    self._wanted = HEADER_BYTES + length
                    break
                frames.append(decode(view[at + HEADER_BYTES : after], checksum))
                at = after
        except FrameError as error:
            self._broken = str(error)
            self._part = bytearray()
            raise
        if at < end:
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
            if start != self._codec.start or length + HEADER_BYTES > self._limit:
                self._codec.refuse(start, length, self._limit)
            self._wanted = HEADER_BYTES + length
            if len(self._part) == self._wanted:
                whole, self._part, self._wanted = self._part, bytearray(), HEADER_BYTES
                frames.append(self._codec.body(memoryview(whole)[HEADER_BYTES:], checksum))
                break
        return at
