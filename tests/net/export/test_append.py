"""Exports that append to a lake: what comes in it, in which files, and what is refused."""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from ordercast.check.report import check_history
from ordercast.history.lake import hidden, lake_files, read_lake
from ordercast.history.lake_compaction import compact_lake
from ordercast.history.lake_writer import opened_lake
from ordercast.history.reader import count_rows, read_groups, read_history
from ordercast.history.rows import BASE, END, OPEN
from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.net.export.history import export
from ordercast.net.export.lake_export import append
from ordercast.pipeline.following.folder import GrowingFolder
from ordercast.pipeline.following.in_process import follow_folder
from ordercast.pipeline.streams.histories import HistoryFeed
from ordercast.pipeline.streams.options import source_options
from support.cases.growing_lakes import Killed, grow, killed_after
from support.stores.exporting import Cluster
from support.stores.records import anew, engine, write
from support.worlds.stored_members import cut_off

DAY_NS = 86_400_000_000_000


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("kind", "seed", "excluding", "keep_all"),
    [("parquet", 3, "hard", True), ("parquet", 4, "drawn", False), ("delta", 2, "hard", True)],
)
def test_a_lake_says_what_full_exports_say(
    kind: str, seed: int, excluding: str, keep_all: bool, tmp_path: Path
) -> None:
    """Random schedules on real stores with rollbacks and crashes; kills in appends and compacts."""
    growing, _ = grow(seed, tmp_path, excluding=excluding, kind=kind, keep_all=keep_all)
    assert growing.appends > 3
    assert growing.kills


def test_an_append_adds_files_by_day_and_changes_none(cluster: Cluster, lake: Path) -> None:
    cluster.send("a", "g", b"1")
    append(cluster.folder, lake)
    before = {path: path.read_bytes() for path in lake.rglob("append-*.parquet")}
    later = cluster.batch("b", "g", b"2")
    cluster.accept(later, at_ns=DAY_NS + 1)
    placed = cluster.place(later)
    for site in "abc":
        cluster.passed(site, placed, at_ns=3 * DAY_NS)
    done = append(cluster.folder, lake)
    cluster.close()
    assert (done.append, done.sent, done.deliveries) == (2, 1, 3)
    assert all(path.read_bytes() == data for path, data in before.items())
    days = {str(path.relative_to(lake).parent) for path in lake.rglob("append-000002.parquet")}
    assert days == {"deliveries/day=1970-01-04", "sent/day=1970-01-02"}
    assert len(read_history(lake).deliveries) == count_rows(lake, "deliveries") == 6
    assert append(cluster.folder, lake).append == 3  # the ends
    assert append(cluster.folder, lake).append == 3  # nothing is new


def test_an_end_is_taken_back_when_the_site_goes_on(cluster: Cluster, lake: Path) -> None:
    cluster.some(1)
    append(cluster.folder, lake, ended=["a", "b", "c"])
    assert {event.kind for event in read_history(lake).events} == {END}
    cluster.accept(cluster.batch("a", "g", b"not delivered yet"))
    append(cluster.folder, lake)
    history = read_history(lake)
    assert [e.kind for e in history.events if e.site == "a"] == [END, OPEN]
    assert check_history(history).ok
    append(cluster.folder, lake, ended=["a", "b", "c"])  # they say that nothing is outstanding
    assert check_history(read_history(lake)).checks["lost"] == 1
    cluster.close()


def test_a_send_that_may_be_refused_is_appended_when_it_is_delivered(
    cluster: Cluster, lake: Path
) -> None:
    cluster.some(1)
    batch = cluster.batch("a", "g", b"late")
    cluster.accept(batch, at_ns=5)
    cluster.accept(refused := cluster.batch("c", "h", b"never"), at_ns=6)
    append(cluster.folder, lake)
    known = {row.id for row in read_history(lake).sent}
    assert not [row for row in known if (row.origin, row.group, row.seq) == ("a", "g", batch.seq)]
    write(cluster.stores["c"], events=[], refused=[("h", refused.seq)])
    placed = cluster.place(batch)
    for site in "abc":
        cluster.passed(site, placed)
    append(cluster.folder, lake)
    cluster.close()
    append(cluster.folder, lake)
    history = read_history(lake)
    assert [r.sent_ns for r in history.sent if (r.origin, r.seq) == ("a", batch.seq)] == [5]
    assert not [
        r for r in history.sent if (r.origin, r.group_name, r.seq) == ("c", "h", refused.seq)
    ]
    assert check_history(history).ok


