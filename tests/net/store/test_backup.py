"""Copies of a store, and stores made from copies."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ordercast.model.errors import ConfigError, Error, StoreCorrupt
from ordercast.model.messages import payloads_of
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.founding import begin
from ordercast.net.site.node import site_of
from ordercast.net.store.backup import back_up, restore
from ordercast.net.store.places import has_past
from ordercast.net.store.store import Store
from support.clusters.sites import until
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b", "c"]}
OPTIONS: dict[str, Any] = {"timeouts": {"suspect": "100ms"}, "durability": "os"}
MADE: dict[str, Any] = {"cluster": "local", "site": "a", "durability": "os"}


def running(stores: Path, **options: Any) -> LocalCluster:
    return local_cluster(GROUPS, dir=stores, **{**OPTIONS, **options})


async def send(cluster: LocalCluster, origin: str, *texts: str) -> None:
    for text in texts:
        await (await cluster[origin].multicast("alpha", text.encode())).stable()


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    """Of a cluster that was closed after some messages."""

    @in_loop
    async def run() -> None:
        async with running(tmp_path / "stores") as cluster:
            await send(cluster, "a", *map(str, range(5)))

    run()
    return tmp_path / "stores"


def remove(stores: Path, site: str) -> None:
    for path in stores.glob(f"{site}.db*"):
        path.unlink()


@in_loop
async def test_a_copy_is_made_while_the_site_writes(tmp_path: Path) -> None:
    copies = [tmp_path / f"copy{number}.db" for number in range(5)]
    async with running(tmp_path / "stores", deliver="agreed") as cluster:
        sent = 0
        for copy in copies:
            copying = asyncio.create_task(
                asyncio.to_thread(back_up, tmp_path / "stores" / "a.db", copy)
            )
            begun = sent
            while not copying.done() or sent < begun + 20:
                await (await cluster["b"].multicast("alpha", f"{sent:0500d}".encode())).ordered()
                sent += 1
            await copying
    last = 0
    for copy in copies:
        store = Store.open(copy, **MADE)
        try:
            assert store.logged >= last
            last = store.logged
            read = [batch.placed.batch for batch in store.read(1, 10_000, 1 << 30)]
            assert [int(text) for batch in read for text in payloads_of(batch)] == list(range(last))
        finally:
            store.close_sync()
    assert last > 0


def test_nothing_is_overwritten_and_no_draft_is_left(stores: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    found = back_up(stores / "a.db", copy)
    assert (found.path, found.damaged, found.positions["logged"]) == (copy, 0, 5)
    assert copy.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match=r"copy: is there already, and is not overwritten"):
        back_up(stores / "a.db", copy)
    with pytest.raises(ConfigError, match=r"q\.db: there is no such store"):
        back_up(stores / "q.db", tmp_path / "other")
    with pytest.raises(ConfigError, match=r"missing/copy: cannot be written"):
        back_up(stores / "a.db", tmp_path / "missing" / "copy")
    with sqlite3.connect(stores / "b.db") as db:
        db.execute("UPDATE batches SET body = body || x'00' WHERE n = (SELECT max(n) FROM batches)")
        db.execute("UPDATE state SET value = 'x' WHERE key = 'address'")
    with pytest.raises(StoreCorrupt, match=r"was not written, the store is damaged: .*'address'"):
        back_up(stores / "b.db", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "stores"]


def test_a_restored_store_has_what_never_changes_and_nothing_else(
    stores: Path, tmp_path: Path
) -> None:
    copy, store = tmp_path / "copy", stores / "a.db"
    was = back_up(store, copy)
    with pytest.raises(ConfigError, match=r"a\.db: is there: a store is restored where there"):
        restore(copy, store, **MADE)
    remove(stores, "a")
    for other in ({"site": "b"}, {"cluster": "other"}):
        with pytest.raises(ConfigError, match=r"copy: belongs to "):
            restore(copy, store, **{**MADE, **other})
    found = restore(copy, store, **MADE)
    assert (found.damaged, found.boot, found.rows, found.incarnation) == (0, 0, (0, 0), None)
    assert found.store != was.store
    assert found.heard == was.heard
    assert set(found.heard) == {"b", "c"}
    for table in ("batches", "checkpoint", "events", "requests", "annulled"):
        assert found.tables[table]["rows"] == 0
    assert has_past(store)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "stores"]


def test_the_founding_is_that_of_the_copy_although_the_file_has_changed(
    stores: Path, tmp_path: Path
) -> None:
    """Without a store the site would found another cluster by the new file, and be refused."""
    cluster = running(stores).cluster
    edited = replace(cluster, groups={**cluster.groups, "beta": ("b",)})
    back_up(stores / "a.db", tmp_path / "copy")
    remove(stores, "a")
    for founding in (edited, cluster):
        store = Store.open(stores / "a.db", **MADE)
        try:
            begun = begin(edited, "a", store)
            assert begun.layout.founding == founding.first_layout().founding
        finally:
            store.close_sync()
        remove(stores, "a")
        restore(tmp_path / "copy", stores / "a.db", **MADE)


@in_loop
async def test_a_restored_site_returns_as_one_that_has_lost_its_store(tmp_path: Path) -> None:
    stores = tmp_path / "stores"
    async with running(stores) as cluster:
        await send(cluster, "a", "before")
        await asyncio.to_thread(back_up, stores / "a.db", tmp_path / "copy")
        await send(cluster, "a", "since")
        await cluster.kill("a")
        remove(stores, "a")
        restore(tmp_path / "copy", stores / "a.db", **MADE)
        await cluster.start("a")
        await until(lambda: site_of(cluster["a"]).presence.takes())
        assert site_of(cluster["a"]).incarnation == 2
        await send(cluster, "a", "again")
        assert site_of(cluster["a"]).stream.delivered == 1
        assert site_of(cluster["b"]).stream.delivered == 3


@in_loop
async def test_an_exact_copy_goes_on_if_it_lacks_nothing_and_is_refused_if_it_does(
    tmp_path: Path,
) -> None:
    stores, copy = tmp_path / "stores", tmp_path / "copy"
    async with running(stores) as cluster:
        await send(cluster, "a", "before")
        await cluster.kill("a")
        back_up(stores / "a.db", copy)
        for lacks in (False, True):
            remove(stores, "a")
            found = restore(copy, stores / "a.db", **MADE, exact=True)
            assert found.positions["logged"] == 1
            await cluster.start("a")
            a = site_of(cluster["a"])
            await until(lambda: bool(a.failed) or a.presence.takes())  # noqa: B023
            if lacks:
                await until(lambda: bool(a.failed))  # noqa: B023
                assert "an older copy was put back" in a.failed
            else:
                assert (a.failed, a.incarnation) == ("", 1)
                await send(cluster, "a", "since")
            await cluster.kill("a")


def test_a_store_in_use_is_not_restored(stores: Path, tmp_path: Path) -> None:
    back_up(stores / "a.db", tmp_path / "copy")
    store = Store.open(stores / "a.db", **MADE)
    try:
        with pytest.raises(Error, match="is in use by another process"):
            restore(tmp_path / "copy", stores / "a.db", **MADE)
    finally:
        store.close_sync()
