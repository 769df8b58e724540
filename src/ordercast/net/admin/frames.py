"""The frames between a client and a daemon, and their encoding.

A frame is four bytes of length, big-endian, and a msgpack array whose first element is its kind.
Everything has a limit. The first frame of a client is `ClientHello`; the daemon answers `Welcome`.
Requests are answered by id, sends by their number. The numbers of a client grow by one. A client
that connects again repeats the sends that were not yet accepted, marked `again`.

Client and daemon may be of two releases. The first frames keep their form for ever: new fields come
at the end, and a reader ignores fields that it does not know. They agree on the highest version
that both speak, and all later frames are of that version.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model import errors
from ordercast.model.epochs import (
    AddProducer,
    Edit,
    Grant,
    RemoveProducer,
    RevokeCertificate,
    UseGrants,
    Withdraw,
)
from ordercast.model.errors import Error, FrameError
from ordercast.model.fields import Natural, Ordinal, Packed
from ordercast.model.groups import Group, Site
from ordercast.model.limits import (
    BATCH_MESSAGES,
    BODY_BYTES,
    ENVELOPE_BYTES,
    ID_CHARACTERS,
    MEMBERS,
    READER_GROUPS,
    RECORDS,
)
from ordercast.model.messages import CLIENT_BYTES, STAGES, Placed, pack_payloads, unpack_payloads
from ordercast.wire.replica_digest import ReplicaDigest

VERSION = 6
FIRST = 5  # the first version that clients and daemons agree on
FRAME_BYTES = BODY_BYTES + 4 * 1024 * 1024  # the largest batch and its header
PIECE_BYTES = 262_144  # of a store's copy, in one answer
COALESCE_BYTES = 262_144  # written at once, also within a turn of the loop

Name: TypeAlias = Annotated[str, Meta(max_length=64)]
ClientId: TypeAlias = Annotated[bytes, Meta(min_length=CLIENT_BYTES, max_length=CLIENT_BYTES)]
Text: TypeAlias = Annotated[str, Meta(max_length=2_000)]

ACCEPTED, ORDERED, STABLE = 1, 2, 3
STAGE_NAMES = ("", *STAGES)  # by these numbers


# --- of the client --------------------------------------------------------------------------------


class ClientHello(Packed, frozen=True, tag=1, forbid_unknown_fields=False):
    """The client speaks the versions from `lowest` to `version`. A client that does not know the
    cluster's name, or which site answers, says "" for it."""

    version: int
    cluster: Name
    site: Name
    client: ClientId
    lowest: int = FIRST
    stamps: bool = False  # it takes `GroupMarks`


class Send(Packed, frozen=True, tag=2):
    """A batch for a group, or (then the group is "") for listed sites; `body` is packed. If its
    envelope names groups, the daemon lists their members, and not the sites.

    The client knows that its sends up to the number `answered` are accepted.
    """

    number: Ordinal
    group: Name
    sites: Annotated[tuple[Name, ...], Meta(max_length=MEMBERS)]
    count: Annotated[int, Meta(ge=1, le=BATCH_MESSAGES)]
    body: Annotated[bytes, Meta(max_length=BODY_BYTES + ENVELOPE_BYTES)]
    again: bool
    answered: Natural


class Watch(Packed, frozen=True, tag=3):
    """Say what becomes of a send of this client that was accepted on an earlier connection."""

    number: Ordinal
    group: Name
    seq: Ordinal
    count: Annotated[int, Meta(ge=1, le=BATCH_MESSAGES)]


class Subscribe(Packed, frozen=True, tag=4):
    """Deliveries from `start` on; None: from the first that is not confirmed. `observe`: for an
    observer, whom nobody waits for. `attempt`: the last one that the client has heard of, or 0."""

    id: Ordinal
    start: Ordinal | None
    observe: bool
    attempt: Natural = 0


class Credit(Packed, frozen=True, tag=5):
    """The daemon may send this much more to the subscription. The client has read up to `read`."""

    id: Ordinal
    messages: Natural
    bytes: Natural
    read: Natural


class Unsubscribe(Packed, frozen=True, tag=6):
    id: Ordinal


class Confirm(Packed, frozen=True, tag=7):
    """`attempt`: the attempt that the application has come to, or 0."""

    id: Ordinal
    position: Natural
    attempt: Natural = 0


