"""The daemon's side of the admin socket: clients send through its site and read its deliveries.

A client has a random id and numbers what it sends. A send that is repeated after a broken
connection is recognised: by the client's session, which outlives connections, or, after a restart
of the daemon, by the store, where the number is written together with the accepted batch.
"""

import asyncio
import contextlib
import logging
import os
import re
from pathlib import Path
from typing import TypeAlias

import msgspec

from ordercast.model.errors import ConfigError, Error, TurnLost
from ordercast.net.admin.frames import (
    VERSION,
    Answer,
    Change,
    ClientFrame,
    ClientHello,
    Confirm,
    ConfirmRead,
    DaemonRefusal,
    DigestRequest,
    Failed,
    Follow,
    Grant,
    ReaderRemoval,
    ReaderReset,
    ReadRange,
    Send,
    StatusRequest,
    Subscribe,
    Targets,
    TurnGiven,
    Unsubscribe,
    Watch,
    Welcome,
    Wire,
    decode_request,
    kind_of,
    reason_of,
)
from ordercast.net.admin.targets import targets_of
from ordercast.net.cluster.sockets import remove_stale, socket_path
from ordercast.net.daemon.session import ClientLimits, ClientSession
from ordercast.net.daemon.subscription import Subscription, observed
from ordercast.net.site.named_readers import ReaderPlace
from ordercast.net.site.named_stream import NamedBatches
from ordercast.net.site.running import RunningSite
from ordercast.net.site.status import status_of

_log = logging.getLogger("ordercast.net.admin")

MOST_CONNECTIONS = 64
MOST_SESSIONS = 256  # those that are connected, or have something under way
MOST_SUBSCRIPTIONS = 16  # the most of one connection
HELLO_S = 5.0
MOST_CAUSES = 64  # the most causes that are logged
UNSENT_BYTES = 64 * 1024 * 1024  # the most that waits for a client that does not read

Question: TypeAlias = (
    Confirm | StatusRequest | Change | DigestRequest | ConfirmRead | ReaderReset | ReaderRemoval
)
"""A frame that is answered by its id."""

_TURNS = 5  # turns of the event loop until an accepted connection is here: three are enough
_NUMBERS = re.compile(r"\d+")


class AdminSocket:
    """Listens on `DIR/SITE.sock`. Only the user who runs the daemon can open it."""

    def __init__(self, site: RunningSite, path: Path, limits: ClientLimits) -> None:
        self.site = site
        self.path = path
        self.limits = limits
        self._server: asyncio.Server | None = None
        self._closed = False
        self._connections: dict[Wire, _Connection] = {}
        self._sessions: dict[bytes, ClientSession] = {}
        self._complaints: dict[str, None] = {}  # the causes for which clients were dropped

    async def start(self) -> None:
        remove_stale(self.path)
        loop = asyncio.get_running_loop()
        before = os.umask(0o177)
        try:
            self._server = await loop.create_unix_server(self._accepted, socket_path(self.path))
        except OSError as error:
            raise ConfigError(f"{self.path}: {(error.strerror or str(error)).lower()}") from None
        finally:
            os.umask(before)
        self.path.chmod(0o600)
        self.site.on_layout.append(self._layout_changed)

    async def close(self) -> None:
        """Tell connected clients. A later client finds no socket, and waits for the next daemon.
        The turns of the loop before the server closes let every accepted connection come up:
        otherwise the loop would keep such a connection open, and nobody would own it."""
        self._closed = True
        with contextlib.suppress(OSError):
            self.path.unlink()
        for connection in list(self._connections.values()):
            connection.close("the daemon stops")
        for session in self._sessions.values():
            session.close()
        if self._server is not None:
            self.site.on_layout.remove(self._layout_changed)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self._server.close()
            await asyncio.sleep(0)
            self._server = None

    def clients(self) -> int:
        return len(self._connections)

    # --- connections ------------------------------------------------------------------------------

    def _accepted(self) -> Wire:
        return Wire(decode_request, self._frame, self._lost, self._made)

    def _made(self, wire: Wire) -> None:
        connection = _Connection(self, wire)
        self._connections[wire] = connection
        if self._closed:
            connection.close("the daemon stops")
        elif len(self._connections) > MOST_CONNECTIONS:
            self._make_room(connection)

    def _make_room(self, newest: "_Connection") -> None:
        """Drop the oldest connection that has not said hello. Clients that have said hello stay."""
        there = [each for each in self._connections.values() if not each.wire.closed]
        if len(there) <= MOST_CONNECTIONS:
            return  # some connections are about to end
        silent = [each for each in there if each.session is None and each is not newest]
        if silent:
            silent[0].wire.fail("it said nothing, and another came")
        else:
            newest.close(f"too many clients ({MOST_CONNECTIONS} at most)")

    def _frame(self, wire: Wire, frame: ClientFrame) -> None:
        connection = self._connections.get(wire)
        if connection is not None:
            connection.frame(frame)
        if wire.unsent > UNSENT_BYTES:
            wire.fail("the client does not read what it asked for")

    def _lost(self, wire: Wire) -> None:
        connection = self._connections.pop(wire, None)
        if connection is None:
            return
        if wire.failure:
            self._complain(wire.failure)
        connection.lost()
        self._tidy()

    def _complain(self, failure: str) -> None:
        """Log each cause once. Failures that differ only in numbers have the same cause."""
        cause = _NUMBERS.sub("…", failure)[:100]
        if cause not in self._complaints and len(self._complaints) < MOST_CAUSES:
            self._complaints[cause] = None
            _log.warning("a client was dropped: %s", failure)

    def _layout_changed(self) -> None:
        if self._connections:
            targets = targets_of(self.site.core.layout)
            for connection in list(self._connections.values()):
                connection.tell_targets(targets)

    # --- sessions ---------------------------------------------------------------------------------

    def session(self, client: bytes, wire: Wire) -> ClientSession:
        session = self._sessions.pop(client, None)
        if session is None:
            session = ClientSession(self.site, client, self.limits)
        self._sessions[client] = session  # the latest comes last
        session.attach(wire)
        return session

    def _tidy(self) -> None:
        """Forget sessions without a connection: first those that have nothing under way."""
        gone = [client for client, session in self._sessions.items() if session.idle]
        for client in gone:
            del self._sessions[client]
        while len(self._sessions) > MOST_SESSIONS:
            left = [client for client, session in self._sessions.items() if session.wire is None]
            if not left:
                return
            self._sessions.pop(left[0]).close()