def test_what_retention_removed_before_an_append_is_below_a_base(
    cluster: Cluster, lake: Path
) -> None:
    cluster.some(1)
    append(cluster.folder, lake)
    write(cluster.stores["a"], forget=anew(6, engine(own_seqs={"g": 2, "h": 1})))
    cluster.some(4)
    write(cluster.stores["a"], forget=anew(30, engine(own_seqs={"g": 10, "h": 5})), confirmed=27)
    cluster.close()
    append(cluster.folder, lake)
    history = read_history(lake)
    bases = [event for event in history.events if event.kind == BASE]
    assert [(event.site, event.detail) for event in bases] == [("a", '{"reason":"truncated"}')]
    assert check_history(history).ok
    assert len({row.id for row in history.sent}) == len(history.sent) == 45


def test_what_is_not_the_lakes_is_refused_in_one_line(cluster: Cluster, tmp_path: Path) -> None:
    cluster.some(1)
    kept = tmp_path / "kept"
    kept.mkdir()
    lake = tmp_path / "lake"
    append(cluster.folder, lake)
    for site in "abc":
        cluster.stores[site].close_sync()
        shutil.copyfile(tmp_path / f"{site}.db", kept / f"{site}.db")
        cluster.open(site)
    cluster.some(1)
    append(cluster.folder, lake)
    with pytest.raises(ConfigError, match="ends before what the lake has"):
        append(kept, lake)
    with pytest.raises(ConfigError, match="is a lake of format 'parquet', not 'delta'"):
        append(cluster.folder, lake, kind="delta")
    with (
        opened_lake(lake, "c"),
        pytest.raises(ConfigError, match="another process is writing to this lake"),
    ):
        append(cluster.folder, lake)
    with pytest.raises(ConfigError, match="s3a:/b/lake: a lake is a folder of this machine"):
        append(cluster.folder, Path("s3a://b/lake"))
    cluster.export()
    with pytest.raises(ConfigError, match="is not empty, and no lake"):
        append(cluster.folder, tmp_path / "out")
    cluster.stores["b"].close_sync()
    (tmp_path / "b.db").unlink()
    cluster.open("b")
    with pytest.raises(ConfigError, match="is another store of site 'b' than the lake"):
        append(cluster.folder, lake)
    (lake / "lake.json").write_text('{"format": "parquet", "cluster": "c", "schema_version": 2}')
    with pytest.raises(ConfigError, match="'schema_version': 2 with format 'parquet' is not known"):
        read_history(lake)
    cluster.close()


def test_compacting_merges_a_day_and_readers_that_began_go_on(cluster: Cluster, lake: Path) -> None:
    for _ in range(4):
        cluster.some(1)
        append(cluster.folder, lake)
    options = source_options({"history": str(lake)})
    feed = HistoryFeed(options)
    follower = follow_folder(lake, checkpoint=lake.parent / "state", once=True)
    first = list(follower)[-1]
    before = read_lake(lake)
    assert before is not None
    done = compact_lake(lake, keep_s=60)
    assert done.after == 3 + 2 < done.before  # a file of each table
    assert not list((lake / "deliveries").rglob("append-*.parquet"))
    old = [lake / name for name in before.files["deliveries"]]
    assert all(hidden(path).exists() for path in old)
    assert sum(len(list(read_groups(path, TABLES["deliveries"], None))) for path in old) == 96
    cluster.some(1)
    append(cluster.folder, lake)
    again = list(follow_folder(lake, checkpoint=lake.parent / "state", once=True))
    assert again[0].report["rows"] == first.report["rows"]
    assert again[-1].report["rows"] == len(read_history(lake).deliveries) == 120
    assert again[-1].ok
    assert feed.latest(feed.first())["b"].position == 45
    compact_lake(lake, keep_s=0)
    assert compact_lake(lake, keep_s=0).removed
    assert not list(lake.rglob(".append-*.parquet"))
    assert list(follow_folder(lake, once=True))[-1].report["rows"] == 120
    cluster.close()


