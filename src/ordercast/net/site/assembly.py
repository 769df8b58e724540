"""The store and the transport that a cluster file asks for."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from ordercast.core.dissemination.registry import TREE
from ordercast.model.groups import Site
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.directory import make_directory
from ordercast.net.cluster.secret import secret_of
from ordercast.net.link.combined_transport import TransportHost, TransportListener
from ordercast.net.link.connection import LinkTimes
from ordercast.net.link.hello import Identity
from ordercast.net.link.multicast_transport import MulticastTransport
from ordercast.net.link.peers import LinkStatus
from ordercast.net.link.pipes import RelayCounts
from ordercast.net.link.seals import seal_for
from ordercast.net.link.tls import TlsConfig
from ordercast.net.link.transport import KnownPoints, Transport
from ordercast.net.link.tree_transport import TreeTransport
from ordercast.net.store.memory import MemoryStore
from ordercast.net.store.store import Store
from ordercast.wire.codec import WireFrame

AnyStore: TypeAlias = Store | MemoryStore


class AnyTransport(Protocol):
    async def start(self) -> None: ...
    def send(self, peer: Site, frames: Sequence[WireFrame]) -> None: ...
    def refuse(self, peer: Site, why: str) -> None: ...
    def meet(self, site: Site, address: tuple[str, int] | None = None) -> None: ...
    def part(self, site: Site) -> None: ...
    def retell(self, terms: Mapping[str, str], uses: tuple[str, ...]) -> None: ...
    def revoke(self, revoked: Mapping[str, str]) -> None: ...
    def links(self) -> Sequence[LinkStatus]: ...
    def relayed(self) -> RelayCounts: ...
    @property
    def certificate_ends_at(self) -> int | None: ...
    async def close(self) -> None: ...


class TransportSite(TransportHost, Protocol):
    """The site that a transport is made for."""

    boot: int

    def frames(self, peer: Site, frames: Sequence[WireFrame]) -> None: ...

    @property
    def points(self) -> KnownPoints: ...

    @property
    def incarnation(self) -> int: ...

    @property
    def address(self) -> tuple[str, int]:
        """Where to listen."""

    def terms(self) -> dict[str, str]:
        """What other sites must agree on."""

    def features(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The features of its program, and the features that the cluster uses."""

    @property
    def door(self) -> str:
        """Where it listens for clients of other machines; "": nowhere."""


MakeTransport: TypeAlias = Callable[[TransportSite], AnyTransport]


def open_store(cluster: Cluster, site: Site, directory: Path) -> AnyStore:
    store = _opened(cluster, site, directory)
    store.requests.allow(cluster.limits.window_messages)
    return store


def _opened(cluster: Cluster, site: Site, directory: Path) -> AnyStore:
    if cluster.durability == "memory":
        return MemoryStore()
    make_directory(directory)
    return Store.open(
        directory / f"{site}.db",
        cluster=cluster.name,
        site=site,
        durability=cluster.durability,
        retention=cluster.limits.retention,
        readers=cluster.reader_limits(),
    )


def _identity(cluster: Cluster, host: TransportSite) -> Identity:
    start = (host.boot, host.incarnation)
    return Identity(cluster.name, *start, host.terms(), *host.features(), host.door)


def over_tcp(cluster: Cluster) -> MakeTransport:
    """Real connections."""
    secret = secret_of(cluster)

    def make(host: TransportSite) -> AnyTransport:
        def connect(told: TransportListener) -> Transport:
            return Transport(
                host.site,
                _identity(cluster, host),
                {host.site: host.address, **cluster.addresses()},
                TlsConfig(cluster.tls.directory) if cluster.tls is not None else None,
                on_frames=told.frames,
                on_connected=told.connected,
                on_lost=told.lost,
                on_congested=told.congested,
                on_detoured=told.detoured,
                times=LinkTimes(suspect=cluster.timeouts.suspect),
                insecure=cluster.insecure,
                points=host.points,
                secret=secret,
            )

        if cluster.dissemination == TREE:
            return TreeTransport(host, connect)
        if cluster.multicast is None:
            return connect(host)
        seal = seal_for(secret=cluster.tls is not None)
        return MulticastTransport(host, cluster.multicast, seal, connect)

    return make
