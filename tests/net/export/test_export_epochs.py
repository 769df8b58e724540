"""A history of a cluster whose groups changed: each epoch as the stores tell it."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from ordercast.check.report import check_history
from ordercast.history.rows import BASE, END, OPEN
from ordercast.model.implicit import implicit_group
from ordercast.model.messages import Batch, pack_payloads
from support.stores.exporting import GROUPS, Cluster, counts
from support.stores.records import anew, engine, flush, write


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def changed(cluster: Cluster) -> Cluster:
    """`d` comes, `a` leaves g; then the protocol changes; messages in all three epochs."""
    cluster.some(2)
    cluster.open("d")
    cluster.change({"g": ("b", "c", "d"), "h": ("b", "c"), "k": ("a", "d")})
    for number in range(3):
        cluster.send("d", "g", b"to g %d" % number)
        cluster.send("a", "k", b"to k %d" % number, b"and more")
    cluster.change({"g": ("b", "c", "d"), "h": ("b", "c"), "k": ("a", "d")}, "centralized")
    cluster.send("b", "k", b"last")
    cluster.close()
    return cluster


def test_every_epoch_has_its_groups_and_its_protocol(cluster: Cluster) -> None:
    assert changed(cluster).judge().ok
    history = cluster.export()
    assert [(row.epoch, row.domain, row.protocol, row.reason) for row in history.epochs] == [
        (1, "a", "propagation", "start"),
        (2, "a", "propagation", "change"),
        (3, "a", "centralized", "change"),
    ]
    assert [row.decided_ns for row in history.epochs[1:]] == [200, 300]
    members = {(row.epoch, row.group_name, row.site) for row in history.groups}
    assert {(epoch, site) for epoch, group, site in members if group == "g"} == {
        *((1, site) for site in "abc"),
        *((epoch, site) for epoch in (2, 3) for site in "bcd"),
    }
    assert {epoch for epoch, group, _ in members if group == "k"} == {2, 3}
    epochs = {row.site: set[int]() for row in history.deliveries}
    for row in history.deliveries:
        epochs[row.site].add(row.epoch)
    assert epochs == {"a": {1, 2, 3}, "b": {1, 2}, "c": {1, 2}, "d": {2, 3}}
    assert cluster.done.missing == []


def test_epochs_opened_are_events_and_a_joiner_has_a_base(cluster: Cluster) -> None:
    history = changed(cluster).export()
    told = {
        site: [(e.kind, e.position, e.epoch) for e in history.events if e.site == site]
        for site in "ad"
    }
    assert told["a"] == [(OPEN, 12, 2), (OPEN, 18, 3), (END, 19, 3)]
    assert told["d"] == [(BASE, 0, 2), (OPEN, 0, 2), (OPEN, 9, 3), (END, 10, 3)]
    assert [e.detail for e in history.events if e.kind == BASE] == ['{"reason":"join"}']


def test_an_epoch_that_a_restart_tells_again_is_one_event(cluster: Cluster) -> None:
    cluster.some(1)
    cluster.change(GROUPS)
    cluster.epoch = 1
    cluster.change(GROUPS)
    cluster.close()
    history = cluster.export()
    assert [event.kind for event in history.events] == [OPEN, END] * 3
    assert len(history.epochs) == 2


def test_a_base_tells_the_epoch_in_which_rows_begin(cluster: Cluster) -> None:
    cluster.some(2)
    cluster.change(GROUPS)
    store = cluster.stores["a"]
    write(store, forget=anew(store.logged, engine(2, own_seqs={"g": 4, "h": 2})))
    cluster.some(2)
    position = store.logged - 3
    folded = anew(store.logged, engine(2, own_seqs={"g": 8, "h": 4}))
    write(store, forget=folded, confirmed=position)
    cluster.close()
    history = cluster.export()
    assert check_history(history).ok
    (base,) = (event for event in history.events if event.kind == BASE)
    assert (base.site, base.epoch) == ("a", 2)
    assert base.position <= position


def test_an_epoch_that_only_an_absent_site_has_messages_of_is_judged(cluster: Cluster) -> None:
    """It has caught up with them, and never opened the epoch; the others have forgotten it."""
    cluster.some(1)
    cluster.change({**GROUPS, "late": ("c",)})
    cluster.send("a", "late", b"one", b"two")
    cluster.change(GROUPS)
    cluster.some(1)
    for store in cluster.stores.values():
        flush(store)
        with contextlib.closing(sqlite3.connect(store.path)) as db:
            like = '%"epoch":2,%'
            db.execute("DELETE FROM events WHERE kind = 'open' AND detail LIKE ?", (like,))
            db.commit()
    cluster.close()
    assert cluster.judge().ok
    history = cluster.export()
    assert [row.epoch for row in history.epochs] == [1, 2, 3]
    assert {(r.group_name, r.site) for r in history.groups if r.epoch == 2} == {("late", "c")}


def test_what_no_epoch_took_is_not_sent(cluster: Cluster) -> None:
    """Its group was removed while it waited; otherwise the checkers would call it lost."""
    cluster.some(1)
    last = cluster.seqs["a", "g"]
    waiting = cluster.batch("a", "g", b"x", b"y")
    cluster.accept(waiting)
    cluster.change({"h": ("b", "c"), "k": ("a", "b", "c")})
    lasts = {("a", 1, "g"): last, ("a", 1, "h"): 1}
    folded = anew(3, engine(2, own_seqs={"h": 1}), lasts=lasts)
    refused = [(waiting.group, waiting.seq)]
    write(cluster.stores["a"], forget=folded, refused=refused, at_ns=1)
    cluster.close()
    assert cluster.judge().ok
    assert waiting.seq not in {
        row.seq for row in cluster.export().sent if (row.origin, row.group_name) == ("a", "g")
    }


def test_what_an_origin_forgot_of_a_group_that_is_gone_was_sent(cluster: Cluster) -> None:
    """Only the layout in its checkpoint knows of it."""
    cluster.some(1)
    cluster.change({"h": ("b", "c"), "k": ("a", "b", "c")})
    lasts = {("a", 1, "g"): 2, ("a", 1, "h"): 1}
    store = cluster.stores["a"]
    write(store, forget=anew(6, engine(2, own_seqs={}), lasts=lasts), confirmed=6, at_ns=1)
    cluster.close()
    assert cluster.judge().ok
    assert cluster.done.forgotten == 3


def test_listed_sites_are_a_group_of_the_epoch_that_delivered(cluster: Cluster) -> None:
    members = ("a", "c")
    group = implicit_group(members)
    cluster.change(GROUPS)
    for epoch in (2, 4):  # not in the one between
        cluster.epoch = epoch - 1
        cluster.change(GROUPS)
        seq = cluster.seqs.get(("b", group), 0) + 1
        cluster.seqs["b", group] = seq
        batch = Batch("b", 1, group, seq, 1, pack_payloads([b"x"]), (), members)
        cluster.accept(batch)
        placed = cluster.place(batch)
        for site in members:
            cluster.passed(site, placed)
    cluster.close()
    assert cluster.judge().ok
    rows = [row for row in cluster.export().groups if row.group_name == group]
    assert {(row.epoch, row.site) for row in rows} == {(n, site) for n in (2, 4) for site in "ac"}


def test_the_first_telling_of_the_founding_stays(cluster: Cluster) -> None:
    """The cluster file may have been edited since."""
    cluster.some(1)
    cluster.stores["a"].describe(
        sites=["a", "b", "c"], deliver="agreed", on_failure="wait",
        epochs=[{"epoch": 1, "protocol": "other", "builder": "star", "members": {}}],
    )  # fmt: skip
    cluster.close()
    assert cluster.judge().ok
    cluster.open("a")
    cluster.stores["a"].describe(deliver="agreed", on_failure="wait", epochs=[])
    cluster.stores["a"].close_sync(quiet=True)
    assert {row.protocol for row in cluster.export().epochs} == {"propagation"}


def test_a_lost_message_to_listed_sites_is_found(cluster: Cluster) -> None:
    members = ("a", "c")
    batch = Batch("b", 1, implicit_group(members), 1, 1, pack_payloads([b"x"]), (), members)
    cluster.accept(batch)
    cluster.close()
    assert counts(cluster.judge()) == {"lost": 1}