class _Connection:
    """One client's connection: its session, subscriptions and questions."""

    def __init__(self, admin: AdminSocket, wire: Wire) -> None:
        self.admin = admin
        self.site = admin.site
        self.wire = wire
        self.session: ClientSession | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._followed: dict[int, NamedBatches] = {}  # of named readers
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._targets: Targets | None = None  # those that the client was told
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HELLO_S, wire.fail, "it said nothing")

    def close(self, reason: str, *, final: bool = False) -> None:
        self.wire.send(DaemonRefusal(reason, final))
        self.wire.close()

    def lost(self) -> None:
        self._deadline.cancel()
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
        elif self.session is None:
            self.wire.fail("its first frame was no hello")
        elif isinstance(frame, Send):
            self.session.send(frame)
        elif isinstance(frame, Watch):
            self.session.watch(frame)
        elif isinstance(frame, Subscribe | Follow | ReadRange):
            self._subscribe(frame)
        elif isinstance(frame, Grant):
            if frame.id in self._subscriptions:
                self._subscriptions[frame.id].grant(frame.messages, frame.bytes, frame.read)
        elif isinstance(frame, Unsubscribe):
            followed = self._followed.pop(frame.id, None)
            if followed is not None:
                followed.close()
            subscription = self._subscriptions.pop(frame.id, None)
            if subscription is not None:
                subscription.close()
        else:
            self._ask(frame)

    def _hello(self, hello: ClientHello) -> None:
        self._deadline.cancel()
        site = self.site
        if self.session is not None:
            self.wire.fail("it said hello twice")
        elif hello.version != VERSION:
            self.close(f"this daemon speaks version {VERSION}, not {hello.version}", final=True)
        elif (hello.cluster, hello.site) != (site.cluster.name, site.site):
            self.close(
                f"this is site {site.site!r} of cluster {site.cluster.name!r}, not"
                f" {hello.site!r} of {hello.cluster!r}",
                final=True,
            )
        else:
            limits = self.admin.limits
            self.session = self.admin.session(hello.client, self.wire)
            self._targets = targets_of(site.core.layout)
            self.wire.send(
                Welcome(
                    VERSION,
                    site.site,
                    site.boot,
                    site.incarnation,
                    limits.messages,
                    limits.bytes,
                    self._targets,
                )
            )

    def tell_targets(self, targets: Targets) -> None:
        """Tell the client the groups and sites that it can send to, if they have changed. Most
        changes of the layout do not change them."""
        if self._targets is not None and targets != self._targets:
            self._targets = targets
            self.wire.send(targets)

    def _subscribe(self, frame: Subscribe | Follow | ReadRange) -> None:
        if frame.id in self._subscriptions or len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            self.wire.send(
                Failed(frame.id, "Error", f"more than {MOST_SUBSCRIPTIONS} subscriptions")
            )
            return
        assert self.session is not None
        if not isinstance(frame, Subscribe):
            self._subscriptions[frame.id] = self._read_named(frame)
            return
        subscription = self.session.parked(frame.id)
        if subscription is None or not subscription.resume(self.wire, frame.start, frame.attempt):
            subscription = self._begin(frame)
        self._subscriptions[frame.id] = subscription

    def _begin(self, frame: Subscribe) -> Subscription:
        stream = self.site.stream
        attempt = frame.attempt or None
        if frame.observe:
            seen = observed(stream, frame.start, attempt)
            return Subscription(frame.id, seen, self.wire, keep=False)
        batches = stream.batches(frame.start, attempt)
        return Subscription(frame.id, batches, self.wire, keep=stream.log is None)

    def _read_named(self, frame: Follow | ReadRange) -> Subscription:
        named = self.site.named
        if isinstance(frame, ReadRange):
            batches = NamedBatches(named, frame.reader, span=(frame.start, frame.end))
        else:
            place = ReaderPlace(frame.number, frame.position, max(frame.attempt, 1))
            batches = self._followed[frame.id] = NamedBatches(
                named,
                frame.reader,
                "*" if frame.groups == ("*",) else frame.groups,
                place=place if frame.number else None,
                on_turn=lambda *turn: self.wire.send(TurnGiven(frame.id, *turn)),
            )
        return Subscription(frame.id, batches, self.wire, keep=False)

    def _ask(self, frame: Question) -> None:
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
                await self.site.change(frame.edits, frame.name)
                # Before the answer, because the client may send to a new group at once.
                self.tell_targets(targets_of(self.site.core.layout))
            elif isinstance(frame, DigestRequest):
                told = self.site.digests.exchange(frame.group, frame.digest, frame.alarm)
                body = msgspec.msgpack.encode(told)
            else:
                body = msgspec.json.encode(status_of(self.site))
        except Error as error:
            self.wire.send(Failed(frame.id, kind_of(error), reason_of(error)))
        else:
            self.wire.send(Answer(frame.id, body))