class StatusRequest(Packed, frozen=True, tag=8):
    id: Ordinal


class Change(Packed, frozen=True, tag=9):
    """Change the cluster; repeated on a new connection under the same name, so it is done once."""

    id: Ordinal
    name: Text
    edits: Annotated[tuple[Edit, ...], Meta(min_length=1, max_length=RECORDS)]


class DigestRequest(Packed, frozen=True, tag=10):
    """A replica tells its position, if it has one, and what it finds wrong. The answer has what the
    other members told last (MessagePack)."""

    id: Ordinal
    group: Name
    digest: ReplicaDigest | None
    alarm: Text


class Follow(Packed, frozen=True, tag=11):
    """The deliveries of a named reader, when this follower has the turn. `groups`: make the reader
    if there is none; `("*",)`: of all groups; None: it must be there. `number`: the reader that the
    client had before (0: none); then it has read up to `position`, and knows `attempt`."""

    id: Ordinal
    reader: Name
    groups: Annotated[tuple[Name, ...], Meta(max_length=READER_GROUPS)] | None
    number: Natural = 0
    position: Natural = 0
    attempt: Natural = 0


class ReadRange(Packed, frozen=True, tag=12):
    """The deliveries of a named reader's groups from `start` to `end`; it needs no turn."""

    id: Ordinal
    reader: Name
    start: Ordinal
    end: Ordinal


class ConfirmRead(Packed, frozen=True, tag=13):
    """The follower `follow` of this connection is done with everything up to `position`."""

    id: Ordinal
    follow: Ordinal
    position: Natural
    attempt: Natural = 0


class ReaderReset(Packed, frozen=True, tag=14):
    """Let a named reader go on with `position`. 0: the first that is kept; None: behind all that
    was delivered."""

    id: Ordinal
    reader: Name
    position: Natural | None


class ReaderRemoval(Packed, frozen=True, tag=15):
    id: Ordinal
    reader: Name


class Produce(Packed, frozen=True, tag=16):
    """A batch of a producer for a group. `at`: its number there. `after`: the number before it that
    this client has sent there and that was not rejected, or 0. It is sent again, on every
    connection, until it is stable."""

    number: Ordinal
    group: Name
    count: Annotated[int, Meta(ge=1, le=BATCH_MESSAGES)]
    body: Annotated[bytes, Meta(max_length=BODY_BYTES)]
    producer: Name
    at: Ordinal
    after: Natural


class SendById(Packed, frozen=True, tag=17):
    """A batch for a group with an id of its sender's own. `since`: the mark of the group's ids when
    it was first sent. It is sent again, on every connection, until it is stable."""

    number: Ordinal
    group: Name
    count: Annotated[int, Meta(ge=1, le=BATCH_MESSAGES)]
    body: Annotated[bytes, Meta(max_length=BODY_BYTES)]
    chosen: Annotated[str, Meta(min_length=1, max_length=ID_CHARACTERS)]
    since: Ordinal


class IdMarkRequest(Packed, frozen=True, tag=18):
    """The mark of a group's ids; the answer's body is the number, in JSON."""

    id: Ordinal
    group: Name


class TimesRequest(Packed, frozen=True, tag=19):
    """When the site logged the batches from the one that holds `start` on, by its own clock. The
    answer's body is JSON: [position, messages, nanoseconds since 1970] of each batch that the
    client may look at."""

    id: Ordinal
    start: Ordinal


class SendOnce(Packed, frozen=True, tag=20):
    """A batch for a group that remembers clients. `stamp`: the mark of its clients when the request
    was first sent. `after`: the number of the stamped request before it to the group that was not
    rejected, or 0. It is sent again, on every connection, until it is stable."""

    number: Ordinal
    group: Name
    count: Annotated[int, Meta(ge=1, le=BATCH_MESSAGES)]
    body: Annotated[bytes, Meta(max_length=BODY_BYTES + ENVELOPE_BYTES)]
    stamp: Ordinal
    after: Natural


class CopyRequest(Packed, frozen=True, tag=21):
    """Copy the site's store, as it is now, for this connection to fetch in pieces. The answer's
    body is JSON: `site`, `bytes` and `sha256` of the copy. A daemon has one copy at a time."""

    id: Ordinal


