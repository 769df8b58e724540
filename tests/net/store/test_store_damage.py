"""Damaged files: the torn end of a log is recovered, anything committed that fails its checksum is
refused in one line that names the file and what to do."""

import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from ordercast.model.errors import ConfigError, Error, StoreCorrupt
from ordercast.net.store import wal, writer
from ordercast.net.store.box import StoreBox
from ordercast.net.store.file import PAGE_BYTES
from ordercast.net.store.store import Store
from ordercast.net.store.wal import require_whole
from support.stores.records import (
    accepted,
    as_nobody,
    kept,
    kill,
    open_store,
    until_failed,
    write,
)

COMMITS = 5
HEADER, FRAME = 32, 24 + PAGE_BYTES


class Torn:
    """Files as a kill leaves them, and how long the log was after each commit."""

    def __init__(self, folder: Path) -> None:
        store = open_store(folder / "a.db", "sync")
        log = folder / "a.db-wal"
        self.sizes = [log.stat().st_size]
        for seq in range(1, COMMITS + 1):
            write(store, accepted(seq, size=2_500 * seq), at_ns=seq)
            self.sizes.append(log.stat().st_size)
        self.path = kill(store, folder / "killed.db")
        store.close_sync()
        self.log = self.path.with_name("killed.db-wal").read_bytes()

    def committed(self, offset: int) -> int:
        """How many commits lie wholly before the offset."""
        return sum(size <= offset for size in self.sizes[1:])

    def opened(self, log: bytes, to: Path) -> list[int] | str:
        """The seqs that a start finds with this log, or why it is refused."""
        shutil.copyfile(self.path, to)
        to.with_name(f"{to.name}-wal").write_bytes(log)
        try:
            store = open_store(to)
        except StoreCorrupt as error:
            return str(error)
        found = store.restored()
        store.close_sync()
        return [record.batch.seq for record in found if hasattr(record, "batch")]


@pytest.fixture
def torn(tmp_path: Path) -> Torn:
    return Torn(tmp_path)


def interesting(torn: Torn) -> list[int]:
    """Around the start, the header and the end of each frame, and inside its page."""
    frames = range(HEADER, len(torn.log), FRAME)
    around = (0, 4, 7, 8, 16, 23, 24, 2_000, FRAME - 1)
    return [frame + n for frame in frames for n in around if frame + n < len(torn.log)]


def test_a_log_cut_anywhere_gives_the_commits_before_the_cut(torn: Torn, tmp_path: Path) -> None:
    for cut in [*interesting(torn), len(torn.log)]:
        found = torn.opened(torn.log[:cut], tmp_path / f"cut{cut}.db")
        assert found == list(range(1, torn.committed(cut) + 1)), cut


def test_a_log_whose_last_transaction_is_damaged_gives_those_before(
    torn: Torn, tmp_path: Path
) -> None:
    places = [at for at in interesting(torn) if at >= torn.sizes[-2]]
    assert len(places) > 15
    for at in places:
        found = torn.opened(flipped(torn.log, at), tmp_path / f"flip{at}.db")
        assert found == list(range(1, COMMITS)), at


def test_a_log_with_damage_before_a_later_commit_is_refused(torn: Torn, tmp_path: Path) -> None:
    """Where the damage hides the end of the last transaction but one, it may look like a torn end:
    then what is found is still a first part."""
    refused = 0
    for at in [*range(0, HEADER, 3), *interesting(torn)]:
        if at >= torn.sizes[-2]:
            continue
        to = tmp_path / f"flip{at}.db"
        found = torn.opened(flipped(torn.log, at), to)
        if isinstance(found, str):
            refused += 1
            assert found.startswith(f"{to}-wal: {'frame' if at >= HEADER else 'its header'}")
            assert "put back intact copies" in found
            assert "\n" not in found
            assert to.with_name(f"{to.name}-wal").exists()  # the evidence stays
        else:
            assert at >= torn.sizes[-3]
            assert found == list(range(1, torn.committed(at) + 1)), at
    assert refused >= 30


def test_commits_within_a_log_that_was_made_longer_are_found_and_its_zeros_are_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LENGTHEN_AFTER", 2)
    monkeypatch.setattr(writer, "LOG_BYTES", 40 * FRAME)
    for durability in ("os", "sync"):
        store = open_store(tmp_path / f"{durability}.db", durability)
        log = tmp_path / f"{durability}.db-wal"
        sizes = []
        for seq in range(1, COMMITS + 1):
            write(store, accepted(seq), at_ns=seq)
            sizes.append(log.stat().st_size)
        path = kill(store, tmp_path / f"killed_{durability}.db")
        store.close_sync()
        data = path.with_name(f"{path.name}-wal").read_bytes()
        if durability == "os":  # a commit does not wait for the disk
            assert sizes == sorted(set(sizes))
            continue
        assert sizes[-1] == sizes[-2] == len(data) == 40 * FRAME
        assert not any(data[30 * FRAME :])
        torn = object.__new__(Torn)
        torn.path = path
        assert torn.opened(data, tmp_path / "whole.db") == [*range(1, COMMITS + 1)]
        last = max(at for at in range(HEADER, len(data), FRAME) if any(data[at : at + FRAME]))
        found = torn.opened(flipped(data, last + 2_000), tmp_path / "last.db")
        assert found == [*range(1, COMMITS)]
        found = torn.opened(flipped(data, HEADER + 2_000), tmp_path / "first.db")
        assert "frame 1 is damaged" in str(found)


