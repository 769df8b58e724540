"""Stores as a history: what is written, what the checkers say of it, and what is refused."""

import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

from ordercast.check.report import check_history
from ordercast.core.epochs.records import EpochOpened
from ordercast.history import stream
from ordercast.history.order_key import order_key
from ordercast.history.reader import read_history
from ordercast.history.rows import BASE, CRASH, END, GAP, RESTART
from ordercast.model.errors import ConfigError, StoreCorrupt
from ordercast.model.implicit import implicit_group
from ordercast.model.messages import Batch, Placed, pack_payloads
from ordercast.net.export.history import Exported, export
from ordercast.net.store.events import opening_event
from support.stores.exporting import GROUPS, Cluster, counts
from support.stores.records import anew, as_nobody, engine, flush, kill, open_store, write


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_a_good_history_is_found_good(cluster: Cluster) -> None:
    cluster.some()
    cluster.close()
    assert cluster.judge().ok
    history = cluster.export()
    assert len(history.sent) == 45
    assert len(history.deliveries) == 3 * 30 + 2 * 15
    assert cluster.done == Exported(
        ["a", "b", "c"], [], ["a", "b", "c"], sent=45, deliveries=120, gaps=0, forgotten=0
    )
    assert {(row.group_name, row.site) for row in history.groups} == {
        (group, site) for group, own in GROUPS.items() for site in own
    }
    (epoch,) = history.epochs
    assert (epoch.protocol, epoch.reason) == ("propagation", "start")
    assert (epoch.epoch, epoch.domain, epoch.deliver, epoch.on_failure) == (
        1,
        "a",
        "agreed",
        "wait",
    )
    assert history.meta.clock == "utc"
    assert history.meta.config["cluster"] == "c"
    assert [event.kind for event in history.events] == [END] * 3


def test_rows_tell_what_the_store_holds(cluster: Cluster) -> None:
    placed = cluster.place(batch := cluster.batch("a", "g", b"x", b"yy"))
    cluster.accept(batch, at_ns=10, after=0)
    for site in "abc":
        cluster.passed(site, placed, at_ns=20)
    second = cluster.batch("a", "g", b"zzz")
    cluster.accept(second, at_ns=7, after=2)  # the clock was set back
    history = cluster.export()
    cluster.close()
    sent = sorted(history.sent, key=lambda row: row.seq)
    assert [(row.seq, row.size, row.sent_ns) for row in sent] == [
        (1, 1, 10),
        (2, 2, 10),
        (3, 3, 10),
    ]
    assert [(row.after_position, row.after_attempt) for row in sent] == [(0, 0), (0, 0), (2, 1)]
    rows = [row for row in history.deliveries if row.site == "b"]
    assert [(row.position, row.seq, row.delivered_ns) for row in rows] == [(1, 1, 20), (2, 2, 20)]
    assert {row.order_key for row in rows} == {order_key(placed.key)}
    assert [row.digest for row in rows] == [row.digest for row in sent[:2]]


