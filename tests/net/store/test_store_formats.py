"""A store of an earlier format is copied, migrated in one transaction, and says so."""

import logging
import sqlite3
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError, Error
from ordercast.net.export.source import StoreSnapshot
from ordercast.net.store.formats import STEPS
from ordercast.net.store.rows import FIRST_FORMAT
from support.stores.records import accepted, kept, open_store, write


def with_column(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE requests ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")


def with_table(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE places(site TEXT PRIMARY KEY, colour TEXT) WITHOUT ROWID")
    db.execute("INSERT INTO places SELECT value, 'blue' FROM state WHERE key = 'site'")


def written(path: Path) -> None:
    store = open_store(path)
    write(store, accepted(1), kept(1))
    store.close_sync()


def pretend(monkeypatch: pytest.MonkeyPatch, *steps: object) -> None:
    """A program with these steps more."""
    for number, step in enumerate(steps, start=FIRST_FORMAT + len(STEPS)):
        monkeypatch.setitem(STEPS, number, step)


def inside(path: Path) -> tuple[int, str]:
    """The format of a file, and its tables and rows."""
    db = sqlite3.connect(path)
    try:
        return db.execute("PRAGMA user_version").fetchone()[0], "\n".join(db.iterdump())
    finally:
        db.close()


def test_steps_begin_with_the_first_format_and_have_no_hole() -> None:
    assert list(STEPS) == list(range(FIRST_FORMAT, FIRST_FORMAT + len(STEPS)))


def test_an_older_store_is_copied_and_migrated_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.db"
    written(path)
    before = inside(path)
    pretend(monkeypatch, with_column, with_table)
    with caplog.at_level(logging.INFO, "ordercast.net.store"):
        store = open_store(path)
    assert [batch.position for batch in store.read(1, 10)] == [1]
    write(store, accepted(2), kept(2))
    store.close_sync()
    copy = tmp_path / f"a.db.format{before[0]}"
    assert caplog.messages == [
        f"{path}: migrated from format {before[0]} to {before[0] + 2}; the store as it was is in"
        f" {copy.name}"
    ]
    assert inside(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o600
    version, dump = inside(path)
    assert version == before[0] + 2
    assert "INSERT INTO \"places\" VALUES('a','blue')" in dump
    assert sorted(each.name for each in tmp_path.glob("a.db*")) == sorted(
        ["a.db", copy.name, "a.db.lock"]
    )
    caplog.clear()
    open_store(path).close_sync()
    assert caplog.messages == []


def test_a_new_store_is_as_a_migrated_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "old" / "a.db", tmp_path / "new" / "a.db"
    for path in (old, new):
        path.parent.mkdir()
    written(old)
    pretend(monkeypatch, with_column, with_table)
    open_store(old).close_sync()
    open_store(new).close_sync()
    schemas = []
    for path in (old, new):
        db = sqlite3.connect(path)
        schemas.append(db.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall())
        db.close()
    assert schemas[0] == schemas[1]
    assert inside(old)[0] == inside(new)[0]
    assert not list(new.parent.glob("*.format*"))


def test_a_newer_store_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    with monkeypatch.context() as newer:
        pretend(newer, with_column)
        written(path)
    before = path.read_bytes()
    mine = FIRST_FORMAT + len(STEPS)
    with pytest.raises(ConfigError) as caught:
        open_store(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: is a store of format {mine + 1}, this program knows ")
    assert told.endswith(f"{mine}; it was written by a newer release, run that one")
    assert path.read_bytes() == before


def test_a_store_of_another_site_is_not_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    written(path)
    before = inside(path)
    pretend(monkeypatch, with_table)
    with pytest.raises(ConfigError, match="belongs to site 'a', not 'b'"):
        open_store(path, site="b")
    assert inside(path) == before


def commits(db: sqlite3.Connection) -> None:
    with_column(db)
    db.execute("COMMIT")


def fails(db: sqlite3.Connection) -> None:
    with_column(db)
    db.execute("INSERT INTO nowhere VALUES (1)")


@pytest.mark.parametrize("step", [fails, commits])
def test_a_step_that_fails_leaves_the_store_as_it_was(
    step: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    written(path)
    before = inside(path)
    with monkeypatch.context() as broken:
        pretend(broken, with_table, step)
        with pytest.raises((Error, RuntimeError)):
            open_store(path)
    if step is fails:
        assert inside(path) == before
        open_store(path).close_sync()


def test_a_reader_of_an_older_store_is_told_who_migrates_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    written(path)
    pretend(monkeypatch, with_table)
    with pytest.raises(ConfigError, match="start its site with this program, which migrates it"):
        StoreSnapshot(path)
