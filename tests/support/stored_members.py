"""Members through changing epochs, each on a real store beside the simulated disk of its world.

A crash of a site leaves what a SIGKILL would leave: its files as they are then. At each start the
store must give the very records that the disk has; what the application has not seen although the
core will not deliver it again, it is given out of the store's log, as a node does.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ordercast.check.report import check_history
from ordercast.core.epochs.member import REFUSED
from ordercast.core.epochs.records import EpochOpened, MemberBox, MemberRecord
from ordercast.history.digest import digest
from ordercast.history.reader import read_history
from ordercast.history.rows import BASE, OPEN
from ordercast.model.options import SECOND
from ordercast.net.config import Retention
from ordercast.net.export import export
from ordercast.net.openings import founding_told, open_event
from ordercast.net.store import Store, Written
from support.epoch_schedules import ON_TREES, drawn_world
from support.epochs import World
from support.stores import ask, flush, kill, open_store


class StoredMembers(World):
    """`together`: a checkpoint is committed with the records it follows, as a driver does it; else
    as the last of an outbox's duties."""

    def __init__(
        self, folder: Path, retention: Retention, *given: Any, together: bool, **more: Any
    ) -> None:
        self.folder = folder
        self.retention = retention
        self.together = together
        self.compared = self.filled = 0  # records, positions
        self._confirming = random.Random(more["seed"])
        self.on_store: dict[str, Store] = {}
        super().__init__(*given, **more)

    def start(self, site: str) -> None:
        path = self.folder / f"{site}.db"
        before = self.on_store.pop(site, None)
        if before is not None:
            path = self._killed(before)
        store = self.on_store[site] = open_store(path, site=site, retention=self.retention)
        epochs = founding_told(self.first) if site in self.first.roster else []
        store.describe(deliver=self.options.deliver, on_failure="wait", epochs=epochs)
        restored = store.restored()
        assert _bytes(restored) == _bytes(self.disks[site]), f"{site} gets other records back"
        self.compared += len(restored)
        self.disks[site] = restored
        self._fill(site, store)
        super().start(site)

    def _killed(self, store: Store) -> Path:
        flush(store)
        to = self.folder / "killed" / store.path.name
        to.parent.mkdir(exist_ok=True)
        kill(store, to)
        store.close_sync()
        for ending in ("", "-wal"):
            beside = to.with_name(to.name + ending)
            if beside.exists():
                beside.rename(store.path.with_name(store.path.name + ending))
        return store.path

    def _fill(self, site: str, store: Store) -> None:
        """The application goes on where it was."""
        seen = self.seen[site]
        assert store.logged >= len(seen), "delivered, but not durable"
        position = store.confirmed + 1
        while position <= store.delivered:
            found = store.read(position, 100)
            for delivery in (d for one in found for d in one.deliveries()):
                row = (delivery.epoch, delivery.id, delivery.payload)
                if position <= delivery.position <= store.delivered:
                    if delivery.position == len(seen) + 1:
                        self.filled += 1
                        seen.append(row)
                    assert seen[delivery.position - 1] == row
            position = found[-1].last + 1
        self.opened[site] = store.opened()
        for detail in ask(store, "SELECT detail FROM events WHERE kind = 'refused'"):
            told = json.loads(detail)
            stages = self.stages.get((site, told["group"], told["seq"]))
            if stages is not None:
                stages.add(REFUSED)

    def _persist(self, site: str, box: MemberBox) -> None:
        super()._persist(site, box)
        opened = [open_event(item) for item in box.deliver if isinstance(item, EpochOpened)]
        seen = len(self.seen[site])
        written = Written(
            box.persist, at_ns=self.now + 1, after_position=seen, delivered=seen, events=opened
        )
        if self.together:
            written.forget = box.forget
            super()._forget(site, box)
        if self._confirming.random() < 0.2:
            written.confirmed = self._confirming.randint(0, seen)
        self.on_store[site].write(written, None)

    def _forget(self, site: str, box: MemberBox) -> None:
        if not self.together:
            super()._forget(site, box)
            if box.forget is not None:
                self.on_store[site].write(Written(forget=box.forget, at_ns=self.now + 1), None)

    def close(self) -> None:
        for site, store in self.on_store.items():
            flush(store, Written(delivered=len(self.seen[site])))
            store.close_sync(quiet=True)


def stored(
    seed: int,
    folder: Path,
    retention: Retention | None = None,
    *,
    crash: float | None = None,
    protocols: Sequence[str] = ON_TREES,
) -> StoredMembers:
    """The schedule of the seed, run to its end on stores under `folder`."""

    def make(*given: Any, **more: Any) -> StoredMembers:
        if crash is not None:
            more["crash"] = crash
        return StoredMembers(
            folder, retention or Retention(), *given, together=seed % 2 == 0, **more
        )

    world = drawn_world(seed, protocols=protocols, make_world=make)
    assert isinstance(world, StoredMembers)
    try:
        world.run(3 * SECOND)
        world.settle()
    finally:
        world.close()
    return world


def judge_export(world: StoredMembers) -> int:
    """The export is good, and has what the applications saw, but for what lies below a base; how
    many sites have one."""
    out = world.folder / "out"
    export(world.folder, out)
    history = read_history(out)
    report = check_history(history, causal=world.options.causal)
    assert report.ok, report.verdicts
    bases: dict[str, int] = {}
    for event in history.events:
        if event.kind == BASE:
            bases[event.site] = max(event.position, bases.get(event.site, 0))
    wanted = {
        (site, position): (epoch, message, digest(payload))
        for site, rows in world.seen.items()
        for position, (epoch, message, payload) in enumerate(rows, 1)
        if position > bases.get(site, 0)
    }
    found = {(r.site, r.position): (r.epoch, r.id, r.digest) for r in history.deliveries}
    assert found == wanted
    opened = [(event.site, event.epoch) for event in history.events if event.kind == OPEN]
    assert sorted(opened) == sorted((s, o.epoch) for s in world.opened for o in world.opened[s])
    return sum(position > 0 for position in bases.values())


def _bytes(records: list[MemberRecord]) -> bytes:
    """Lists and tuples are the same on a disk."""
    return msgspec.msgpack.encode(records)
