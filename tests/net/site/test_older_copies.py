"""An older copy of a store that is put back is noticed, whenever it was made: its site stops with
one line, and no message is reported stable that the others do not have."""

import asyncio
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

import ordercast
from ordercast.core.outbox import Accepted
from ordercast.model.messages import Batch, pack_payloads
from ordercast.net.link.hello import INVENTED
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.node import site_of
from ordercast.net.site.store_points import StorePoints
from ordercast.net.store.box import StoreBox
from ordercast.net.store.store import Store
from ordercast.wire import lineage
from ordercast.wire.lineage import Lineage, StorePoint, StoreStart
from support.harness import loops

STARTS = 6  # that a store keeps: fewer than usual, so that the test is quick
GROUPS = {"alpha": ["a", "b", "c"]}
LINE = "an older copy was put back; put back the newest one, or move"


def cluster(folder: Path, policy: str, level: str) -> LocalCluster:
    quick = {"suspect": "300ms"}
    return local_cluster(
        GROUPS, dir=folder, durability="os", on_failure=policy, deliver=level, timeouts=quick
    )


def copied(folder: Path, site: str, to: Path) -> None:
    """Both files of the store; the site may run."""
    to.mkdir(exist_ok=True)
    for old in to.glob(f"{site}.db*"):
        old.unlink()
    for name in (f"{site}.db", f"{site}.db-wal"):
        with suppress(FileNotFoundError):
            shutil.copy(folder / name, to / name)


async def sent(cluster: LocalCluster, site: str, tag: str, count: int = 6) -> None:
    for n in range(count):
        receipt = await multicast(cluster, site, f"{tag}{n}".encode())
        await receipt.stable()


async def multicast(cluster: LocalCluster, site: str, payload: bytes) -> ordercast.Receipt:
    while True:
        try:
            return await cluster[site].multicast("alpha", payload)
        except ordercast.NotInMajority:
            await asyncio.sleep(0.01)


async def stop_and_start(cluster: LocalCluster, site: str) -> None:
    await cluster.restart(site)
    await sent(cluster, site, "again", 1)


async def runs_on(cluster: LocalCluster, site: str, moment: str, aside: Path) -> None:
    """Copy the store at some moment, let the site say more, and stop it."""
    folder = cluster.directory
    assert folder is not None
    await sent(cluster, site, "before")
    if moment == "between two starts":
        await cluster.kill(site)
        copied(folder, site, aside)
        await cluster.start(site)
    else:
        copied(folder, site, aside)
    await sent(cluster, site, "after")
    if moment == "before more starts":
        await stop_and_start(cluster, site)
        await stop_and_start(cluster, site)
    await cluster.kill(site)


async def stable_in_vain(cluster: LocalCluster, site: str) -> tuple[list[bytes], str]:
    """What the site on its older store reports as stable and another lacks; why it stopped."""
    stable: list[bytes] = []
    why = ""
    try:
        async with asyncio.timeout(20):
            for n in range(10):
                payload = f"late{n}".encode()
                receipt = await multicast(cluster, site, payload)
                await receipt.stable()
                stable.append(payload)
    except ordercast.Error as error:
        why = str(error)
    other = next(name for name in GROUPS["alpha"] if name != site)
    got = set()
    async for item in cluster[other].deliveries(start=1):
        if isinstance(item, ordercast.Delivery):
            got.add(item.payload)
        if site_of(cluster[other]).stream.lag == 0:
            break
    return [payload for payload in stable if payload not in got], why


