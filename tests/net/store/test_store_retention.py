"""What a store forgets, what it keeps, and that its file does not grow for ever."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ordercast.core.epochs.records import Anew
from ordercast.core.epochs.voters_log import Ballot
from ordercast.model.errors import Forgotten
from ordercast.net.cluster.config import Retention
from ordercast.net.store.box import StoreBox
from ordercast.net.store.cleanup import PIECE
from ordercast.net.store.file import PAGE_BYTES
from ordercast.net.store.store import Store
from support.stores.clock import RunClock
from support.stores.records import (
    SOON_S,
    accepted,
    anew,
    ask,
    engine,
    flush,
    kept,
    open_store,
    write,
)

HOUR = 3_600_000_000_000


def fold(position: int) -> Anew:
    """The core needs nothing of what was written so far."""
    return anew(position, engine())


def count(store: Store) -> int:
    return int(ask(store, "SELECT count(*) FROM batches")[0])


def soon(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SOON_S
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def quiet(store: Store) -> None:
    """Until the store has taken away what it may."""
    flush(store)
    soon(lambda: not store._writer.cleanup._worth, "the cleanup never ends")


def test_the_file_does_not_grow_with_what_passes_through(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    largest = 0
    for number in range(1, 30_001):
        box = StoreBox(records=[kept(number, size=1_000)], at_ns=number)
        if number % 100 == 0:
            box.forget = fold(number)
            box.confirmed = number - 50
        store.write(box, None)
        if number % 1_000 == 0:
            flush(store)
            largest = max(largest, (tmp_path / "a.db").stat().st_size)
    quiet(store)
    assert largest < 4_000_000  # of 30 MB
    assert store.bytes() < 20_000_000  # with the log, which is used again and again
    assert count(store) <= 200
    assert store.first <= 30_000 - 49
    store.close_sync()
    assert (tmp_path / "a.db").stat().st_size < 8_000_000


def test_a_file_that_grew_is_given_back(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    for number in range(1, 3_001):
        store.write(StoreBox(records=[kept(number, size=10_000)], at_ns=1), None)
    flush(store)
    assert count(store) == 3_000
    write(store, forget=fold(3_000), confirmed=3_000)
    quiet(store)
    assert count(store) == 0
    few = 6_000_000 // PAGE_BYTES  # of 30 MB
    soon(lambda: ask(store, "PRAGMA page_count")[0] < few, "free pages are not given back")
    store.close_sync()
    assert (tmp_path / "a.db").stat().st_size < 6_000_000
    again = open_store(tmp_path / "a.db")
    assert (again.logged, again.confirmed, again.first) == (3_000, 3_000, 3_001)
    write(again, kept(3_001), at_ns=1)
    assert again.read(3_001, 1)[0].seq == 3_001
    again.close_sync()


@pytest.mark.parametrize(
    "retention", [Retention(), Retention("age", 1), Retention("size", 1)], ids=lambda r: r.kind
)
def test_what_is_not_confirmed_or_not_folded_stays_whatever_retention_says(
    retention: Retention, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "a.db", retention=retention)
    for number in range(1, 101):
        write(store, kept(number), at_ns=1)
    write(store, forget=fold(100), confirmed=40)
    soon(lambda: store.first == 41, "what could go did not go")
    write(store, kept(101), confirmed=101, at_ns=1)  # not folded: the core needs it
    soon(lambda: count(store) == 1, "what could go did not go")
    quiet(store)
    assert store.read(101, 9)[0].seq == 101
    store.close_sync()


def test_the_core_keeps_its_rows_through_confirmations(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    own = [accepted(number) for number in range(1, 21)]
    for number, one in enumerate(own, 1):
        write(store, one, kept(number), at_ns=1)
    write(store, forget=anew(20, engine(1, own[15:])), confirmed=20)
    quiet(store)
    assert ask(store, "SELECT min(n) FROM batches") == [31]
    store.close_sync()
    again = open_store(tmp_path / "a.db")
    assert again.restored() == [anew(20, engine(1, own[15:]))]
    again.close_sync()


def test_a_row_stays_while_another_refers_to_it(tmp_path: Path) -> None:
    """The payloads of a site's own batch are in the row in which it was accepted."""
    store = open_store(tmp_path / "a.db")
    write(store, accepted(1), at_ns=1)
    for number in range(1, 50):
        write(store, kept(number, origin="b"), at_ns=1)
    write(store, kept(1, number=50), at_ns=1)
    write(store, forget=fold(50), confirmed=49)
    quiet(store)
    assert store.read(50, 1)[0].payloads == [b"a1......"]
    write(store, confirmed=50)
    quiet(store)
    assert count(store) == 0
    store.close_sync()


