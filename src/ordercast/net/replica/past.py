"""The states that a replica can go back to: its snapshot on disk, or the state that it began with.

At level `agreed` a site that was cut off may roll deliveries back. A snapshot is written only when
its position is settled: then nothing up to there can be taken back any more. So the last snapshot
is always valid, and the commands after it are applied again.
"""

import asyncio
import logging
from pathlib import Path
from weakref import WeakKeyDictionary

from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Group
from ordercast.net.replica.membership import ReplicaHost
from ordercast.net.site.snapshot_file import Hooks, Snapshot, read_snapshot, write_snapshot

_log = logging.getLogger("ordercast.net.replica")

_LOOK_S = 0.02  # pause between looks at what is settled

# By node, for each of its replicas, closed ones included: the position up to which the replica
# needs nothing. Only positions that none of them needs are confirmed.
_saved: WeakKeyDictionary[ReplicaHost, dict[tuple[Group, Path | None], int]] = WeakKeyDictionary()


class ReplicaPast:
    """`saved`: the position of the last snapshot on disk. `attempt`: the last rollback that the
    replica knows of."""

    def __init__(self, node: ReplicaHost, group: Group, hooks: Hooks | None) -> None:
        self.saved = 0
        self.attempt = 1
        self.path = None if hooks is None else hooks.path
        self._node = node
        self._group = group
        self._hooks = hooks
        self._first: bytes | None = None  # the state before anything was applied
        self._writing: asyncio.Future[None] | None = None
        cluster = node.cluster
        self._may_roll_back = cluster.deliver == "agreed" and cluster.on_failure == "exclude"

    def __str__(self) -> str:
        return f"the replica of {self._group} at site {self._node.site}"

    async def begin(self) -> int:
        """Restore the last snapshot, if there is one. Returns its position, or 0."""
        hooks, node = self._hooks, self._node
        status = await node.status()
        self.attempt = status["attempt"]
        if hooks is not None and self._may_roll_back:
            self._first = state_of(hooks)
        found = await self._read()
        if found is None or hooks is None:
            return 0
        logged = status["logged"]
        if found.position > logged:
            raise ConfigError(
                f"{self.path}: the snapshot is of position {found.position}, and site"
                f" {node.site} has come to {logged} only: it belongs to another store of that site"
            )
        hooks.restore(found.state)
        self.saved = found.position
        return found.position

    async def _read(self) -> Snapshot | None:
        if self.path is None:
            return None
        cluster, site = self._node.cluster.name, self._node.site
        return await asyncio.to_thread(read_snapshot, self.path, cluster, site, self._group)

    async def go_back(self, position: int, joined_at: int | None) -> int:
        """Restore a state that has nothing after `position`. Returns the position of that state.
        `joined_at`: where the site joined the group; reading from there gives that state."""
        hooks = self._hooks
        if hooks is None:
            raise Error(
                f"deliveries behind position {position} were taken back, and a replica without"
                " 'snapshot' and 'restore' cannot go back: make another one, with a new state"
            )
        found = await self._read()
        if found is not None and joined_at is not None and found.position < joined_at:
            found = None
        if found is not None and found.position <= position:
            hooks.restore(found.state)
            return found.position
        if joined_at is not None:
            return joined_at
        assert self._first is not None
        hooks.restore(self._first)
        return 0

    async def save(self, position: int, state: bytes) -> bool:
        """Wait until the position is settled, write the snapshot, then confirm. Returns False if
        the position was taken back before it was settled."""
        node, path = self._node, self.path
        assert path is not None
        attempt = self.attempt
        while self._may_roll_back:
            status = await node.status()
            if any(at > attempt and to < position for at, to in status["rolled_back"]):
                return False
            if status["settled"] >= position:
                break
            await asyncio.sleep(_LOOK_S)
        made = Snapshot(node.cluster.name, node.site, self._group, position, state)
        self._writing = asyncio.ensure_future(asyncio.to_thread(write_snapshot, path, made))
        await asyncio.shield(self._writing)
        self.saved = position
        least = self.needs_nothing_up_to(position)
        if least > 0:
            try:
                await node.confirm(least)
            except Error as error:  # the next snapshot confirms it too
                _log.warning("%s: position %d is not confirmed: %s", self, least, error)
        return True

    async def written(self) -> None:
        """Wait for the thread that writes the snapshot: the next replica may write the same
        file."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    def needs_nothing_up_to(self, position: int) -> int:
        """This replica needs nothing up to the position. Returns the position up to which none of
        the node's replicas needs anything."""
        saved = _saved.setdefault(self._node, {})
        saved[self._group, self.path] = position
        return min(saved.values())


def state_of(hooks: Hooks) -> bytes:
    state = hooks.snapshot()
    if not isinstance(state, bytes):
        raise ConfigError(f"snapshot: returned {type(state).__name__}, not bytes")
    return state
