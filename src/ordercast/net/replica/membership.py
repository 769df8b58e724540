"""The membership of a replica's site in its group, and the state that is given to a site that
joins."""

from typing import Any, Protocol, runtime_checkable

from ordercast.core.epochs.records import EpochOpened
from ordercast.model.errors import ConfigError, Error, UnknownGroup
from ordercast.model.groups import Group, Site
from ordercast.model.names import nearest
from ordercast.net.site.handover import Handover, is_due
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.snapshot_file import Hooks
from ordercast.wire.replica_digest import ReplicaDigest


class HostCluster(Protocol):
    """What a replica needs to know of the cluster."""

    @property
    def name(self) -> str: ...
    @property
    def deliver(self) -> str: ...
    @property
    def on_failure(self) -> str: ...


class ReplicaHost(Protocol):
    """What a replica needs of its node. The node is in this process, or in a daemon."""

    site: Site

    @property
    def cluster(self) -> HostCluster: ...

    @property
    def incarnation(self) -> int: ...

    async def multicast(self, group: Any, payload: bytes) -> Any: ...
    def batches(self, start: int | None = None, attempt: int | None = None) -> Any: ...
    async def confirm(self, position: int) -> None: ...
    async def status(self) -> dict[str, Any]: ...


@runtime_checkable
class RemoteSite(Protocol):
    """A node in a daemon. The daemon has the connections to the other sites."""

    def keep_seqs(self) -> None: ...
    async def exchange_digests(
        self, group: Group, digest: ReplicaDigest | None, alarm: str
    ) -> list[tuple[Site, ReplicaDigest]]: ...


class ReplicaGroup:
    """`outside`: the site is no member in the epoch that was read last. `joined_at`: the position
    at which the site was given the group's state, if it was."""

    def __init__(self, node: ReplicaHost, group: Group, hooks: Hooks | None) -> None:
        self.outside = False
        self.joined_at: int | None = None
        self._node = node
        self._group = group
        self._hooks = hooks
        # Not for a daemon's client: the daemon has the connections to the peers.
        self._handover: Handover | None = None
        if isinstance(node, Node):
            self._handover = site_of(node).handover

    async def require_member(self) -> None:
        status = await self._node.status()
        groups = {
            name: told["members"]
            for epoch in status["epochs"]
            for name, told in epoch["groups"].items()
        }
        site: Site = self._node.site
        if self._group not in groups:
            raise UnknownGroup(f"there is no group {self._group!r}{nearest(self._group, groups)}")
        members = groups[self._group]
        if site not in members:
            raise ConfigError(
                f"site {site!r} is no member of group {self._group!r} ({', '.join(members)}): only"
                " members can hold a replica of it"
            )

    def enter(self) -> None:
        if isinstance(self._node, RemoteSite):
            self._node.keep_seqs()
        if self._handover is not None and self._hooks is not None:
            self._handover.gives(self._group, more=1)

    def leave(self) -> None:
        if self._handover is not None and self._hooks is not None:
            self._handover.gives(self._group, more=-1)

    async def exchange(
        self, digest: ReplicaDigest | None, alarm: str
    ) -> list[tuple[Site, ReplicaDigest]]:
        """Tell the other members the replica's digest, and this site's operator what is wrong.
        Returns what the others told last."""
        node = self._node
        if isinstance(node, Node):
            return site_of(node).digests.exchange(self._group, digest, alarm)
        if isinstance(node, RemoteSite):
            return await node.exchange_digests(self._group, digest, alarm)
        return []

    async def opened(self, epoch: EpochOpened) -> None:
        """The replica has applied everything before the epoch, and nothing of it. Give the state to
        the sites that join, or take it."""
        group, hooks, handover = self._group, self._hooks, self._handover
        self.outside = group not in epoch.groups
        if self.outside:
            return
        if group in epoch.joined:
            self.joined_at = epoch.position
            if handover is None:
                raise Error(
                    f"site {self._node.site} has joined {group}, and a client of a daemon cannot"
                    " take the group's state; run the site in the application (Node.open)"
                )
            state = await handover.fetch(epoch, group)
            if state is not None:
                if hooks is None:
                    raise Error(
                        f"site {self._node.site} has joined {group}, which has a state: a replica"
                        " needs 'snapshot' and 'restore' to take it"
                    )
                hooks.restore(state)
        elif is_due(epoch, group) and handover is not None and hooks is not None:
            await handover.give(epoch, group, hooks.snapshot())
