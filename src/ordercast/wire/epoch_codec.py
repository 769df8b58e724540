"""Frames of sites whose groups change, as bytes: a checksum, then the frame in MessagePack."""

from zlib import crc32

import msgspec

from ordercast.model.errors import FrameError
from ordercast.wire.checks import is_plain
from ordercast.wire.epoch_checks import check_site_frame
from ordercast.wire.epochs import InEpoch, SiteFrame
from ordercast.wire.frames import Data
from ordercast.wire.limits import FRAME_BYTES

_CHECKSUM_BYTES = 4
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SiteFrame).decode


def encode_site_frame(frame: SiteFrame) -> bytes:
    body = _encode(frame)
    if len(body) + _CHECKSUM_BYTES > FRAME_BYTES:
        raise FrameError(f"frame of {len(body)} bytes, at most {FRAME_BYTES}")
    return crc32(body).to_bytes(_CHECKSUM_BYTES, "big") + body


def decode_site_frame(data: bytes) -> SiteFrame:
    """The frame that these bytes are, all of them; otherwise FrameError."""
    body = data[_CHECKSUM_BYTES:]
    if crc32(body) != int.from_bytes(data[:_CHECKSUM_BYTES], "big"):
        raise FrameError("checksum of a frame does not match")
    try:
        frame: SiteFrame = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FrameError(f"not a frame: {error}") from None
    plain = isinstance(frame, InEpoch) and type(frame.frame) is Data and is_plain(frame.frame)
    if not plain:
        check_site_frame(frame)
    return frame