class CopyPiece(Packed, frozen=True, tag=22):
    """The bytes of the copy from `offset` on, `PIECE_BYTES` at most. At its end the answer is
    empty, and the copy is gone."""

    id: Ordinal
    offset: Natural


class SendListedOnce(SendOnce, frozen=True, tag=23):
    """The same for a list of sites, as it was when it was first sent; the group is its name.
    `again`: it was sent before."""

    sites: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MEMBERS)]
    again: bool


class GrantsRequest(Packed, frozen=True, tag=24):
    """Who may do what. The answer's body is JSON: the table and the revoked certificates."""

    id: Ordinal


ClientFrame: TypeAlias = (
    ClientHello
    | Send
    | Watch
    | Subscribe
    | Credit
    | Unsubscribe
    | Confirm
    | StatusRequest
    | Change
    | DigestRequest
    | Follow
    | ReadRange
    | ConfirmRead
    | ReaderReset
    | ReaderRemoval
    | Produce
    | SendById
    | IdMarkRequest
    | TimesRequest
    | SendOnce
    | SendListedOnce
    | CopyRequest
    | CopyPiece
    | GrantsRequest
)


# --- of the daemon --------------------------------------------------------------------------------


class Targets(Packed, frozen=True, tag=9, forbid_unknown_fields=False):
    """What a client can send to now: the sites, the groups, and the sites of each domain; and the
    features that the cluster uses. It is in the welcome, and sent again whenever it has changed."""

    sites: tuple[Site, ...]
    groups: tuple[tuple[Group, tuple[Site, ...]], ...]
    domains: tuple[tuple[Site, ...], ...]
    features: tuple[str, ...] = ()


class ServedCluster(Packed, frozen=True, forbid_unknown_fields=False):
    """What a client needs to know of the cluster."""

    name: str
    deliver: str
    on_failure: str
    causal: bool
    message_bytes: int


class GroupMarks(Packed, frozen=True, tag=15):
    """The groups that remember clients, each with its mark: requests to them are stamped with it.
    Of lists of sites, those that the daemon has heard of; 0: nothing is stamped now. Sent whenever
    it has changed, but not more often than the daemon looks."""

    marks: tuple[tuple[Group, int], ...]


class Welcome(Packed, frozen=True, tag=1, forbid_unknown_fields=False):
    """`version`: of all later frames, both ways. `messages` and `bytes`: how much a client may have
    under way that is not yet accepted. `store`: the number of the site's store, in which it counts
    positions and remembers requests; 0: it is not told."""

    version: int
    site: Site
    boot: int
    incarnation: int
    messages: int
    bytes: int
    targets: Targets
    served: ServedCluster
    produces: bool = False  # it takes `Produce`
    takes_ids: bool = False  # it takes `SendById` and `IdMarkRequest`
    tells_times: bool = False  # it takes `TimesRequest`
    takes_stamps: bool = False  # it takes `SendOnce`
    marks: tuple[tuple[Group, int], ...] = ()  # as in `GroupMarks`
    cuts_requests: bool = False  # with a batch whose end it cuts off
    copies: bool = False  # it takes `CopyRequest` and `CopyPiece`
    store: int = 0
    tells_grants: bool = False  # it takes `GrantsRequest`


class DaemonRefusal(Packed, frozen=True, tag=2, forbid_unknown_fields=False):
    """The last frame of a connection that the daemon closes, and why; `final`: it would be the
    same next time."""

    reason: Text
    final: bool
    kind: str = "Error"


class StagesReached(Packed, frozen=True, tag=3):
    """(number, stage, group, first seq) of this client's sends, in the order they got there."""

    reached: tuple[tuple[int, int, Group, int], ...]


class Rejected(Packed, frozen=True, tag=4):
    """A send that was not accepted and never will be."""

    number: int
    kind: str
    reason: Text


class SubscribedBatches(Packed, frozen=True, tag=5):
    """(position, epoch, batch, attempt) for a subscription."""

    id: int
    batches: tuple[tuple[int, int, Placed, int], ...]


class Shed(Packed, frozen=True, tag=8):
    """In place of a batch: its messages were shed, and the application of this site does not get
    them."""

    id: int
    position: int
    epoch: int
    group: Group
    origin: Site
    incarnation: int
    seq: int
    count: int


