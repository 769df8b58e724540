"""Openings of epochs go with what was delivered in them: on disk, and in memory."""

import asyncio
import gc
import json
import sqlite3
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ordercast.core.epochs.records import EpochOpened
from ordercast.net.site.stream import Lag, Stream
from ordercast.net.store import events
from ordercast.net.store.events import (
    ABSENT,
    ENTERED,
    ENTRIES_KEPT,
    Entrances,
    OpenedEpochs,
    opening_event,
    opening_events,
    parse_opening,
)
from ordercast.net.store.opening_rows import LEAST, OpeningRows
from ordercast.net.store.store import Store
from support.harness.loops import in_loop
from support.stores.records import anew, ask, engine, flush, kept, open_store, write

MEMBERS = (("g", ("a", "b")), ("h", ("b", "c")))


def opening(epoch: int, position: int, joined: bool = False) -> EpochOpened:
    """At site a; `joined`: site b comes into its group."""
    came = (("g", ("b",)),) if joined else ()
    return EpochOpened(
        epoch, position, "ring", "greedy", ("g",), (), MEMBERS, (epoch - 1,), arrived=came
    )


def eager(path: Path) -> Store:
    """A store that looks for old events with every commit."""
    store = open_store(path)
    store._writer.cleanup.events_s = 0.0
    return store


def live(store: Store, epochs: range, confirmed: int) -> None:
    """One message in each epoch, and who is absent in it; nobody but the application needs one."""
    for epoch in epochs:
        absent = (ABSENT, epoch - 2, json.dumps({"since": {"b": 1}, "in": {}}))
        told = [*opening_events(opening(epoch, epoch - 2)), absent]
        write(store, kept(epoch - 1, epoch=epoch), events=told, at_ns=1)
        folded = anew(epoch - 1, engine(epoch))
        write(store, forget=folded, confirmed=min(epoch - 1, confirmed), at_ns=1)
    flush(store)


def epochs_of(store: Store, kind: str = "open") -> list[int]:
    details = ask(store, f"SELECT detail FROM events WHERE kind = '{kind}' ORDER BY n")
    return [json.loads(detail)["epoch"] for detail in details]


def test_an_opening_goes_with_the_last_message_of_its_epoch(tmp_path: Path) -> None:
    store = eager(tmp_path / "a.db")
    live(store, range(2, 40), confirmed=30)
    first = store.first
    assert first > 20
    left = epochs_of(store)
    assert left == list(range(left[0], 40))  # the message at position p is of epoch p + 1
    assert first - 1 <= left[0] <= first + 1
    assert left[0] <= store.read(first, 1)[0].epoch
    assert len(ask(store, f"SELECT n FROM events WHERE kind = '{ABSENT}'")) <= len(left) + 2
    store.close_sync()


def test_openings_stay_while_nothing_is_confirmed(tmp_path: Path) -> None:
    store = eager(tmp_path / "a.db")
    live(store, range(2, 40), confirmed=0)
    assert epochs_of(store) == list(range(2, 40))
    store.close_sync()


def test_epochs_without_a_delivery_leave_the_last_opening_and_those_with_a_joiner(
    tmp_path: Path,
) -> None:
    """Such as those of a site that is excluded and returns again and again."""
    store = eager(tmp_path / "a.db")
    write(store, kept(1, epoch=1), at_ns=1)
    for epoch in range(2, 1_000):
        absent = (ABSENT, 1, json.dumps({"since": {"b": 1}, "in": {}}))
        told = [*opening_events(opening(epoch, 1, joined=epoch in (10, 700))), absent]
        write(store, kept(epoch, epoch=epoch, mine=False), events=told, at_ns=1)
        if epoch % 20 == 0:
            write(store, forget=anew(1, engine(epoch)), confirmed=0 if epoch < 500 else 1, at_ns=1)
    left = epochs_of(store)
    assert len(left) <= 2 * LEAST + 20
    assert {10, 700, 999} <= set(left)
    assert len(ask(store, f"SELECT n FROM events WHERE kind = '{ABSENT}'")) <= 2 * LEAST + 20
    store.close_sync()


def test_what_joiners_ask_for_outlives_the_opening_and_is_bounded(tmp_path: Path) -> None:
    store = eager(tmp_path / "a.db")
    for epoch in range(2, 402):
        told = opening_events(opening(epoch, epoch - 2, joined=True))
        write(store, kept(epoch - 1, epoch=epoch), events=told, at_ns=1)
        write(store, forget=anew(epoch - 1, engine(epoch)), confirmed=epoch - 1, at_ns=1)
    entered = epochs_of(store, ENTERED)
    assert len(epochs_of(store)) < 10
    assert len(entered) <= 2 * LEAST
    store.close_sync()
    store = eager(tmp_path / "a.db")
    entrances = Entrances(store.entered())
    known = [epoch for epoch in range(500) if entrances.of(epoch, "g") is not None]
    assert known == list(range(402 - ENTRIES_KEPT, 402))
    entry = entrances.of(401, "g")
    assert entry is not None
    assert (entry.members, entry.arrived) == (MEMBERS[:1], (("g", ("b",)),))
    store.close_sync()


def test_groups_that_a_site_has_left_are_forgotten_at_last() -> None:
    entrances = Entrances()
    for epoch in range(1, 1_000):
        group = f"g{epoch}"
        opened = EpochOpened(
            epoch, 0, "ring", "greedy", (group,), (group,), ((group, ("a",)),), (epoch - 1,)
        )
        entrances.add(opened)
        assert entrances.of(epoch, group) is not None
        assert epoch < 2 or entrances.of(epoch - 1, f"g{epoch - 1}") is not None or epoch > 60
    assert sum(entrances.of(n, f"g{n}") is not None for n in range(1, 1_000)) < 100


