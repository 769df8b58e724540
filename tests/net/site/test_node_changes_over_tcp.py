"""Groups change under load over real connections and stores, while nodes are abandoned in the
middle of changes and opened again; the whole history is judged."""

import asyncio
import random
from pathlib import Path

import pytest

import ordercast
from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.model.epochs import AddGroup, Edit, JoinGroup, LeaveGroup, RemoveGroup, UseProtocol
from ordercast.model.errors import Error
from ordercast.net.export.history import export
from ordercast.net.site.changes import new_change_name
from ordercast.net.site.node import Node, site_of
from support.clusters.processes import write_cluster
from support.clusters.sites import until
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"]}
CHANGES: list[Edit] = [
    JoinGroup("alpha", "d"),
    UseProtocol("centralized"),
    AddGroup("gamma", ("a", "d")),
    LeaveGroup("beta", "c"),
    LeaveGroup("alpha", "d"),  # gamma alone holds the domain together
    RemoveGroup("gamma"),  # now there are two
    UseProtocol("propagation", "a"),
    JoinGroup("beta", "a"),  # and one again
]


class Sites:
    """Nodes that come and go; those who need one wait until it is back."""

    def __init__(self, path: Path, directory: Path) -> None:
        self.path = path
        self.directory = directory
        self.nodes: dict[str, Node] = {}

    async def open(self, site: str) -> None:
        opening = ordercast.Node.open(self.path, site, dir=self.directory, embedded=False)
        self.nodes[site] = await opening.__aenter__()

    async def bounce(self, site: str, rng: random.Random) -> None:
        await site_of(self.nodes.pop(site)).abandon()
        await asyncio.sleep(rng.random() * 0.1)
        await self.open(site)

    async def send(self, site: str, rng: random.Random) -> None:
        while True:
            await asyncio.sleep(rng.random() * 0.005)
            node = self.nodes.get(site)
            if node is None or not site_of(node).core.layout.groups:
                continue
            try:
                receipt = await node.multicast(
                    rng.choice(list(site_of(node).core.layout.groups)), b"x" * 20
                )
                if rng.random() < 0.1:
                    async with asyncio.timeout(0.5):
                        await receipt.stable()
            except (Error, TimeoutError):  # it was abandoned, or the group is gone
                continue

    async def change(self, edit: Edit, rng: random.Random) -> None:
        name = new_change_name()
        while True:
            node = self.nodes.get(rng.choice("abcd"))
            try:
                if node is not None:
                    async with asyncio.timeout(1.0):
                        await node.change(edit, name=name)
                    return
            except ordercast.ConfigError:
                raise  # each change is possible after the one before
            except (Error, TimeoutError):
                pass
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("deliver", "seed"), [("safe", 1), ("agreed", 2)])
def test_every_guarantee_holds_when_nodes_are_abandoned_within_changes(
    deliver: str, seed: int, tmp_path: Path
) -> None:
    options = {"durability": "os", "on_failure": "wait", "deliver": deliver}
    path = write_cluster(tmp_path, GROUPS, options, tls=False)
    text = path.read_text().replace("[groups]", '[timeouts]\nsuspect = "200ms"\n[groups]')
    path.write_text(text)

    @in_loop
    async def run() -> None:
        rng = random.Random(seed)
        sites = Sites(path, tmp_path / "stores")
        for site in "abcd":
            await sites.open(site)
        load = [
            asyncio.create_task(sites.send(site, random.Random(f"{seed} {site}")))
            for site in "abcd"
        ]
        await until(lambda: all(site_of(n).core.layout.count >= 1 for n in sites.nodes.values()))
        for edit in CHANGES:
            change = asyncio.create_task(sites.change(edit, rng))
            await asyncio.sleep(rng.random() * 0.05)
            await sites.bounce(rng.choice("abcd"), rng)
            await change
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
        nodes = list(sites.nodes.values())
        await until(
            lambda: (
                all(
                    site_of(n).core.quiet()
                    and not site_of(n).core.admission.messages
                    and not site_of(n).driver._unwritten
                    for n in nodes
                )
                and len({site_of(n).core.layout.count for n in nodes}) == 1
            )
        )
        assert {site_of(n).core.layout.last_epoch for n in nodes} == {
            site_of(nodes[0]).core.layout.last_epoch
        }
        assert len(site_of(nodes[0]).core.layout.domains) == 1
        for node in nodes:
            await node.close()

    run()
    export(tmp_path / "stores", tmp_path / "history")
    history = read_history(tmp_path / "history")
    report = check_history(history).as_json()
    assert report["ok"], report
    assert report["informative"]["pending"] == 0, report
    assert len({row.epoch for row in history.deliveries}) >= 6
    assert len(history.deliveries) > 100
