"""One client's connection to a daemon: its hello, its subscriptions and its questions."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol, TypeAlias

import msgspec

from ordercast.model.epochs import AddProducer, Edit
from ordercast.model.errors import Error, NotGranted, TurnLost
from ordercast.model.grants import EVERY, READ, ClientSubject
from ordercast.model.groups import Group
from ordercast.model.messages import is_client
from ordercast.model.version import told_range
from ordercast.net.admin.frames import (
    ADMIN_CODECS,
    Answer,
    Change,
    ClientFrame,
    ClientHello,
    Confirm,
    ConfirmRead,
    CopyPiece,
    CopyRequest,
    Credit,
    DaemonRefusal,
    DigestRequest,
    Failed,
    Follow,
    GrantsRequest,
    GroupMarks,
    IdMarkRequest,
    Produce,
    ReaderRemoval,
    ReaderReset,
    ReadRange,
    Rejected,
    Send,
    SendById,
    SendOnce,
    ServedCluster,
    StatusRequest,
    Subscribe,
    Targets,
    TimesRequest,
    TurnGiven,
    Unsubscribe,
    Watch,
    Welcome,
    Wire,
    agreed_version,
    kind_of,
    reason_of,
)
from ordercast.net.admin.targets import targets_of
from ordercast.net.daemon.permits import admit
from ordercast.net.daemon.places import MadeByClients
from ordercast.net.daemon.session import ClientLimits, ClientSession
from ordercast.net.daemon.shares import SubjectShares
from ordercast.net.daemon.store_copies import StoreCopies
from ordercast.net.daemon.subscription import Subscription, observed
from ordercast.net.site.named_readers import ReaderPlace
from ordercast.net.site.named_stream import NamedBatches
from ordercast.net.site.permits import Permits
from ordercast.net.site.running_site import RunningSite

MOST_SUBSCRIPTIONS = 16  # the most of one connection
MOST_QUESTIONS = 1_000  # questions of one connection that have no answer yet
MOST_TIMES = 4_096  # messages of one answer
HELLO_S = 5.0
GOODBYE_S = 0.5  # for the answer to a change by which a client lost its own grants

Question: TypeAlias = (
    Confirm
    | StatusRequest
    | Change
    | DigestRequest
    | ConfirmRead
    | ReaderReset
    | ReaderRemoval
    | IdMarkRequest
    | TimesRequest
    | CopyRequest
    | CopyPiece
    | GrantsRequest
)
"""A frame that is answered by its id."""


class ConnectionDesk(Protocol):
    """What a connection asks of the desk."""

    site: RunningSite
    limits: ClientLimits
    permits: Permits
    shares: SubjectShares
    made_by_clients: MadeByClients
    copies: StoreCopies

    def session(self, subject: ClientSubject, client: bytes, wire: Wire) -> ClientSession: ...
    def end(self, session: ClientSession) -> None: ...
    def told_status(self, subject: ClientSubject) -> bytes: ...
    def told_grants(self) -> dict[str, Any]: ...


class ClientConnection:
    """`subject`: the subject that the client speaks for; the listener knows it, perhaps from the
    `certificate`. `on_hello` is called with a good hello, and may refuse it with an Error."""

    def __init__(
        self,
        desk: ConnectionDesk,
        wire: Wire,
        subject: ClientSubject,
        on_hello: Callable[[], None] | None = None,
        certificate: str = "",
    ) -> None:
        self.desk = desk
        self.site = desk.site
        self.wire = wire
        self.subject = subject
        self.certificate = certificate
        self._share = desk.shares.of(subject)
        self._counted = 0  # bytes
        self._on_hello = on_hello
        self.session: ClientSession | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._followed: dict[int, NamedBatches] = {}  # of named readers
        self._reading: dict[int, tuple[Subscribe | Follow | ReadRange, NamedBatches | None]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._targets: Targets | None = None  # the last that the client was told
        self._marks: tuple[tuple[Group, int], ...] | None = None  # the same; None: it takes none
        self._one_by_one = asyncio.Lock()
        self._changing = 0  # changes that the client asked for and that have no answer yet
        self._ending: NotGranted | None = None  # why no later frame of the client is read
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HELLO_S, wire.fail, "it said nothing")

    def close(self, reason: str, *, final: bool = False, kind: str = "Error") -> None:
        self.wire.send(DaemonRefusal(reason, final, kind))
        self.wire.close()

    def lost(self) -> None:
        self._deadline.cancel()
        self.desk.copies.end(self.wire)
        for followed in self._followed.values():
            followed.close()
        for subscription in self._subscriptions.values():
            if subscription.keep and self.session is not None:
                self.session.park(subscription)
            else:
                subscription.close()
        for task in self._tasks:
            task.cancel()
        if self.session is not None:
            self.session.detach(self.wire)

    def frame(self, frame: ClientFrame) -> None:
        if isinstance(frame, ClientHello):
            self._hello(frame)
            return
        if self.session is None:
            self.wire.fail("its first frame was no hello")
            return
        if self._ending is not None:
            return
        try:
            if not (isinstance(frame, ReaderReset) and self._goes_forward(frame)):
                admit(self.desk.permits, self.subject, frame)
        except NotGranted as error:
            self._refuse(frame, error)
            return
        self._admitted(frame, self.session)

    def _goes_forward(self, frame: ReaderReset) -> bool:
        """Whether the client may reset the reader although it is no operator. A client that may
        read all groups of the reader could follow it and confirm. So while nobody follows the
        reader, the client may also move it forward."""
        told = self.site.named.place_of(frame.reader)
        if told is None or told.followed or not frame.position:
            return False
        groups = (EVERY,) if told.groups is None else told.groups
        may_read = all(self.desk.permits.allows(self.subject, READ, group) for group in groups)
        return may_read and frame.position - 1 > told.confirmed

    def pace(self) -> None:
        """Count the bytes that the client has sent. If they are too many, read later."""
        now = asyncio.get_running_loop().time()
        size, self._counted = self.wire.bytes_in - self._counted, self.wire.bytes_in
        if pause := self._share.spend(size, now):
            self.wire.pause(pause)

    def review(self) -> None:
        """Grants, revoked certificates or the roster have changed: end readers and connections that
        are no longer allowed."""
        if self.wire.closed or self._ending is not None:
            return
        try:
            self.desk.permits.admit_client(self.subject, self.certificate)
        except NotGranted as error:
            self._end(error)
            return
        for number, (frame, named) in list(self._reading.items()):
            try:
                admit(self.desk.permits, self.subject, frame)
                if named is not None:
                    named.admit_again()
            except NotGranted as error:
                self._end_reading(number)
                self._refuse(frame, error)

    def _end(self, error: NotGranted) -> None:
        """The client may do nothing more: end its connection. If the client lost its grants by a
        change of its own, answer the change first."""
        self._ending = error
        for number in list(self._reading):
            self._end_reading(number)
        if self.session is not None:
            self.desk.end(self.session)
        if self._changing:
            self._deadline = asyncio.get_running_loop().call_later(GOODBYE_S, self._let_go, error)
        else:
            self._let_go(error)

    def _let_go(self, error: NotGranted) -> None:
        self.close(reason_of(error), final=True, kind=kind_of(error))

    def _end_reading(self, number: int) -> None:
        self._reading.pop(number, None)
        followed = self._followed.pop(number, None)
        if followed is not None:
            followed.close()
        subscription = self._subscriptions.pop(number, None)
        if subscription is not None:
            subscription.close()

    def _refuse(self, frame: ClientFrame, error: NotGranted) -> None:
        if isinstance(frame, Produce | SendOnce) and self.session is not None:
            self.session.not_granted(frame)
        if isinstance(frame, Send | Watch | Produce | SendById | SendOnce):
            self.wire.send(Rejected(frame.number, kind_of(error), reason_of(error)))
        elif not isinstance(frame, ClientHello):
            self.wire.send(Failed(frame.id, kind_of(error), reason_of(error)))

    def _admitted(self, frame: ClientFrame, session: ClientSession) -> None:
        if isinstance(frame, Send):
            session.send(frame)
        elif isinstance(frame, Produce | SendOnce):
            session.produce(frame)
        elif isinstance(frame, SendById):
            session.send_by_id(frame)
        elif isinstance(frame, Watch):
            session.watch(frame)
        elif isinstance(frame, Subscribe | Follow | ReadRange):
            self._subscribe(frame)
        elif isinstance(frame, Credit):
            if frame.id in self._subscriptions:
                self._subscriptions[frame.id].credit(frame.messages, frame.bytes, frame.read)
        elif isinstance(frame, Unsubscribe):
            self._end_reading(frame.id)
        elif not isinstance(frame, ClientHello):
            self._ask(frame)

    def _hello(self, hello: ClientHello) -> None:
        self._deadline.cancel()
        site = self.site
        if self.session is not None:
            self.wire.fail("it said hello twice")
        elif not is_client(hello.client):
            self.close("the client's id has a meaning of its own: it must be random", final=True)
        elif (version := agreed_version(hello.lowest, hello.version)) is None:
            self.close(
                f"this daemon speaks version {told_range(min(ADMIN_CODECS), max(ADMIN_CODECS))},"
                f" the client {told_range(hello.lowest, hello.version)}",
                final=True,
            )
        elif hello.cluster not in ("", site.cluster.name) or hello.site not in ("", site.site):
            self.close(
                f"this is site {site.site!r} of cluster {site.cluster.name!r}, not"
                f" {hello.site!r} of {hello.cluster!r}",
                final=True,
            )
        else:
            try:
                self.desk.permits.admit_client(self.subject, self.certificate)
                if self._on_hello is not None:
                    self._on_hello()
            except NotGranted as error:
                self.close(reason_of(error), final=True, kind=kind_of(error))
            except Error as error:  # there is no place now
                self.close(reason_of(error))
            else:
                self._welcome(hello, version)

    def _welcome(self, hello: ClientHello, version: int) -> None:
        site, limits = self.site, self.desk.limits
        under_way = self._share.allowed(limits.messages, limits.bytes)
        cluster = site.cluster
        self.session = self.desk.session(self.subject, hello.client, self.wire)
        self._targets = targets_of(site.core.layout)
        marks = tuple(site.repeats.marks().items())
        self._marks = marks if hello.stamps else None
        self.wire.send(
            Welcome(
                version,
                site.site,
                site.boot,
                site.incarnation,
                *under_way,
                self._targets,
                ServedCluster(
                    cluster.name,
                    cluster.deliver,
                    cluster.on_failure,
                    cluster.causal,
                    cluster.limits.message_bytes,
                ),
                produces=True,
                takes_ids=True,
                tells_times=True,
                takes_stamps=True,
                marks=marks,
                cuts_requests=True,
                copies=True,
                store=site.store.store_number,
                tells_grants=True,
            )
        )
        codec = ADMIN_CODECS[version]
        self.wire.use(codec.encode, codec.request)

    def tell_targets(self, targets: Targets) -> None:
        """Tell the client the groups and sites that it can send to, if they have changed. Most
        changes of the layout do not change them."""
        if self._targets is not None and targets != self._targets:
            self._targets = targets
            self.wire.send(targets)

    def tell_marks(self, marks: tuple[tuple[Group, int], ...]) -> None:
        """Tell the client the marks of its groups, if they have changed."""
        if self._marks is not None and marks != self._marks:
            self._marks = marks
            self.wire.send(GroupMarks(marks))

    def _subscribe(self, frame: Subscribe | Follow | ReadRange) -> None:
        if frame.id in self._subscriptions or len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            self.wire.send(
                Failed(frame.id, "Error", f"more than {MOST_SUBSCRIPTIONS:,} subscriptions")
            )
            return
        assert self.session is not None
        if not isinstance(frame, Subscribe):
            self._subscriptions[frame.id] = self._read_named(frame)
            return
        self._reading[frame.id] = frame, None
        subscription = self.session.parked(frame.id)
        if subscription is None or not subscription.resume(self.wire, frame.start, frame.attempt):
            subscription = self._begin(frame)
        self._subscriptions[frame.id] = subscription

    def _begin(self, frame: Subscribe) -> Subscription:
        stream = self.site.stream
        attempt = frame.attempt or None
        may_read = partial(self.desk.permits.may_read, self.subject, frame.observe)
        if frame.observe:
            seen = observed(stream, frame.start, attempt)
            return Subscription(frame.id, seen, self.wire, may_read, keep=False)
        batches = stream.batches(frame.start, attempt)
        return Subscription(frame.id, batches, self.wire, may_read, keep=stream.log is None)

    def _read_named(self, frame: Follow | ReadRange) -> Subscription:
        named, admit = self.site.named, partial(self.desk.permits.admit_reader, self.subject)
        if isinstance(frame, ReadRange):
            span = (frame.start, frame.end)
            batches = NamedBatches(named, frame.reader, span=span, admit=admit)
        else:
            place = ReaderPlace(frame.number, frame.position, max(frame.attempt, 1))
            batches = self._followed[frame.id] = NamedBatches(
                named,
                frame.reader,
                EVERY if frame.groups == (EVERY,) else frame.groups,
                place=place if frame.number else None,
                admit=admit,
                making=partial(self.desk.made_by_clients.readers.making, self.subject),
                on_turn=lambda *turn: self.wire.send(TurnGiven(frame.id, *turn)),
            )
        self._reading[frame.id] = frame, batches
        # An admitted client may read all of the reader's groups.
        return Subscription(frame.id, batches, self.wire, lambda _: True, keep=False)

    def _ask(self, frame: Question) -> None:
        if len(self._tasks) >= MOST_QUESTIONS:
            self.wire.send(Failed(frame.id, "Error", f"more than {MOST_QUESTIONS:,} questions"))
            return
        task = asyncio.create_task(self._answer(frame))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _answer(self, frame: Question) -> None:
        body = b""
        try:
            if isinstance(frame, Confirm):
                await self.site.confirm(frame.position, frame.attempt or None)
            elif isinstance(frame, ConfirmRead):
                followed = self._followed.get(frame.follow)
                if followed is None:
                    raise TurnLost("this client follows no such reader any more")
                await followed.confirm(frame.position, frame.attempt or None)
            elif isinstance(frame, ReaderReset):
                position = await self.site.named.reset(frame.reader, frame.position)
                body = msgspec.json.encode(position)
            elif isinstance(frame, ReaderRemoval):
                await self.site.named.remove(frame.reader)
            elif isinstance(frame, Change):
                await self._change(frame)
            elif isinstance(frame, IdMarkRequest):
                body = msgspec.json.encode(await self.site.ids.mark(frame.group))
            elif isinstance(frame, TimesRequest):
                body = msgspec.json.encode(await self._times(frame.start))
            elif isinstance(frame, CopyRequest):
                body = msgspec.json.encode(await self.desk.copies.begin(self.wire))
            elif isinstance(frame, CopyPiece):
                body = await self.desk.copies.piece(self.wire, frame.offset)
            elif isinstance(frame, GrantsRequest):
                body = msgspec.json.encode(self.desk.told_grants())
            elif isinstance(frame, DigestRequest):
                told = self.site.digests.exchange(frame.group, frame.digest, frame.alarm)
                body = msgspec.msgpack.encode(told)
            else:
                body = self.desk.told_status(self.subject)
        except Error as error:
            self.wire.send(Failed(frame.id, kind_of(error), reason_of(error)))
        else:
            self.wire.send(Answer(frame.id, body))
        if self._ending is not None and not self._changing:
            self._let_go(self._ending)

    async def _change(self, frame: Change) -> None:
        self._changing += 1
        try:
            with self._making(frame.edits):
                await self.site.change(frame.edits, frame.name, self.subject)
        finally:
            self._changing -= 1
        # Before the answer, because the client may send to a new group at once.
        self.tell_targets(targets_of(self.site.core.layout))

    def _making(self, edits: Iterable[Edit]) -> AbstractContextManager[None]:
        added = [(one.producer, one.group) for one in edits if isinstance(one, AddProducer)]
        return self.desk.made_by_clients.producers(self.subject, added)

    async def _times(self, start: int) -> list[tuple[int, int, int]]:
        may_read = partial(self.desk.permits.may_read, self.subject, True)
        async with self._one_by_one:  # readers of other clients use the same threads
            times = await asyncio.to_thread(self.site.store.times, start, MOST_TIMES)
        return [(at.position, at.messages, at.logged_ns) for at in times if may_read(at.group)]
