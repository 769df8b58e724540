"""A store that is migrated by processes which are killed, one after each line of the migration.

`python killed_migration.py STORE FOLDER`. It prints one line for each process: how many lines it
had run, and what it left: `old` or `new`. The last one is not killed.
"""

import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from ordercast.net.store import formats
from ordercast.net.store.formats import STEPS, newest_format
from ordercast.net.store.store import Store


def first(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE colours(n INTEGER PRIMARY KEY, colour TEXT)")
    db.execute("INSERT INTO colours SELECT n, 'red' FROM batches")


def second(db: sqlite3.Connection) -> None:
    db.execute("UPDATE colours SET colour = 'blue'")
    db.execute("ALTER TABLE requests ADD COLUMN colour TEXT")


def killed_after(lines: int) -> Any:
    """A trace function that kills the process before it runs one line more."""
    left = lines

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in (formats.__file__, __file__):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def in_child(work: Any) -> bool:
    """Whether it came to its end."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def opened(path: Path) -> Store:
    return Store.open(path, cluster="local", site="a", durability="os", call=lambda call: call())


def migrate(path: Path, lines: int) -> None:
    sys.settrace(killed_after(lines))
    store = opened(path)
    sys.settrace(None)
    store.close_sync()


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
        whole = in_child(lambda path=path, lines=lines: migrate(path, lines))
        print(lines, look(path, versions), flush=True)
        assert in_child(lambda path=path: read_on(path)), f"cannot go on after {lines} lines"
        assert look(path, versions) == "new"
        if whole:
            return
        shutil.rmtree(path.parent)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
