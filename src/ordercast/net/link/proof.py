"""Proof that both ends of a connection without certificates know the secret of the cluster.

    dialler   nonce
    acceptor  nonce, proof 1
    dialler   hello, proof 2
    acceptor  hello, proof 3

A proof is the HMAC-SHA-256, keyed with the secret, of its number and of everything said before it:
both nonces and the hellos, which name cluster, sites and direction. So the secret is never on the
wire. Recorded proofs are of no use, because each end draws a new nonce, and no proof can stand for
another, because each has its number. A hello is read only when its proof is right, and the dialler
sends its hello only to an acceptor that knows the secret. To anybody else the answer is one word:
refused.
"""

import hmac
import os
from typing import Final

from ordercast.net.link.complaints import LinkTrouble

MAGIC: Final = b"ocp"
VERSION: Final = 1
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
REFUSED: Final = MAGIC + b"\0"  # the answer to anybody who does not know the secret
REFUSED_WORD: Final = "refused"

NOT_PROVED: Final = "it does not prove the secret of the cluster"

_HEAD: Final = MAGIC + bytes([VERSION])
_ACCEPTOR, _DIALLER, _ANSWER = b"\1", b"\2", b"\3"


class Proof:
    """The proofs on one connection. `source` names the secret in complaints."""

    def __init__(self, secret: bytes, source: str, *, dialled: bool) -> None:
        self._secret = secret
        self._source = source
        self._dialled = dialled
        self._nonce = os.urandom(NONCE_BYTES)
        self._said = b""
        self.ready = False  # hellos may follow
        self.proved = False  # the other end's hello had its proof

    def begin(self) -> bytes:
        """The first bytes of the site that dialled."""
        return _HEAD + self._nonce

    def take(self, data: bytearray) -> bytes | None:
        """Take the other end's nonce from the beginning of `data`. Returns the answer. None: more
        bytes must come."""
        end = len(_HEAD) + NONCE_BYTES + (PROOF_BYTES if self._dialled else 0)
        self.require_willing(data)
        if data[: len(_HEAD)] != _HEAD[: len(data)]:
            raise LinkTrouble(NOT_PROVED, f"it begins with {bytes(data[:8])!r}")
        if len(data) < end:
            return None
        theirs = bytes(data[len(_HEAD) : len(_HEAD) + NONCE_BYTES])
        proof = bytes(data[len(_HEAD) + NONCE_BYTES : end])
        del data[:end]
        self._said = self._nonce + theirs if self._dialled else theirs + self._nonce
        ours = self._proof(_ACCEPTOR)
        if self._dialled and not hmac.compare_digest(ours, proof):
            raise LinkTrouble(
                NOT_PROVED,
                f"it has another secret than {self._source}: the sites of a cluster share one file"
                " ('secret' under [cluster] says where)",
            )
        self.ready = True
        return b"" if self._dialled else _HEAD + self._nonce + ours

    def require_willing(self, data: bytearray) -> None:
        """Raise LinkTrouble if the other end has refused."""
        if data[: len(REFUSED)] == REFUSED:
            detail = f"it refused: it may have another secret than {self._source}"
            raise LinkTrouble(NOT_PROVED, detail)

    def seal(self, hello: bytes) -> bytes:
        """Our hello, with the proof that it is ours."""
        self._said += hello
        return hello + self._proof(_DIALLER if self._dialled else _ANSWER)

    def check(self, hello: bytes, proof: bytes) -> None:
        self._said += hello
        if not hmac.compare_digest(self._proof(_ANSWER if self._dialled else _DIALLER), proof):
            raise LinkTrouble(NOT_PROVED, "its hello has a wrong proof")
        self.proved = True

    def _proof(self, number: bytes) -> bytes:
        return hmac.digest(self._secret, number + self._said, "sha256")
