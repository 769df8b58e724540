"""Datagrams sealed with the key of a stream.

Where the cluster has certificates they are encrypted, with AES-256-GCM (extra `certs`): TLS hides
payloads on connections, so datagrams must not show them. Where it has none they are authenticated
only, with HMAC-SHA-256 cut to 16 bytes. The header is authenticated in both. Under one key a number
is used for one text only, as GCM requires: a piece that another site sends again has the same
bytes, and every other datagram is numbered by its one sender.
"""

import hmac
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from ordercast.model.errors import ConfigError, FrameError
from ordercast.wire.datagrams import (
    HEADER_BYTES,
    Datagram,
    decode_datagram,
    encode_datagram,
    split_header,
)

TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = HEADER_BYTES + TAG_BYTES

_SERIAL = slice(HEADER_BYTES - 8, HEADER_BYTES)


class Forged(FrameError):
    """A datagram that no holder of the key has sealed."""


class Seal(Protocol):
    def close(self, header: bytes, rest: bytes) -> bytes: ...

    def open(self, header: bytes, sealed: bytes) -> bytes: ...


class AuthenticSeal:
    """HMAC-SHA-256: readable by all, made by holders of the key only."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def _tag(self, header: bytes, rest: bytes) -> bytes:
        return hmac.digest(self._key, header + rest, "sha256")[:TAG_BYTES]

    def close(self, header: bytes, rest: bytes) -> bytes:
        return rest + self._tag(header, rest)

    def open(self, header: bytes, sealed: bytes) -> bytes:
        rest, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(header, rest)):
            raise Forged("its tag is wrong")
        return rest


class SecretSeal:
    """AES-256-GCM."""

    def __init__(self, key: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)
        self._wrong = InvalidTag

    @staticmethod
    def _nonce(header: bytes) -> bytes:
        return header[4:5] + b"\0\0\0" + header[_SERIAL]

    def close(self, header: bytes, rest: bytes) -> bytes:
        return self._cipher.encrypt(self._nonce(header), rest, header)

    def open(self, header: bytes, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(self._nonce(header), sealed, header)
        except self._wrong:
            raise Forged("its tag is wrong") from None


MakeSeal: TypeAlias = Callable[[bytes], Seal]


def seal_for(*, secret: bool) -> MakeSeal:
    if not secret:
        return AuthenticSeal
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ConfigError(
            "dissemination: 'multicast' with certificates needs the extra 'certs'"
            " (pip install 'ordercast[certs]')"
        ) from None
    return SecretSeal


def seal_datagram(datagram: Datagram, seal: Seal) -> bytes:
    header, rest = encode_datagram(datagram)
    return header + seal.close(header, rest)


def open_datagram(data: bytes, seals: Callable[[int], Seal | None]) -> Datagram | None:
    """Open a datagram. None: its stream is not known. Raises Forged or FrameError if it is not
    valid."""
    header = split_header(data)
    seal = seals(header[2])
    if seal is None:
        return None
    if len(data) < OVERHEAD_BYTES:
        raise FrameError(f"datagram of {len(data):,} bytes: it has no tag")
    return decode_datagram(header, seal.open(data[:HEADER_BYTES], data[HEADER_BYTES:]))
