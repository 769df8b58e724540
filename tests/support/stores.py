"""Stores for tests: small records, a store that is driven without an event loop, and worlds of the
simulator whose sites write to real stores.

A crash of such a site leaves what a SIGKILL would leave: the files as they are at that moment.
"""

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ordercast.core.outbox import Accepted, Checkpoint, Outbox, Passed, Record
from ordercast.core.site import Site
from ordercast.core.structure import Structure
from ordercast.model.messages import Batch, Delivery, Key, Placed, pack_payloads
from ordercast.net.config import Retention
from ordercast.net.store import Store, Written
from ordercast.plan.advice import advise
from ordercast.sim.chance import Stream
from ordercast.sim.config import SimConfig
from ordercast.sim.disk import Disk
from ordercast.sim.world import World

SOON_S = 30.0  # that a busy machine may take


def batch(seq: int, count: int = 1, *, origin: str = "a", group: str = "g", size: int = 8) -> Batch:
    """Payloads tell their seq, and are at least `size` bytes."""
    payloads = [f"{origin}{seq + n}".encode().ljust(size, b".") for n in range(count)]
    return Batch(origin, 1, group, seq, count, pack_payloads(payloads))


def accepted(seq: int, count: int = 1, **given: Any) -> Accepted:
    return Accepted(batch(seq, count, **given))


def passed(seq: int, count: int = 1, *, number: int | None = None, **given: Any) -> Passed:
    """A batch from the parent, placed there in the order of its numbers."""
    at = seq if number is None else number
    return Passed(Placed(Key((0, at), "r"), at, batch(seq, count, **given)), "r", True)


def open_store(path: Path, durability: str = "os", **given: Any) -> Store:
    """Calls are made in the writer's thread, as soon as they are due."""
    given.setdefault("mine", lambda _: True)
    given.setdefault("call", lambda call: call())
    return Store.open(path, **{"cluster": "c", "site": "a", "durability": durability, **given})


def write(store: Store, *records: Record, **given: Any) -> None:
    """A box, and wait until it is durable."""
    flush(store, Written(records=records, **given))


def flush(store: Store, box: Written | None = None) -> None:
    done = threading.Event()
    store.write(box or Written(), done.set)
    assert done.wait(SOON_S), "the store did not answer"


def kill(store: Store, to: Path) -> Path:
    """The files as a SIGKILL would leave them now, under another name."""
    for ending in ("", "-wal"):
        beside = store.path.with_name(store.path.name + ending)
        if beside.exists():
            shutil.copyfile(beside, to.with_name(to.name + ending))
    return to


