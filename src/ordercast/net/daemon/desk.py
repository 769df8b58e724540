"""Where the clients of a daemon are served, whichever way they came in.

A client has a random id and numbers what it sends. A send that is repeated after a broken
connection is recognised: by the client's session, which outlives connections; by the members of its
group, if the group remembers clients; or, after a restart of the daemon, by the store, where the
number is written together with the accepted batch.
"""

import asyncio
import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from ordercast.model.grants import ADMIN, EVERY, SOCKET, ClientSubject
from ordercast.model.groups import Site
from ordercast.model.messages import CLIENT_BYTES
from ordercast.net.admin.frames import ClientFrame, Wire, decode_request
from ordercast.net.admin.targets import targets_of
from ordercast.net.cluster.addresses import door_at
from ordercast.net.cluster.config import Cluster
from ordercast.net.daemon.client_connection import ClientConnection
from ordercast.net.daemon.places import MadeByClients
from ordercast.net.daemon.session import ClientLimits, ClientSession
from ordercast.net.daemon.shares import SubjectShares
from ordercast.net.daemon.store_copies import StoreCopies
from ordercast.net.site.running_site import RunningSite
from ordercast.net.site.status import status_of

_log = logging.getLogger("ordercast.net.admin")

MOST_SESSIONS = 256  # that are connected, or have something under way
MOST_IDLE = MOST_SESSIONS // 4  # above this number, sessions that have nothing under way go
MARKS_S = 0.5  # how often clients are told the marks of groups
MOST_CAUSES = 64  # the most causes that are logged
UNSENT_BYTES = 64 * 1024 * 1024  # the most that waits for a client that does not read
STOPS = "the daemon stops"

_NUMBERS = re.compile(r"\d[\d,]*")


