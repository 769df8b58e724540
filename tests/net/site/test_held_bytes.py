"""What a running site holds of its past is bounded in bytes, also where few batches are many."""

import ordercast
from ordercast.net.site.node import site_of
from support.harness import loops

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
