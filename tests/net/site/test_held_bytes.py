"""What a running site holds of its past is bounded in bytes, also where few batches are many."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ordercast
from ordercast.model.messages import Batch, DeliveredBatch, Key, Placed, pack_payloads
from ordercast.net.admin.frames import SubscribedBatches
from ordercast.net.daemon.subscription import CREDIT_BYTES, Subscription
from ordercast.net.site.node import site_of
from ordercast.net.site.stream import StreamBatch
from ordercast.net.store.wal import require_whole
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import UP, Data, Submit
from support.harness import loops
from support.stores.records import kept, kill, open_store, write

MESSAGES, SIZE = 40, 1_000_000


def test_large_messages_that_are_stable_are_let_go() -> None:
    async def main() -> tuple[int, int]:
        async with ordercast.local_cluster({"alpha": ["a", "b"]}) as cluster:
            for _ in range(MESSAGES):
                receipt = await cluster["a"].multicast("alpha", bytes(SIZE))
            await receipt.stable()
            held = []
            for node in cluster.nodes.values():
                (engine,) = site_of(node).core.engines.values()
                batches = [entry.entry.placed.batch for entry in engine.retention.batches]
                bodies = {id(batch.body): batch.body for batch in (*batches, *engine.own.kept)}
                held.append(sum(map(len, bodies.values())))
            limits = engine.own.limits
            return max(held), limits.window_bytes + limits.checkpoint_bytes

    held, most = loops.run(main())
    assert held <= most + SIZE < MESSAGES * SIZE // 2


def test_a_client_is_sent_a_number_of_bytes_however_much_it_grants() -> None:
    """A client that asks for everything and does not read must not fill the daemon."""

    class Sent:
        """Counts the bodies that are handed to a connection."""

        size = unsent = 0

        def send(self, frame: object) -> None:
            assert isinstance(frame, SubscribedBatches)
            self.size += sum(len(placed.batch.body) for _, _, placed, _ in frame.batches)

    async def batches() -> AsyncIterator[StreamBatch]:
        for n in range(1, 101):
            body = pack_payloads([bytes(SIZE)])
            placed = Placed(Key((0, n), "a"), n, Batch("a", 1, "alpha", n, 1, body))
            yield DeliveredBatch(n, 1, placed)

    async def main() -> int:
        sent = Sent()
        may_read = "alpha".__eq__
        subscription = Subscription(1, batches(), sent, may_read, keep=False)  # type: ignore[arg-type]
        subscription.credit(1 << 60, 1 << 60, 0)
        for _ in range(500):
            await asyncio.sleep(0)
        subscription.close()
        return sent.size

    assert 0 < loops.run(main()) <= CREDIT_BYTES + 2 * SIZE


def test_the_log_of_a_store_is_verified_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, kept(1, size=1_000_000))
    killed = kill(store, tmp_path / "killed.db")
    store.close_sync()
    reads: list[int] = []

    class Watched(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            reads.append(len(data))
            return data

    monkeypatch.setattr(Path, "open", lambda path, _: Watched(io.FileIO(path)))
    require_whole(killed)
    assert sum(reads) > 1_000_000
    assert max(reads) < 10_000


def test_frames_of_an_epoch_that_is_not_open_are_held_up_to_a_number_of_bytes() -> None:
    async def main() -> int:
        async with ordercast.local_cluster({"alpha": ["a", "b"]}) as cluster:
            core = site_of(cluster["a"]).core
            for n in range(1, 101):
                batch = Batch("b", 1, "alpha", n, 1, pack_payloads([bytes(SIZE)]))
                core.receive(0, "b", InEpoch(99, Data(1, 1, UP, n, (Submit(batch),))))
            return len(core._early)

    assert 0 < loops.run(main()) * SIZE <= 16 * 1024 * 1024
