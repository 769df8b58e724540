"""Sites in this process, each behind an admin socket, as daemons have one, and if wanted behind an
address for clients from elsewhere."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ordercast.net.client.client import Client, connect
from ordercast.net.daemon.admin_socket import AdminSocket
from ordercast.net.daemon.desk import ClientDesk
from ordercast.net.daemon.remote_listener import RemoteListener
from ordercast.net.daemon.session import ClientLimits
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.node import Node, site_of

GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}


class Served:
    def __init__(self, cluster: LocalCluster, directory: Path, *, remote: bool = False) -> None:
        self.cluster = cluster
        self.directory = directory
        self.admins: dict[str, AdminSocket] = {}
        self.remotes: dict[str, RemoteListener] = {}
        self._remote = remote
        self._ports: dict[str, int] = {}  # a site that is started again listens where it did

    async def serve(self, site: str, node: Node | None = None) -> None:
        limits = self.cluster.cluster.limits
        served = node if node is not None else self.cluster[site]
        desk = ClientDesk(
            site_of(served), ClientLimits(limits.window_messages, limits.window_bytes)
        )
        admin = AdminSocket(desk, self.directory / f"{site}.sock")
        await admin.start()
        self.admins[site] = admin
        if self._remote:
            remote = RemoteListener(desk, ("127.0.0.1", self._ports.get(site, 0)))
            await remote.start()
            self.remotes[site] = remote
            self._ports[site] = remote.address[1]

    def address(self, site: str, scheme: str = "tls") -> str:
        return f"{scheme}://127.0.0.1:{self._ports[site]}"

    async def close(self, site: str) -> None:
        if site in self.remotes:
            await self.remotes.pop(site).close()
        await self.admins.pop(site).close()

    async def kill(self, site: str) -> None:
        await self.close(site)
        await self.cluster.kill(site)

    async def start(self, site: str) -> None:
        await self.serve(site, await self.cluster.start(site))

    def connect(self, site: str, **options: Any) -> Client:
        return connect(self.cluster.cluster, site, self.directory, **options)


@asynccontextmanager
async def served(
    directory: Path,
    groups: Mapping[str, Sequence[str]] = GROUPS,
    *,
    remote: bool = False,
    **options: Any,
) -> AsyncIterator[Served]:
    options.setdefault("dir", directory)
    options.setdefault("durability", "os")
    async with local_cluster(groups, **options) as cluster:
        found = Served(cluster, directory, remote=remote)
        for site in cluster.cluster.sites:
            await found.serve(site)
        try:
            yield found
        finally:
            for site in list(found.admins):
                await found.close(site)
