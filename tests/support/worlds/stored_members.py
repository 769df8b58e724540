"""Members through changing epochs, each on a real store beside the simulated disk of its world.
Under `exclude` too: sites are left out, lose their stores, return, and roll back.

A crash of a site leaves what a SIGKILL would leave: its files as they are then. At each start the
store must give the very records that the disk has; what the application has not seen although the
core will not deliver it again, it is given out of the store's log, as a node does.
"""

import json
import random
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ordercast.check.report import check_history
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import (
    REFUSED,
    Caught,
    EpochOpened,
    Folded,
    MemberBox,
    MemberRecord,
)
from ordercast.history.digest import digest
from ordercast.history.reader import read_history
from ordercast.history.rows import BASE, EXCLUDED, OPEN, RETURNED, ROLLBACK, History
from ordercast.model.epochs import Finish, Open
from ordercast.model.options import SECOND
from ordercast.net.cluster.config import Retention
from ordercast.net.export.history import export
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import enters, founding_facts, opening_events, rollback_event
from ordercast.net.store.store import Store
from support.cases.epoch_schedules import ON_TREES, drawn_world
from support.cases.exclude_schedules import drawn_world as excluding_world
from support.cases.exclude_schedules import hard_world
from support.stores.records import ask, flush, kill, open_store
from support.worlds.epochs import World

KEEP_ALL = Retention("size", 1 << 40)


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
        self._away: set[str] = set()
        self._confirming = random.Random(more["seed"])
        self.on_store: dict[str, Store] = {}
        super().__init__(*given, **more)

    def start(self, site: str) -> None:
        path = self.folder / f"{site}.db"
        before = self.on_store.pop(site, None)
        if before is not None:
            path = self._killed(before)
        store = self.on_store[site] = open_store(path, site=site, retention=self.retention)
        cleanup = store._writer.cleanup
        cleanup.events_s = 0.0
        cleanup.openings.enough = dict.fromkeys(cleanup.openings.enough, 2)
        founder = site in self.first.roster and site not in self.lost
        epochs = founding_facts(self.first) if founder else []
        store.describe(
            deliver=self.options.deliver, on_failure=self.options.on_failure, epochs=epochs
        )
        restored = store.restored()
        assert _bytes(restored) == _bytes(self.disks[site]), f"{site} gets other records back"
        self.compared += len(restored)
        self.disks[site] = restored
        self._fill(site, store)
        super().start(site)

    def lose(self, site: str, away: int | None = None) -> None:
        super().lose(site, away)
        store = self.on_store.pop(site)
        store.close_sync()
        for ending in ("", "-wal", "-shm", ".lock"):
            store.path.with_name(store.path.name + ending).unlink(missing_ok=True)
        self._away.discard(site)

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
        """Give the application what it has not seen, from the store's log."""
        seen = self.seen[site]
        for rollback in store.rollbacks():
            self._roll_back(site, rollback)
        assert store.attempt == self.attempts.get(site, 1)
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

    def _danger(self, member: Member, box: MemberBox) -> float:
        """Most where a log is replaced, if anything is in danger at all."""
        if self.crash_chance and any(isinstance(item, Rollback) for item in box.deliver):
            return 0.7
        return super()._danger(member, box)

    def _persist(self, site: str, box: MemberBox) -> None:
        super()._persist(site, box)
        member, seen = self.members[site], len(self.seen[site])
        attempt = self.attempts.get(site, 1)
        written = StoreBox(
            box.persist, at_ns=self.now + 1, after_position=seen, delivered=seen,
            events=[*self._presence(site), *_events(box)], after_attempt=attempt,
            refused=[(r.group, r.seq) for r in box.receipts if r.stage == REFUSED],
        )  # fmt: skip
        if any(_ends_epochs(record) for record in box.persist):
            assert box.forget is not None
            written.caught, written.logged = box.deliver, member.logged
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
                self.on_store[site].write(StoreBox(forget=box.forget, at_ns=self.now + 1), None)

    def _presence(self, site: str) -> list[tuple[str, int, str]]:
        """The events of a site that has just learned that it was excluded, or that it has
        returned."""
        layout = self.members[site].layout
        seen = len(self.seen[site])
        if site in layout.absent and site not in self._away:
            self._away.add(site)
            return [(EXCLUDED, seen, json.dumps({"epoch": layout.absent[site]}))]
        home = layout.home(site)
        if site in self._away and site not in layout.absent and home is not None:
            self._away.remove(site)
            return [(RETURNED, seen, json.dumps({"epoch": home.epoch}))]
        return []

    def close(self) -> None:
        for site, store in self.on_store.items():
            attempt = self.attempts.get(site, 1)
            flush(store, StoreBox(delivered=len(self.seen[site]), after_attempt=attempt))
            store.close_sync(quiet=site in self.members and not self._has_left(site))

    def _has_left(self, site: str) -> bool:
        """Whether the site was retired or is away for good. It need not have everything then."""
        return self.left(site) or bool(self.members[site].flush.waiting())


Event: TypeAlias = tuple[str, int, str]


def _events(box: MemberBox) -> list[Event]:
    opened = [opening_events(item) for item in box.deliver if isinstance(item, EpochOpened)]
    rolled = [rollback_event(item) for item in box.deliver if isinstance(item, Rollback)]
    return [*rolled, *chain.from_iterable(opened)]


def _ends_epochs(record: MemberRecord) -> bool:
    if isinstance(record, Folded):
        return isinstance(record.record, (Finish, Open))
    return isinstance(record, Caught)