@pytest.mark.parametrize("policy", ["wait", "exclude"])
@pytest.mark.parametrize(
    ("moment", "site", "level"),
    [
        ("while it runs", "a", "safe"),
        ("while it runs", "b", "agreed"),
        ("between two starts", "b", "safe"),
        ("between two starts", "a", "agreed"),
        ("before more starts", "a", "safe"),
        ("before more starts", "b", "agreed"),
    ],
)
def test_an_older_copy_is_refused_with_one_line(
    moment: str,
    site: str,
    level: str,
    policy: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        aside = tmp_path / "aside"
        running = cluster(tmp_path / "stores", policy, level)
        async with running:
            await runs_on(running, site, moment, aside)
            copied(aside, site, tmp_path / "stores")
            await running.start(site)
            lost, why = await stable_in_vain(running, site)
            assert lost == []
            assert LINE in why
            assert why.count("\n") == 0
            failed = {name: site_of(node).failed for name, node in running.nodes.items()}
            assert [name for name, text in failed.items() if text] == [site]
            await running.kill(site)
            for node in running.nodes.values():  # nothing waits for the stopped site
                assert not site_of(node).failed
        said = [record.getMessage() for record in caplog.records if LINE in record.getMessage()]
        assert len(said) == 1

    loops.run(main())


def test_what_others_heard_outlives_their_restart(tmp_path: Path) -> None:
    async def main() -> None:
        stores, aside = tmp_path / "stores", tmp_path / "aside"
        running = cluster(stores, "wait", "safe")
        async with running:
            await runs_on(running, "a", "while it runs", aside)
        copied(aside, "a", stores)
        running = cluster(stores, "wait", "safe")
        for site in GROUPS["alpha"]:
            await running.start(site)
        lost, why = await stable_in_vain(running, "a")
        assert (lost, LINE in why) == ([], True)
        for site in GROUPS["alpha"]:
            await running.kill(site)

    loops.run(main())


def test_without_its_store_the_site_returns_where_sites_are_excluded(tmp_path: Path) -> None:
    async def main() -> None:
        stores, aside = tmp_path / "stores", tmp_path / "aside"
        running = cluster(stores, "exclude", "safe")
        async with running:
            await runs_on(running, "a", "between two starts", aside)
            copied(aside, "a", stores)
            await running.start("a")
            _, why = await stable_in_vain(running, "a")
            assert LINE in why
            await running.kill("a")
            for file in stores.glob("a.db*"):
                file.unlink()
            await running.start("a")
            await sent(running, "a", "returned", 2)
            assert site_of(running["a"]).incarnation == 2

    loops.run(main())


def test_copies_of_all_stores_of_a_stopped_cluster_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        stores, aside = tmp_path / "stores", tmp_path / "aside"
        async with cluster(stores, "exclude", "safe") as running:
            await sent(running, "a", "before")
        for site in GROUPS["alpha"]:
            copied(stores, site, aside)
        async with cluster(stores, "exclude", "safe") as running:
            await sent(running, "a", "in vain")
        for site in GROUPS["alpha"]:
            copied(aside, site, stores)
        async with cluster(stores, "exclude", "safe") as running:
            await sent(running, "b", "after")
            assert not any(site_of(node).failed for node in running.nodes.values())

    loops.run(main())


def test_a_store_has_been_where_its_past_was_and_nowhere_else() -> None:
    starts = (StoreStart(3, 30, 100), StoreStart(4, 40, 150), StoreStart(6, 60, 150))
    store = Lineage(1, starts, 170)
    right = [(3, 30, 150), (4, 40, 150), (6, 60, 170), (6, 60, 0), (2, 99, 100)]
    wrong = [(3, 30, 151), (3, 31, 100), (4, 40, 151), (5, 50, 1), (6, 60, 171), (7, 70, 1)]
    wrong += [(2, 99, 101)]  # before those that are listed: it had no more when they began
    assert all(store.has_been_at(StorePoint(1, *point)) for point in right)
    assert not any(store.has_been_at(StorePoint(1, *point)) for point in wrong)
    assert store.has_been_at(StorePoint(2, 7, 70, 1))  # another store: not judged


@pytest.mark.parametrize("behind", [0, 3])
def test_an_older_copy_stays_one_however_often_it_is_started(
    behind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service manager starts it again whenever it stops, and each start may write something."""
    monkeypatch.setattr(lineage, "STARTS", STARTS)
    store = opened(tmp_path)
    for row in range(5):
        write(store, row + 1)
    store.close_sync()
    copied(tmp_path, "a", tmp_path / "aside")
    for _ in range(behind + 1):
        store = opened(tmp_path)
        write(store, store.row + 1)
        store.close_sync()
    known = Lineage(store.store_number, store.starts, store.row).point
    copied(tmp_path / "aside", "a", tmp_path)
    for _ in range(STARTS + behind + 3):
        refused: list[str] = []
        store = opened(tmp_path)
        write(store, store.row + 1)
        points = StorePoints("a", store, refused.append, lambda: True)
        assert not points.take("b", Lineage(9, (StoreStart(1, 7, 0),), 0, heard=known))
        assert [LINE in line for line in refused] == [True]
        assert len(store.starts) <= STARTS
        store.close_sync()
    mine = points.introduction("b")
    assert mine is not None
    assert not mine.has_been_at(known), "so b judges it, too"


def test_of_disputed_starts_those_that_tell_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "STARTS", STARTS)
    starts = tuple(StoreStart(boot, boot, boot) for boot in range(1, 10))

    def boots(*disputed: int) -> list[int]:
        return [start.boot for start in lineage.kept_starts(starts, disputed)]

    assert boots() == [4, 5, 6, 7, 8, 9]
    assert boots(2) == [2, 3, 6, 7, 8, 9]
    assert boots(4, 1) == [1, 2, 4, 5, 8, 9]
    assert boots(12) == boots()
    assert lineage.kept_starts(starts[:6], [1]) == starts[:6]


def opened(folder: Path) -> Store:
    return Store.open(folder / "a.db", cluster="demo", site="a", durability="os", call=done)


def done(call: Callable[[], None]) -> None:
    call()


def write(store: Store, seq: int) -> None:
    written = threading.Event()
    batch = Batch("a", 1, "g", seq, 1, pack_payloads([b"x"]))
    store.write(StoreBox(records=[Accepted(batch)]), written.set)
    assert written.wait(10)


def test_a_peer_cannot_stop_a_site_by_naming_what_its_present_start_never_said(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with cluster(tmp_path / "stores", "wait", "safe") as running:
            await sent(running, "a", "before")
            a = site_of(running["a"])
            start, row = a.store.starts[-1], a.store.row + 1_000
            heard = StorePoint(a.store.store_number, start.boot, start.mark, row)
            b = site_of(running["b"]).points.introduction("a")
            assert b is not None
            a.driver.frames("b", [replace(b, heard=heard)])
            assert not a.failed
            assert INVENTED in a.points.behind["b"]
            a.driver.frames("b", [b])
            await sent(running, "a", "after")

    loops.run(main())
