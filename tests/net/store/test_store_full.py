"""A full disk stops acknowledgements, says so once, and the store goes on by itself when there is
room: with SQLite's own limit, and with a real one of the system."""

import logging
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from ordercast.core.epochs.records import MemberRecord
from ordercast.core.outbox import Accepted
from ordercast.net.store import writer as store_writer
from ordercast.net.store.box import StoreBox
from ordercast.net.store.store import Store
from support.stores.records import accepted, flush, open_store, until_failed, write


def why(store: Store) -> str:
    return str(store.failed)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_writer, "TRY_AGAIN_S", 0.02)


def limit_pages(store: Store, pages: int) -> None:
    store._db.execute(f"PRAGMA max_page_count={pages}").fetchall()


@pytest.mark.usefixtures("impatient")
def test_a_full_store_acknowledges_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, accepted(1), at_ns=1)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    limit_pages(store, pages + 2)
    acknowledged: list[int] = []
    with caplog.at_level(logging.WARNING, "ordercast.net.store"):
        for seq in range(2, 12):
            box = StoreBox(records=[accepted(seq, size=20_000)], at_ns=1)
            store.write(box, partial(acknowledged.append, seq))
        until_failed(store)
        time.sleep(0.3)  # many tries
        assert isinstance(store.failed, sqlite3.OperationalError)
        assert "full" in why(store)
        assert len(acknowledged) < 10
        limit_pages(store, 1_000_000)
        until_failed(store, failed=False)
        flush(store)
    assert acknowledged == list(range(2, 12))
    assert why(store) == "None"
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "nothing is acknowledged until it can" in caplog.text
    store.close_sync()
    again = open_store(tmp_path / "a.db")
    assert seqs(again.restored()) == list(range(1, 12))
    again.close_sync()


@pytest.mark.usefixtures("impatient")
def test_a_full_store_can_be_closed_and_lacks_only_what_was_not_acknowledged(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, accepted(1), at_ns=1)
    limit_pages(store, 1)
    acknowledged = threading.Event()
    store.write(StoreBox(records=[accepted(2, size=200_000)], at_ns=1), acknowledged.set)
    until_failed(store)
    store.close_sync()
    assert not acknowledged.is_set()
    again = open_store(tmp_path / "a.db")
    assert seqs(again.restored()) == [1]
    again.close_sync()


def seqs(records: list[MemberRecord]) -> list[int]:
    return [record.batch.seq for record in records if isinstance(record, Accepted)]


CHILD = """
import resource, sys, time
from pathlib import Path
from ordercast.net.store import writer as store_writer
from ordercast.net.store.box import StoreBox
from support.stores.records import accepted
from support.stores.records import flush
from support.stores.records import open_store
from support.stores.records import until_failed

store_writer.TRY_AGAIN_S = 0.05
path = Path(sys.argv[1])
store = open_store(path, "sync")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
done = []
for seq in range(1, 41):
    box = StoreBox(records=[accepted(seq, size=20_000)], at_ns=1)
    store.write(box, lambda s=seq: done.append(s))
until_failed(store)
time.sleep(0.3)
before = len(done)
assert before < 40 and store.failed is not None, (before, store.failed)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
until_failed(store, failed=False)
flush(store)
assert done == list(range(1, 41)), done
store.close_sync()
again = open_store(path)
assert [record.batch.seq for record in again.restored()] == list(range(1, 41))
again.close_sync()
print("ok", before)
"""


def test_a_store_that_the_system_stops_goes_on_when_it_lets_it(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: writes beyond it fail, as they do on a full file system."""
    assert resource.RLIMIT_FSIZE is not None
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "a.db")],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok")
