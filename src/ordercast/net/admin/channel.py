"""The way of a client's frames over TCP: guarded, then as on a local socket.

A `Channel` stands between a TCP connection and the `Wire` of its frames. Its guard is TLS with
certificates on both sides, or, within one machine, the proof that both ends know the cluster's
secret. No frame passes before the guard is content, and what a stranger may send until then is
bounded. A client that dials reads and sends no frame before the other end has shown who it is.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, Protocol, cast

from ordercast.net.admin.frames import Wire
from ordercast.net.cluster.addresses import plain_host
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.proof import NOT_PROVED, PROOF_BYTES, REFUSED, Proof
from ordercast.net.link.tls import TlsSession

STRANGER_BYTES: Final = 32_768  # the most before the first frame is accepted: TLS and a hello
TOO_MUCH: Final = "too much before its hello"
PLAIN_BYTES: Final = 327_680  # decrypted at once: one read, and the rest of an earlier record

# The words under the proofs of a client and a daemon. No hello of a site begins like this, so a
# proof that is meant for a link is of no use here, and the other way round.
CLIENT_WORD: Final = b"occ\1"
DAEMON_WORD: Final = b"ocd\1"

# A machine that vanishes says nothing. The system asks it, and ends the connection.
_IDLE_S, _EVERY_S, _TIMES = 5, 5, 3
_KEEPALIVE = (("TCP_KEEPIDLE", _IDLE_S), ("TCP_KEEPINTVL", _EVERY_S), ("TCP_KEEPCNT", _TIMES))
_UNANSWERED_MS = 1_000 * (_IDLE_S + _EVERY_S * _TIMES)


class Guard(Protocol):
    """`ready`: the other end has shown who it is, and bytes of frames may pass."""

    ready: bool

    def begin(self) -> bytes:
        """The first bytes of the end that dialled."""

    def take(self, data: bytes, write: Callable[[bytes], None]) -> bytes:
        """The plain bytes in what has come. Answers of the guard are written. Raises LinkTrouble
        if the other end is not let in."""

    def seal(self, data: bytes) -> bytes:
        """Plain bytes as they go over the connection."""

    def goodbye(self) -> bytes:
        """The last bytes of this end."""


class TlsGuard:
    """TLS 1.3. The names in the other end's certificate are checked by the channel's owner, who
    also has the buffer for what is decrypted: all channels of one event loop can share it."""

    def __init__(self, session: TlsSession, plain: memoryview) -> None:
        self.session = session
        self.ready = False
        self._plain = plain

    def begin(self) -> bytes:
        self.session.handshake()
        return self.session.outgoing()

    def take(self, data: bytes, write: Callable[[bytes], None]) -> bytes:
        session = self.session
        session.feed(data)
        try:
            if not self.ready:
                self.ready = session.handshake()
            return self._read() if self.ready else b""
        finally:
            write(session.outgoing())  # also the alert that tells the other end why

    def _read(self) -> bytes:
        found = []
        while size := self.session.read_into(self._plain):
            found.append(bytes(self._plain[:size]))
            if size < len(self._plain):
                break
        return b"".join(found)

    def seal(self, data: bytes) -> bytes:
        return self.session.encrypt(data)

    def goodbye(self) -> bytes:
        return self.session.goodbye() if self.ready else b""


def plain_buffer() -> memoryview:
    return memoryview(bytearray(PLAIN_BYTES))


class ProofGuard:
    """The proof of the secret, with fixed words in the place of hellos. It does not encrypt: only
    root can read what passes on the loopback."""

    def __init__(self, proof: Proof, *, dialled: bool) -> None:
        self.ready = False
        self._proof = proof
        self._dialled = dialled
        self._held = bytearray()

    def begin(self) -> bytes:
        return self._proof.begin()

    def take(self, data: bytes, write: Callable[[bytes], None]) -> bytes:
        if self.ready:
            return data
        self._held += data
        try:
            self.ready = self._go_on(write)
        except LinkTrouble as trouble:
            if trouble.cause == NOT_PROVED and not self._dialled:
                write(REFUSED)
            raise
        if not self.ready:
            return b""
        rest, self._held = bytes(self._held), bytearray()
        return rest

    def _go_on(self, write: Callable[[bytes], None]) -> bool:
        """Take the next words. Returns whether both ends have proved that they know the secret."""
        proof = self._proof
        if not proof.ready:
            answer = proof.take(self._held)
            if answer is None:
                return False
            write(answer)
            if self._dialled:
                write(proof.seal(CLIENT_WORD))
        proof.require_willing(self._held)
        expected = DAEMON_WORD if self._dialled else CLIENT_WORD
        said = bytes(self._held[: len(expected)])
        if said != expected[: len(said)]:
            raise LinkTrouble(NOT_PROVED, f"it goes on with {said!r}")
        end = len(expected) + PROOF_BYTES
        if len(self._held) < end:
            return False
        proof.check(said, bytes(self._held[len(expected) : end]))
        del self._held[:end]
        if not self._dialled:
            write(proof.seal(DAEMON_WORD))
        return True

    def seal(self, data: bytes) -> bytes:
        return data

    def goodbye(self) -> bytes:
        return b""


class Channel(asyncio.Protocol):
    """To its wire this is a transport. `on_ready` is called when the guard is content, before the
    wire has a connection; it may raise LinkTrouble. `on_end`: the connection has ended, or never
    became one."""

    def __init__(
        self,
        wire: Wire,
        guard: Guard,
        *,
        dialled: bool,
        on_open: Callable[["Channel"], None] | None = None,
        on_ready: Callable[["Channel"], None] | None = None,
        on_end: Callable[["Channel"], None] | None = None,
    ) -> None:
        self.wire = wire
        self.guard = guard
        self.host = "?"
        self.bytes_in = 0
        self.accepted = dialled  # its hello is accepted: it may send more than a stranger
        self._dialled = dialled
        self._on_open, self._on_ready, self._on_end = on_open, on_ready, on_end
        self._socket: asyncio.Transport | None = None
        self._over = False
        wire.transport = cast(asyncio.Transport, self)  # so that closing the wire ends this

    # --- of the connection ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's does not say that it is one
        if self._over:  # it was given up before there was a connection
            self._socket.abort()
            return
        name = transport.get_extra_info("peername")
        self.host = plain_host(name[0]) if name else "?"
        _keep_alive(transport.get_extra_info("socket"))
        if self._on_open is not None:
            self._on_open(self)
        if self._dialled and not self._over:
            try:
                self._write(self.guard.begin())
            except LinkTrouble as trouble:
                self.fail(trouble)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self.bytes_in += len(data)
        try:
            if not self.accepted and self.bytes_in > STRANGER_BYTES:
                raise LinkTrouble(TOO_MUCH, f"more than {STRANGER_BYTES:,} bytes")
            was_ready = self.guard.ready
            plain = self.guard.take(data, self._write)
            if self.guard.ready and not was_ready:
                if self._on_ready is not None:
                    self._on_ready(self)
                if not self._over:
                    self.wire.connection_made(cast(asyncio.Transport, self))
        except LinkTrouble as trouble:
            self.fail(trouble)
            return
        if plain and not self._over:
            self.wire.data_received(plain)

    def connection_lost(self, error: Exception | None) -> None:
        self._over = True
        self._socket = None
        self.wire.connection_lost(error)
        if self._on_end is not None:
            self._on_end(self)

    def fail(self, trouble: LinkTrouble) -> None:
        """Close it; an alert that tells the other end why still goes out."""
        if self._over:
            return
        self._over = True
        self.wire.transport = None
        self.wire.fail(str(trouble))
        if self._socket is not None:
            self._socket.close()

    def _write(self, data: bytes) -> None:
        if data and self._socket is not None and not self._socket.is_closing():
            self._socket.write(data)

    # --- as the transport of the wire -------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self._over:
            return
        try:
            self._write(self.guard.seal(data))
        except LinkTrouble as trouble:
            self.fail(trouble)

    def pause_reading(self) -> None:
        if self._socket is not None:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        if self._socket is not None:
            self._socket.resume_reading()

    def is_closing(self) -> bool:
        return self._over or self._socket is None or self._socket.is_closing()

    def get_write_buffer_size(self) -> int:
        return 0 if self._socket is None else self._socket.get_write_buffer_size()

    def close(self) -> None:
        """Close it when everything that was written has gone out."""
        if not self._over:
            self._write(self.guard.goodbye())
            self._over = True
        if self._socket is not None:
            self._socket.close()

    def abort(self) -> None:
        self._over = True
        if self._socket is not None:
            self._socket.abort()


def _keep_alive(end: socket.socket | None) -> None:
    if end is None:
        return
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", _UNANSWERED_MS)):
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            end.setsockopt(socket.IPPROTO_TCP, option, value)
