"""An own message that has left for its primary is stored together with its place."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.core.epochs.records import MemberBox
from ordercast.core.outbox import Accepted, Outbox, StageReached
from ordercast.model.messages import Batch
from ordercast.net.site.driver import NodeDriver
from ordercast.net.site.node import site_of
from ordercast.net.store import writer
from ordercast.net.store.box import StoreBox
from ordercast.net.store.ledger import Commit
from support.harness.loops import in_loop

OPTIONS = {"durability": "os", "deliver": "safe"}
PLACED = StageReached("ordered", "alpha", 1, 1)


def test_a_message_and_its_place_are_one_commit_unless_accepted_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []  # of each commit of the origin
    lingering: list[bool] = []  # of each box with an own message

    @in_loop
    async def run() -> None:
        async with ordercast.local_cluster(
            {"alpha": ["a", "b", "c"]}, dir=tmp_path, **OPTIONS
        ) as cluster:
            nodes = {site: cluster[site] for site in "abc"}
            for node in nodes.values():  # all links are up, and nothing is on its way
                await (await node.multicast("alpha", b"first")).stable()
            root = site_of(cluster["a"]).core.layout.home("a").root  # type: ignore[union-attr]
            origin = next(node for site, node in nodes.items() if site != root)
            watch(site_of(origin).store, rows, lingering, monkeypatch)
            monkeypatch.setattr(writer, "LINGER_S", 1_000.0)
            for _ in range(5):
                await (await origin.multicast("alpha", b"x")).stable()
            assert lingering == [True] * 5
            assert rows.count(2) >= 3  # now and then another box comes between
            await (await origin.multicast("alpha", b"x")).accepted()
            assert lingering[5:] == [False]

    run()


def watch(store: Any, rows: list[int], lingering: list[bool], patch: pytest.MonkeyPatch) -> None:
    execute, write = writer.Writer._execute, store.write

    def watched_execute(self: writer.Writer, commit: Commit) -> None:
        if commit.batches and self is store._writer:
            rows.append(len(commit.batches))
        execute(self, commit)

    def watched_write(box: StoreBox, then: Callable[[], None]) -> None:
        if any(isinstance(record, Accepted) for record in box.records):
            lingering.append(box.may_linger)
        write(box, then)

    patch.setattr(writer.Writer, "_execute", watched_execute)
    patch.setattr(store, "write", watched_write)


class Keeper:
    """Keeps boxes, and never says that one is durable."""

    row = 0

    def __init__(self) -> None:
        self.boxes: list[StoreBox] = []

    def write(self, box: StoreBox, then: Callable[[], None]) -> None:  # noqa: ARG002
        self.boxes.append(box)


def box(*, send: bool = False, own: bool = False, **more: Any) -> MemberBox:
    frames: Any = [("b", None)] if send else ()
    records = [Accepted(Batch("a", 1, "alpha", 1, 1, b""))] if own else ()
    return Outbox(
        records, frames, more.pop("then_send", ()), more.pop("deliver", ()),
        more.pop("receipts", ()), None, **more,
    )  # fmt: skip


def test_what_waits_behind_a_lingering_commit_ends_it() -> None:
    @in_loop
    async def run() -> None:
        async with ordercast.local_cluster({"alpha": ["a", "b"]}) as cluster:
            site = site_of(cluster["a"])
            keeper = Keeper()
            driver = NodeDriver(site.core, keeper, site, durable=True)
            driver.carry(_Nowhere())

            def done(outbox: MemberBox) -> list[bool]:
                keeper.boxes.clear()
                driver._perform(time.monotonic_ns(), outbox)
                return [written.may_linger for written in keeper.boxes]

            assert done(box(send=True, own=True)) == [True]
            assert done(box(send=True)) == []  # nothing of it waits
            assert done(box(receipts=[PLACED])) == [False]
            assert done(box(receipts=[PLACED])) == []  # it does not linger any more
            # It has not left; a frame, a receipt or somebody waits for it.
            assert done(box(own=True)) == [False]
            assert done(box(send=True, own=True, then_send=[("b", None)])) == [False]
            assert done(box(send=True, own=True, receipts=[PLACED])) == [False]
            site.rows_due = True
            assert done(box(send=True, own=True)) == [False]

    run()


class _Nowhere:
    def send(self, *_: object) -> None: ...
    def refuse(self, *_: object) -> None: ...
