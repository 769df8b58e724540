"""The application's state of a group, handed to a site that joins it.

A member takes its state where the new epoch opens: its application has then applied all messages of
the group before that epoch, and no later one. A joiner restores the state before its first delivery
of that epoch. So the joiner has everything, whichever member gives the state and however late.

Both sides keep the state in `SITE.snapshots`: after a restart it is given, or restored, again. A
site does not answer before its application has come to the epoch; a joiner asks again.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ordercast.core.epochs.records import EpochOpened
from ordercast.model.errors import ConfigError, Error, TooLarge
from ordercast.model.groups import Group, Site
from ordercast.model.limits import PIECE_BYTES
from ordercast.net.site.snapshot_file import Snapshot, read_snapshot, write_snapshot
from ordercast.net.store.events import ENTRIES_KEPT
from ordercast.wire.codec import WireFrame
from ordercast.wire.handover import HandoverFrame, NoSnapshot, SnapshotPiece, SnapshotWanted

STATE_BYTES = 1 << 30  # of one group
AGAIN_S = 0.25  # without an answer
PATIENCE_S = 5.0  # if all donors refuse: their applications may be just starting
SERVING_S = 5.0  # a state stays in memory after it was last asked for
_NOTHING = ""  # the reason where there is no state: the group began with the epoch


@dataclass(frozen=True, slots=True)
class StateHooks:
    """How an application gives its state of a group, and takes it."""

    snapshot: Callable[[Group], bytes]
    restore: Callable[[Group, bytes], object]


def state_hooks(
    snapshot: Callable[[Group], bytes] | None, restore: Callable[[Group, bytes], object] | None
) -> StateHooks | None:
    if snapshot is None and restore is None:
        return None
    if snapshot is None or restore is None:
        raise ConfigError("snapshot and restore: give both, or none")
    return StateHooks(snapshot, restore)


class Entered(Protocol):
    """Which epochs have opened here, and in which of them a site came into a group. An entry is an
    opening with some of its groups; old ones are forgotten."""

    @property
    def last_opened(self) -> int: ...

    def entered_at(self, epoch: int, group: Group) -> EpochOpened | None: ...


class Handover:
    def __init__(
        self,
        cluster: str,
        site: Site,
        send: Callable[[Site, WireFrame], None],
        entered: Entered,
        *,
        folder: Path | None,
        hooks: StateHooks | None,
    ) -> None:
        self._cluster = cluster
        self._site = site
        self._send = send
        self._entered = entered
        self._folder = folder
        self._hooks = hooks
        self._states: dict[tuple[int, Group], bytes] = {}
        self._givers: dict[Group, int] = {}  # applications here that give the group's state
        self._fetches: dict[tuple[int, Group], _Fetch] = {}
        self._serving: tuple[tuple[int, Group], bytes, bytes] | None = None  # key, state, digest
        self._unneeded: asyncio.TimerHandle | None = None  # when `_serving` goes

    # --- the application has come to an epoch -----------------------------------------------------

    async def at(self, opened: EpochOpened) -> None:
        """The application has applied everything before the epoch: give and take states."""
        hooks = self._hooks
        if hooks is None:
            return
        for group in opened.groups:
            if group in opened.joined:
                state = await self.fetch(opened, group)
                if state is not None:
                    hooks.restore(group, state)
            elif is_due(opened, group):
                await self.give(opened, group, hooks.snapshot(group))

    def gives(self, group: Group, *, more: int) -> None:
        """Change the number of applications here that will `give` the state of the group."""
        self._givers[group] = self._givers.get(group, 0) + more

    async def give(self, opened: EpochOpened, group: Group, state: bytes) -> None:
        """Keep the state for the joiners. It is durable when this returns, if the store is."""
        if not isinstance(state, bytes):
            raise ConfigError(f"snapshot: returned {type(state).__name__}, not bytes")
        if len(state) > STATE_BYTES:
            raise TooLarge(
                f"snapshot of {group}: {len(state):,} bytes; the limit is {STATE_BYTES:,}"
            )
        await self._keep(opened, group, state)

    async def fetch(self, opened: EpochOpened, group: Group) -> bytes | None:
        """The group's state where the epoch opened; None: the group began there."""
        others = dict(opened.members)[group]
        if group not in dict(opened.arrived) and opened.arrived:
            return None
        kept = await self._kept(opened.epoch, group)
        if kept is not None:
            return kept
        donors = [site for site in others if site != self._site and site not in _new(opened, group)]
        if not donors:
            return None
        key = (opened.epoch, group)
        if key not in self._fetches:
            self._fetches[key] = _Fetch(opened.epoch, group, donors, self._send)
        fetch = self._fetches[key]
        fetch.waiters += 1
        try:
            state = await fetch.result()
        finally:
            fetch.waiters -= 1
            if not fetch.waiters:
                self._fetches.pop(key, None)
        if state is not None:
            await self._keep(opened, group, state)
        return state

    # --- keeping ----------------------------------------------------------------------------------

    async def _keep(self, opened: EpochOpened, group: Group, state: bytes) -> None:
        if self._folder is None:
            self._states[opened.epoch, group] = state
            mine = sorted(key for key in self._states if key[1] == group)
            for key in mine[:-ENTRIES_KEPT]:
                del self._states[key]
            return
        made = Snapshot(self._cluster, self._site, group, opened.position, state)
        await asyncio.to_thread(_write, self._folder, opened.epoch, made)

    async def _kept(self, epoch: int, group: Group) -> bytes | None:
        if self._folder is None:
            return self._states.get((epoch, group))
        return await asyncio.to_thread(_read, self._folder, epoch, self._cluster, self._site, group)

    # --- frames -----------------------------------------------------------------------------------

    def handed(self, peer: Site, frame: HandoverFrame) -> None:
        if isinstance(frame, SnapshotWanted):
            task = asyncio.ensure_future(self._answer(peer, frame))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        else:
            fetch = self._fetches.get((frame.epoch, frame.group))
            if fetch is not None:
                fetch.answered(peer, frame)

    async def _answer(self, peer: Site, wanted: SnapshotWanted) -> None:
        epoch, group = wanted.epoch, wanted.group
        entry = self._entered.entered_at(epoch, group)
        if entry is None:
            if epoch <= self._entered.last_opened:  # else it is not open here yet
                why = f"{self._site} no longer knows who came into {group} with epoch {epoch}"
                self._send(peer, NoSnapshot(epoch, group, why))
            return
        if peer not in dict(entry.members)[group]:
            return
        if group not in dict(entry.arrived):
            self._send(peer, NoSnapshot(epoch, group, _NOTHING))
            return
        serving = self._serving
        if serving is None or serving[0] != (epoch, group):
            found = await self._kept(epoch, group)
            serving = None
            if found is not None:
                serving = ((epoch, group), found, hashlib.sha256(found).digest())
        if serving is None:
            if self._hooks is None and not self._givers.get(group):
                why = f"no application at {self._site} gives its state of {group}"
                self._send(peer, NoSnapshot(epoch, group, why))
            return  # else the application here has not come to the epoch yet
        self._serving = serving
        self._let_go_later()
        _, state, digest = serving
        data = state[wanted.offset : wanted.offset + PIECE_BYTES]
        if data or not state:
            piece = SnapshotPiece(epoch, group, wanted.offset, len(state), digest, data)
            self._send(peer, piece)

    def _let_go_later(self) -> None:
        if self._folder is None:  # it is in memory anyway
            return
        if self._unneeded is not None:
            self._unneeded.cancel()
        loop = asyncio.get_running_loop()
        self._unneeded = loop.call_later(SERVING_S, self._let_go)

    def _let_go(self) -> None:
        self._serving = self._unneeded = None


