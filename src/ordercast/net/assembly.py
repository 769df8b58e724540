"""What a node is made of: the store and the transport that its cluster file asks for."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ordercast.core.structure import Structure
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.net.config import Cluster
from ordercast.net.connection import LinkTimes
from ordercast.net.hello import Identity
from ordercast.net.memory_store import MemoryStore
from ordercast.net.peers import LinkStatus
from ordercast.net.store import Store
from ordercast.net.tls import TlsConfig
from ordercast.net.transport import Transport
from ordercast.wire.frames import Frame

if TYPE_CHECKING:
    from ordercast.net.node import Node

AnyStore: TypeAlias = Store | MemoryStore


class AnyTransport(Protocol):
    async def start(self) -> None: ...
    def send(self, peer: Site, frames: list[Frame]) -> None: ...
    def links(self) -> Sequence[LinkStatus]: ...
    async def close(self) -> None: ...


MakeTransport: TypeAlias = "Callable[[Node], AnyTransport]"


def open_store(cluster: Cluster, site: Site, directory: Path) -> AnyStore:
    mine = is_for(site, cluster.structure())
    if cluster.durability == "memory":
        return MemoryStore(mine)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigError(f"{directory}: cannot be made ({why})") from None
    store = Store.open(
        directory / f"{site}.db",
        cluster=cluster.name,
        site=site,
        durability=cluster.durability,
        mine=mine,
        retention=cluster.limits.retention,
    )
    store.describe(
        deliver=cluster.deliver,
        on_failure=cluster.on_failure,
        protocol=cluster.protocol,
        groups={group: list(members) for group, members in cluster.groups.items()},
    )
    return store


def is_for(site: Site, structure: Structure) -> Callable[[Batch], bool]:
    """Whether a batch is for the site; called from the store's thread, so it shares nothing."""
    groups = frozenset(structure.groups_of[site])

    def mine(batch: Batch) -> bool:
        return site in batch.members if batch.members else batch.group in groups

    return mine


def over_tcp(
    cluster: Cluster, addresses: Mapping[Site, tuple[str, int]] | None = None
) -> MakeTransport:
    """Real connections; `addresses` where they differ from the file (ports that were free)."""

    def make(node: "Node") -> AnyTransport:
        return Transport(
            node.site,
            Identity(cluster.name, node.boot, node.incarnation, terms(cluster)),
            addresses or cluster.addresses(),
            TlsConfig(cluster.tls.directory) if cluster.tls is not None else None,
            on_frames=node.frames,
            on_connected=node.connected,
            on_lost=node.lost,
            on_congested=node.congested,
            times=LinkTimes(suspect=cluster.timeouts.suspect),
            insecure=cluster.insecure,
        )

    return make


def terms(cluster: Cluster) -> dict[str, str]:
    """What two sites must agree on, the telling things first."""
    groups = repr(sorted((group, sorted(members)) for group, members in cluster.groups.items()))
    return {
        "protocol": cluster.protocol,
        "deliver": cluster.deliver,
        "durability": cluster.durability,
        "causal": str(cluster.causal).lower(),
        "groups": hashlib.sha256(groups.encode("ascii")).hexdigest()[:16],
        "structure": cluster.digest().hex()[:32],
    }
