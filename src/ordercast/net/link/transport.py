"""Links to the other sites over TCP, with TLS when there are certificates (docs/transport.md).

A link is up while there is one good connection: `on_connected` and `on_lost` alternate for each
peer. Frames given to `send` without a connection are dropped, and the peer is dialled: the link
layer of the core repeats what was lost after every `on_connected`. Peers come (`meet`) and go
(`part`) while the site runs. Whatever a stranger or a broken peer sends, the answer is a closed
connection and one line in the log for each cause and peer.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.model.version import __version__
from ordercast.net.cluster.addresses import require_loopback, why, why_not_dialled
from ordercast.net.cluster.certificates import certificate_uri
from ordercast.net.cluster.secret import ClusterSecret
from ordercast.net.cluster.sockets import close_server
from ordercast.net.link.complaints import (
    CONNECTED,
    DIRECT,
    LOST,
    THROUGH,
    Complaints,
    LinkTrouble,
)
from ordercast.net.link.connection import (
    PLAIN_BYTES,
    READ_BYTES,
    TOO_SLOW,
    Connection,
    LinkLimits,
    LinkTimes,
)
from ordercast.net.link.detours import Detours
from ordercast.net.link.dialler import Dialler
from ordercast.net.link.hello import (
    FOUNDING,
    INSTANCE_BYTES,
    INVENTED,
    OTHER_FOUNDING,
    OUR_STORE,
    UNKNOWN_SITE,
    Hello,
    Identity,
    agreed_version,
    check_hello,
    check_terms,
    require_features,
)
from ordercast.net.link.peers import (
    REPLACED,
    RESTARTED,
    SECOND_KEPT,
    SECOND_RETIRED,
    SECOND_WAITS,
    LinkStatus,
    Peer,
    Peers,
    Unneeded,
)
from ordercast.net.link.pipes import Pipes, RelayCounts
from ordercast.net.link.proof import REFUSED_WORD, Proof
from ordercast.net.link.strangers import Strangers
from ordercast.net.link.tls import REVOKED, Certificates, TlsConfig, TlsSession
from ordercast.wire.codec import CODECS, Codec, FrameEncoder, WireFrame
from ordercast.wire.lineage import StorePoint
from ordercast.wire.pipes import PipeFrame, PipeOffered, PipeWanted

log = logging.getLogger("ordercast.net.transport")

HUNG_UP: Final = "it hung up before its hello"
WRONG_ANSWER: Final = "another site answers"
NOT_DIALLED: Final = "not dialled"
WRONG_WORD: Final = "it said what it may not"
NO_PEER: Final = "no site of this cluster, frames for it are dropped"

TICKS: Final = 12  # how often all peers are looked at within `suspect`
CERTIFICATES_EVERY_S: Final = 1.0
CLOSING_S: Final = 1.0
LINGERS: Final = 10  # times that reading a second connection is prolonged while frames come
CLOSING_TURNS: Final = 5  # turns of the loop until an accepted connection has come up


class KnownPoints(Protocol):
    """What a site knows of the stores of other sites, and what they know of its store."""

    def heard_of(self, peer: Site) -> StorePoint | None: ...

    def told(self, peer: Site, point: StorePoint) -> bool:
        """The peer has heard of this point of this site's store. Returns whether the store has been
        there."""

    def is_invented(self, point: StorePoint) -> bool:
        """Whether the peer names more of this site's present start than there is."""

    def founded(self) -> bool:
        """Whether this site has heard of a record: its cluster has a past."""

    def other_cluster(self, peer: Site) -> None:
        """The peer is of a cluster with a past that was founded otherwise, and this site has no
        past."""


