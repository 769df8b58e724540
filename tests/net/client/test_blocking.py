"""`ordercast.blocking`: the face of a node for scripts without asyncio."""

import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

import ordercast
from ordercast import blocking
from ordercast.model.epochs import AddGroup, RemoveGroup
from ordercast.model.errors import ConfigError, Error, UnknownGroup, WindowFull
from ordercast.net.site.running_site import RunningSite
from support.clusters.processes import write_cluster
from support.harness.loops import in_loop

ONE = {"alpha": ["a"]}


def cluster_file(folder: Path, **options: object) -> Path:
    return write_cluster(folder, ONE, {"durability": "os", **options}, tls=False)


def test_a_script_sends_and_reads_with_ordinary_calls(tmp_path: Path) -> None:
    with blocking.open(cluster_file(tmp_path), "a", dir=tmp_path) as node:
        receipt = node.multicast("alpha", b"1")
        assert (receipt.group, receipt.seq) == ("alpha", 1)
        receipt.accepted()
        receipt.ordered()
        receipt.stable()
        node.multicast_nowait("alpha", b"2")
        assert node.multicast_many("alpha", [b"3", b"4"]).seq == 4
        node.multicast_to(["a"], b"5").stable()
        node.flush("stable")
        seen = []
        for item in node.deliveries():
            assert isinstance(item, ordercast.Delivery)
            seen.append((item.position, item.payload))
            if item.position == 5:
                break
        assert seen == [(n, b"%d" % n) for n in range(1, 6)]
        node.confirm(3)
        assert next(iter(node.deliveries())).position == 4
        assert [batch.position for batch in islice(node.batches(4), 2)] == [
            4,
            5,
        ]
        assert node.status()["confirmed"] == 3


def test_a_script_changes_its_cluster_and_reads_the_epochs(tmp_path: Path) -> None:
    with blocking.open(cluster_file(tmp_path), "a", dir=tmp_path) as node:
        node.multicast("alpha", b"1").stable()
        node.add_group("beta", ["a"])
        node.switch_protocol("centralized")
        node.use_builder("star")
        node.change(RemoveGroup("alpha"), AddGroup("gamma", ("a",)))
        node.add_site("d", "127.0.0.1:7104")
        node.retire_site("d")
        with pytest.raises(ConfigError, match="site 'a' is the last member of 'beta'"):
            node.leave("beta")
        with pytest.raises(ConfigError, match="site 'a' is in group 'beta' already"):
            node.join("beta")
        with pytest.raises(ConfigError, match="site 'a' is the only voter"):
            node.remove_voter("a")
        node.remove_group("gamma")
        node.multicast("beta", b"2").stable()
        items = list(islice(node.deliveries(), 7))
        told = [
            item.groups if isinstance(item, ordercast.EpochOpened) else getattr(item, "seq", None)
            for item in items
        ]
        both, one = ("alpha", "beta"), ("beta",)
        assert told == [1, both, both, both, ("beta", "gamma"), one, 1]
        batches = list(islice(node.batches(), len(items)))
        assert [batch.position for batch in batches] == [item.position for item in items]


def test_what_is_confirmed_stays_confirmed_and_the_rest_comes_again(tmp_path: Path) -> None:
    path = cluster_file(tmp_path)
    with blocking.open(path, "a", dir=tmp_path) as node:
        node.multicast_many("alpha", [b"1", b"2", b"3"]).stable()
        node.confirm(next(iter(node.deliveries())).position)
    with blocking.open(path, "a", dir=tmp_path) as node:
        items = node.deliveries()
        assert [next(items).position for _ in range(2)] == [2, 3]


def test_a_script_that_stops_within_a_batch_goes_on_with_its_next_message(tmp_path: Path) -> None:
    """Without a store, where nothing is kept that was handed over."""
    with blocking.open(cluster_file(tmp_path, durability="memory"), "a") as node:
        node.multicast_many("alpha", [b"%d" % n for n in range(1, 11)]).stable()
        for item in node.deliveries():
            if item.position == 4:
                break
        assert [item.position for item in islice(node.deliveries(), 6)] == [5, 6, 7, 8, 9, 10]


def test_errors_are_those_of_the_node(tmp_path: Path) -> None:
    path = cluster_file(tmp_path)
    with blocking.open(path, "a", dir=tmp_path) as node:
        with pytest.raises(UnknownGroup):
            node.multicast("nowhere", b"")
        with pytest.raises(ConfigError, match="position 1 cannot be confirmed"):
            node.confirm(1)
        with (
            pytest.raises(ConfigError, match="in use by another process"),
            blocking.open(path, "a", dir=tmp_path),
        ):
            pass
    with pytest.raises(ConfigError, match="there is no site 'z'"), blocking.open(path, "z"):
        pass


def test_an_error_of_the_script_passes_through_and_closes_the_site(tmp_path: Path) -> None:
    path = cluster_file(tmp_path)
    with pytest.raises(ZeroDivisionError), blocking.open(path, "a", dir=tmp_path):
        _ = 1 / 0
    with blocking.open(path, "a", dir=tmp_path) as node:
        node.multicast("alpha", b"").stable()


def test_several_threads_may_use_one_node(tmp_path: Path) -> None:
    with blocking.open(cluster_file(tmp_path), "a", dir=tmp_path) as node:

        def send(name: int) -> None:
            for n in range(50):
                node.multicast("alpha", b"%d %d" % (name, n))

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        items = node.deliveries()
        got = [next(items) for _ in range(200)]
        for thread in threads:
            thread.join()
        for name in range(4):
            own = [i.payload for i in got if isinstance(i, ordercast.Delivery)]
            own = [payload for payload in own if payload.startswith(b"%d " % name)]
            assert own == [b"%d %d" % (name, n) for n in range(50)]


def test_the_window_is_full_for_scripts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunningSite.close, "__kwdefaults__", {"timeout_s": 0.1})
    path = write_cluster(
        tmp_path,
        {"alpha": ["a", "b"]},
        {"durability": "memory", "voters": ["a"]},  # which alone founds the cluster
        tls=False,
        limits={"window_messages": 2},
    )

    def fill() -> None:
        with blocking.open(path, "a") as node:
            for _ in range(2):
                node.multicast("alpha", b"")
            with pytest.raises(WindowFull):
                node.multicast_nowait("alpha", b"")  # b does not run

    with pytest.raises(
        Error, match=r"closed before all was flushed: .* 2 to alpha; they may be lost"
    ):
        fill()


@in_loop
async def test_a_notebook_whose_own_loop_runs_opens_and_closes_a_node(tmp_path: Path) -> None:
    with blocking.open(cluster_file(tmp_path), "a", dir=tmp_path) as node:
        node.multicast("alpha", b"1").stable()


def test_what_outlives_the_block_is_told_that_the_node_is_closed(tmp_path: Path) -> None:
    options = {"durability": "os", "on_failure": "wait"}
    path = write_cluster(tmp_path, {"alpha": ["a", "b"]}, options, tls=False)
    told: list[str] = []
    threads: list[threading.Thread] = []

    def wait(call: Callable[[], object]) -> None:
        try:
            call()
        except Error as error:
            told.append(str(error))

    with blocking.open(path, "a", dir=tmp_path) as node:
        receipt = node.multicast("alpha", b"")  # b does not run
        items = node.deliveries()
        calls: list[Callable[[], object]] = [receipt.stable, lambda: next(items)]
        threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert len(told) == 2
    assert all("closed" in each for each in told)
    for call in (receipt.accepted, node.status, lambda: node.multicast("alpha", b"")):
        with pytest.raises(Error, match="the node is closed"):
            call()
