"""Versions that are not there yet: what a newer program would speak, for tests of two releases.

Bodies of a pretended version begin with a byte more. So a frame of one version is never right in
another one, and a connection that mixes them breaks.
"""

from typing import Any

import msgspec

from ordercast.net.admin.frames import AdminCodec, Decode
from ordercast.wire.codec import CODECS, Codec, WireFrame, pack_body, unpack_body

_MARK = b"\xc1"  # no MessagePack begins with it


def _packed(frame: Any) -> bytes:
    return _MARK + pack_body(frame)


def _unmarked(body: bytes | memoryview) -> bytes | memoryview:
    if bytes(body[:1]) != _MARK:
        raise msgspec.DecodeError("not a body of a pretended version")
    return body[1:]


def _unpacked(body: bytes | memoryview) -> WireFrame:
    return unpack_body(_unmarked(body))


def pretended(version: int) -> Codec:
    return Codec(version, _packed, _unpacked)


def speaking(*versions: int) -> dict[int, Codec]:
    """The codecs of a program that speaks these versions."""
    return {version: CODECS.get(version) or pretended(version) for version in versions}


def pretended_admin() -> AdminCodec:
    there = AdminCodec()

    def after_mark(decode: Decode) -> Decode:
        return lambda body: decode(bytes(_unmarked(body)))

    return AdminCodec(
        lambda frame: _MARK + there.encode(frame),
        after_mark(there.request),
        after_mark(there.reply),
    )
