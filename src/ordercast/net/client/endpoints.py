"""Ways to a daemon: its local socket, or an address of its, guarded by TLS or by a secret.

`tls://HOST:PORT` needs a certificate of the cluster's authority. It names the cluster, and the
daemon's certificate must name a site of the same cluster. `tcp://HOST:PORT` is for a daemon on this
machine that asks for the cluster's secret.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ordercast.model.arguments import require_names
from ordercast.model.errors import ConfigError
from ordercast.model.grants import SITE, subject_of
from ordercast.model.groups import Site
from ordercast.model.names import require_name, shown
from ordercast.net.admin.channel import Channel, Guard, ProofGuard, TlsGuard, plain_buffer
from ordercast.net.admin.frames import Wire
from ordercast.net.cluster.addresses import is_loopback, parse_address
from ordercast.net.cluster.certificates import CLIENTS
from ordercast.net.cluster.secret import ClusterSecret
from ordercast.net.cluster.sockets import socket_path
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.proof import Proof
from ordercast.net.link.tls import ClientCertificates, names_in

TLS, TCP = "tls://", "tcp://"
_HEAD = "ordercast://"
NO_SITE = "its certificate names no site of this cluster"


class Endpoint(Protocol):
    """One way to a daemon; its text is for messages."""

    async def open(self, wire: Wire) -> None:
        """Connect the wire. Raises OSError, or ConfigError for a mistake of the user."""

    @property
    def site(self) -> Site:
        """The site that the other end has proved to be, on the last connection; "": it proves no
        name."""


class SocketEndpoint:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.site = ""

    def __str__(self) -> str:
        return str(self.path)

    async def open(self, wire: Wire) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: wire, socket_path(self.path))


class TlsEndpoint:
    """`cluster`: the cluster that our certificate names."""

    def __init__(
        self, address: tuple[str, int], certificates: ClientCertificates, cluster: str
    ) -> None:
        self.address = address
        self.cluster = cluster
        self.site = ""
        self._certificates = certificates
        self._plain: memoryview | None = None

    def __str__(self) -> str:
        return TLS + _shown(self.address)

    async def open(self, wire: Wire) -> None:
        self.site = ""
        self._plain = self._plain or plain_buffer()
        guard = TlsGuard(self._certificates.session(server_side=False), self._plain)
        await _dial(self.address, wire, guard, self._ready)

    def _ready(self, channel: Channel) -> None:
        """A client's certificate must not stand for a daemon: the other end has to be a site."""
        assert isinstance(channel.guard, TlsGuard)
        names = names_in(channel.guard.session.certificate())
        subject = subject_of(names, self.cluster)
        if subject is None or subject.kind != SITE:
            raise LinkTrouble(NO_SITE, f"{', '.join(names[:4]) or 'none'}, not of {self.cluster}")
        self.site = subject.name


class ProvedEndpoint:
    def __init__(self, address: tuple[str, int], secret: ClusterSecret) -> None:
        self.address = address
        self.site = ""
        self._secret = secret

    def __str__(self) -> str:
        return TCP + _shown(self.address)

    async def open(self, wire: Wire) -> None:
        proof = Proof(self._secret.now(), str(self._secret.path), dialled=True)
        await _dial(self.address, wire, ProofGuard(proof, dialled=True), None)


async def _dial(
    address: tuple[str, int],
    wire: Wire,
    guard: Guard,
    on_ready: Callable[[Channel], None] | None,
) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_connection(
        lambda: Channel(wire, guard, dialled=True, on_ready=on_ready), *address
    )


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows to daemons elsewhere: the files of its certificate, or of the cluster's
    secret. The key is beside the certificate unless it is given; the authority is there too, or,
    as 'ordercast certs' writes them, one directory above."""

    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    secret: Path | None = None

    def certificates(self) -> tuple[ClientCertificates, str]:
        """The certificates, and the cluster that they name."""
        if self.cert is None:
            raise ConfigError(
                "no certificate is given for a daemon elsewhere: name its file with cert=, or"
                " use a context (see 'ordercast context --help')"
            )
        if not self.cert.is_file():
            raise ConfigError(f"{self.cert}: cannot be read")
        found = ClientCertificates((self._authority(self.cert), self.cert, self._key(self.cert)))
        clusters = {uri.removeprefix(_HEAD).split("/")[0] for uri in found.names}
        (cluster, *others) = sorted(clusters) or [""]
        if others or subject_of(found.names, cluster) is None:
            raise ConfigError(f"{self.cert}: names no site and no client of a cluster")
        return found, cluster

    def usable(self) -> bool:
        """Whether the files of a certificate are there."""
        if self.cert is None:
            return False
        files = (self.cert, self._key(self.cert), self._authority(self.cert))
        return all(file.is_file() for file in files)

    def _key(self, cert: Path) -> Path:
        return cert.with_suffix(".key") if self.key is None else self.key

    def _authority(self, cert: Path) -> Path:
        if self.ca is not None:
            return self.ca
        beside = cert.parent / "ca.pem"
        above = cert.parent.parent / "ca.pem"
        return above if cert.parent.name == CLIENTS and not beside.exists() else beside


def is_address(value: object) -> bool:
    """Whether this is the address of a daemon, and no cluster file. ConfigError for an unknown kind
    of address."""
    if not isinstance(value, str) or value.startswith((TLS, TCP)):
        return isinstance(value, str)
    if "://" in value:
        raise ConfigError(
            f"{shown(value)} is neither {TLS}HOST:PORT, nor {TCP}HOST:PORT of this machine, nor a"
            " cluster file"
        )
    return False


def endpoints_of(
    addresses: str | Sequence[str], credentials: Credentials, site: Site | None = None
) -> list[Endpoint]:
    """The ways that addresses name: one text, with commas between several, or a list. `site`: the
    site that all of them belong to, if it is known."""
    if isinstance(site, str) and "://" in site:
        raise ConfigError(f"site: {shown(site)} is an address: give several addresses as a list")
    if site is not None:
        require_name(site, "site")
    given = addresses.split(",") if isinstance(addresses, str) else addresses
    texts = [text.strip() for text in require_names(given, "address")]
    if not texts:
        raise ConfigError("no address is given; write tls://HOST:PORT")
    held = credentials.certificates() if any(text.startswith(TLS) for text in texts) else None
    found: list[Endpoint] = []
    for text in texts:
        scheme = next((each for each in (TLS, TCP) if text.startswith(each)), "")
        if not scheme:
            raise ConfigError(f"{shown(text)} is not the address of a daemon (tls://HOST:PORT)")
        address = parse_address(text.removeprefix(scheme), text)
        if held is not None and scheme == TLS:
            found.append(TlsEndpoint(address, *held))
        else:
            found.append(ProvedEndpoint(address, _secret(text, address, credentials)))
    return found


def _secret(text: str, address: tuple[str, int], credentials: Credentials) -> ClusterSecret:
    if not is_loopback(address[0]):
        raise ConfigError(f"{text}: is not on this machine, so it needs certificates: write {TLS}…")
    if credentials.secret is None:
        raise ConfigError(f"{text}: name the file of the cluster's secret with secret=")
    return ClusterSecret(credentials.secret, make=False)
