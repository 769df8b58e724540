"""Clusters in one process under `exclude`: dead and cut off sites, and what applications read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import ordercast
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.node import Node, site_of

GROUPS = {"alpha": ["a", "b", "c"], "beta": ["b", "c"]}
QUICK = {"suspect": "300ms"}


def cluster_of(
    folder: Path | None, deliver: str = "agreed", groups: Any = None, **options: Any
) -> LocalCluster:
    if folder is not None:
        options.setdefault("durability", "os")
    options.setdefault("timeouts", QUICK)
    return local_cluster(groups or GROUPS, dir=folder, deliver=deliver, **options)


async def until(what: Callable[[], bool]) -> None:
    while not what():
        await asyncio.sleep(0.01)


async def messages(reader: AsyncIterator[Any], count: int) -> list[ordercast.Delivery]:
    items = [await anext(reader) for _ in range(count)]
    assert all(isinstance(item, ordercast.Delivery) for item in items), items
    return items


async def all_back(cluster: LocalCluster) -> None:
    await until(
        lambda: all(
            site_of(node).presence.state() == "present" and not site_of(node).core.layout.absent
            for node in cluster.nodes.values()
        )
    )


def root_of(cluster: LocalCluster) -> str:
    layout = site_of(cluster["a"]).core.layout
    return next(iter(layout.domains.values())).root


async def collected(node: Node, count: int, **begin: Any) -> list[Any]:
    """The next `count` items from where reading begins, without the epochs that open."""
    found: list[Any] = []
    async for item in node.deliveries(**begin):
        if not isinstance(item, ordercast.EpochOpened):
            found.append(item)
            if len(found) == count:
                return found
    raise AssertionError("a stream ended")


async def cut_off_root(cluster: LocalCluster, headers: dict[str, bytes] | None = None) -> str:
    """The root alone has "root 0" … "root 2", delivered there; the others went on with "other"."""
    await (await cluster["a"].multicast("alpha", b"first")).stable()
    root = root_of(cluster)
    others = [site for site in "abc" if site != root]
    cluster.split([root], others)
    for number in range(3):
        await (await cluster[root].multicast("alpha", b"root %d" % number, headers)).ordered()
    await (await cluster[others[0]].multicast("alpha", b"other", headers)).stable()
    return root
