"""Worlds of the simulator whose sites are members on real stores.

A crash of such a site leaves what a SIGKILL would leave: the files as they are at that moment.
"""

import shutil
from pathlib import Path
from typing import Any

from ordercast.core.epochs.records import REFUSED, Anew, EpochOpened, MemberBox, MemberRecord
from ordercast.core.structure import Structure
from ordercast.model.messages import Delivery
from ordercast.net.cluster.config import Retention
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import founding_facts, opening_event
from ordercast.net.store.store import Store
from ordercast.plan.advice import advise
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.disk import Disk
from ordercast.sim.place import Place
from ordercast.sim.world import World
from support.stores.records import flush, kill, open_store


class StoreDisk(Disk):
    """The simulator's disk over a real store. Outboxes reach the store when a sync begins; a crash
    leaves those, and some first part of the rest. A checkpoint goes with the records it follows, as
    a driver does it."""

    def __init__(
        self, folder: Path, site: str, stream: Chance, seen: list[tuple[int, Delivery]],
        retention: Retention, facts: dict[str, Any],
    ) -> None:  # fmt: skip
        super().__init__("sync", stream)
        self.box: MemberBox | None = None
        self.starts = 0
        self.checked = self.filled = 0  # positions that a start found again, or that were missing
        self._folder = folder
        self._site = site
        self._seen = seen
        self._retention = retention
        self._facts = facts
        self._waiting: list[StoreBox] = []
        self._found: tuple[Anew | None, list[MemberRecord]] = (None, [])
        self.store: Store | None = None

    def write(self, outbox: int, records: Any) -> None:  # noqa: ARG002  # as Disk has it
        assert self.box is not None
        self.take(records, self.box)

    def take(self, records: Any, box: MemberBox) -> None:
        seen = len(self._seen)
        opened = [opening_event(item) for item in box.deliver if isinstance(item, EpochOpened)]
        forget, box.forget = box.forget, None
        refused = [(r.group, r.seq) for r in box.receipts if r.stage == REFUSED]
        written = StoreBox(records, 1, seen, delivered=seen, forget=forget, events=opened)
        written.refused = refused
        self._waiting.append(written)

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

    def restore(self) -> tuple[Anew | None, list[MemberRecord]]:
        if self.store is None:
            self.starts += 1
            (self._folder / f"killed{self.starts}").mkdir(parents=True, exist_ok=True)
            self.store = open_store(self.path, site=self._site, retention=self._retention)
            assert self.store.boot == self.starts
            self.store.describe(**self._facts)
            records = self.store.restored()
            first = records[0] if records else None
            self._found = (first, records[1:]) if isinstance(first, Anew) else (None, records)
        return self._found

    @property
    def path(self) -> Path:
        return self._folder / f"{self._site}.db"

    def close(self) -> None:
        assert self.store is not None
        self._hand_over(len(self._waiting))
        flush(self.store, StoreBox(delivered=len(self._seen)))
        self.store.close_sync(quiet=True)

    def _hand_over(self, count: int) -> None:
        assert self.store is not None
        for box in self._waiting[:count]:
            self.store.write(box, None)
        del self._waiting[:count]
        seen = len(self._seen)
        confirmed = self._stream.between(self.store.confirmed, seen) if seen else None
        flush(self.store, StoreBox(confirmed=confirmed, delivered=seen))

    def unseen(self) -> list[Delivery]:
        """The log has every position that is not confirmed, as the application saw it; and what it
        has not seen although the core will not deliver it again."""
        store = self.store
        assert store is not None
        assert store.logged >= len(self._seen), "delivered, but not durable"
        position = store.confirmed + 1
        missing: list[Delivery] = []
        last = max(store.delivered, len(self._seen))
        while position <= last:
            found = store.read(position, 100)
            assert found[0].position <= position
            for delivery in (d for batch in found for d in batch.deliveries()):
                if not position <= delivery.position <= last:
                    continue
                if delivery.position > len(self._seen):
                    missing.append(delivery)
                else:
                    assert delivery == self._seen[delivery.position - 1][1]
                    self.checked += 1
            position = found[-1].last + 1
        self.filled += len(missing)
        return missing


class StoredWorld(World):
    """A world whose sites have real stores under `folder`; its faults must ask for changes."""

    def __init__(
        self, config: SimConfig, seed: int, folder: Path, retention: Retention | None = None
    ) -> None:
        forest = advise(config.table, config.built_by).forest
        super().__init__(config, Structure(1, config.table, forest), seed)
        assert self.epochs is not None
        self.disks: dict[str, StoreDisk] = {}
        self.truncated = 0  # sites whose export has a base
        facts = {
            "deliver": config.deliver,
            "on_failure": config.on_failure,
            "epochs": founding_facts(self.epochs.first),
        }
        for name, place in self.places.items():
            seen, stream = self.recorder.seen[name], Chance(seed, f"store {name}")
            disk = StoreDisk(folder, name, stream, seen, retention or Retention(), facts)
            self.disks[name] = place.disk = disk

    def _start(self, now: int, place: Place) -> None:
        place.disk.restore()
        self.recorder.saw(now, place.name, self.disks[place.name].unseen())
        super()._start(now, place)

    def _perform(self, now: int, place: Place, box: Any) -> None:
        disk = self.disks[place.name]
        disk.box = box
        if box.forget is not None and not box.persist:
            disk.take((), box)
        super()._perform(now, place, box)

    def close(self) -> None:
        for disk in self.disks.values():
            disk.close()