def stored(
    seed: int,
    folder: Path,
    retention: Retention | None = None,
    *,
    crash: float | None = None,
    protocols: Sequence[str] = ON_TREES,
    excluding: str = "",
    on_run: Callable[["StoredMembers", int], None] | None = None,
) -> StoredMembers:
    """The schedule of the seed, run to its end on stores under `folder`. `excluding`: "drawn" or
    "hard", a schedule in which sites are excluded. `on_run` runs the world up to a time, and may
    look at its stores on the way."""

    def make(*given: Any, **more: Any) -> StoredMembers:
        if crash is not None:
            more["crash"] = crash
        # A log that is replaced is so in one commit with the checkpoint.
        together = bool(excluding) or seed % 2 == 0
        return StoredMembers(folder, retention or Retention(), *given, together=together, **more)

    if excluding == "hard":
        world = hard_world(seed, protocol=protocols[0], make_world=make)
    elif excluding:
        world = excluding_world(seed, protocols=protocols, make_world=make)
    else:
        world = drawn_world(seed, protocols=protocols, make_world=make)
    assert isinstance(world, StoredMembers)
    try:
        (on_run or StoredMembers.run)(world, (6 if excluding else 3) * SECOND)
        world.settle()
    finally:
        world.close()
    return world


def cut_off(folder: Path, deliver: str, seed: int = 3) -> StoredMembers:
    """The root of three sites is alone for a second, and orders what its application sends."""
    world = StoredMembers(
        folder, KEEP_ALL, {"g": "abc", "h": "ab"}, "abc", "abc", seed=seed, deliver=deliver,
        policy="exclude", together=True,
    )  # fmt: skip
    world.run(SECOND)
    root = world.members["a"].layout.domains[1].root
    for number in range(9):
        world.submit("abc"[number % 3], "g", b"before %d" % number)
    world.run(2 * SECOND)
    world.partition([root])
    for number in range(4):
        world.submit(root, "g", b"alone %d" % number)
    for number in range(4):
        other = next(site for site in "ab" if site != root)
        world.submit(other, "h", b"together %d" % number)
    world.run(4 * SECOND)
    assert root in next(m for s, m in world.members.items() if s != root).layout.absent
    for store in world.on_store.values():  # another thread commits: wait until readers see all
        flush(store)
    return world


def judge_export(world: StoredMembers) -> int:
    """The export keeps all guarantees, and has exactly what the applications saw above the bases.
    Returns how many sites have a base. Messages may be lost with the last store that had them, or
    with the retired site that alone had them."""
    out = world.folder / "out"
    export(world.folder, out)
    history = read_history(out)
    promised = world.options.on_failure == "wait" or world.options.deliver == "safe"
    report = check_history(history, causal=world.options.causal and promised)
    wrong = {check for check, count in report.checks.items() if count}
    excused = {"lost"} if world.lost else set()
    if any(world.left(site) for site in world.disks):
        excused = {"lost", "agreement"}
    assert wrong <= excused, report.verdicts
    bases: dict[str, int] = {}
    for event in history.events:
        if event.kind == BASE and "join" not in event.detail:  # rows below a join are exported
            bases[event.site] = max(event.position, bases.get(event.site, 0))
    wanted = {
        (site, position): (epoch, message, digest(payload))
        for site, rows in world.seen.items()
        for position, (epoch, message, payload) in enumerate(rows, 1)
        if position > bases.get(site, 0)
    }
    annulled = _annulled(world, history)
    found = {
        (r.site, r.position): (r.epoch, r.id, r.digest)
        for r in history.deliveries
        if (r.site, r.position, r.attempt) not in annulled
    }
    for site in world.down:  # its application saw some of what is in its log
        found = {at: row for at, row in found.items() if at[0] != site or at in wanted}
    assert found == wanted
    for site, opened in world.opened.items():
        told = [event.epoch for event in history.events if (event.site, event.kind) == (site, OPEN)]
        all_of_them = [one.epoch for one in opened]
        assert told == [epoch for epoch in all_of_them if epoch in told], "unknown, or twice"
        assert set(_needed(opened, bases.get(site, 0))) <= set(told)
    return sum(position > 0 for position in bases.values())


def _needed(opened: list[EpochOpened], base: int) -> list[int]:
    """The epochs whose openings must be there: the last one, those of which something is left, and
    those with which a site came into a group, unless all before them and in them is gone."""
    return [
        one.epoch
        for one, after in zip_longest(opened, opened[1:])
        if after is None
        or max(one.position, base) < after.position
        or (one.position >= base and enters(one))
    ]


def _annulled(world: StoredMembers, history: History) -> set[tuple[str, int, int]]:
    """Rows that were rolled back: those that the applications were told of."""
    told = {
        (site, position, message)
        for site, rollback in world.rollbacks
        for position, message in rollback.annulled
    }
    gone = set()
    for event in history.events:
        if event.kind == ROLLBACK:
            gone |= {
                (row.site, row.position, row.attempt, row.id)
                for row in history.deliveries
                if row.site == event.site
                and row.attempt < event.attempt
                and row.position > event.position
            }
    if world.retention.kind == "size":
        found = {(site, at, message) for site, at, _, message in gone}
        assert {one for one in found if one[0] not in world.lost} == {
            one for one in told if one[0] not in world.lost
        }
    return {(site, at, attempt) for site, at, attempt, _ in gone}


def _bytes(records: list[MemberRecord]) -> bytes:
    """Lists and tuples are the same on a disk."""
    return msgspec.msgpack.encode(records)
