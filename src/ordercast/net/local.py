"""A whole cluster in one process, for tests and notebooks: real sites, no sockets.

Frames go from site to site through the event loop, without encoding; everything else is as over the
network. With a directory the sites have real stores, and can be killed and restarted. Sites can be
added and retired while the others run, and cut off from each other.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Group, Site
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.directory import require_path
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.net.link.peers import LinkStatus
from ordercast.net.link.pipes import RelayCounts
from ordercast.net.site.assembly import AnyTransport, MakeTransport, TransportSite, open_store
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.running_site import CLOSE_S, RunningSite
from ordercast.wire.codec import WireFrame

NO_ADDRESS = "127.0.0.1:0"  # nobody dials it
_LOOK_S = 0.005

_log = logging.getLogger("ordercast.net.local")


class LocalCluster:
    """A cluster in this process, to be used with `async with`. `cluster["a"]` is site a's node;
    `nodes` has all that run. Entering starts all sites of the file; leaving flushes and stops them,
    and raises an Error that names the sites whose messages are not ordered in time."""

    def __init__(self, cluster: Cluster, directory: Path | None) -> None:
        self.cluster = cluster
        self.directory = directory
        self.nodes: dict[Site, Node] = {}
        self._wires: dict[Site, _Wire] = {}
        self._added: dict[Site, None] = {}
        self._sides: dict[Site, int] = {}  # of a cluster that is split

    def __getitem__(self, site: Site) -> Node:
        node = self.nodes.get(site)
        if node is None:
            self._require(site)
            raise ConfigError(f"site {site!r} is not running")
        return node

    def _require(self, site: Site) -> None:
        if site not in self._added:
            self.cluster.site(site)

    async def __aenter__(self) -> "LocalCluster":
        try:
            for site in self.cluster.sites:
                await self.start(site)
            while not all(site_of(node).presence.takes() for node in self.nodes.values()):
                await asyncio.sleep(_LOOK_S)  # the voters have yet to find each other
        except BaseException:
            await self._abandon()
            raise
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is None:
                async with asyncio.timeout(CLOSE_S):
                    await asyncio.gather(*(node.flush() for node in self.nodes.values()))
        except TimeoutError:
            sites = [site_of(node) for node in self.nodes.values()]
            names = ", ".join(running.site for running in sites if running.core.window.unstable)
            raise Error(
                f"closed before all was ordered: sites {names} have sent what is not;"
                f" running: {', '.join(self.nodes)}"
            ) from None
        finally:
            await self._abandon()

    async def _abandon(self) -> None:
        for node in list(self.nodes.values()):
            site_of(node).note_delivered()
            await site_of(node).abandon()
        self.nodes.clear()

    async def start(self, site: Site) -> Node:
        """Start a site, at first or on the store that it left. Raises ConfigError if there is no
        such site, or if it runs already; StoreCorrupt."""
        self._require(site)
        if site in self.nodes:
            raise ConfigError(f"site {site!r} runs already")
        directory = self.directory if self.directory is not None else Path()
        store = open_store(self.cluster, site, directory)
        try:
            running = RunningSite(
                self.cluster, site, store, self._transport(), embedded=True, address=NO_ADDRESS
            )
            await running.start()
        except BaseException:
            await store.close()
            raise
        node = self.nodes[site] = Node(running)
        return node

    async def add(self, site: Site) -> Node:
        """Admit a site that was not there, and start it; it may then join groups. Raises
        ConfigError (it is there already, or no site runs), NotInMajority."""
        if site in self.nodes:
            raise ConfigError(f"site {site!r} runs already")
        await self._any().add_site(site, "")
        return await self.newcomer(site)

    async def newcomer(self, site: Site) -> Node:
        """Start a site that the others have admitted; returns when it knows the cluster. Raises
        ConfigError if it runs already."""
        self._added[site] = None
        node = await self.start(site)
        admitted = asyncio.Event()
        site_of(node).on_layout.append(lambda: admitted.set() if node.admitted else None)
        if not node.admitted:
            await admitted.wait()
        return node

    async def retire(self, site: Site) -> None:
        """The site leaves its groups and the cluster, and is closed. Raises ConfigError (it does
        not run, or cannot be retired), NotInMajority, or Error (what it did not flush)."""
        node = self[site]
        others = (other for name, other in self.nodes.items() if name != site)
        await next(others, node).retire_site(site)
        await node.close()
        del self.nodes[site], self._wires[site]
        self._added.pop(site, None)
        self._sides.pop(site, None)

    def _any(self) -> Node:
        for node in self.nodes.values():
            return node
        raise ConfigError("no site is running")

    async def kill(self, site: Site) -> None:
        """Stop a site without flushing; what its store has stays. Raises ConfigError if it does not
        run."""
        node = self[site]
        del self.nodes[site]
        await site_of(node).abandon()

    def split(self, *sides: Sequence[Site]) -> None:
        """From now on nothing passes between two of these sides; sites in none are as before.
        Raises ConfigError if there is no such site."""
        self._sides.clear()
        for number, side in enumerate(sides):
            for site in side:
                self._require(site)
                self._sides[site] = number

    def heal(self) -> None:
        """All sites see each other again. Raises nothing."""
        self._sides.clear()
        for site, wire in self._wires.items():
            for peer in self._wires:
                if peer != site:
                    wire.joined(peer)

    async def restart(self, site: Site) -> Node:
        """Kill a site if it runs, and start it on its store. Raises ConfigError if it has none
        (durability `memory`), or if there is no such site."""
        if self.cluster.durability == "memory":
            raise ConfigError(f"site {site!r} has no store to restart from (durability 'memory')")
        if site in self.nodes:
            await self.kill(site)
        return await self.start(site)

    def _transport(self) -> MakeTransport:
        def make(host: TransportSite) -> AnyTransport:
            wire = self._wires[host.site] = _Wire(host, self._wires, self._sides)
            return wire

        return make


class _Wire:
    """A transport without sockets: two sites are connected while both run."""

    def __init__(
        self, host: TransportSite, wires: "dict[Site, _Wire]", sides: Mapping[Site, int]
    ) -> None:
        self._host = host
        self._wires = wires
        self._sides = sides
        self._loop = asyncio.get_running_loop()
        self._open = False
        self._sent: dict[Site, int] = {}

    async def start(self) -> None:
        self._open = True
        for peer, wire in self._wires.items():
            if wire is not self:
                self.joined(peer)
                wire.joined(self._host.site)

    def joined(self, peer: Site) -> None:
        if self._open and self._reaches(peer):
            self._loop.call_soon(self._host.connected, peer)

    def _reaches(self, peer: Site) -> bool:
        wire, sides = self._wires.get(peer), self._sides
        if wire is None or not wire._open:
            return False
        here, there = sides.get(self._host.site), sides.get(peer)
        return here is None or there is None or here == there

    def send(self, peer: Site, frames: Sequence[WireFrame]) -> None:
        if self._open:
            self._sent[peer] = self._sent.get(peer, 0) + len(frames)
            self._loop.call_soon(self._hand_over, peer, frames)

    def _hand_over(self, peer: Site, frames: Sequence[WireFrame]) -> None:
        if self._reaches(peer):
            self._wires[peer]._host.frames(self._host.site, frames)

    def refuse(self, peer: Site, why: str) -> None:
        """Only log it: all sites of this process run the same code."""
        _log.error("%s: %s: %s", self._host.site, peer, why)

    def meet(self, site: Site, address: tuple[str, int] | None = None) -> None:
        """Nothing to do: all sites of this process find each other."""

    def part(self, site: Site) -> None:
        """Nothing to do: the site is closed by then."""

    def retell(self, terms: Mapping[str, str], uses: tuple[str, ...]) -> None:
        """Nothing to do: all have the same file."""

    def revoke(self, revoked: Mapping[str, str]) -> None:
        """Nothing to do: sites of one process show each other no certificates."""

    def links(self) -> list[LinkStatus]:
        return []

    def relayed(self) -> RelayCounts:
        return RelayCounts()

    @property
    def refusals(self) -> Mapping[str, int]:
        return {}

    @property
    def certificate_ends_at(self) -> int | None:
        return None

    async def close(self) -> None:
        self._open = False


def local_cluster(
    groups: Mapping[Group, Sequence[Site]],
    *,
    dir: str | Path | None = None,  # noqa: A002 - the name of the command's option
    **options: Any,
) -> LocalCluster:
    """`async with local_cluster({"alpha": ["a", "b"]}) as cluster: node = cluster["a"]`.

    Options are those of a cluster file. Nothing is stored, unless there is a `dir`. Raises
    ConfigError for options or groups that a cluster file could not have.
    """
    options.setdefault("durability", "memory" if dir is None else "sync")
    if dir is None and options["durability"] != "memory":
        raise ConfigError(f"durability {options['durability']!r} needs a dir for the stores")
    directory = None if dir is None else require_path(dir, "dir")
    return LocalCluster(cluster_of_groups(groups, **options), directory)