class Transport:
    def __init__(
        self,
        site: Site,
        identity: Identity,
        addresses: Mapping[Site, tuple[str, int]],
        tls: TlsConfig | None = None,
        *,
        on_frames: Callable[[Site, list[WireFrame]], None],
        on_connected: Callable[[Site], None],
        on_lost: Callable[[Site], None],
        on_congested: Callable[[Site, bool], None] | None = None,
        on_detoured: Callable[[tuple[Site, ...]], None] | None = None,
        times: LinkTimes | None = None,
        limits: LinkLimits | None = None,
        insecure: bool = False,
        points: KnownPoints | None = None,
        secret: ClusterSecret | None = None,
    ) -> None:
        self._loopback_only = tls is None and not insecure
        if self._loopback_only:
            require_loopback(addresses)
        self.site = site
        self.identity = identity
        self.addresses = dict(addresses)  # where to dial each site; they may change
        self.address = self.addresses[site]  # with the real port once it listens
        self.times = times or LinkTimes()
        self.limits = limits or LinkLimits()
        self._codecs = CODECS
        self._encoders: dict[int, FrameEncoder] = {}
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.plain_buffer = memoryview(bytearray(PLAIN_BYTES if tls else 0))
        self.took = on_frames
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._on_congested = on_congested
        self._on_detoured = on_detoured
        self._points = points
        self._certificates = Certificates(tls, identity.cluster, site) if tls else None
        self._revoked: Mapping[str, str] = {}  # certificates, by fingerprint
        self._secret = secret
        self._instance = os.urandom(INSTANCE_BYTES)
        self._hellos = 0  # how many hellos were said
        self._detoured: tuple[Site, ...] = ()  # the peers that are reached through others
        self._peers = Peers(site, addresses, self.times, identity.terms)
        self._complaints = Complaints(log, self._peers)
        self._connections: set[Connection] = set()  # that have not ended
        self._strangers: Strangers[Connection] = Strangers(self.limits, self.times)
        self._tick: asyncio.TimerHandle | None = None
        self._ticked_at = self._certificates_at = 0.0
        self._server: asyncio.Server | None = None
        self._closed = False

    # --- the driver's calls ---------------------------------------------------------------------

    async def start(self) -> None:
        """Bind and listen."""
        self._loop = asyncio.get_running_loop()
        self._dialler = Dialler(
            self.addresses, self.times, self._make, self._connections.discard, self._complain
        )
        self._pipes = Pipes(
            self.site, self._peers, self.limits, self._make, self._is_silent, self.connect
        )
        self._detours = Detours(self.site, self._peers, self.times, self._pipes.open, self.connect)
        host, port = self.address
        try:
            self._server = await self._loop.create_server(self._accept, host, port)
        except OSError as error:
            where = f"address of site {self.site!r}: cannot listen on {host}:{port}"
            raise ConfigError(f"{where} ({why(error)})") from None
        self.address = (host, self._server.sockets[0].getsockname()[1])
        now = self._ticked_at = self._certificates_at = self._loop.time()
        for peer in self._peers.values():
            peer.since = now
        others = {site: at for site, at in self.addresses.items() if site != self.site}
        self._strangers.hosts.look_up(others)
        self._watch()

    def meet(self, site: Site, address: tuple[str, int] | None = None) -> None:
        """A site that was added or has moved is a peer from now on. It is dialled at its address.
        Without an address, or with one that must not be dialled, it has to dial us."""
        there = self._peers.get(site)
        known = there is not None and address in (None, self.addresses.get(site))
        if there is not None and there.guest:
            self.part(site)  # most of what it said as a guest was ignored
        elif known or site == self.site:
            return
        peer = self._peers.add(site)
        if address is not None:
            self.addresses[site] = address
            if self._server is not None:
                self._strangers.hosts.look_up({site: address})
        peer.barred = why_not_dialled(site, address, loopback_only=self._loopback_only)
        if peer.barred:
            self._complain(peer, LinkTrouble(NOT_DIALLED, peer.barred))
        if self._server is not None:
            self._dialler.moved(peer)

    def part(self, site: Site) -> None:
        """The site is a stranger from now on. What is written still goes out. `on_lost` is called
        if the site was connected."""
        peer = self._peers.pop(site, None)
        self.addresses.pop(site, None)
        if peer is None or self._server is None:
            return
        self._dialler.part(peer)
        self._detours.part(site)
        self._strangers.hosts.part(site)
        self._complaints.part(site)
        for connection in list(self._connections):
            if site in (connection.peer, connection.dialled):
                connection.parted = True
                connection.close()
                self._loop.call_later(CLOSING_S, connection.abort)  # if it does not read
        if peer.current is not None:
            peer.current, peer.waits, peer.retired = None, None, []
            log.info("%s: no peer any more", site)
            self._congest(peer, False)
            self._on_lost(site)

    def retell(self, terms: Mapping[str, str], uses: tuple[str, ...]) -> None:
        """Use these terms in hellos from now on, and ask for these features. Drop peers that do not
        agree with them."""
        self.identity = replace(self.identity, terms=dict(terms), uses=uses)
        for peer in list(self._peers.values()):
            if (there := peer.current) is not None:
                try:
                    check_terms(there.terms, terms)
                    require_features(there.features, there.program, uses)
                except LinkTrouble as trouble:
                    there.fail(trouble)

    def revoke(self, revoked: Mapping[str, str]) -> None:
        """Refuse these certificates, named by fingerprint, from now on, and close the connections
        that were made with them."""
        self._revoked = revoked
        for connection in list(self._connections):
            if connection.peer is not None and self._is_revoked(connection):
                connection.fail(LinkTrouble(REVOKED))

    def _is_revoked(self, connection: Connection) -> bool:
        session = connection.session
        return (
            bool(self._revoked) and session is not None and session.fingerprint() in self._revoked
        )

    def send(self, peer: Site, frames: Sequence[WireFrame]) -> None:
        """Send the frames in one write. Without a connection they are dropped, and the peer is
        dialled."""
        known = self._peers.get(peer)
        if known is None:
            self._complaints.say(peer, LinkTrouble(NO_PEER, usual=True))
        elif known.current is not None:
            known.current.send(frames)
        else:
            self._dialler.want(known)

    def refuse(self, peer: Site, why: str) -> None:
        """Drop the connection to a peer whose frames contradict what this site knows of it."""
        known = self._peers.get(peer)
        if known is not None:
            known.mistakes += 1
        if known is not None and known.current is not None:
            known.current.fail(LinkTrouble(WRONG_WORD, why))
        else:
            self._complaints.say(peer, LinkTrouble(WRONG_WORD, why))

    def connect(self, peer: Site) -> None:
        """Make a connection before there is anything to send."""
        self._dialler.want(self._peers[peer])

    def links(self) -> list[LinkStatus]:
        return self._peers.links(self._loop.time(), self.addresses)

    def relayed(self) -> RelayCounts:
        """Counts of the pipes that this site relays."""
        return replace(self._pipes.counts)

    @property
    def certificate_ends_at(self) -> int | None:
        """When this site's certificate expires, in seconds of Unix time."""
        return None if self._certificates is None else self._certificates.ends_at

    @property
    def connections(self) -> int:
        """How many there are, those of strangers included."""
        return len(self._connections)

    @property
    def refusals(self) -> Counter[str]:
        """How often each cause occurred, logged or not."""
        return self._complaints.counts

    async def close(self) -> None:
        """Write out what is queued, then end all connections. `on_lost` is called for each peer
        that was connected."""
        self._closed = True
        if self._server is None:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._strangers.hosts.close()
        await self._dialler.close()
        await close_server(self._server)
        await self._close_pipes()
        for connection in list(self._connections):
            connection.close()
        for peer in list(self._peers.values()):
            if peer.current is not None:
                self._lost(peer, "closed here")
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)
        deadline = self._loop.time() + CLOSING_S
        while self._connections:
            await asyncio.sleep(0.005)
            if self._loop.time() > deadline:
                for connection in list(self._connections):
                    connection.abort()
        await self._server.wait_closed()

    async def _close_pipes(self) -> None:
        """Close the pipes first: their last bytes go out through other connections."""
        deadline = self._loop.time() + CLOSING_S
        pipes = [connection for connection in self._connections if connection.through]
        for connection in pipes:
            connection.close()
        while any(connection in self._connections for connection in pipes):
            await asyncio.sleep(0.005)
            if self._loop.time() > deadline:
                for connection in pipes:
                    connection.abort()

    def _accept(self) -> Connection:
        return self._make(None)

    def _make(self, dialled: Site | None, through: Site = "") -> Connection:
        session: TlsSession | None = None
        proof: Proof | None = None
        if self._certificates is not None:
            session = self._certificates.session(server_side=dialled is None)
        elif self._secret is not None:
            source = str(self._secret.path)
            proof = Proof(self._secret.now(), source, dialled=dialled is not None)
        return Connection(self, dialled, session, proof, through)

    # --- what connections tell --------------------------------------------------------------------

    def encoder(self, codec: Codec) -> FrameEncoder:
        return self._encoders.setdefault(codec.version, FrameEncoder(codec))

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        if self._closed:
            connection.abort()
        elif connection.through:  # it came through a peer, which limits strangers itself
            pass
        elif connection.dialled is not None:
            self._strangers.hosts.learn(connection.dialled, connection.host)
        else:
            self._strangers.add(connection, self._loop.time())

    def secured(self, connection: Connection) -> None:
        """The channel is ready: the site that dialled says hello."""
        if connection.dialled is None:
            return
        peer = self._peers.get(connection.dialled)
        if peer is None or connection.over:
            connection.abort()
        elif not connection.through:
            connection.say(self._hello(peer.name, 0, peer.gone))
        elif self._is_silent(peer):
            gone = peer.gone if peer.current is None else peer.current.their_number
            connection.say(self._hello(peer.name, 0, max(gone, peer.gone)))
        else:
            connection.abort()  # the link was only slow, and works again

    def _is_silent(self, peer: Peer) -> bool:
        return self._detours.silent(peer, self._loop.time())

    def piped(self, connection: Connection, frame: PipeFrame) -> None:
        if not (self._closed and isinstance(frame, (PipeWanted, PipeOffered))):
            self._pipes.received(connection, frame)

    def _hello(
        self, to: Site, answers: int, gone: int, refusal: str = "", *, stranger: bool = False
    ) -> Hello:
        self._hellos += 1  # one count for all peers: it goes on if a peer parts and comes back
        ours = self.identity
        who = (ours.cluster, self.site, to, ours.incarnation, ours.boot, self._instance)
        points = None if stranger else self._points
        heard, founded = (
            (None, False) if points is None else (points.heard_of(to), points.founded())
        )
        known = refusal != REFUSED_WORD  # a stranger need not know what runs here
        return Hello(
            *who, self._hellos, answers, gone, dict(ours.terms), refusal, heard, founded,
            min(self._codecs), max(self._codecs), __version__ if known else "",
            ours.features if known else (), ours.door if known and not stranger else "",
        )  # fmt: skip

    def greeted(self, connection: Connection, hello: Hello) -> None:
        if connection.session is not None:
            try:
                connection.session.require(certificate_uri(hello.cluster, hello.site))
            except LinkTrouble:
                connection.claimed = None  # its certificate has another name
                raise
        if not self._is_revoked(connection):
            self._check_point(connection, hello)
        try:
            if self._is_revoked(connection):
                raise LinkTrouble(REVOKED)
            check_hello(hello, self.identity, self.site, self._peers)
            codec = self._codecs[agreed_version(hello, self._codecs)]
            if connection.dialled not in (None, hello.site):
                raise LinkTrouble(WRONG_ANSWER, f"{hello.site!r} instead of {connection.dialled!r}")
            if connection.through:
                self._check_piped(connection, hello)
            peer = self._peers.get(hello.site) or self._peers.guest(hello.site, self.limits)
            role = peer.meet(connection, hello)
        except Unneeded:
            connection.close()
            return
        except LinkTrouble as trouble:
            if connection.dialled is None:
                reason = str(trouble) if connection.proved else REFUSED_WORD
                stranger = self._is_stranger(connection)
                connection.say(self._hello(hello.site, hello.number, 0, reason, stranger=stranger))
            raise
        self._admit(peer, connection, hello, role, codec)

    def _check_point(self, connection: Connection, hello: Hello) -> None:
        """Compare this site's store with what the peer has heard of it, and its founding with the
        peer's. The peer tells that even in a refusal: it refuses an older copy, whose boots it has
        met before. A guest tells nothing of either: it is of this cluster no more."""
        peer = self._peers.get(hello.site)
        if self._points is None or peer is None or peer.guest:
            return
        if (hello.cluster, hello.to) != (self.identity.cluster, self.site):
            return
        if self._is_stranger(connection):
            return  # a stranger must not be able to stop this site
        if hello.heard is not None:
            if self._points.is_invented(hello.heard):
                raise LinkTrouble(INVENTED)
            if not self._points.told(hello.site, hello.heard):
                raise LinkTrouble(OUR_STORE, usual=True)  # the site says why, and stops
        ours, theirs = (terms.get(FOUNDING) for terms in (self.identity.terms, hello.terms))
        if hello.founded and not self._points.founded() and ours and theirs and ours != theirs:
            self._points.other_cluster(hello.site)
            raise LinkTrouble(OTHER_FOUNDING, usual=True)  # the site says why, and stops

    def _check_piped(self, connection: Connection, hello: Hello) -> None:
        """Refuse a hello through a pipe from a guest: guests dial directly. If this site has just
        paused, it was silent itself: then a pipe beside a direct connection is not needed."""
        peer = self._peers.get(hello.site)
        if peer is None or peer.guest:
            raise LinkTrouble(UNKNOWN_SITE, f"{hello.site!r} is no peer here")
        paused = self._loop.time() - self._ticked_at > self.times.suspect / SECOND / 4
        if paused and connection.dialled is None and peer.direct is not None:
            raise Unneeded

    def _is_stranger(self, connection: Connection) -> bool:
        """Whether the other end has proved nothing, although this cluster has certificates or a
        secret."""
        return not connection.proved and (
            self._certificates is not None or self._secret is not None
        )

    def _admit(
        self, peer: Peer, connection: Connection, hello: Hello, role: str, codec: Codec
    ) -> None:
        if connection.through and peer.direct is not None and not peer.settled:
            peer.abandoned += role == REPLACED
        if role == REPLACED:
            self._lost(peer, "replaced by a new connection")
        elif role == RESTARTED:
            self._lost(peer, "it has started again")
            peer.gone = 0  # the hellos of the new start are numbered from 1
        answer = None
        if connection.dialled is None:
            answer = self._hello(peer.name, hello.number, peer.gone)
        elif not connection.through:
            peer.dialling = False
        self._strangers.discard(connection)
        self._peers.setdefault(peer.name, peer)
        if not (peer.guest or connection.through):
            self._strangers.hosts.learn(peer.name, connection.host)
        connection.guest = peer.guest and bool(self.identity.terms.get(FOUNDING))
        connection.admit(hello, codec)
        self._detours.found(peer)
        if role == SECOND_RETIRED:
            self._retire(peer, connection)
            return
        if answer is not None:
            connection.say(answer)
        if role == SECOND_WAITS:
            peer.waits = connection
            self._loop.call_later(self.times.handshake / SECOND, self._wait_no_more, connection)
            return
        self._use(peer, connection, second=role == SECOND_KEPT)

    def _wait_no_more(self, connection: Connection) -> None:
        peer = self._peers.get(connection.peer or "")
        if peer is not None and peer.waits is connection:
            connection.fail(LinkTrouble(TOO_SLOW, "it does not say that it has our answer"))

    def pinged(self, connection: Connection) -> None:
        """A ping came: a direct connection beside a pipe works both ways, and may be used."""
        peer = self._peers.get(connection.peer or "")
        if peer is not None and peer.waits is connection:
            peer.waits = None
            if peer.prefers(connection):
                self._use(peer, connection, second=peer.current is not None)
            else:
                self._retire(peer, connection)

    def _use(self, peer: Peer, connection: Connection, *, second: bool) -> None:
        """Write to this connection from now on. `second`: the connection before it still works, and
        is retired."""
        before, peer.current = peer.current, connection
        peer.wanted = True
        if connection.through:
            self._dialler.again(peer)
        else:
            self._dialler.unneeded(peer)
        if second:
            assert before is not None
            self._retire(peer, before)
            self._congest(peer, False)
            if before.through and not connection.through:
                connection.ping(self.identity.boot)
                peer.since, peer.settled = self._loop.time(), False
                self._note(peer, DIRECT, f"no longer through {before.through}")
            return
        peer.up(self._loop.time())
        how = "it dialled" if connection.dialled is None else "dialled"
        if connection.through:
            self._note(peer, THROUGH, f"{connection.through}; {how}, boot {connection.boot}")
        else:
            self._note(peer, CONNECTED, f"{how}, boot {connection.boot}")
        self._on_connected(peer.name)

    def _retire(self, peer: Peer, connection: Connection) -> None:
        """Of two connections this one goes. Read what is under way on it, then close it."""
        peer.retired.append(connection)
        self._close_when_quiet(connection, LINGERS)

    def _close_when_quiet(self, connection: Connection, left: int) -> None:
        linger = self.times.linger / SECOND
        if left == 0 or (left < LINGERS and self._loop.time() - connection.heard_at >= linger):
            connection.close()
        elif not connection.over:
            self._loop.call_later(linger, self._close_when_quiet, connection, left - 1)

    def congested(self, connection: Connection, congested: bool) -> None:
        peer = self._peers.get(connection.peer or "")
        if peer is not None and peer.current is connection:
            self._congest(peer, congested)

    def _congest(self, peer: Peer, congested: bool) -> None:
        """Tell the driver if this has changed. A new or lost connection is not congested."""
        if peer.congested != congested:
            peer.congested = congested
            if self._on_congested is not None:
                self._on_congested(peer.name, congested)

    def complain(self, connection: Connection, trouble: LinkTrouble) -> None:
        who = connection.peer or connection.dialled or connection.claimed or ""
        peer = self._peers.get(who)
        if peer is None or peer.guest:
            self._complaints.say(connection.host, trouble)
        else:
            self._complain(peer, trouble)

    def _complain(self, peer: Peer, trouble: LinkTrouble) -> None:
        peer.last_error = str(trouble)
        self._complaints.say(peer.name, trouble)

    def _note(self, peer: Peer, what: str, detail: str) -> None:
        if not peer.guest:  # of a guest only troubles are logged, as of a stranger
            self._complaints.note(peer.name, what, detail)

    def ended(self, connection: Connection, error: Exception | None) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._strangers.discard(connection)
        self._pipes.lost(connection)
        peer = self._peers.get(connection.peer or connection.dialled or "")
        if peer is None or connection.parted:
            return
        peer.count(connection)
        if connection.peer is None and connection.through:
            self._detours.failed(peer, connection, self._loop.time())
        elif connection.peer is None:
            if connection.complaint is None and peer.current is None and not self._closed:
                self.complain(connection, LinkTrouble(HUNG_UP, "its log may say why"))
            if connection.complaint is None or connection.complaint.cause != TOO_SLOW:
                peer.lost_at = self._loop.time()  # the peer answers: the path to it works
            self._dialler.failed(peer)
        elif connection is peer.waits:
            peer.waits = None
        elif connection is peer.current:
            self._lost(peer, str(connection.complaint or error or "it closed"))
            if connection.through and not self._closed:
                self._detours.again(peer, self._loop.time())
        elif connection in peer.retired:
            peer.retired.remove(connection)
            if error is not None or connection.cut or connection.complaint is not None:
                self._lost_some(peer, connection)

    def _lost_some(self, peer: Peer, second: Connection) -> None:
        """Frames under way on a second connection were lost: make the link send them again."""
        if not second.through:
            self._lost(peer, "frames on a second connection were lost")
        elif peer.current is not None:  # the current connection stays: it may carry pipes
            self._on_lost(peer.name)
            self._on_connected(peer.name)

    def _lost(self, peer: Peer, why: str) -> None:
        if peer.current is None:
            return
        for each in peer.down(self._loop.time()):
            if not self._closed:
                each.abort()
        peer.last_error = why
        self._note(peer, LOST, why)
        self._dialler.again(peer)  # before `_on_lost`: the driver may send at once
        self._congest(peer, False)
        if peer.guest:
            self._peers.pop(peer.name, None)
        self._on_lost(peer.name)

    def _tell_detoured(self) -> None:
        """Tell the driver which peers are reached through others, if these have changed."""
        detoured = tuple(
            peer.name
            for peer in self._peers.values()
            if peer.current is not None and peer.current.through
        )
        if detoured != self._detoured:
            self._detoured = detoured
            if self._on_detoured is not None:
                self._on_detoured(detoured)

    # --- time -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Send signs of life where we are silent. Drop silent peers."""
        now = self._loop.time()
        suspect = self.times.suspect / SECOND
        # After a pause of this process, silence is not the peers' fault.
        pause, self._ticked_at = now - self._ticked_at, now
        slept = pause > suspect
        for peer in list(self._peers.values()):
            if peer.watch(now, self.identity.boot, slept=slept):
                self._complaints.forget(peer.name)
        self._strangers.hurry(now)
        if self._certificates is not None and now - self._certificates_at >= CERTIFICATES_EVERY_S:
            self._certificates_at = now
            self._certificates.refresh()
        if pause < suspect / 4:  # after a pause peers only seem silent
            self._detours.look(list(self._peers.values()), now)
        self._tell_detoured()
        self._tick = self._loop.call_later(suspect / TICKS, self._watch)
