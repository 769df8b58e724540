"""What sites hold does not grow with the epochs, lists and restarts that they have seen: all
containers of running sites are measured after each of several equal phases."""

import asyncio
import gc
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.core.epochs import changes, manager, window
from ordercast.core.epochs.streams import ends
from ordercast.model.epochs import (
    AddVoter,
    Edit,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RemoveVoter,
    UseBuilder,
    UseProtocol,
)
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site import receipts, stream
from ordercast.net.site.node import Node, site_of
from ordercast.net.store import events, ledger
from ordercast.wire import lineage
from support.clusters.sites import until
from support.harness import loops
from support.harness.census import growing, lengths_of

SITES = "abcde"
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["d", "e", "a"]}
LISTS = [sites for size in (2, 3, 4) for sites in combinations(SITES, size)]
ROUND: list[tuple[Edit, ...]] = [
    (JoinGroup("beta", "a"),),
    (UseProtocol("symmetric", ""),),
    (LeaveGroup("beta", "a"),),
    (RemoveVoter("b"),),
    (UseProtocol("propagation", ""), UseBuilder("star")),
    (AddVoter("b"),),
    (UseBuilder("greedy"),),
]
ROUNDS = 2  # in a phase
PHASES = 5
PHASES_MOST = 12  # a log that is folded at 8 entries cannot grow that long, whatever its remainder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bounded is soon at its bound."""
    monkeypatch.setattr(stream, "_RECENT_MESSAGES", 20)
    monkeypatch.setattr(changes, "_OUTCOMES", 16)
    monkeypatch.setattr(manager, "_LOG", 8)
    monkeypatch.setattr(ends, "FEW", 8)
    monkeypatch.setattr(receipts, "FEW", 4)
    monkeypatch.setattr(window, "FEW", 4)
    monkeypatch.setattr(ledger, "FEW", 20)
    monkeypatch.setattr(lineage, "STARTS", 2)
    monkeypatch.setattr(events, "OPENED_GROUPS", 16)
    monkeypatch.setattr(events, "ENTRIES_MOST", 4)


class Churn:
    """Applications that send, read and confirm, while the cluster changes."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.number = 0
        self._readers: dict[str, asyncio.Task[None]] = {}

    def begin(self, node: Node) -> None:
        self._readers[node.site] = asyncio.create_task(self._read(node))

    async def end(self, site: str) -> None:
        reader = self._readers.pop(site)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)

    async def _read(self, node: Node) -> None:
        async for item in node.deliveries():
            if isinstance(item, ordercast.Delivery):
                await node.confirm(item.position)

    async def round(self) -> None:
        """A change of every kind, with names that were not there before, and a restart."""
        cluster, a = self.cluster, self.cluster["a"]
        for edits in ROUND:
            await self._send()
            await a.change(*edits)
        self.number += 1
        passing = f"passing{self.number}"
        await a.add_group(passing, ["b", "d"])
        await self._send()
        await cluster["b"].multicast(passing, b"x")
        await a.change(RemoveGroup(passing))
        await self.end("e")
        self.begin(await cluster.restart("e"))

    async def _send(self) -> None:
        for place, site in enumerate(SITES):
            node = self.cluster[site]
            listed = LISTS[(self.number * len(SITES) + place) % len(LISTS)]
            await node.multicast(list(GROUPS)[place % len(GROUPS)], b"x" * 600)
            await node.multicast_to(listed, b"y")

    async def quiet(self) -> None:
        nodes = [site_of(self.cluster[site]) for site in SITES]
        for node in nodes:
            await node.sender.flush("stable")
        await until(lambda: all(node.quiet() and not node.stream.lag for node in nodes))
        await until(lambda: all(node.store.confirmed == node.stream.delivered for node in nodes))


@pytest.mark.parametrize("deliver", ["agreed"])
def test_nothing_grows_with_epochs_lists_and_restarts(deliver: str, tmp_path: Path) -> None:
    async def run() -> list[Counter[str]]:
        counts: list[Counter[str]] = []
        options: dict[str, Any] = {
            "deliver": deliver, "durability": "os", "limits": {"retention": "stable"},
            "timeouts": {"suspect": "300ms"},
        }  # fmt: skip
        async with local_cluster(GROUPS, dir=tmp_path, **options) as cluster:
            churn = Churn(cluster)
            for site in SITES:  # a later start skips seqs
                churn.begin(await cluster.restart(site))
            while len(counts) < PHASES or (growing(counts, 1) and len(counts) < PHASES_MOST):
                for _ in range(ROUNDS):
                    await churn.round()
                await churn.quiet()
                gc.collect()
                counts.append(lengths_of([site_of(node) for node in cluster.nodes.values()]))
            for site in SITES:
                await churn.end(site)
        return counts

    # A collection holds all sites up: it must not look at what other tests of this process left.
    gc.collect()
    gc.freeze()
    try:
        counts = loops.run(run())
    finally:
        gc.unfreeze()
    grown = growing(counts, ROUNDS)
    assert not grown, "\n".join(f"{name}: {of}" for name, of in grown.items())