def test_a_frame_that_is_being_written_at_the_first_look_is_no_damage(
    torn: Torn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "busy.db"
    log = tmp_path / "busy.db-wal"
    written = torn.sizes[-3]

    def meanwhile(look: Any) -> Any:
        """The site writes the rest of the log between the two halves of a look."""

        def looking(*given: Any) -> Any:
            found = look(*given)
            log.write_bytes(torn.log)
            return found

        return looking

    log.write_bytes(torn.log[:written] + bytes(len(torn.log) - written))
    monkeypatch.setattr(wal, "_first_bad", meanwhile(wal._first_bad))
    require_whole(path)
    log.write_bytes(flipped(torn.log, HEADER + 100))
    monkeypatch.undo()
    with pytest.raises(StoreCorrupt, match="frame 1 is damaged"):
        require_whole(path)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]


def closed_store(path: Path, commits: int = 5) -> None:
    store = open_store(path)
    for seq in range(1, commits + 1):
        write(store, accepted(seq), at_ns=1)
        write(store, kept(seq), at_ns=1)
    store.close_sync()


def edit(path: Path, statement: str, *values: object) -> None:
    db = sqlite3.connect(path)
    db.execute(statement, values)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE batches SET body = CAST(substr(body, 2) AS BLOB) WHERE n = 5", "row 5"),
        ("UPDATE batches SET position = position + 1 WHERE n = 4", "row 4"),
        ("UPDATE batches SET body = x'' WHERE n = 1", "row 1"),
        ("UPDATE state SET value = 7 WHERE key = 'confirmed'", "value 'confirmed'"),
        ("DELETE FROM batches WHERE n = 6", "row 6"),
    ],
)
def test_a_committed_row_that_was_changed_is_refused(
    statement: str, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    closed_store(path)
    edit(path, statement)
    with pytest.raises(StoreCorrupt) as caught:
        open_store(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: {what}")
    assert "put back an intact copy" in told
    assert "\n" not in told


def test_a_damaged_row_of_the_log_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    closed_store(path)
    store = open_store(path)
    edit(path, "UPDATE batches SET crc = crc + 1 WHERE n = 6")
    assert len(store.read(1, 2)) == 2
    with pytest.raises(StoreCorrupt, match=r"a\.db: row 6 of table batches: the checksum"):
        store.read(3, 10)
    store.close_sync()


def test_damage_that_a_writer_meets_is_told_in_one_line_and_nothing_is_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.db"
    closed_store(path, commits=60)
    store = open_store(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:PAGE_BYTES] + b"\xa5" * (len(whole) - PAGE_BYTES))
    store._db.execute("PRAGMA shrink_memory").fetchall()  # so that pages are read again
    acknowledged = threading.Event()
    store.write(StoreBox(records=[accepted(61)], at_ns=1), acknowledged.set)
    until_failed(store)
    store.close_sync()
    assert not acknowledged.is_set()
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert told[0].startswith(f"{path}: is damaged")
    assert caplog.records[0].exc_info is None


def test_every_page_that_is_damaged_is_refused_or_harmless(tmp_path: Path) -> None:
    """Overwrite each page of a closed store in turn: never a traceback, never other content."""
    path = tmp_path / "a.db"
    closed_store(path, commits=60)
    whole = path.read_bytes()
    store = open_store(path)
    truth = store.restored()
    store.close_sync()
    refusals = []
    for at in range(0, len(whole), PAGE_BYTES):
        path.write_bytes(
            whole[: at + 100] + b"\xa5" * (PAGE_BYTES - 200) + whole[at + PAGE_BYTES - 100 :]
        )
        try:
            store = open_store(path)
        except Error as error:
            refusals.append(str(error))
            continue
        assert store.restored() == truth
        store.close_sync()
    assert len(refusals) >= 3
    assert all(told.startswith(f"{path}: ") and "\n" not in told for told in refusals)


def refusal(path: Path, **given: str) -> str:
    with pytest.raises(Error) as caught:
        open_store(path, **given)
    told = str(caught.value)
    assert str(path) in told
    assert "\n" not in told
    return told


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"not a database at all " * 500)
    assert "is not a store" in refusal(path)


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    edit(path, "CREATE TABLE theirs(x)")
    before = path.read_bytes()
    assert "not a store of ordercast" in refusal(path)
    assert path.read_bytes() == before


def test_a_store_of_another_site_or_cluster_or_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    closed_store(path)
    assert "belongs to site 'a', not 'b'" in refusal(path, site="b")
    assert "belongs to cluster 'c', not 'd'" in refusal(path, cluster="d")
    edit(path, "PRAGMA user_version = 9")
    assert refusal(path) == (
        f"{path}: is a store of format 9, this program knows 3 to 7; it was written by a"
        " newer release, run that one"
    )


def test_a_store_in_use_is_refused_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    first = open_store(path)
    assert "is in use" in refusal(path)
    first.close_sync()
    second = open_store(path)
    assert second.boot == 2
    second.close_sync()


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "cannot be written" in refusal(tmp_path / "file" / "a.db")
    (tmp_path / "a.db").mkdir()
    assert "cannot be opened" in refusal(tmp_path / "a.db")


def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    closed_store(closed / "a.db")
    closed.chmod(0o500)
    (closed / "a.db").chmod(0o400)
    with as_nobody(tmp_path):
        assert "cannot be written: Permission denied" in refusal(closed / "a.db")
        assert "cannot be written: Permission denied" in refusal(closed / "below" / "b.db")
    closed.chmod(0o700)


def test_memory_is_not_a_durability_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="durability: 'memory'"):
        Store.open(tmp_path / "a.db", cluster="c", site="a", durability="memory")