class _Fetch:
    """One state under way: asked of each donor in turn until one gives all of it."""

    def __init__(
        self, epoch: int, group: Group, donors: list[Site], send: Callable[[Site, WireFrame], None]
    ) -> None:
        self.waiters = 0
        self._epoch = epoch
        self._group = group
        self._donors = donors
        self._send = send
        self._got = bytearray()
        self._checksum = b""
        self._refusals: dict[Site, str] = {}
        self._news = asyncio.Event()
        self._turn = 0
        self._state: bytes | None = None
        self._done = False
        self._answered_by: Site | None = None

    async def result(self) -> bytes | None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while not self._done:
            if len(self._refusals) == len(self._donors) and loop.time() > begun + PATIENCE_S:
                why = "; ".join(self._refusals[site] for site in sorted(self._refusals))
                raise Error(f"the state of {self._group} is not to be had: {why}")
            self._ask()
            self._news.clear()
            try:
                async with asyncio.timeout(AGAIN_S):
                    await self._news.wait()
            except TimeoutError:
                self._turn += 1  # another donor may be further
        return self._state

    def _ask(self) -> None:
        donor = self._donors[self._turn % len(self._donors)]
        self._send(donor, SnapshotWanted(self._epoch, self._group, len(self._got)))

    def answered(self, peer: Site, frame: HandoverFrame) -> None:
        if self._done or peer not in self._donors:
            return
        if isinstance(frame, NoSnapshot):
            if frame.why == _NOTHING:
                self._done = True
                self._news.set()
            else:
                self._refusals[peer] = frame.why  # it is asked again after a while
            return
        if not isinstance(frame, SnapshotPiece) or frame.total > STATE_BYTES:
            return
        if frame.checksum != self._checksum or peer != self._answered_by:
            # States of two members are equal, and need not be equal bytes.
            self._got, self._checksum, self._answered_by = bytearray(), frame.checksum, peer
        self._refusals.pop(peer, None)
        if frame.offset == len(self._got):
            self._got += frame.data
            if len(self._got) == frame.total:
                self._finish()
        self._turn = self._donors.index(peer)
        self._news.set()

    def _finish(self) -> None:
        if hashlib.sha256(self._got).digest() == self._checksum:
            self._state, self._done = bytes(self._got), True
        self._got, self._checksum = bytearray(), b""


def is_due(opened: EpochOpened, group: Group) -> bool:
    """Whether a site that has joined the group needs the group's state from here."""
    return group not in opened.joined and group in dict(opened.arrived)


def _new(opened: EpochOpened, group: Group) -> tuple[Site, ...]:
    return dict(opened.arrived).get(group, ())


def _path(folder: Path, epoch: int, group: Group) -> Path:
    return folder / f"{group}.{epoch}"


def _write(folder: Path, epoch: int, snapshot: Snapshot) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_snapshot(_path(folder, epoch, snapshot.group), snapshot)
    older = [
        (int(path.suffix[1:]), path)
        for path in folder.glob(f"{snapshot.group}.*")
        if path.stem == snapshot.group and path.suffix[1:].isdigit()
    ]
    for _, path in sorted(older)[:-ENTRIES_KEPT]:
        path.unlink(missing_ok=True)


def _read(folder: Path, epoch: int, cluster: str, site: Site, group: Group) -> bytes | None:
    if not folder.is_dir():
        return None
    found = read_snapshot(_path(folder, epoch, group), cluster, site, group)
    return None if found is None else found.state
