"""`async with Node.open(...)`: the store and the transport of a real site around its node."""

import logging
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ordercast.model.errors import Error
from ordercast.model.groups import Site as SiteName
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster
from ordercast.net.site.assembly import open_store, over_tcp
from ordercast.net.site.founding import require_known
from ordercast.net.site.handover import StateHooks

if TYPE_CHECKING:
    from ordercast.net.site.node import Node

_log = logging.getLogger("ordercast.net.node")


class Opening:
    """`async with Node.open(...)`: makes the node on entering, closes it on leaving."""

    def __init__(
        self,
        kind: "type[Node]",
        cluster: str | Path | Cluster,
        site: SiteName,
        directory: str | Path | None,
        embedded: bool,
        address: str,
        hooks: StateHooks | None,
    ) -> None:
        self._kind = kind
        self._cluster = cluster
        self._site = site
        self._directory = directory
        self._embedded = embedded
        self._address = address
        self._hooks = hooks
        self._node: Node | None = None

    async def __aenter__(self) -> "Node":
        cluster = self._cluster
        if not isinstance(cluster, Cluster):
            cluster = read_cluster(cluster)
        directory = cluster.directory(self._directory)
        require_known(cluster, self._site, directory, self._address)
        store = open_store(cluster, self._site, directory)
        try:
            node = self._kind(
                cluster,
                self._site,
                store,
                over_tcp(cluster),
                embedded=self._embedded,
                address=self._address,
                hooks=self._hooks,
            )
            await node.start()
        except BaseException:
            await store.close()
            raise
        self._node = node
        return node

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Without an error of the application's own, what was not flushed is one."""
        assert self._node is not None
        try:
            await self._node.close()
        except Error as unflushed:
            if error is None:
                raise
            _log.warning("%s", unflushed)
