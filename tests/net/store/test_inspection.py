"""What is told of a store, whole or damaged; and a store that is made smaller."""

import sqlite3
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError, StoreCorrupt
from ordercast.net.local import local_cluster
from ordercast.net.store import compaction, inspection
from ordercast.net.store.compaction import compact
from ordercast.net.store.inspection import MOST_DAMAGE, StoreReport, inspect_store
from ordercast.net.store.store import Store
from support.harness.loops import in_loop

COUNT = 40
SIZE = 20_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of a site that has confirmed half of its messages, and keeps them all."""

    @in_loop
    async def run() -> None:
        limits = {"retention": "24h"}
        options = {"durability": "os", "limits": limits, "deliver": "agreed"}
        async with local_cluster({"alpha": ["a"]}, dir=tmp_path, **options) as cluster:
            for number in range(COUNT):
                payload = bytes([number]) * SIZE
                await (await cluster["a"].multicast("alpha", payload)).stable()
            await cluster["a"].confirm(COUNT // 2)

    run()
    return tmp_path / "a.db"


def damaged(store: Path, *statements: str) -> StoreReport:
    with sqlite3.connect(store) as db:
        for statement in statements:
            db.execute(statement)
    db.close()
    return inspect_store(store)


def test_a_whole_store_is_told(store: Path) -> None:
    found = inspect_store(store)
    assert (found.cluster, found.site, found.boot) == ("local", "a", 1)
    assert (found.damaged, found.damage) == (0, [])
    told = {"first": 1, "logged": COUNT, "delivered": COUNT, "confirmed": COUNT // 2, "attempt": 1}
    assert found.positions == told
    assert found.closed is not None
    assert found.closed["quiet"]
    assert found.tables["batches"]["rows"] == found.rows[1] - found.rows[0] + 1
    assert COUNT * SIZE < found.tables["batches"]["bytes"] < found.bytes["file"]
    assert found.as_json()["rows"] == list(found.rows)


def test_a_store_that_nobody_writes_is_only_read_also_in_a_folder_that_may_not_be_written(
    store: Path,
) -> None:
    before = sorted(path.name for path in store.parent.iterdir())
    assert not inspect_store(store).damaged
    assert sorted(path.name for path in store.parent.iterdir()) == before
    store.parent.chmod(0o500)
    try:
        assert inspect_store(store).positions["logged"] == COUNT
    finally:
        store.parent.chmod(0o700)


def test_a_store_that_is_opened_while_it_is_read_is_read_again_with_its_log(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def started(path: Path, *, alone: bool) -> StoreReport:
        seen.append(alone)
        path.with_name(f"{path.name}-wal").touch()
        return StoreReport(path)

    monkeypatch.setattr(inspection, "_inspect", started)
    inspect_store(store)
    assert seen == [True, False]


def test_a_store_is_told_while_it_is_written(store: Path) -> None:
    writing = Store.open(store, cluster="local", site="a", durability="os")
    try:
        found = inspect_store(store)
        assert (found.boot, found.closed, found.damaged) == (2, None, 0)
    finally:
        writing.close_sync()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE batches SET at_ns = 1 WHERE n = 9", "row 9 of table batches: the checksum does"),
        ("DELETE FROM batches WHERE n = 9", "row 9 of table batches is missing"),
        ("UPDATE state SET value = 7 WHERE key = 'confirmed'", "value 'confirmed' of table state"),
        ("INSERT INTO checkpoint VALUES (1, 5, 1, 0, 7, x'00')", "checkpoint"),
        ("DROP TABLE events", "no such table: events"),
    ],
)
def test_damage_is_named_and_the_rest_is_told(store: Path, statement: str, said: str) -> None:
    found = damaged(store, statement)
    assert found.damaged
    assert any(said in line for line in found.damage)
    assert all("\n" not in line for line in found.damage)
    assert found.rows[1] > COUNT
    with pytest.raises(StoreCorrupt):
        Store.open(store, cluster="local", site="a", durability="os")


def test_damaged_pages_are_named(store: Path) -> None:
    data = bytearray(store.read_bytes())
    for place in range(len(data) // 2, len(data), 8_192):
        data[place : place + 8] = b"\xff" * 8
    store.write_bytes(data)
    found = inspect_store(store)
    assert found.damaged
    assert len(found.damage) <= MOST_DAMAGE
    assert found.site == "a"


def test_what_is_no_store_is_refused_or_named(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such store"):
        inspect_store(tmp_path / "none.db")
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE t(x)")
    with pytest.raises(ConfigError, match="is a database, but not a store of ordercast"):
        inspect_store(tmp_path / "other.db")
    store.write_bytes(b"nothing of a database" * 1_000)
    assert inspect_store(store).damage == [f"{store}: cannot be read: file is not a database"]


def test_a_store_is_made_as_small_as_what_it_holds(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after any piece leaves a whole store."""
    monkeypatch.setattr(compaction, "PIECE", 5)
    with sqlite3.connect(store) as db:  # as the removal of old rows does
        db.execute("CREATE TABLE gone AS SELECT * FROM batches")
        db.execute("DROP TABLE gone")
    db.close()
    before = inspect_store(store)
    assert before.bytes["free"] > COUNT * SIZE / 2
    left: list[int] = []

    def interrupt(free: int) -> None:
        left.append(free)
        if len(left) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(store, interrupt)
    between = inspect_store(store)
    assert between.damaged == 0
    done = compact(store, left.append)
    after = inspect_store(store)
    assert (after.damaged, after.bytes["free"]) == (0, 0)
    assert done.after == after.bytes["file"] < between.bytes["file"] < before.bytes["file"]
    assert left == sorted(left, reverse=True)
    assert (after.tables, after.positions) == (before.tables, before.positions)
    assert compact(store) == (done.after, done.after)


def test_a_store_in_use_or_damaged_is_not_made_smaller(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such store"):
        compact(tmp_path / "none.db")
    writing = Store.open(store, cluster="local", site="a", durability="os")
    try:
        with pytest.raises(ConfigError, match="is in use by another process"):
            compact(store)
    finally:
        writing.close_sync()
    store.write_bytes(b"nothing of a database" * 1_000)
    with pytest.raises(StoreCorrupt, match="is not a store, or its first page is damaged"):
        compact(store)
