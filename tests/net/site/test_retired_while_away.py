"""A site that is excluded, retired while it is away, and comes after all: it is told so, delivers
no more of what it has, and its history is judged as one that was cut off."""

import asyncio
import json
from pathlib import Path

import pytest

import ordercast
from ordercast.check.report import check_history
from ordercast.core.epochs import manager
from ordercast.core.epochs.streams import ends
from ordercast.history.reader import read_history
from ordercast.net.export.history import export
from ordercast.net.local import LocalCluster
from ordercast.net.site.node import site_of
from support.clusters.excluding import cluster_of, until
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b", "c", "d"], "beta": ["c", "d"]}
WAIT_S = 60.0


def started(folder: Path, deliver: str) -> LocalCluster:
    return cluster_of(folder, deliver, GROUPS, voters=["a", "b", "c"])


async def logged_and_not_delivered(cluster: LocalCluster) -> None:
    """Something that only `d` has, in its log: at `safe` it never reaches the application."""
    cluster.split(["a", "b", "c"], ["d"])
    cluster["d"].multicast_nowait("beta", b"only d has this")
    await asyncio.sleep(0.05)


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("leaps", [False, True], ids=["by records", "by a leap"])
def test_it_delivers_no_more_and_is_not_asked_for_what_it_missed(
    leaps: bool, deliver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if leaps:
        monkeypatch.setattr(manager, "_LOG", 0)
    stores = tmp_path / "stores"

    @in_loop
    async def run() -> None:
        async with asyncio.timeout(WAIT_S), started(stores, deliver) as cluster:
            for number in range(10):
                await (await cluster["a"].multicast("alpha", b"%d" % number)).stable()
            seen = site_of(cluster["d"]).stream.delivered
            await logged_and_not_delivered(cluster)
            delivered = site_of(cluster["d"]).stream.delivered
            assert delivered == seen or deliver == "agreed"
            await cluster.kill("d")
            cluster.heal()
            for site in "abc":
                await until(lambda at=site: "d" in site_of(cluster[at]).core.layout.absent)  # type: ignore[misc]
            for number in range(10):
                await (await cluster["a"].multicast("alpha", b"%d" % number)).stable()
            await cluster["a"].retire_site("d")
            d = await cluster.start("d")
            await until(lambda: d.retired and site_of(d).core.quiet())
            await cluster["a"].add_group("gamma", ["a", "b"])
            await until(lambda: "gamma" in site_of(d).core.layout.groups)  # an epoch without it
            with pytest.raises(ordercast.Error):
                await d.multicast("alpha", b"too late")
            assert site_of(d).stream.delivered == delivered
            for node in cluster.nodes.values():
                await until(site_of(node).core.quiet)

    run()
    export(stores, tmp_path / "history", ended="abcd")
    history = read_history(tmp_path / "history")
    report = check_history(history).as_json()
    assert report["ok"], json.dumps(report)[:2000]
    kinds = [event.kind for event in history.events if event.site == "d"]
    assert "excluded" in kinds
    assert "returned" not in kinds
    if deliver == "safe":
        assert sum(row.site == "d" for row in history.deliveries) == 10


@in_loop
async def test_receipts_say_so_when_nobody_knows_what_became_of_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster has forgotten the streams of `d` when it hears that it is retired."""
    monkeypatch.setattr(manager, "_LOG", 0)
    monkeypatch.setattr(ends, "FEW", 0)
    async with asyncio.timeout(WAIT_S), started(tmp_path / "stores", "agreed") as cluster:
        a, d = cluster["a"], cluster["d"]
        for _ in range(3):
            await (await d.multicast("alpha", b"known")).stable()
        cluster.split(["a", "b", "c"], ["d"])
        above = d.multicast_nowait("alpha", b"above all that was told")
        doubtful = d.multicast_nowait("beta", b"under way")
        waits = [asyncio.create_task(receipt.stable()) for receipt in (above, doubtful)]
        await until(lambda: "d" in site_of(a).core.layout.absent)
        for site, group in (("a", "alpha"), ("b", "alpha"), ("c", "alpha"), ("c", "beta")):
            await (await cluster[site].multicast(group, b"x")).stable()
        await a.retire_site("d")
        for number in range(2):
            await a.add_group(f"gamma{number}", ["a", "b"])
            await (await a.multicast(f"gamma{number}", b"x")).stable()
            await a.remove_group(f"gamma{number}")
        assert ("d", 1) in site_of(a).core.layout.bygone
        cluster.heal()
        await until(lambda: d.retired)
        refused, unknown = await asyncio.gather(*waits, return_exceptions=True)
        assert "message 4 to alpha was not sent" in str(refused)
        assert "message 1 to beta: whether it was delivered is not known any more" in str(unknown)
        with pytest.raises(ordercast.Error, match="not known any more"):  # asked later
            await site_of(d).sender.reached("stable", "beta", 1)