class ClientDesk:
    """All connections and sessions. Listeners bring wires, each with its subject."""

    def __init__(self, site: RunningSite, limits: ClientLimits) -> None:
        self.site = site
        self.limits = limits
        self.permits = site.permits
        self.shares = SubjectShares(site.cluster.limits, site.core.window.unstable_both)
        self.made_by_clients = MadeByClients(self.permits, site.named, lambda: site.core.layout)
        self.copies = StoreCopies(site.site, getattr(site.store, "path", None))
        self.closed = False
        self._connections: dict[Wire, ClientConnection] = {}
        self._sessions: dict[bytes, ClientSession] = {}
        self._statuses: dict[bool, bytes] = {}  # of this turn: with the grants, without them
        self._complaints: dict[str, None] = {}  # the causes for which clients were dropped
        layout = site.core.layout
        self._permitted = (self.permits.grants, layout.revoked, layout.roster)  # as reviewed last
        site.on_layout.append(self._layout_changed)
        site.outside.on_mark.append(self._tell_marks)
        self._looking = asyncio.get_running_loop().call_later(MARKS_S, self._look)

    def close(self) -> None:
        """Tell connected clients, and clients that still connect, that the daemon ends."""
        if self.closed:
            return
        self.closed = True
        self._looking.cancel()
        self.site.on_layout.remove(self._layout_changed)
        self.site.outside.on_mark.remove(self._tell_marks)
        for connection in list(self._connections.values()):
            connection.close(STOPS)
        for session in self._sessions.values():
            session.close()
        self.shares.close()
        self.copies.close()

    def status(self, *, grants: bool = False) -> dict[str, Any]:
        """The site's status, with its clients, and perhaps with the grants."""
        subjects = Counter(str(each.subject) for each in self.served())
        told = {"connected": dict(sorted(subjects.items())), "refused": self.permits.told()}
        status = {**status_of(self.site), "clients": told, "doors": self._doors()}
        return {**status, "grants": self.told_grants()} if grants else status

    def told_status(self, subject: ClientSubject) -> bytes:
        """The status for this subject, encoded. Who may change the grants also sees them. It is
        made once for all who ask in one turn of the loop: a client may ask a thousand times at
        once, and nobody else would have a turn."""
        sees = self.permits.allows(subject, ADMIN, EVERY)
        if sees not in self._statuses:
            if not self._statuses:
                asyncio.get_running_loop().call_soon(self._statuses.clear)
            self._statuses[sees] = msgspec.json.encode(self.status(grants=sees))
        return self._statuses[sees]

    def _doors(self) -> dict[Site, str]:
        """The addresses for clients: from the cluster file, and from what sites have told."""
        told = {link.peer: link.door for link in self.site.transport.links()}
        told[self.site.site] = self.site.door
        return doors_of(self.site.cluster) | {site: door for site, door in told.items() if door}

    def told_grants(self) -> dict[str, Any]:
        """Who may do what, and the certificates that are revoked."""
        table = self.permits.grants.told()
        revoked = dict(self.site.core.layout.revoked)
        lines = None if table is None else {name: list(acts) for name, acts in table}
        return {"table": lines, "revoked": revoked}

    # --- connections ------------------------------------------------------------------------------

    def wire(self, on_made: Callable[[Wire], None] | None = None) -> Wire:
        """A wire whose frames come here."""
        return Wire(decode_request, self._frame, self._lost, on_made)

    def made(
        self,
        wire: Wire,
        subject: ClientSubject,
        on_hello: Callable[[], None] | None = None,
        certificate: str = "",
    ) -> ClientConnection:
        connection = ClientConnection(self, wire, subject, on_hello, certificate)
        self._connections[wire] = connection
        if self.closed:
            connection.close(STOPS)
        return connection

    def served(self) -> list[ClientConnection]:
        """The connections whose hello was accepted."""
        return [each for each in self._connections.values() if each.session is not None]

    def _frame(self, wire: Wire, frame: ClientFrame) -> None:
        connection = self._connections.get(wire)
        if connection is not None:
            connection.frame(frame)
            connection.pace()
        _require_read(wire)

    def _lost(self, wire: Wire) -> None:
        if wire.failure:
            self.complain(wire.failure)
        connection = self._connections.pop(wire, None)
        if connection is not None:
            connection.lost()
            self._tidy()

    def complain(self, failure: str) -> None:
        """Log each cause once. Failures that differ only in numbers have the same cause."""
        cause = _NUMBERS.sub("…", failure)[:100]
        if cause not in self._complaints and len(self._complaints) < MOST_CAUSES:
            self._complaints[cause] = None
            _log.warning("a client was dropped: %s", failure)

    def _layout_changed(self) -> None:
        layout = self.site.core.layout
        if self._connections:
            targets = targets_of(layout)
            for connection in list(self._connections.values()):
                connection.tell_targets(targets)
            self._tell_marks()
        permitted = (self.permits.grants, layout.revoked, layout.roster)
        if any(new is not old for new, old in zip(permitted, self._permitted, strict=True)):
            self._permitted = permitted
            for connection in list(self._connections.values()):
                connection.review()

    def _look(self) -> None:
        """From time to time: tell clients the marks of their groups. Drop a client that reads
        nothing, such as a stopped process: its frames would pile up for ever."""
        self._looking = asyncio.get_running_loop().call_later(MARKS_S, self._look)
        for wire in list(self._connections):
            _require_read(wire)
        self._tell_marks()

    def _tell_marks(self) -> None:
        if self._connections:
            marks = tuple(self.site.repeats.marks().items())
            for connection in list(self._connections.values()):
                connection.tell_marks(marks)

    def end(self, session: ClientSession) -> None:
        """Forget a session whose client may not enter any more, with its messages that were not
        sent yet."""
        if self._sessions.get(session.client) is session:
            del self._sessions[session.client]
        session.close()

    # --- sessions ---------------------------------------------------------------------------------

    def session(self, subject: ClientSubject, client: bytes, wire: Wire) -> ClientSession:
        """The session of a client. The latest comes last."""
        own = own_id(subject, client)
        session = self._sessions.pop(own, None)
        if session is None:
            share = self.shares.of(subject)
            session = ClientSession(
                self.site, own, self.limits, subject, share, self.made_by_clients
            )
        self._sessions[own] = session
        session.attach(wire)
        return session

    def _tidy(self) -> None:
        """Forget sessions without a connection: first those that have nothing under way."""
        there = {connection.subject for connection in self._connections.values()}
        self.shares.forget(there | {each.subject for each in self._sessions.values()})
        gone = [client for client, session in self._sessions.items() if session.empty]
        for client in gone:
            del self._sessions[client]
        idle = [client for client, session in self._sessions.items() if session.idle]
        for client in idle[: max(0, len(self._sessions) - MOST_IDLE)]:
            del self._sessions[client]
        while len(self._sessions) > MOST_SESSIONS:
            left = [client for client, session in self._sessions.items() if session.wire is None]
            if not left:
                return
            self._sessions.pop(left[0]).close()


def _require_read(wire: Wire) -> None:
    if wire.unsent > UNSENT_BYTES:
        wire.fail("the client does not read what it asked for")


def doors_of(cluster: Cluster) -> dict[Site, str]:
    """Where the sites of the cluster file listen for clients."""
    return {
        name: door
        for name, site in cluster.sites.items()
        if site.clients is not None and (door := door_at(site.clients, site.address[0]))
    }


def own_id(subject: ClientSubject, client: bytes) -> bytes:
    """The id under which a client's requests are kept. Readers see the ids of senders. The id
    depends on the subject, so no client can repeat the requests of another subject."""
    if subject.kind == SOCKET:
        return client
    return hashlib.blake2b(client, digest_size=CLIENT_BYTES, key=str(subject).encode()).digest()