def of_many_groups(epoch: int, position: int, groups: int, *, began: bool = False) -> EpochOpened:
    names = tuple(f"g{number}" for number in range(groups))
    members = tuple((name, ("a", "b")) for name in names)
    joined = names if began else ()
    return EpochOpened(epoch, position, "ring", "greedy", names, joined, members, (epoch - 1,))


def peak_of(call: Callable[[], object]) -> int:
    """The most bytes that Python's objects take while this runs."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_of_openings_with_very_many_groups_few_are_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty epochs of 300 groups each: one of them is within 500 groups."""
    monkeypatch.setattr(events, "OPENED_GROUPS", 500)
    store = eager(tmp_path / "a.db")
    many = [
        one for e in range(2, 42) for one in opening_events(of_many_groups(e, 1, 300, began=True))
    ]
    write(store, events=many, at_ns=1)
    flush(store)
    whole = peak_of(lambda: parse_opening(*opening_event(of_many_groups(2, 1, 300))[1:]))
    assert [one.epoch for one in store.opened()] == [41]
    some, all_of_them = store.openings(0, 5, after=7)
    assert ([one.epoch for one in some], all_of_them) == ([8], False)
    assert [one.epoch for one in store.openings(0, 5, after=40)[0]] == [41]
    assert [one.epoch for one in store.entered()] == [38, 39, 40, 41]
    assert peak_of(store.opened) < 3 * whole
    assert peak_of(lambda: store.openings(0, 5, after=7)) < 3 * whole
    assert peak_of(store.entered) < (ENTRIES_KEPT + 3) * whole
    rows = OpeningRows(sqlite3.connect(tmp_path / "a.db", check_same_thread=False))
    rows.enough = dict.fromkeys(rows.enough, 0)
    assert peak_of(lambda: rows.forget(1)) < 4 * whole
    assert [one.epoch for one in store.entered()] == [38, 39, 40, 41]
    rows._db.close()
    store.close_sync()


def test_an_entry_is_kept_for_those_of_its_groups_of_which_it_is_among_the_last(
    tmp_path: Path,
) -> None:
    store = eager(tmp_path / "a.db")
    for epoch in range(2, 10):
        told = opening_events(of_many_groups(epoch, 1, 1 if epoch > 4 else 3, began=True))
        write(store, events=told, at_ns=1)
    flush(store)
    kept_of = {one.epoch: one.groups for one in store.entered()}
    others = dict.fromkeys((2, 3, 4), ("g1", "g2"))
    assert kept_of == others | dict.fromkeys((6, 7, 8, 9), ("g0",))
    store.close_sync()


@in_loop
async def test_a_reader_far_behind_is_told_openings_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four epochs open at each position, and two openings are within what is read at once."""
    monkeypatch.setattr(events, "OPENED_GROUPS", 2 * len(MEMBERS))
    store = eager(tmp_path / "a.db")
    wanted: list[int] = []
    for position in range(1, 12):
        epoch = 5 * position
        for one in range(epoch - 3, epoch + 1):
            write(store, events=opening_events(opening(one, position - 1)), at_ns=1)
            wanted.append(one)
        write(store, kept(position, epoch=epoch), at_ns=1)
        wanted.append(-position)
        write(store, forget=anew(position, engine(epoch)), confirmed=0, at_ns=1)
    flush(store)
    stream = Stream(
        store, confirmed=0, delivered=store.logged, lag=Lag(10_000, 1 << 20, False),
        embedded=True, hold=lambda _: None, shed=lambda _: None, opened=store.opened(),
    )  # fmt: skip
    assert len(stream._openings.opened) == 2
    reader = stream.batches(1)
    told: list[int] = []
    async with asyncio.timeout(60):
        while len(told) < len(wanted):
            item = await anext(reader)
            told.append(item.epoch if isinstance(item, EpochOpened) else -item.position)
    assert told == wanted
    await reader.aclose()
    store.close_sync()


@in_loop
async def test_a_reader_is_told_every_opening_that_the_store_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few are in memory; a reader that begins early is told the others out of the store."""
    monkeypatch.setattr(events, "OPENED_GROUPS", 4 * len(MEMBERS))
    store = eager(tmp_path / "a.db")
    live(store, range(2, 200), confirmed=100)
    stream = Stream(
        store, confirmed=store.confirmed, delivered=store.logged,
        lag=Lag(10_000, 1 << 20, False), embedded=True, hold=lambda _: None,
        shed=lambda _: None, opened=store.opened(),
    )  # fmt: skip
    assert len(stream._openings.opened) == 4
    first = store.first
    reader = stream.batches(first)
    told: list[int] = []
    async with asyncio.timeout(60):
        while len(told) < 2 * (200 - first) - 2:
            item = await anext(reader)
            told.append(item.epoch if isinstance(item, EpochOpened) else -item.position)
    # Epoch e opened behind position e - 2, and has the message at e - 1.
    wanted = [n for position in range(first, 199) for n in (position + 1, -position)]
    assert told == wanted
    await reader.aclose()
    store.close_sync()


def test_without_a_store_openings_stay_as_long_as_deliveries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "OPENED_GROUPS", 40 * len(MEMBERS))
    openings = OpenedEpochs()
    for epoch in range(2, 1_000):  # nothing is delivered
        openings.add(opening(epoch, 0, joined=epoch == 7))
    left = [one.epoch for one in openings.after(0, 0)]
    assert left == [7, *range(961, 1_000)]
    for epoch in range(1_000, 2_000):
        openings.add(opening(epoch, epoch - 999))
        openings.forget_before(epoch - 1_010)
    left = [one.epoch for one in openings.after(0, 0)]
    assert left == list(range(1_988, 2_000))
    assert not openings.add(replace(opening(1_999, 0)))
