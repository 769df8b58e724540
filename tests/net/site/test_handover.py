"""A joiner gets the application's state of the group, exactly as it was where its epoch opened."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.epochs.records import EpochOpened
from ordercast.model.epochs import AddGroup, JoinGroup
from ordercast.model.errors import ConfigError, Error
from ordercast.model.messages import Delivery
from ordercast.net.site import handover
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.stream import Lag, Stream
from ordercast.wire.handover import NoSnapshot, SnapshotWanted
from support.clusters.processes import write_cluster
from support.clusters.sites import until
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}


class Ledger:
    """An application: of each group, what was applied, in order. `padding` makes its state large.
    It is kept in memory only, so it reads from its first position at every start."""

    def __init__(self, padding: int = 0) -> None:
        self.applied: dict[str, list[str]] = {}
        self.restored: list[str] = []
        self.padding = padding
        self.task: asyncio.Task[None] | None = None

    def snapshot(self, group: str) -> bytes:
        return json.dumps([self.applied.get(group, []), "x" * self.padding]).encode()

    def restore(self, group: str, state: bytes) -> None:
        assert group not in self.applied, "after a delivery"
        self.restored.append(group)
        self.applied[group], padding = json.loads(state)
        assert padding == "x" * len(padding)

    async def follow(self, node: Node) -> None:
        async for item in node.deliveries(1):
            if isinstance(item, Delivery):
                headers = "".join(value.decode() for value in item.headers.values())
                self.applied.setdefault(item.group, []).append(item.payload.decode() + headers)


@contextlib.asynccontextmanager
async def running(
    path: Path, site: str, folder: Path, ledger: Ledger | None, **options: Any
) -> AsyncIterator[Node]:
    hooks: dict[str, Any] = {}
    if ledger is not None:
        hooks = {"snapshot": ledger.snapshot, "restore": ledger.restore}
    async with Node.open(path, site, dir=folder, **hooks, **options) as node:
        task = None if ledger is None else asyncio.create_task(ledger.follow(node))
        if ledger is not None:
            ledger.task = task
        try:
            yield node
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def send(
    node: Node, group: str, first: int, count: int, headers: dict[str, bytes] | None = None
) -> None:
    for n in range(first, first + count):
        await (await node.multicast(group, f"{node.site}{n}".encode(), headers)).ordered()


def cluster(tmp_path: Path, **options: str) -> Path:
    return write_cluster(tmp_path, GROUPS, {"durability": "os", **options}, tls=False)


@pytest.mark.parametrize("padding", [0, 1_000_000], ids=["small", "many pieces"])
def test_a_joiner_under_load_ends_with_the_state_of_the_others(
    padding: int, tmp_path: Path
) -> None:
    path = cluster(tmp_path)
    ledgers = {site: Ledger(padding) for site in "abc"}

    @in_loop
    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            nodes = {
                site: await stack.enter_async_context(running(path, site, tmp_path, ledgers[site]))
                for site in "abc"
            }
            await send(nodes["a"], "alpha", 0, 20)
            sending = asyncio.gather(*(send(nodes[s], "alpha", 100, 60) for s in "abc"))
            await nodes["c"].join("alpha")
            await sending
            await until(lambda: len(ledgers["c"].applied.get("alpha", [])) == 200)
            await until(lambda: len(ledgers["a"].applied["alpha"]) == 200)
            assert ledgers["c"].restored == ["alpha"]
            assert ledgers["c"].applied["alpha"] == ledgers["a"].applied["alpha"]

    run()


@in_loop
async def test_a_joiner_gets_headers_with_the_state_and_with_what_follows_it(
    tmp_path: Path,
) -> None:
    path, ledgers, red = cluster(tmp_path), {site: Ledger() for site in "abc"}, {"c": b" red"}
    async with (
        running(path, "a", tmp_path, ledgers["a"]) as a,
        running(path, "b", tmp_path, ledgers["b"]) as b,
        running(path, "c", tmp_path, ledgers["c"]),
    ):
        await send(a, "alpha", 0, 5, red)
        sending = asyncio.gather(*(send(node, "alpha", 100, 20, red) for node in (a, b)))
        await a.join("alpha", "c")
        await sending
        await until(lambda: len(ledgers["c"].applied.get("alpha", [])) == 45)
        await until(lambda: len(ledgers["a"].applied["alpha"]) == 45)
    assert ledgers["c"].restored == ["alpha"]
    assert ledgers["c"].applied["alpha"] == ledgers["a"].applied["alpha"]
    assert all(applied.endswith(" red") for applied in ledgers["c"].applied["alpha"])


@in_loop
async def test_a_joiner_that_restarts_has_its_state_again_without_asking(tmp_path: Path) -> None:
    path, ledgers = cluster(tmp_path), {site: Ledger() for site in "abc"}
    async with (
        running(path, "a", tmp_path, ledgers["a"]) as a,
        running(path, "b", tmp_path, ledgers["b"]),
    ):
        async with running(path, "c", tmp_path, ledgers["c"]):
            await send(a, "alpha", 0, 10)
            await a.join("alpha", "c")
            await until(lambda: len(ledgers["c"].applied.get("alpha", [])) == 10)
        await send(a, "alpha", 10, 5)
        again = Ledger()
        for donor in "ab":  # neither has it any more
            for kept in (tmp_path / f"{donor}.snapshots").glob("*"):
                kept.unlink()
        async with running(path, "c", tmp_path, again):
            await until(lambda: len(again.applied.get("alpha", [])) == 15)
            await until(lambda: len(ledgers["a"].applied["alpha"]) == 15)
            assert again.applied["alpha"] == ledgers["a"].applied["alpha"]


@in_loop
async def test_a_newcomer_gets_the_state_and_a_new_group_has_none(tmp_path: Path) -> None:
    path, ledgers = cluster(tmp_path), {site: Ledger() for site in "abcd"}
    async with (
        running(path, "a", tmp_path, ledgers["a"]) as a,
        running(path, "b", tmp_path, ledgers["b"]),
        running(path, "c", tmp_path, ledgers["c"]),
    ):
        await send(a, "alpha", 0, 10)
        async with running(path, "d", tmp_path, ledgers["d"], address="127.0.0.1:0") as d:
            host, port = d.address
            await a.add_site("d", f"{host}:{port}")
            await a.change(JoinGroup("alpha", "d"), AddGroup("new", ("a", "d")))
            await until(lambda: len(ledgers["d"].applied.get("alpha", [])) == 10)
            await until(lambda: bool(site_of(d).core.layout.groups.get("new")))
            await send(a, "new", 0, 3)
            await until(lambda: len(ledgers["d"].applied.get("new", [])) == 3)
            assert ledgers["d"].restored == ["alpha"]


@in_loop
async def test_a_donor_whose_application_lags_or_is_away_is_not_waited_for(tmp_path: Path) -> None:
    path, ledgers = cluster(tmp_path), {site: Ledger() for site in "abc"}
    async with (
        running(path, "a", tmp_path, ledgers["a"]) as a,
        running(path, "b", tmp_path, ledgers["b"]),
        running(path, "c", tmp_path, ledgers["c"]),
    ):
        await send(a, "alpha", 0, 10)
        assert ledgers["a"].task is not None
        ledgers["a"].task.cancel()  # nothing is read at a
        await a.join("alpha", "c")
        await until(lambda: len(ledgers["c"].applied.get("alpha", [])) == 10)


@in_loop
async def test_without_anybody_who_gives_the_state_the_joiner_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "PATIENCE_S", 0.3)
    path, mine = cluster(tmp_path), Ledger()
    async with (
        running(path, "a", tmp_path, None) as a,
        running(path, "b", tmp_path, None),
        running(path, "c", tmp_path, mine),
    ):
        await a.join("alpha", "c")
        assert mine.task is not None
        with pytest.raises(Error, match="state of alpha is not to be had: no application at a"):
            async with asyncio.timeout(60):
                await mine.task


@in_loop
async def test_memory_sites_hand_over_too_and_a_wait_can_be_cancelled(tmp_path: Path) -> None:
    path = cluster(tmp_path, durability="memory", on_failure="exclude")
    mine, donor = Ledger(), Ledger()
    async with (
        running(path, "b", tmp_path, None),
        Node.open(path, "a", dir=tmp_path, snapshot=donor.snapshot, restore=donor.restore) as a,
        Node.open(path, "c", dir=tmp_path, snapshot=mine.snapshot, restore=mine.restore) as c,
    ):
        await send(a, "alpha", 0, 10)
        await a.join("alpha", "c")
        items = c.deliveries(1)
        for _ in range(3):  # the application of a has read nothing yet
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await anext(items)
        assert mine.restored == []
        reading = asyncio.create_task(donor.follow(a))
        async with asyncio.timeout(60):
            opened = await anext(items)
        assert isinstance(opened, EpochOpened)
        await until(lambda: mine.applied["alpha"] == donor.applied["alpha"])
        reading.cancel()


@in_loop
async def test_who_has_forgotten_the_epoch_says_so() -> None:
    """Else a joiner whose application comes there very late would ask for ever."""
    sent: list[tuple[str, object]] = []
    known = Stream(
        None, confirmed=0, delivered=0, lag=Lag(9, 9, False), embedded=True,
        hold=lambda _: None, shed=lambda _: None,
    )  # fmt: skip
    donor = handover.Handover(
        "c", "a", lambda peer, frame: sent.append((peer, frame)), known, folder=None, hooks=None
    )
    members = (("g", ("a", "b")),)
    for epoch in range(2, 9):
        opened = EpochOpened(epoch, 0, "ring", "star", ("g",), ("g",), members, (epoch - 1,))
        known.add([opened])
    for epoch in (3, 8, 9):  # forgotten, known, not open yet
        donor.handed("b", SnapshotWanted(epoch, "g", 0))
        donor.handed("z", SnapshotWanted(epoch, "g", 0) if epoch > 3 else NoSnapshot(1, "g", ""))
    await asyncio.sleep(0)
    forgotten = "a no longer knows who came into g with epoch 3"
    assert sent == [("b", NoSnapshot(3, "g", forgotten)), ("b", NoSnapshot(8, "g", ""))]


def test_half_of_the_hooks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give both, or none"):
        Node.open(cluster(tmp_path), "a", dir=tmp_path, snapshot=lambda _: b"")