class Withheld(Packed, frozen=True, tag=12):
    """In place of a batch: its messages are not for this client, which has no grant to read
    them."""

    id: int
    position: int
    count: int

    @property
    def last(self) -> int:
        return self.position + self.count - 1


class Opened(Packed, frozen=True, tag=10):
    """Between two batches of a subscription: an epoch opens."""

    id: int
    opened: EpochOpened


class Rolled(Packed, frozen=True, tag=11):
    """The deliveries of a subscription after a position are taken back."""

    id: int
    rolled: Rollback


class TurnGiven(Packed, frozen=True, tag=13):
    """A follower has the turn: deliveries come from behind `position`, in `attempt`. `number`: of
    the reader."""

    id: int
    number: int
    position: int
    attempt: int


class RangeEnd(Packed, frozen=True, tag=14):
    """All of a range was sent."""

    id: int


class Answer(Packed, frozen=True, tag=6):
    """The answer to a StatusRequest (JSON), a DigestRequest, a ReaderReset (the position, JSON), or
    a request whose docstring names its answer; to others it is empty."""

    id: int
    body: bytes


class Failed(Packed, frozen=True, tag=7):
    """A request with this id, or a subscription, ended with an error."""

    id: int
    kind: str
    reason: Text


DaemonFrame: TypeAlias = (
    Welcome
    | DaemonRefusal
    | StagesReached
    | Rejected
    | SubscribedBatches
    | Shed
    | Withheld
    | Answer
    | Failed
    | Targets
    | Opened
    | Rolled
    | TurnGiven
    | RangeEnd
    | GroupMarks
)

Decode: TypeAlias = Callable[[bytes], Any]
Encode: TypeAlias = Callable[[Any], bytes]

_encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(ClientFrame).decode
decode_reply = msgspec.msgpack.Decoder(DaemonFrame).decode
decode_digests = msgspec.msgpack.Decoder(list[tuple[Site, ReplicaDigest]]).decode
_HEAD = struct.Struct(">I")


class AdminCodec(NamedTuple):
    """The bodies of frames in one version."""

    encode: Encode = _encode
    request: Decode = decode_request
    reply: Decode = decode_reply


def _encode_plain(message: ClientFrame | DaemonFrame) -> bytes:
    """As in version 5, whose clients know no envelopes: they get the payloads alone."""
    if isinstance(message, SubscribedBatches):
        batches = tuple(
            (position, epoch, _without_envelope(placed), attempt)
            for position, epoch, placed, attempt in message.batches
        )
        return _encode(SubscribedBatches(message.id, batches))
    return _encode(message)


def _without_envelope(placed: Placed) -> Placed:
    batch = placed.batch
    plain = pack_payloads(unpack_payloads(batch.body))
    return replace(placed, batch=replace(batch, body=plain))


ADMIN_CODECS: dict[int, AdminCodec] = {5: AdminCodec(_encode_plain), VERSION: AdminCodec()}
"""The versions that this program speaks, without a hole."""


def agreed_version(lowest: int, highest: int) -> int | None:
    """The highest version that this program and the other one speak; None: there is none."""
    version = min(max(ADMIN_CODECS), highest)
    return version if version >= max(min(ADMIN_CODECS), lowest) else None


def frame_of(message: ClientFrame | DaemonFrame, encode: Encode = _encode) -> bytes:
    body = encode(message)
    if len(body) > FRAME_BYTES:
        raise FrameError(f"a frame of {len(body):,} bytes; the limit is {FRAME_BYTES:,}")
    return _HEAD.pack(len(body)) + body


