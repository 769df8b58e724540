"""Messages that join a batch without a look at the window: counted, numbered and limited all the
same; and batches of those who send without a pause are full."""

import random

import pytest

import ordercast
from ordercast.core.batches import PER_MESSAGE
from ordercast.core.epochs.admission import BATCH_BYTES
from ordercast.model.errors import WindowFull
from ordercast.net.local import local_cluster
from ordercast.net.site.node import site_of
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a"], "beta": ["a"]}


@pytest.mark.parametrize("seed", range(6))
def test_what_joins_a_batch_is_counted_as_what_is_looked_at(seed: int) -> None:
    rng = random.Random(seed)
    limits = {
        "window_messages": rng.choice([7, 300, 5_000]),
        "window_bytes": rng.choice([3_000, 200_000, 2_000_000]),
        "message_bytes": rng.choice([2_000, 70_000]),
    }
    largest = rng.choice([10, 1_500, 1_900])

    @in_loop
    async def run() -> None:
        async with local_cluster(GROUPS, limits=limits) as cluster:
            node = cluster["a"]
            sent: dict[str, list[bytes]] = {"alpha": [], "beta": []}
            size = 0
            for _ in range(600):
                name = rng.choices(["alpha", "beta"], [9, 1])[0]
                group = name if rng.random() < 0.9 else "".join(list(name))  # equal, another string
                payload = rng.randbytes(rng.randint(0, largest))
                try:
                    receipt = node.multicast_nowait(group, payload)
                except WindowFull:
                    break
                sent[name].append(payload)
                size += len(payload) + PER_MESSAGE
                assert receipt.seq == len(sent[name])
                if rng.random() < 0.05:
                    assert site_of(node).core.admission.messages == sum(map(len, sent.values()))
                    assert site_of(node).core.admission.bytes == size
            count = site_of(node).core.admission.messages
            assert count == sum(map(len, sent.values())) <= limits["window_messages"]
            assert site_of(node).core.admission.bytes == size
            assert size <= limits["window_bytes"] or count == 1
            await node.flush("stable")
            assert site_of(node).core.admission.messages == site_of(node).core.admission.bytes == 0
            found: dict[str, list[bytes]] = {"alpha": [], "beta": []}
            async for item in node.deliveries():
                assert isinstance(item, ordercast.Delivery)
                found[item.group].append(item.payload)
                if item.position == count:
                    break
            assert found == sent

    run()


@in_loop
async def test_who_sends_without_a_pause_fills_whole_batches() -> None:
    async with local_cluster(GROUPS) as cluster:
        node = cluster["a"]
        each = BATCH_BYTES // (100 + PER_MESSAGE)
        for _ in range(3 * each + 1):
            await node.multicast("alpha", bytes(100))
        await node.flush("stable")
        counts = []
        async for batch in node.batches():
            assert isinstance(batch, ordercast.DeliveredBatch)
            counts.append(batch.count)
            if batch.last == 3 * each + 1:
                break
        assert counts == [each, each, each, 1]
