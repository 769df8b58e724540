"""The daemon's address for clients on other machines: TLS with certificates on both sides. Within
one machine, where the cluster has no certificates, the proof of its secret.

It is not the address of the sites' links, so clients and strangers here take no places of links. A
stranger gets as little as at a link: few bytes, a short time, and one of few places. When many
strangers come, the oldest lose their places. A client that is let in has a place among the clients
instead.
"""

import asyncio
import logging
from collections import Counter
from typing import Final

from ordercast.model.errors import ConfigError, Error
from ordercast.model.grants import OWNER, ClientSubject, subject_of
from ordercast.model.options import SECOND
from ordercast.net.admin.channel import Channel, Guard, ProofGuard, TlsGuard, plain_buffer
from ordercast.net.admin.frames import Wire
from ordercast.net.cluster.addresses import why
from ordercast.net.cluster.secret import secret_of
from ordercast.net.cluster.sockets import close_server
from ordercast.net.daemon.desk import ClientDesk
from ordercast.net.daemon.places import has_place
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import TOO_SLOW, LinkLimits, LinkTimes
from ordercast.net.link.proof import Proof
from ordercast.net.link.strangers import Strangers
from ordercast.net.link.tls import Certificates, TlsConfig, names_in
from ordercast.net.site.permits import CONNECT

_log = logging.getLogger("ordercast.net.remote")

MOST_CLIENTS: Final = 256
LIMITS: Final = LinkLimits(strangers=128, strangers_elsewhere=64)
TIMES: Final = LinkTimes()
NOBODY: Final = "its certificate names no site and no client of this cluster"
RETIRED: Final = "its certificate is that of a site which is not, or no longer, of this cluster"


class RemoteListener:
    def __init__(self, desk: ClientDesk, address: tuple[str, int]) -> None:
        self.desk = desk
        self.address = address  # with the real port once it listens
        self._server: asyncio.Server | None = None
        self._strangers: Strangers[Channel] = Strangers(LIMITS, TIMES)
        self._deadlines: dict[Channel, asyncio.TimerHandle] = {}  # of strangers
        self._clients: dict[Channel, ClientSubject] = {}  # whose hello is accepted
        cluster, site = desk.site.cluster, desk.site.site
        self._certificates: Certificates | None = None
        if cluster.tls is not None:
            tls = TlsConfig(cluster.tls.directory)
            self._certificates = Certificates(tls, cluster.name, site)
        self._secret = secret_of(cluster)
        self._plain = plain_buffer()

    async def start(self) -> None:
        if self._certificates is None and self._secret is None:
            raise ConfigError(f"{self._where}: has neither certificates nor a secret to ask for")
        loop = asyncio.get_running_loop()
        host, port = self.address
        try:
            self._server = await loop.create_server(self._accept, host, port)
        except OSError as error:
            raise ConfigError(
                f"{self._where}: cannot listen on {host}:{port} ({why(error)})"
            ) from None
        self.address = (host, self._server.sockets[0].getsockname()[1])
        _log.info("clients on %s port %d", *self.address)

    @property
    def _where(self) -> str:
        return f"sites.{self.desk.site.site}.clients"

    async def close(self) -> None:
        """Clients that are let in are told by the desk."""
        if self._server is None:
            return
        self.desk.close()
        await close_server(self._server)
        for channel in (*self._deadlines, *self._clients):
            channel.close()
        self._server = None

    # --- strangers --------------------------------------------------------------------------------

    def _accept(self) -> Channel:
        return Channel(
            self.desk.wire(),
            self._guard(),
            dialled=False,
            on_open=self._opened,
            on_ready=self._ready,
            on_end=self._ended,
        )

    def _guard(self) -> Guard:
        if self._certificates is not None:
            return TlsGuard(self._certificates.session(server_side=True), self._plain)
        assert self._secret is not None
        proof = Proof(self._secret.now(), str(self._secret.path), dialled=False)
        return ProofGuard(proof, dialled=False)

    def _opened(self, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        self._deadlines[channel] = loop.call_later(
            TIMES.handshake / SECOND, channel.fail, LinkTrouble(TOO_SLOW)
        )
        self._strangers.add(channel, loop.time())

    def _ready(self, channel: Channel) -> None:
        """The other end has shown who it is. It is a stranger still, until its hello."""
        subject, certificate = self._subject(channel)
        channel.wire.on_made = lambda wire: self._made(channel, wire, subject, certificate)

    def _subject(self, channel: Channel) -> tuple[ClientSubject, str]:
        """The other end's subject, and the certificate that it has shown."""
        if not isinstance(channel.guard, TlsGuard):
            return OWNER, ""  # a user who can read the secret can open the socket too
        site, session = self.desk.site, channel.guard.session
        names = names_in(session.certificate())
        subject = subject_of(names, site.cluster.name)
        if subject is None:
            raise LinkTrouble(NOBODY, ", ".join(names[:4]) or "none")
        if subject.kind == "site" and subject.name not in site.core.layout.roster:
            raise LinkTrouble(RETIRED, subject.name)
        return subject, session.fingerprint()

    # --- clients ----------------------------------------------------------------------------------

    def _made(self, channel: Channel, wire: Wire, subject: ClientSubject, certificate: str) -> None:
        self.desk.made(wire, subject, lambda: self._accepted(channel, subject), certificate)

    def _accepted(self, channel: Channel, subject: ClientSubject) -> None:
        self._require_place(subject)
        self._forget(channel)
        channel.accepted = True
        self._clients[channel] = subject

    def _require_place(self, subject: ClientSubject) -> None:
        held = Counter(self._clients.values())
        most = self.desk.shares.limits.connections
        if held[subject] >= most:
            why = f"too many clients that are {subject} ({most:,} at most)"
        elif not has_place(
            held[subject], len(held), MOST_CLIENTS - len(self._clients), MOST_CLIENTS
        ):
            why = (
                f"too many clients from elsewhere ({len(self._clients):,} of {MOST_CLIENTS:,} at"
                f" most, {held[subject]:,} of them {subject})"
            )
        else:
            return
        self.desk.permits.count(subject, CONNECT)
        raise Error(why)

    def _ended(self, channel: Channel) -> None:
        self._forget(channel)
        self._clients.pop(channel, None)

    def _forget(self, channel: Channel) -> None:
        self._strangers.discard(channel)
        deadline = self._deadlines.pop(channel, None)
        if deadline is not None:
            deadline.cancel()
