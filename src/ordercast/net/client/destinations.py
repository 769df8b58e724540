"""Where the daemons of a cluster are reached: at sockets of this machine, or at their addresses.

Verbs that only print their help import this: what connects is imported when it is used.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ordercast.model.errors import ConfigError, Error
from ordercast.model.names import nearest

if TYPE_CHECKING:
    from ordercast.net.client.client import Client
    from ordercast.net.client.endpoints import Credentials
    from ordercast.net.cluster.config import Cluster
    from ordercast.net.cluster.contexts import Context


ANSWER_S = 2.0  # for the answer of a daemon


class LocalDestination:
    """The sites of a cluster file, at their sockets in a directory of this machine."""

    def __init__(self, cluster: "Cluster", directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.name = cluster.name
        self.source = cluster.source

    @asynccontextmanager
    async def client(self, site: str, **times: float) -> "AsyncIterator[Client]":
        from ordercast.net.client.client import connect

        async with connect(self.cluster, site, self.directory, **times) as client:  # type: ignore[arg-type]
            yield client


class RemoteDestination:
    """Daemons elsewhere, as a context names them."""

    def __init__(self, context: "Context") -> None:
        self.context = context
        self.name = ""  # the cluster's; a daemon tells it
        self.source = f"--context {context.name}"
        self._doors: dict[str, str] | None = None
        self._sites: tuple[str, ...] = ()  # of the cluster, as told with the doors

    @cached_property
    def credentials(self) -> "Credentials":
        from ordercast.net.client.endpoints import Credentials

        found = self.context
        files = (found.cert, found.key, found.ca, found.secret)
        return Credentials(*(Path(file) if file else None for file in files))

    @asynccontextmanager
    async def client(self, site: str, **times: float) -> "AsyncIterator[Client]":
        """A client of the site, or for "" of any site that answers. Raises ConfigError if there is
        no such site."""
        addresses: Sequence[str] = self.context.addresses
        if site and site != self.context.site:
            doors = await self.doors(**times)
            if site not in self._sites:
                raise ConfigError(
                    f"{self.source}: there is no site {site!r}{nearest(site, self._sites)}"
                )
            addresses = [doors[site]] if site in doors else addresses
        async with self.at(addresses, site or self.context.site, **times) as client:
            yield client

    @asynccontextmanager
    async def at(
        self, addresses: Sequence[str], site: str, **times: float
    ) -> "AsyncIterator[Client]":
        from ordercast.net.client.client import connect

        files = self.credentials
        async with connect(
            list(addresses), site or None, cert=files.cert, key=files.key, ca=files.ca,
            secret=files.secret, **times,  # type: ignore[arg-type]
        ) as client:  # fmt: skip
            self.name = client.cluster.name
            yield client

    async def doors(self, **times: float) -> dict[str, str]:
        """Where the daemons of the cluster listen for clients, as one of them says."""
        if self._doors is None:
            async with self.at(self.context.addresses, self.context.site, **times) as client:
                try:
                    told = (await client.status()).get("doors", {})
                except Error:  # it has no grant to ask
                    told = {}
                self._sites = client.sites
            self._doors = self.addresses_of(told)
        return self._doors

    def addresses_of(self, doors: Mapping[str, str]) -> dict[str, str]:
        """The addresses to dial, by site, for the doors that a daemon has told."""
        scheme = "tls" if self.credentials.cert is not None else "tcp"
        return {site: f"{scheme}://{door}" for site, door in doors.items()}


Destination: TypeAlias = LocalDestination | RemoteDestination