class Splitter:
    """Cuts a stream into frames' bodies; FrameError for one that is too long."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        held = self._data
        held += data
        found = []
        at = 0
        while len(held) - at >= _HEAD.size:
            (length,) = _HEAD.unpack_from(held, at)
            if length > FRAME_BYTES:
                raise FrameError(f"a frame of {length:,} bytes; the limit is {FRAME_BYTES:,}")
            end = at + _HEAD.size + length
            if end > len(held):
                break
            found.append(bytes(held[at + _HEAD.size : end]))
            at = end
        if at:
            del held[:at]
        return found


class Wire(asyncio.Protocol):
    """One end of an admin connection: whole frames in, frames out, one write per turn. `decode` is
    for the first frame."""

    def __init__(
        self,
        decode: Decode,
        on_frame: Callable[["Wire", Any], None],
        on_lost: Callable[["Wire"], None],
        on_made: Callable[["Wire"], None] | None = None,
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.failure = ""  # why this end closed it
        self._decode = decode
        self._encode: Encode = _encode
        self._on_frame = on_frame
        self._on_lost = on_lost
        self.on_made = on_made
        self._splitter = Splitter()
        self.bytes_in = 0
        self._paused: asyncio.TimerHandle | None = None
        self._out: list[bytes] = []
        self._size = 0
        self._loop = asyncio.get_running_loop()

    def use(self, encode: Encode, decode: Decode) -> None:
        """A version was agreed on: all frames from now on are of it."""
        self._encode, self._decode = encode, decode

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not say that it is one
        if self.on_made is not None:
            self.on_made(self)

    def data_received(self, data: bytes) -> None:
        self.bytes_in += len(data)
        try:
            for body in self._splitter.feed(data):
                if self.closed:
                    return
                self._on_frame(self, self._decode(body))
        except (FrameError, msgspec.DecodeError) as error:
            self.fail(str(error))
        except (UnicodeDecodeError, RecursionError):
            self.fail("a frame does not decode")

    def connection_lost(self, _: Exception | None) -> None:
        if not self.closed:
            self.closed = True
        self.transport = None
        self._on_lost(self)

    def send(self, message: ClientFrame | DaemonFrame) -> None:
        if self.closed:
            return
        data = frame_of(message, self._encode)
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._size += len(data)
        if self._size >= COALESCE_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out = []
            self._size = 0
            if self.transport is not None and not self.transport.is_closing():
                self.transport.write(data)

    @property
    def unsent(self) -> int:
        """Bytes that the other end has not taken yet."""
        return self._size + (self.transport.get_write_buffer_size() if self.transport else 0)

    def pause(self, seconds: float) -> None:
        """Read nothing more for this time. What has been read already is still handled."""
        if self._paused is None and not self.closed and self.transport is not None:
            self.transport.pause_reading()
            self._paused = self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._paused = None
        if self.transport is not None and not self.closed:
            self.transport.resume_reading()

    def close(self) -> None:
        """Write what is waiting and close."""
        if not self.closed:
            self._flush()
            self.closed = True
            if self.transport is not None:
                self.transport.close()

    def fail(self, reason: str) -> None:
        """Close at once; `failure` says why."""
        if not self.closed:
            self.failure = reason
            self.closed = True
            if self.transport is not None:
                self.transport.abort()


_SINCE_PRODUCERS: Final = (
    Follow, ReadRange, ConfirmRead, ReaderReset, ReaderRemoval,
    Grant, Withdraw, UseGrants, RevokeCertificate, AddProducer, RemoveProducer,
)  # fmt: skip
"""Frames and edits that no daemon knows whose welcome does not have `produces`."""


def too_new(frame: ClientFrame, welcome: Welcome) -> str:
    """What the daemon's program does not know of a frame. It would drop the client, which would
    ask again and again. "": nothing."""
    if isinstance(frame, IdMarkRequest) and not welcome.takes_ids:
        return "ids"
    if isinstance(frame, CopyRequest | CopyPiece) and not welcome.copies:
        return "backups of clients"
    if isinstance(frame, GrantsRequest) and not welcome.tells_grants:
        return "lists of grants"
    if welcome.produces:
        return ""
    parts = frame.edits if isinstance(frame, Change) else (frame,)
    unknown = next((part for part in parts if isinstance(part, _SINCE_PRODUCERS)), None)
    return "" if unknown is None else type(unknown).__name__


def kind_of(error: Exception) -> str:
    return type(error).__name__


def error_of(kind: str, reason: str) -> Error:
    """The error as an exception of this side. A kind that this side does not know becomes an
    `Error`."""
    found = getattr(errors, kind, Error)
    made = found if isinstance(found, type) and issubclass(found, Error) else Error
    return made(reason)


def reason_of(error: Exception) -> str:
    """One line that fits a frame."""
    return " ".join(str(error).split())[:2_000] or type(error).__name__
