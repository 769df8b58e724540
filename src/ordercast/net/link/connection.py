"""One connection to a peer, or to a stranger until its hello is accepted: TCP, or a pipe.

Reading: the event loop fills a buffer that all connections of a site share. All frames of one read
are decoded and handed over in one call, before the next read. Writing: one write for each call of
`send`. A stranger can make us hold one small read and one hello, no more.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from ordercast.model.errors import Error, FrameError
from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.net.cluster.addresses import plain_host
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.hello import NOT_A_HELLO, Hello, encode_hello, split_hello
from ordercast.net.link.proof import NOT_PROVED, PROOF_BYTES, REFUSED, Proof
from ordercast.net.link.tls import TlsSession
from ordercast.wire.codec import NEWEST, Codec, FrameEncoder, FrameSplitter, WireFrame
from ordercast.wire.epochs import Fed, InEpoch
from ordercast.wire.frames import Ack
from ordercast.wire.pipes import PIPE_FRAMES, PipeFrame

READ_BYTES: Final = 262_144
STRANGER_READ_BYTES: Final = 4_096
PLAIN_BYTES: Final = READ_BYTES + 65_536  # decrypted: one read, and the rest of an earlier record

TOO_SLOW: Final = "too slow to say hello"
TOO_MUCH: Final = "too much before its hello"
NOT_READING: Final = "it does not read"
WRONG_FRAME: Final = "wrong frame"
NOT_SENT: Final = "a frame for it was not sent"
SILENT: Final = "silent"


_OF_TRANSPORTS = (Ack, *PIPE_FRAMES)  # a ping is an Ack


def of_a_guest(frames: Sequence[WireFrame]) -> list[WireFrame]:
    """The frames that a guest is allowed to send: it may only tell how many records it knows."""
    return [Fed(frame.count, ()) for frame in frames if isinstance(frame, Fed)]


@dataclass(frozen=True, slots=True)
class LinkLimits:
    strangers: int = 256  # connections without an accepted hello
    strangers_elsewhere: int = 128  # strangers from hosts where no peer is
    crowd: int = 32  # strangers that are a crowd: they get less time
    stranger_bytes: int = 32_768  # the most that a stranger may send: a TLS handshake and a hello
    guests: int = 32  # connected sites that are no longer in this cluster
    # The most pipes that are relayed here, and that end here; the most that are relayed for one
    # site. None: as many as the peers may need (`net.link.pipes`).
    pipes: int | None = None
    pipes_of_peer: int | None = None
    congested_bytes: int = 1_048_576  # waiting bytes at which the driver is told to wait
    write_bytes: int = 67_108_864  # waiting bytes at which the connection is dropped


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """Times in nanoseconds."""

    suspect: int = SECOND
    handshake: int = 5 * SECOND
    hurry: int = SECOND  # as `handshake`, while there is a crowd
    redial_least: int = SECOND // 20
    redial_most: int = 2 * SECOND
    linger: int = SECOND  # how long the second of two connections is still read


class ConnectionOwner(Protocol):
    """What a connection asks of the transport."""

    limits: LinkLimits
    times: LinkTimes
    read_buffer: memoryview
    plain_buffer: memoryview

    def encoder(self, codec: Codec) -> FrameEncoder:
        """The encoder of all connections that speak this version."""

    def opened(self, connection: "Connection") -> None: ...
    def secured(self, connection: "Connection") -> None: ...
    def greeted(self, connection: "Connection", hello: Hello) -> None: ...
    def took(self, peer: Site, frames: list[WireFrame]) -> None: ...
    def piped(self, connection: "Connection", frame: PipeFrame) -> None: ...
    def pinged(self, connection: "Connection") -> None: ...
    def congested(self, connection: "Connection", congested: bool) -> None: ...
    def complain(self, connection: "Connection", trouble: LinkTrouble) -> None: ...
    def ended(self, connection: "Connection", error: Exception | None) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """`dialled` is the site that this site dialled, None on an accepted connection. `through` is
    the site that relays the connection, empty on a direct one."""

    def __init__(
        self,
        owner: ConnectionOwner,
        dialled: Site | None,
        session: TlsSession | None,
        proof: Proof | None = None,
        through: Site = "",
    ) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._buffer = owner.read_buffer[:STRANGER_READ_BYTES]
        self._session = session
        self._secure = session is None  # there is no TLS, or its handshake is done
        self._proof = proof
        self._greeting = bytearray()
        self._codec = NEWEST  # until `admit`
        self._splitter = FrameSplitter()
        self._encoder = owner.encoder(NEWEST)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.dialled = dialled
        self.through = through
        self.peer: Site | None = None  # known when its hello is accepted
        self.claimed: Site | None = None  # the name in its hello, accepted or not
        self.host = "?"
        self.complaint: LinkTrouble | None = None  # why this site closed it
        self.over = False  # nothing more is read or written
        self.our_number = self.their_number = 0  # the numbers of the two hellos
        self.boot = 0  # the peer's
        self.terms: Mapping[str, str] = {}  # the terms in the peer's hello
        self.features: tuple[str, ...] = ()  # of the peer's program
        self.program = ""  # the version of the peer's program
        self.parted = False  # the other site is no peer any more
        self.guest = False  # the other site is no longer in this cluster
        self.heard_at = self.wrote_at = self._loop.time()
        self.bytes_in = self.bytes_out = self.frames_in = self.frames_out = 0

    # --- beginning ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's does not say that it is one
        self._transport = transport
        name = transport.get_extra_info("peername")
        self.host = plain_host(name[0]) if name else "?"
        high = self._owner.limits.congested_bytes
        transport.set_write_buffer_limits(high=high, low=high // 4)
        self._timer = self._loop.call_later(
            self._owner.times.handshake / SECOND, self.fail, LinkTrouble(TOO_SLOW)
        )
        try:
            self._owner.opened(self)
            if self._proof is not None:
                if self.dialled is not None:
                    self._write(self._proof.begin())
            elif self._session is None:
                self._owner.secured(self)
            elif self.dialled is not None:
                self._shake_hands()
        except LinkTrouble as trouble:
            self.fail(trouble)

    def _shake_hands(self) -> None:
        assert self._session is not None
        try:
            self._secure = self._session.handshake()
        finally:
            self._write(self._session.outgoing())  # also the alert that tells the peer why
        if self._secure:
            self._owner.secured(self)

    @property
    def session(self) -> TlsSession | None:
        return self._session

    @property
    def proved(self) -> bool:
        """Whether its hello came with a certificate of the cluster, or with a proof."""
        return self._session is not None or (self._proof is not None and self._proof.proved)

    def say(self, hello: Hello) -> None:
        self.our_number = hello.number
        said = encode_hello(hello)
        self._send(said if self._proof is None else self._proof.seal(said))

    def admit(self, hello: Hello, codec: Codec) -> None:
        """Its hello is accepted: frames follow, in the version of the codec."""
        self.peer, self.their_number, self.terms = hello.site, hello.number, hello.terms
        self.boot, self.features, self.program = hello.boot, hello.features, hello.program
        self._codec, self._encoder = codec, self._owner.encoder(codec)
        self._splitter = FrameSplitter(codec=codec)
        self._buffer = self._owner.read_buffer
        if self._timer is not None:
            self._timer.cancel()

    # --- reading --------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.over:
            return
        self.heard_at = self._loop.time()
        self.bytes_in += nbytes
        data = self._buffer[:nbytes]
        try:
            if self._session is not None:
                data = self._decrypt(self._session, data)
            if self.peer is not None:
                self._take(data)
            elif data:
                self._greet(data)
        except LinkTrouble as trouble:
            if trouble.cause == NOT_PROVED:
                self._write(REFUSED)
            self.fail(trouble)
        except Error as error:  # the codec or the site refuses a frame
            self.fail(LinkTrouble(WRONG_FRAME, str(error)))

    def _decrypt(self, session: TlsSession, data: memoryview) -> memoryview:
        session.feed(data)
        if self.peer is None and self.bytes_in > self._owner.limits.stranger_bytes:
            raise LinkTrouble(TOO_MUCH, f"more than {self._owner.limits.stranger_bytes:,} bytes")
        if not self._secure:
            self._shake_hands()
            if not self._secure:
                return data[:0]
        plain = self._owner.plain_buffer
        try:
            return plain[: session.read_into(plain)]
        finally:
            self._write(session.outgoing())  # new keys, or the alert that tells what is wrong

    def _greet(self, data: memoryview) -> None:
        self._greeting += data
        if self._proof is not None and not self._proof.ready:
            answer = self._proof.take(self._greeting)
            if answer is None:
                return
            self._write(answer)
            self._owner.secured(self)
        if self._proof is not None:
            self._proof.require_willing(self._greeting)
        found = split_hello(self._greeting)
        if found is None:
            return
        hello, end = found
        if self._proof is not None:
            end += PROOF_BYTES
            if len(self._greeting) < end:
                return
            said = bytes(self._greeting[:end])
            self._proof.check(said[:-PROOF_BYTES], said[-PROOF_BYTES:])
        rest, self._greeting = memoryview(self._greeting)[end:], bytearray()
        self.claimed = hello.site
        self._owner.greeted(self, hello)
        if not self.over:
            self._take(rest)

    def _take(self, data: memoryview) -> None:
        frames = self._splitter.feed(data)
        self.frames_in += len(frames)
        for frame in frames:
            if type(frame) is not InEpoch and isinstance(frame, _OF_TRANSPORTS):
                frames = self._without_own(frames)
                break
        if self.guest:
            frames = of_a_guest(frames)
        if frames:
            assert self.peer is not None
            self._owner.took(self.peer, frames)

    def _without_own(self, frames: list[WireFrame]) -> list[WireFrame]:
        """The frames that are for the site. Pings and frames of pipes go to the transport."""
        rest: list[WireFrame] = []
        for frame in frames:
            if isinstance(frame, PIPE_FRAMES):
                self._owner.piped(self, frame)
            elif type(frame) is not Ack or not is_ping(frame):
                rest.append(frame)
            else:
                self._owner.pinged(self)
        return rest

    @property
    def version(self) -> int:
        """The version of the wire format that both ends agreed on."""
        return self._codec.version

    @property
    def cut(self) -> bool:
        """Whether the connection ended within a frame."""
        return self._splitter.held > 0

    # --- writing --------------------------------------------------------------------------------

    def send(self, frames: Sequence[WireFrame]) -> None:
        if self.over:
            return
        try:
            encoded = self._encoder.encode(frames)
        except FrameError:
            encoded = self._encodable(frames)
        if not encoded:
            return
        self.frames_out += len(encoded)
        if self._session is None:
            self.wrote_at = self._loop.time()
            self._write(*encoded)
        else:
            self._send(b"".join(encoded))

    def _encodable(self, frames: Sequence[WireFrame]) -> list[bytes]:
        """The frames as bytes. A frame that the other end would refuse is left out: it would drop
        the connection."""
        encoded = []
        for frame in frames:
            try:
                encoded.append(self._codec.encode(frame))
            except FrameError as error:
                detail = f"{type(frame).__name__}: {error}"
                self._owner.complain(self, LinkTrouble(NOT_SENT, detail))
        return encoded

    def ping(self, boot: int) -> None:
        if not self.over:  # it may have failed, and `connection_lost` has yet to come
            self._send(self._codec.encode(Ack(boot, 0, ())))

    def _send(self, data: bytes) -> None:
        self.wrote_at = self._loop.time()
        try:
            self._write(data if self._session is None else self._session.encrypt(data))
        except LinkTrouble as trouble:
            self.fail(trouble)

    def _write(self, *pieces: bytes) -> None:
        transport = self._transport
        if not pieces[0] or transport is None or transport.is_closing():
            return
        if len(pieces) == 1:  # the common case
            self.bytes_out += len(pieces[0])
            transport.write(pieces[0])
        else:
            self.bytes_out += sum(map(len, pieces))
            transport.writelines(pieces)
        waiting = transport.get_write_buffer_size()
        if waiting > self._owner.limits.write_bytes:
            self.fail(LinkTrouble(NOT_READING, f"{waiting:,} bytes wait for it"))

    @property
    def waiting(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        self._owner.congested(self, True)

    def resume_writing(self) -> None:
        self._owner.congested(self, False)

    # --- ending ---------------------------------------------------------------------------------

    def fail(self, trouble: LinkTrouble) -> None:
        """Close the connection, and log the reason once."""
        if self.over:
            return
        self.complaint = trouble
        self._owner.complain(self, trouble)
        if self.peer is None:
            self.close()  # not `abort`: the alert or the answer that tells why still goes out
        else:
            self.abort()

    def close(self) -> None:
        """Close the connection when everything that was written has gone out."""
        if self.over or self._transport is None:
            return
        if self._session is not None and self._secure:
            self._write(self._session.goodbye())
        self.over = True
        self._transport.close()

    def abort(self) -> None:
        self.over = True
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        if self.peer is None and self.complaint is None and self._greeting:
            self.complaint = LinkTrouble(NOT_A_HELLO, "it ended before its hello did")
            self._owner.complain(self, self.complaint)
        self._owner.ended(self, exc)


def is_ping(frame: Ack) -> bool:
    """Whether the frame is only a sign of life. In an acknowledgement of a site `of` is never 0."""
    return not frame.of and not frame.acks