def test_rows_go_although_some_of_the_site_s_own_are_always_under_way(tmp_path: Path) -> None:
    """What is left below may lack its payloads: then it counts as gone."""
    store = open_store(tmp_path / "a.db")
    write(store, accepted(1), accepted(2), accepted(3), at_ns=1)
    for number in range(1, 201):
        write(store, kept(number), accepted(number + 3), at_ns=1)
    own = [accepted(number) for number in (201, 202, 203)]
    write(store, forget=anew(200, engine(1, own)), confirmed=150)
    quiet(store)
    first = store.first
    assert 140 <= first <= 151
    assert count(store) <= 130
    assert [batch.position for batch in store.read(first, 999)] == list(range(first, 201))
    for start in (1, first - 6, first - 1):
        with pytest.raises(Forgotten, match=f"no longer kept; the first that is: {first}"):
            store.read(start, 999)
    store.close_sync()


@pytest.mark.parametrize("retention", [Retention("stable"), Retention("size", 100_000)])
def test_rows_go_also_when_own_batches_take_long_to_come_back(
    retention: Retention, tmp_path: Path
) -> None:
    """Longer than the piece that is looked at, in rows."""
    store = open_store(tmp_path / "a.db", retention=retention)
    under_way, last = 9 * PIECE, 36 * PIECE
    for number in range(1, under_way + 1):
        store.write(StoreBox(records=[accepted(number, size=100)], at_ns=1), None)
    for number in range(1, last + 1):
        own_and_next = (kept(number), accepted(number + under_way, size=100))
        box = StoreBox(records=own_and_next, at_ns=1, confirmed=number)
        if number % 100 == 0:
            own = [accepted(n, size=100) for n in range(number + 1, number + under_way + 1)]
            box.forget = anew(number, engine(1, own))
            flush(store)  # a commit of all at once would look at all at once
        store.write(box, None)
    quiet(store)
    assert count(store) < 4.5 * under_way  # of 2 rows each, until they are back, and those before
    store.close_sync()


def test_a_store_without_a_row_of_the_log_knows_what_it_had(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, kept(1, 5), at_ns=1)
    write(store, forget=fold(5), confirmed=5)
    for rows in (0, 1):
        quiet(store)
        assert count(store) == rows
        assert store.first == 6
        with pytest.raises(Forgotten, match="position 5 is no longer kept; the first that is: 6"):
            store.read(5, 1)
        assert store.read(6, 1) == []
        write(store, Ballot(1, None), at_ns=1)
    store.close_sync()


def test_rows_younger_than_the_age_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = RunClock(monkeypatch)
    store = open_store(tmp_path / "a.db", retention=Retention("age", HOUR))
    for number in range(1, 101):
        write(store, kept(number), at_ns=1 if number % 7 else 2**62)  # whatever the clock said
        if number == 60:
            clock.run(HOUR // 2)
            write(store, confirmed=1)
            clock.run(HOUR)
    write(store, forget=fold(100), confirmed=100)
    soon(lambda: store.first == 61, "old rows stay")
    quiet(store)
    assert store.read(61, 1_000)[-1].last == 100
    store.close_sync()


def test_rows_go_when_they_reach_the_age_though_nothing_is_written(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db", retention=Retention("age", 300_000_000))
    write(store, kept(1), at_ns=time.time_ns(), forget=fold(1), confirmed=1)
    assert count(store) == 1
    soon(lambda: count(store) == 0, "an idle store does not forget")
    store.close_sync()


def test_a_store_is_kept_near_its_size(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db", retention=Retention("size", 1_000_000))
    for number in range(1, 5_001):
        box = StoreBox(records=[kept(number, size=1_000)], at_ns=number)
        if number % 50 == 0:
            box.forget = fold(number)
            box.confirmed = number
        store.write(box, None)
        if number % 500 == 0:
            flush(store)
    write(store, forget=fold(5_000))
    quiet(store)
    assert 600 <= count(store) <= 1_000  # about a megabyte of them
    assert store.read(store.first, 10_000)[-1].last == 5_000
    store.close_sync()


def test_gaps_go_with_their_batches(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    for number in range(1, 101):
        events = [("gap", number, '{"count":1}')] if number % 2 else []
        write(store, kept(number), at_ns=1, events=events)
    write(store, forget=fold(100), confirmed=90)
    quiet(store)
    time.sleep(1.1)  # gaps are looked at once a second
    write(store, kept(101), at_ns=1, forget=fold(101), confirmed=95)
    quiet(store)
    left = ask(store, "SELECT position FROM events ORDER BY n")
    assert left[0] >= 91
    assert left[-1] == 99
    store.close_sync()
