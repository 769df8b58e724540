"""A store that is migrated by processes which are killed, one after each line of the migration.

`python killed_migration.py STORE FOLDER`. It prints one line for each process: how many lines it
had run, and what it left: `old` or `new`. The last one is not killed.
"""

import shutil
import sqlite3
import sys
from functools import partial
from pathlib import Path

from ordercast import whole_files
from ordercast.net.store import formats
from ordercast.net.store.formats import STEPS, newest_format
from ordercast.net.store.store import Store
from support.harness.kills import in_child, killed_after

FILES = (formats.__file__, whole_files.__file__, __file__)


def first(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE colours(n INTEGER PRIMARY KEY, colour TEXT)")
    db.execute("INSERT INTO colours SELECT n, 'red' FROM batches")


def second(db: sqlite3.Connection) -> None:
    db.execute("UPDATE colours SET colour = 'blue'")
    db.execute("ALTER TABLE requests ADD COLUMN colour TEXT")


def opened(path: Path) -> Store:
    return Store.open(path, cluster="local", site="a", durability="os", call=lambda call: call())


def migrate(path: Path) -> None:
    opened(path).close_sync()


def look(path: Path, versions: tuple[int, int]) -> str:
    """Which store was left. The file must be whole, and all of it of one format."""
    db = sqlite3.connect(path)
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
        assert version in versions, version
        assert ("colours" in tables) == (version == versions[1])
        if version == versions[1]:
            odd = db.execute("SELECT count(*) FROM colours WHERE colour <> 'blue'").fetchone()[0]
            rows = db.execute("SELECT count(*) FROM batches").fetchone()[0]
            found = db.execute("SELECT count(*) FROM colours").fetchone()[0]
            assert (odd, found) == (0, rows)
    finally:
        db.close()
    return "old" if version == versions[0] else "new"


def read_on(path: Path) -> None:
    """The next start takes the store as it is, and makes the newest of it."""
    store = opened(path)
    assert store.read(1, 10)
    store.close_sync()


def main(source: Path, folder: Path) -> None:
    before = newest_format()
    STEPS[before], STEPS[before + 1] = first, second
    versions = (before, before + 2)
    for lines in range(1_000):
        path = folder / str(lines) / "a.db"
        path.parent.mkdir()
        shutil.copyfile(source, path)
        whole = killed_after(lines, FILES, partial(migrate, path))
        print(lines, look(path, versions), flush=True)
        assert in_child(partial(read_on, path)), f"cannot go on after {lines} lines"
        assert look(path, versions) == "new"
        if whole:
            return
        shutil.rmtree(path.parent)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