def test_large_histories_are_written_in_pieces(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_ROWS", 7)
    cluster.some()
    cluster.close()
    told: list[tuple[str, str, int]] = []
    report = cluster.judge(progress=lambda *news: told.append(news))
    assert report.ok
    assert ("b", "deliveries", 45) in told


def test_safe_rows_count_when_they_are_delivered(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "safe")
    cluster.some(2)
    write(cluster.stores["a"], delivered=4, confirmed=1)
    write(cluster.stores["b"], delivered=3, confirmed=2)
    history = cluster.export()
    assert sum(row.site == "a" for row in history.deliveries) == 4
    assert sum(row.site == "b" for row in history.deliveries) == 3
    assert sum(row.site == "c" for row in history.deliveries) == 0
    assert check_history(history).ok
    history = cluster.export(ended=["a", "b", "c"])  # quiet: then all that is logged is delivered
    cluster.close()
    assert len(history.deliveries) == 2 * 18 + 12
    assert check_history(history).ok


def test_an_end_is_written_for_quiet_sites_only(cluster: Cluster) -> None:
    cluster.some(1)
    assert [event.kind for event in cluster.export().events] == []
    ended = cluster.export(ended=["b"])
    assert [(event.site, event.kind) for event in ended.events] == [("b", END)]
    cluster.close(quiet=False)
    assert [event.kind for event in cluster.export().events] == []


def test_crashes_and_restarts_are_events(cluster: Cluster) -> None:
    cluster.some(1)
    store = cluster.stores["b"]
    (cluster.folder / "left").mkdir()
    left = kill(store, cluster.folder / "left" / "b.db")
    cluster.close()
    for ending in ("", "-wal"):
        (cluster.folder / f"b.db{ending}").unlink(missing_ok=True)
        left.with_name(f"b.db{ending}").rename(cluster.folder / f"b.db{ending}")
    cluster.open("b")  # killed before
    cluster.stores["b"].close_sync(quiet=True)
    cluster.open("b")  # closed before
    history = cluster.export()
    cluster.stores["b"].close_sync()
    events = [(event.kind, event.detail) for event in history.events if event.site == "b"]
    assert events == [
        (CRASH, "{}"),
        (RESTART, '{"boot":2,"store":"intact"}'),
        (RESTART, '{"boot":3,"store":"intact"}'),
    ]
    assert check_history(history).ok


def test_the_files_of_a_killed_process_are_exported(cluster: Cluster) -> None:
    cluster.some()
    after = cluster.folder / "after"
    after.mkdir()
    for site, store in cluster.stores.items():
        kill(store, after / f"{site}.db")
    export(after, cluster.folder / "out")
    cluster.close()
    history = read_history(cluster.folder / "out")
    assert check_history(history).ok
    assert len(history.deliveries) == 120


def test_stores_that_may_only_be_read_are_exported(cluster: Cluster) -> None:
    cluster.some(1)
    cluster.close()
    kept = cluster.folder / "kept"
    kept.mkdir()
    for site in "abc":
        shutil.copyfile(cluster.folder / f"{site}.db", kept / f"{site}.db")
        (kept / f"{site}.db").chmod(0o444)
    kept.chmod(0o555)
    export(cluster.folder, cluster.folder / "first")  # nobody may not be able to load modules
    with as_nobody(cluster.folder):
        done = export(kept, cluster.folder / "out")
    assert done.deliveries == 24
    assert len(list(kept.iterdir())) == 3
    kept.chmod(0o755)


def test_what_an_origin_forgot_and_others_have_is_sent_without_digest(cluster: Cluster) -> None:
    cluster.some(1)  # after a checkpoint it is known that messages to h do not come back
    write(cluster.stores["a"], forget=anew(6, engine(own_seqs={"g": 2, "h": 1})))
    cluster.some(4)
    write(cluster.stores["a"], forget=anew(30, engine(own_seqs={"g": 10, "h": 5})), confirmed=27)
    cluster.close()
    assert cluster.judge().ok
    history = cluster.export()
    bases = [event for event in history.events if event.kind == BASE]
    assert [(event.site, event.detail) for event in bases] == [("a", '{"reason":"truncated"}')]
    assert 20 <= bases[0].position <= 27
    without = [row for row in history.sent if row.digest is None]
    assert len(without) == cluster.done.forgotten > 0
    assert {row.origin for row in without} == {"a"}
    assert len({row.id for row in history.sent}) == len(history.sent) == 45
    assert {row.size for row in without} <= {5, 7}


def test_a_site_whose_store_is_elsewhere_is_named(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, sites="ab")
    cluster.some()
    cluster.close()
    history = cluster.export()
    assert cluster.done.missing == ["c"]
    assert history.meta.config["missing"] == ["c"]
    assert check_history(history).ok
    assert {row.digest is None for row in history.sent if row.origin == "c"} == {True}


def test_what_was_shed_is_a_gap_in_its_place(cluster: Cluster) -> None:
    cluster.send("a", "g", b"1", b"2", b"3")
    batch = cluster.batch("b", "g", b"4", b"5", b"6")
    cluster.accept(batch)
    placed = cluster.place(batch)
    for site in "bc":
        cluster.passed(site, placed)
    cluster.passed("a", placed, events=[("gap", 5, '{"count":2}')])
    cluster.send("a", "g", b"7")
    cluster.close()
    assert cluster.judge().ok
    history = cluster.export()
    assert [row.position for row in history.deliveries if row.site == "a"] == [1, 2, 3, 4, 7]
    gaps = [(event.position, event.detail) for event in history.events if event.kind == GAP]
    assert gaps == [(5, '{"message":["b",1,"g",2]}'), (6, '{"message":["b",1,"g",3]}')]


def test_implicit_groups_have_their_members(cluster: Cluster) -> None:
    members = ("a", "c")
    group = implicit_group(members)
    batch = Batch("b", 1, group, 1, 1, pack_payloads([b"x"]), (), members)
    cluster.accept(batch)
    placed = cluster.place(batch)
    for site in members:
        cluster.passed(site, placed)
    cluster.close()
    assert cluster.judge().ok
    assert {row.site for row in cluster.export().groups if row.group_name == group} == {"a", "c"}


def test_an_export_beside_running_writers_is_good(cluster: Cluster) -> None:
    """Nothing is delivered in it that was not sent, whenever it is made."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            cluster.some(1)

    writing = threading.Thread(target=go_on)
    writing.start()
    try:
        sizes = []
        for _ in range(8):
            report = cluster.judge()
            assert report.ok, report.verdicts
            sizes.append(cluster.done.deliveries)
    finally:
        stop.set()
        writing.join()
        cluster.close()
    assert sizes[0] < sizes[-1]


# --- planted faults -------------------------------------------------------------------------------


def test_a_delivery_that_nobody_sent_is_found(cluster: Cluster) -> None:
    cluster.some(2)
    placed = cluster.place(cluster.batch("a", "g", b"never accepted"))
    for site in "abc":
        cluster.passed(site, placed)
    cluster.close()
    assert counts(cluster.judge()) == {"integrity": 3}


def test_another_payload_is_found(cluster: Cluster) -> None:
    batch = cluster.batch("a", "g", b"right")
    cluster.accept(batch)
    placed = cluster.place(batch)
    wrong = Batch("a", 1, "g", batch.seq, 1, pack_payloads([b"wrong"]))
    cluster.passed("a", placed)
    cluster.passed("b", Placed(placed.key, placed.number, wrong))
    cluster.passed("c", placed)
    cluster.close()
    assert counts(cluster.judge()) == {"integrity": 1}


def test_two_orders_are_found(cluster: Cluster) -> None:
    first, second = (cluster.batch(origin, "g", b"x") for origin in "ab")
    cluster.accept(first)
    cluster.accept(second)
    placed = cluster.place(first), cluster.place(second)
    for site, order in (("a", placed), ("b", placed), ("c", placed[::-1])):
        for one in order:
            cluster.passed(site, one)
    cluster.close()
    assert set(counts(cluster.judge())) == {"pairwise_order", "acyclic_order"}


def test_a_missing_delivery_is_found(cluster: Cluster) -> None:
    batch = cluster.batch("a", "g", b"x")
    cluster.accept(batch)
    placed = cluster.place(batch)
    for site in "ab":
        cluster.passed(site, placed)
    cluster.close()
    assert counts(cluster.judge()) == {"agreement": 1}


def test_a_lost_message_is_found(cluster: Cluster) -> None:
    cluster.accept(cluster.batch("a", "g", b"x"))
    cluster.close()
    assert counts(cluster.judge()) == {"lost": 1}


# --- bad input ------------------------------------------------------------------------------------


def refusal(folder: Path, kind: type[Exception] = ConfigError) -> str:
    out = folder.parent / "refused"
    with pytest.raises(kind) as caught:
        export(folder, out)
    told = str(caught.value)
    assert "\n" not in told
    assert not list(folder.parent.glob("*refused*")), "something was left behind"
    return told


def test_folders_without_stores_are_refused(tmp_path: Path) -> None:
    assert "there is no such folder" in refusal(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "holds no store (SITE.db)" in refusal(tmp_path / "empty")


def test_stores_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    cluster = Cluster(folder, sites="ab")
    cluster.close()
    (folder / "again.db").write_bytes((folder / "a.db").read_bytes())
    assert "is a store of site 'a', and so is" in refusal(folder)
    (folder / "again.db").unlink()
    open_store(folder / "z.db", cluster="other", site="z").close_sync()
    assert "is of cluster 'other'" in refusal(folder)
    (folder / "z.db").unlink()
    other = open_store(folder / "b.db", site="b")
    other.describe(deliver="safe", on_failure="wait", epochs=[])
    flush(other)
    assert "b.db: was last run with another 'deliver' than" in refusal(folder)
    other.describe(deliver="agreed", on_failure="wait", epochs=[])
    opened = EpochOpened(1, 0, "propagation", "greedy", ("g",), ("g",), (("g", ("b",)),), ())
    write(other, events=[opening_event(opened)], at_ns=1)
    other.close_sync()
    assert "b.db: tells epoch 1 otherwise than" in refusal(folder)


def test_a_store_on_which_no_site_ran_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    open_store(folder / "a.db").close_sync()
    assert "was ever started" in refusal(folder)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE batches SET crc = crc + 1 WHERE n = 9", "a.db: row 9 of table batches"),
        ("DELETE FROM batches WHERE n = 9", "a.db: row 9 of table batches is missing"),
        ("DROP TABLE state", "a.db: is not a store of this version"),
    ],
)
def test_a_damaged_store_is_refused(statement: str, told: str, tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    cluster = Cluster(folder)
    cluster.some()
    cluster.close()
    db = sqlite3.connect(folder / "a.db")
    db.execute(statement)
    db.commit()
    db.close()
    assert told in refusal(folder, StoreCorrupt)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    (folder / "a.db").write_bytes(b"something else" * 1_000)
    assert "is not a store" in refusal(folder, StoreCorrupt)


def test_a_place_that_is_taken_is_refused(cluster: Cluster) -> None:
    cluster.some(1)
    cluster.close()
    cluster.export()
    (cluster.folder / "out" / "mine.txt").write_text("x")
    with pytest.raises(ConfigError, match="there is a history already; --replace"):
        export(cluster.folder, cluster.folder / "out")