def everything(store: Store) -> list[Record]:
    checkpoint, records = store.restored()
    return [*(checkpoint.records if checkpoint else ()), *records]


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Permissions do not bind root: act as a user whom they bind, who may come to the folder and
    write there."""
    user = os.geteuid()
    with suppress(PermissionError):
        folder.chmod(0o777)
        for above in folder.parents:
            if above.stat().st_mode & 0o001:
                break
            above.chmod(0o755)
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(user)


def ask(store: Store, query: str) -> list[Any]:
    """The first column of what the file says, over another connection."""
    db = sqlite3.connect(store.path)
    try:
        return [row[0] for row in db.execute(query).fetchall()]
    finally:
        db.close()


class StoreDisk(Disk):
    """The simulator's disk over a real store. Outboxes reach the store when a sync begins; a crash
    leaves those, and some first part of the rest."""

    def __init__(
        self, folder: Path, site: str, stream: Stream, mine: Callable[[Batch], bool],
        seen: list[tuple[int, Delivery]], retention: Retention,
    ) -> None:  # fmt: skip
        super().__init__("sync", stream)
        self.forget: Checkpoint | None = None
        self.starts = 0
        self.checked = 0  # positions that a start found again
        self._folder = folder
        self._site = site
        self._mine = mine
        self._seen = seen
        self._retention = retention
        self._waiting: list[Written] = []
        self._found: tuple[Checkpoint | None, list[Record]] = (None, [])
        self.store: Store | None = None

    def write(self, outbox: int, records: Any) -> None:  # noqa: ARG002  # as Disk has it
        self._waiting.append(self._box(records))

    def only_forget(self) -> None:
        self._waiting.append(self._box(()))

    def _box(self, records: Any) -> Written:
        forget, self.forget = self.forget, None
        return Written(records=records, forget=forget, at_ns=1, delivered=len(self._seen))

    def begin_sync(self, slow: int) -> int:
        self._hand_over(len(self._waiting))
        return super().begin_sync(slow)

    def crash(self) -> None:
        self._hand_over(self._stream.between(0, len(self._waiting)))
        self._waiting.clear()
        assert self.store is not None
        killed = kill(self.store, self._folder / f"killed{self.starts}" / f"{self._site}.db")
        self.store.close_sync()
        shutil.move(killed, self.path)
        wal = killed.with_name(f"{killed.name}-wal")
        if wal.exists():
            shutil.move(wal, f"{self.path}-wal")
        self.store = None

    def restore(self) -> tuple[Checkpoint | None, list[Record]]:
        if self.store is None:
            self.starts += 1
            (self._folder / f"killed{self.starts}").mkdir(parents=True, exist_ok=True)
            self.store = open_store(
                self.path, site=self._site, mine=self._mine, retention=self._retention
            )
            assert self.store.boot == self.starts
            self._found = self.store.restored()
            self._compare(self.store)
        return self._found

    @property
    def path(self) -> Path:
        return self._folder / f"{self._site}.db"

    def close(self) -> None:
        assert self.store is not None
        self._hand_over(len(self._waiting))
        flush(self.store, Written(delivered=len(self._seen)))
        self.store.close_sync(quiet=True)

    def _hand_over(self, count: int) -> None:
        assert self.store is not None
        for box in self._waiting[:count]:
            self.store.write(box, None)
        del self._waiting[:count]
        seen = len(self._seen)
        confirmed = self._stream.between(self.store.confirmed, seen) if seen else None
        flush(self.store, Written(confirmed=confirmed, delivered=seen))

    def _compare(self, store: Store) -> None:
        """The log has every position that is not confirmed, as the application saw it."""
        assert store.logged >= len(self._seen), "delivered, but not durable"
        position = store.confirmed + 1
        while position <= len(self._seen):
            found = store.read(position, 100)
            assert found[0].position <= position
            for delivered in found:
                for delivery in delivered.deliveries():
                    if position <= delivery.position <= len(self._seen):
                        assert delivery == self._seen[delivery.position - 1][1]
                        self.checked += 1
            position = found[-1].last + 1


class StoredWorld(World):
    """A world whose sites have real stores under `folder`."""

    def __init__(
        self, config: SimConfig, seed: int, folder: Path, retention: Retention | None = None
    ) -> None:
        forest = advise(config.table, config.built_by).forest
        structure = Structure(1, config.table, forest)
        super().__init__(config, structure, seed, self._stored)
        self.disks: dict[str, StoreDisk] = {}
        self.truncated = 0  # sites whose export has a base
        for name, place in self.places.items():
            seen = self.recorder.seen[name]
            stream = Stream(seed, f"store {name}")
            disk = StoreDisk(
                folder, name, stream, _mine(structure, name), seen, retention or Retention()
            )
            self.disks[name] = place.disk = disk

    def _stored(self, name: str, *given: Any, **more: Any) -> Site:
        return _Stored(self.disks[name], name, *given, **more)

    def close(self) -> None:
        for disk in self.disks.values():
            disk.close()


class _Stored(Site):
    """Its checkpoints go to the store with the records of the same outbox."""

    def __init__(self, disk: StoreDisk, *given: Any, **more: Any) -> None:
        self._disk = disk
        super().__init__(*given, **more)

    def drain(self) -> Outbox:
        box = super().drain()
        self._disk.forget, box.forget = box.forget, None
        if self._disk.forget is not None and not box.persist:
            self._disk.only_forget()
        return box


def _mine(structure: Structure, name: str) -> Callable[[Batch], bool]:
    def mine(batch: Batch) -> bool:
        return name in (batch.members or structure.members(batch.group))

    return mine
