"""The rows of named readers in a store: durable, checked, and what is kept for them."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.epochs.log_tail import Rollback
from ordercast.model.errors import StoreCorrupt
from ordercast.model.messages import MessageId
from ordercast.net.cluster.config import ReaderLimits, Retention
from ordercast.net.store.box import StoreBox
from ordercast.net.store.reader_rows import ReaderRow
from ordercast.net.store.store import Store
from support.stores.clock import RunClock
from support.stores.records import SOON_S, anew, engine, flush, kept, kill, open_store, write

HOUR = 3_600_000_000_000


def row(name: str, passed: int, *, confirmed: int | None = None, attempt: int = 1) -> ReaderRow:
    at = passed if confirmed is None else confirmed
    return ReaderRow(name, frozenset({"g", "h"}), 7, at, passed, attempt, 12_345)


def soon(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SOON_S
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def filled(path: Path, messages: int, *, size: int = 1_000, **given: Any) -> Store:
    """A store of so many messages that the core does not need."""
    store = open_store(path, **given)
    write(store, *(kept(n, size=size) for n in range(1, messages + 1)), at_ns=time.time_ns())
    flush(store, StoreBox(forget=anew(messages, engine()), delivered=messages))
    return store


def test_rows_survive_a_kill_and_go_when_a_reader_is_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    everything = ReaderRow("all", None, 9, 0, 0, 1, 5)
    write(store, readers=[row("r", 3), row("s", 2), everything])
    write(store, readers=[row("r", 5, confirmed=4)], readers_gone=["s"])
    with_it = open_store(kill(store, tmp_path / "b.db"))
    assert with_it.readers() == {"r": row("r", 5, confirmed=4), "all": everything}
    store.close_sync()
    with_it.close_sync()


def test_a_damaged_row_is_found(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, readers=[row("r", 3)])
    store.close_sync()
    db = sqlite3.connect(tmp_path / "a.db")
    db.execute("UPDATE readers SET confirmed = 2")
    db.commit()
    db.close()
    with pytest.raises(StoreCorrupt, match="reader 'r' of table readers: the checksum"):
        open_store(tmp_path / "a.db")


def test_the_store_keeps_what_the_slowest_reader_needs(tmp_path: Path) -> None:
    store = filled(tmp_path / "a.db", 600)
    write(store, readers=[row("slow", 100), row("quick", 400)], confirmed=600)
    soon(lambda: store.first == 101, "it does not keep from 101 on")
    assert store.holds["slow"].bytes > store.holds["quick"].bytes > 100_000
    write(store, readers=[row("slow", 550)])
    soon(lambda: store.first == 401, "it does not keep from 401 on")
    write(store, readers_gone=["quick"])
    soon(lambda: store.first == 551, "it does not keep from 551 on")
    write(store, readers_gone=["slow"])
    soon(lambda: store.first == 601, "it keeps what nobody needs")
    assert store.holds == {}
    store.close_sync()


@pytest.mark.parametrize("unnamed", [True, False])
def test_the_sites_own_position_counts_unless_it_is_said_otherwise(
    tmp_path: Path, unnamed: bool
) -> None:
    limits = ReaderLimits(unnamed=unnamed)
    store = filled(tmp_path / "a.db", 600, readers=limits)
    write(store, confirmed=50)
    soon(lambda: store.first == 51, "without a reader the own position counts")
    write(store, readers=[row("r", 300)])
    if unnamed:
        soon(lambda: "r" in store.holds, "nobody has looked")
        assert store.first == 51
    else:
        soon(lambda: store.first == 301, "the own position is waited for")
    store.close_sync()


def test_a_reader_is_waited_for_up_to_its_bytes(tmp_path: Path) -> None:
    store = filled(tmp_path / "a.db", 600, readers=ReaderLimits(bytes=200_000))
    write(store, readers=[row("r", 10)], confirmed=600)
    soon(lambda: store.first > 11, "the limit is not heeded")
    soon(lambda: store.holds["r"].bytes < 260_000, "more than its bytes are kept")
    assert 350 < store.first < 500  # about 200 messages of 1,000 bytes are left
    store.close_sync()


def test_a_reader_is_waited_for_up_to_its_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time that the site has run: not while it was down, and whatever its clock says."""
    clock = RunClock(monkeypatch)
    path, limits = tmp_path / "a.db", ReaderLimits(age=24 * HOUR)
    store = open_store(path, readers=limits)
    write(store, readers=[row("r", 0)])
    year = 365 * 24 * HOUR
    for n, at in enumerate([0, -50 * year, 0, 4 * year, 0, 0]):
        write(store, *(kept(m) for m in range(100 * n + 1, 100 * n + 101)), at_ns=clock.wall + at)
        clock.run(4 * HOUR)
        soon(lambda: "r" in store.holds, "nobody has looked")
    write(store, forget=anew(600, engine()), delivered=600, confirmed=600)
    for _ in range(2):
        clock.stand(14 * 24 * HOUR)
        store.close_sync()
        store = open_store(path, readers=limits)
        flush(store, StoreBox(confirmed=600, delivered=600))
        assert store.first == 1
    clock.run(10 * HOUR)
    write(store, readers=[row("s", 600)])  # then it looks at once
    soon(lambda: store.first == 301, "what is too old is kept, or what is not is gone")
    soon(lambda: 20 * HOUR < store.holds["r"].age_ns < 24 * HOUR, "another age")
    store.close_sync()


def test_retention_may_keep_more_than_readers_need(tmp_path: Path) -> None:
    store = filled(tmp_path / "a.db", 300, retention=Retention("age", HOUR))
    write(store, readers=[row("r", 200)], confirmed=300)
    soon(lambda: "r" in store.holds, "nobody has looked")
    assert store.first == 1
    store.close_sync()


def test_a_position_that_was_rolled_back_holds_from_the_rollback_on(tmp_path: Path) -> None:
    """The reader has passed 300 in the first attempt, and 120 is what is left of it."""
    store = filled(tmp_path / "a.db", 300)
    annulled = tuple((n, MessageId("a", 1, "g", n)) for n in range(121, 301))
    rolled = Rollback(120, 2, 1, annulled)
    write(store, readers=[row("r", 300)])
    flush(store, StoreBox(forget=anew(120, engine()), caught=[rolled], logged=120, delivered=120))
    assert store._writer.ledger.read_upto() == {"r": 120}
    write(store, readers=[row("r", 250)])  # written by who has not heard of the rollback
    assert store._writer.ledger.read_upto() == {"r": 120}
    write(store, readers=[row("r", 120, attempt=2)])
    assert store._writer.ledger.read_upto() == {"r": 120}
    store.close_sync()


def test_a_store_that_was_made_before_there_were_readers_gets_their_table(tmp_path: Path) -> None:
    filled(tmp_path / "a.db", 10).close_sync()
    db = sqlite3.connect(tmp_path / "a.db")
    db.execute("DROP TABLE readers")
    db.execute("PRAGMA user_version=3")
    db.commit()
    db.close()
    store = open_store(tmp_path / "a.db")
    assert (tmp_path / "a.db.format3").exists()
    assert store.readers() == {}
    assert len(store.read(1, 10)) == 10
    write(store, readers=[row("r", 3)])
    store.close_sync()
    again = open_store(tmp_path / "a.db")
    assert list(again.readers()) == ["r"]
    again.close_sync()