def test_a_delta_table_keeps_merged_files_no_shorter_than_was_asked(
    cluster: Cluster, lake: Path
) -> None:
    for _ in range(2):
        cluster.some(1)
        append(cluster.folder, lake, kind="delta")
    found = read_lake(lake)
    assert found is not None
    before = lake_files(lake, found, "deliveries")
    for keep_s, left in ((60, before), (0, [])):
        compact_lake(lake, keep_s=keep_s)
        assert [path for path in before if path.exists()] == left
    cluster.close()


def test_what_was_merged_unread_is_followed_once(cluster: Cluster, lake: Path) -> None:
    cluster.some(1)
    append(cluster.folder, lake)
    folder = GrowingFolder(lake)
    assert sum(len(rows.deliveries) for rows in folder.batches()) == 24
    cluster.some(1)
    append(cluster.folder, lake)
    compact_lake(lake, keep_s=60)  # one that was read with one that was not
    assert sum(len(rows.deliveries) for rows in folder.batches()) == 24
    assert list(folder.batches()) == []
    assert [name for name in folder.left["deliveries"] if "append" in name] == []
    assert sum(len(rows.deliveries) for rows in folder.read_again()) == 48
    cluster.close()


def test_rows_that_are_rolled_back_later_are_there_once(tmp_path: Path, lake: Path) -> None:
    world = cut_off(tmp_path, "agreed")
    append(tmp_path, lake)
    before = read_history(lake)
    world.partition([])
    world.settle()
    world.close()
    append(tmp_path, lake)
    export(tmp_path, tmp_path / "out")
    found, full = read_history(lake), read_history(tmp_path / "out")
    ((_, rollback),) = world.rollbacks
    assert check_history(found).annulled == check_history(full).annulled == len(rollback.annulled)
    assert Counter(found.deliveries) == Counter(full.deliveries)
    assert set(before.deliveries) < set(found.deliveries)


def test_a_follower_that_was_away_for_too_long_says_so(cluster: Cluster, lake: Path) -> None:
    cluster.some(1)
    append(cluster.folder, lake)
    folder = GrowingFolder(lake)
    assert sum(len(rows.deliveries) for rows in folder.batches()) == 24
    cluster.some(1)
    append(cluster.folder, lake)
    compact_lake(lake, keep_s=60)
    compact_lake(lake, keep_s=0)
    with pytest.raises(ConfigError, match="compacted, and what was merged removed"):
        list(folder.batches())
    cluster.close()


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_kill_at_any_step_leaves_the_old_lake_or_the_new_one(
    kind: str, cluster: Cluster, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    cluster.some(1)
    append(cluster.folder, lake, kind=kind)
    cluster.some(1)
    had, rounds = [], 2
    for steps in range(60):
        copy = lake.with_name(f"lake-{steps}")
        shutil.copytree(lake, copy)
        try:
            with killed_after(steps):
                append(cluster.folder, copy)
        except Killed:
            had.append(len(read_history(copy).deliveries))
        else:
            break
        cluster.some(1)  # the next append finds more
        rounds += 1
        append(cluster.folder, copy)
        history = read_history(copy)
        places = {(row.site, row.position) for row in history.deliveries}
        assert len(places) == len(history.deliveries) == 24 * rounds, steps
        assert check_history(history).ok, steps
        shutil.rmtree(copy)
    assert steps > 5
    assert had[0] == 24 < had[-1]
    cluster.close()
