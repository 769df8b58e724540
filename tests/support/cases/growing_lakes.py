"""Stores of random schedules, appended to a lake at random times, with kills in the appends.

The lake must say what a full export says, after every append and at the end.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ordercast import whole_files
from ordercast.check.report import check_history
from ordercast.history import delta_tables, lake_writer
from ordercast.history.lake_compaction import compact_lake
from ordercast.history.reader import read_history
from ordercast.history.rows import CRASH, END, EXCLUDED, OPEN, RESTART, Event, History
from ordercast.model.errors import ConfigError
from ordercast.model.options import SECOND
from ordercast.net.export.history import export
from ordercast.net.export.lake_export import append
from support.stores.records import flush
from support.worlds.stored_members import KEEP_ALL, StoredMembers, stored

STEPS = (
    (lake_writer, "_write"), (lake_writer, "_move"), (lake_writer, "sync"), (whole_files, "sync"),
)  # fmt: skip
ANOTHER_STORE = "is another store of site"


class Killed(BaseException):
    """A process that ends between two steps of an append."""


@contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """Raises Killed after so many steps that change files; 0: before the first."""
    left = steps

    def dying(real: Any) -> Any:
        def step(*given: Any, **more: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return real(*given, **more)

        return step

    kept = [(module, name, getattr(module, name)) for module, name in STEPS]
    appending = delta_tables.append_files
    try:
        for module, name, real in kept:
            setattr(module, name, dying(real))
        delta_tables.append_files = dying(appending)
        yield
    finally:
        for module, name, real in kept:
            setattr(module, name, real)
        delta_tables.append_files = appending


class GrowingLake:
    """Appends to a lake while a world runs. `lost`: a site began anew, so nothing is appended any
    more."""

    def __init__(self, folder: Path, seed: int, kind: str) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        self.kind = kind
        self.rng = random.Random(f"lake {seed}")
        self.appends = self.kills = self.compacted = self.compared = 0
        self.lost = False

    def add(self) -> None:
        if self.lost:
            return
        try:
            if self.rng.random() < 0.5:
                try:
                    with killed_after(self.rng.randrange(20)):
                        append(self.folder, self.lake, kind=self.kind)
                except Killed:
                    self.kills += 1
            append(self.folder, self.lake, kind=self.kind)
            self.appends += 1
            if self.rng.random() < 0.3:
                self._compact()
        except ConfigError as error:
            if ANOTHER_STORE not in str(error):
                raise
            self.lost = True

    def _compact(self) -> None:
        before = rows_of(read_history(self.lake))
        try:
            with killed_after(self.rng.randrange(12)):
                compact_lake(self.lake, keep_s=self.rng.choice((0.0, 60.0)))
        except Killed:
            self.kills += 1
        assert rows_of(read_history(self.lake)) == before, "a kill shows other rows"
        compact_lake(self.lake, keep_s=self.rng.choice((0.0, 60.0)))
        assert rows_of(read_history(self.lake)) == before, "compacting shows other rows"
        self.compacted += 1

    def full(self) -> History:
        export(self.folder, self.folder / "out", replace=True)
        return read_history(self.folder / "out")

    def compare(self, before: History, *, kept_all: bool) -> None:
        """With full exports of the same stores, before the append and now. At `safe` a store may
        note meanwhile that more was delivered."""
        if self.lost:
            return
        lake, now = read_history(self.lake), self.full()
        places = Counter((row.site, row.position, row.attempt) for row in lake.deliveries)
        assert not [place for place, times in places.items() if times > 1]
        assert max(Counter(row.id for row in lake.sent).values(), default=1) == 1
        numbers = Counter((event.site, event.n) for event in lake.events)
        assert max(numbers.values(), default=1) == 1
        assert set(lake.deliveries) >= set(before.deliveries)
        named = {row for row in before.groups if row.group_name[0] != "@"}
        assert set(lake.groups) >= (named if kept_all else set())
        members = {(row.group_name, row.epoch) for row in lake.groups}
        assert members >= {(row.group_name, row.epoch) for row in lake.deliveries}
        judged = check_history(lake)
        if not kept_all:
            return
        there = {path.stem for path in self.folder.glob("*.db")}
        if not there.issuperset(row.site for row in lake.deliveries):
            return  # a store is lost; what it had is in the lake alone
        assert set(lake.deliveries) <= set(now.deliveries)
        assert {row.epoch for row in lake.epochs} == {row.epoch for row in before.epochs}
        if set(before.deliveries) == set(now.deliveries):
            more = told(lake) - told(now)
            assert not told(now) - told(lake)
            assert {kind for _, kind, *_ in more} <= {CRASH, RESTART}, "stores keep only the last"
            wanted = check_history(now)
            assert judged.checks == wanted.checks, (judged.verdicts, wanted.verdicts)
            assert (judged.annulled, judged.unagreed) == (wanted.annulled, wanted.unagreed)
            self.compared += 1


def told(history: History) -> Counter[tuple[Any, ...]]:
    """The events that do not depend on when it was exported."""
    return Counter(
        (event.site, event.kind, event.position, event.attempt, event.epoch, event.detail)
        for event in history.events
        if event.kind not in (END, OPEN, EXCLUDED)
    )


def rows_of(history: History) -> Counter[Any]:
    return Counter(row for rows in history.tables().values() for row in rows)


def grow(
    seed: int,
    folder: Path,
    *,
    excluding: str = "drawn",
    kind: str = "parquet",
    keep_all: bool = True,
) -> tuple[GrowingLake, StoredMembers]:
    """The schedule of the seed, with appends at random times."""
    growing = GrowingLake(folder, seed, kind)

    def now_and_then(world: StoredMembers, until: int) -> None:
        while world.now < until:
            world.run(min(until, world.now + growing.rng.randrange(1, SECOND)))
            for store in world.on_store.values():
                flush(store)
            before = growing.full()
            growing.add()
            growing.compare(before, kept_all=keep_all)

    world = stored(
        seed, folder, KEEP_ALL if keep_all else None, excluding=excluding, on_run=now_and_then
    )
    before = growing.full()
    growing.add()
    growing.compare(before, kept_all=keep_all)
    if not growing.lost and keep_all:
        lake = read_history(growing.lake)
        assert {row.id for row in lake.sent} == {row.id for row in before.sent}
        assert ended(lake) == ended(before)
    return growing, world


def ended(history: History) -> set[str]:
    last: dict[str, Event] = {}
    for event in sorted(history.events, key=lambda event: event.n):
        last[event.site] = event
    return {site for site, event in last.items() if event.kind == END}
