"""One view of a whole cluster, made of what its sites tell."""

import asyncio
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from ordercast.net.client.destinations import LocalDestination
from ordercast.net.client.overview import Overview, overview
from ordercast.net.client.statuses import Statuses, ask_all
from ordercast.net.link.peers import LinkStatus
from ordercast.net.site.meters.traffic import LISTS
from ordercast.net.site.node import site_of
from ordercast.net.site.status import status_of
from support.clusters.excluding import GROUPS, all_back, cluster_of, until
from support.clusters.served import Served, served
from support.harness.loops import in_loop


async def asked(found: Served) -> Statuses:
    return await ask_all(LocalDestination(found.cluster.cluster, found.directory))


async def delivered(found: Served, count: int) -> None:
    sites = [site_of(found.cluster[site]) for site in "abc"]
    async with asyncio.timeout(30):
        while not (sites[1].stream.delivered == count and all(site.quiet() for site in sites)):
            await asyncio.sleep(0.005)


@in_loop
async def test_rates_are_the_differences_of_two_overviews(tmp_path: Path) -> None:
    async with served(tmp_path) as found:
        first = overview("demo", await asked(found), 10.0)
        assert first.rate is None
        assert first.sites["b"].rate is first.groups["alpha"].rate is None
        for _ in range(6):
            await found.cluster["a"].multicast("alpha", b"12345678")
        await found.cluster["c"].multicast("beta", b"x")
        await found.cluster["c"].multicast_to(["b", "c"], b"x")
        await delivered(found, 8)
        statuses = await asked(found)
        view = overview("demo", statuses, 12.0, first)
        assert [site.rate for site in view.sites.values()] == [3.0, 4.0, 1.0]
        assert view.rate == 8.0
        alpha = view.groups["alpha"]
        assert (alpha.sent, alpha.delivered, alpha.rate, alpha.sent_rate) == (6, 6, 3.0, 3.0)
        assert alpha.bytes_rate is not None
        assert alpha.bytes_rate >= 24.0
        assert alpha.members == ("a", "b")
        assert (view.groups["beta"].rate, view.groups[LISTS].rate) == (0.5, 0.5)
        (epoch,) = view.epochs
        assert epoch.parents[epoch.root] is None
        assert set(epoch.parents) == {"a", "b", "c"}
        assert view.sites["a"].window.limit == 10_000
        assert msgspec.json.decode(msgspec.json.encode(view), type=Overview) == view
        restarted: dict[str, Any] = {**statuses["b"], "boot": 2, "position": 9}
        after = overview("demo", {**statuses, "b": restarted}, 13.0, view)
        assert after.sites["a"].rate == 0.0
        assert after.sites["b"].rate is after.groups["alpha"].rate is None


@in_loop
async def test_links_have_rates_of_their_own(tmp_path: Path) -> None:
    async with served(tmp_path) as found:
        statuses = await asked(found)
    link = LinkStatus("b", "connected", "", 1.0, 0.1, 1, 100, 200, 1, 1, 0, "")
    one = overview("demo", {"a": {**statuses["a"], "links": [asdict(link)]}}, 1.0)
    more = asdict(replace(link, bytes_in=150, bytes_out=200))
    (told,) = overview("demo", {"a": {**statuses["a"], "links": [more]}}, 3.0, one).links
    assert (told.site, told.peer, told.in_rate, told.out_rate) == ("a", "b", 25.0, 0.0)


@in_loop
async def test_a_site_that_does_not_answer_is_in_the_overview(tmp_path: Path) -> None:
    async with served(tmp_path) as found:
        await found.kill("c")
        view = overview("demo", await asked(found), 1.0)
        assert (view.sites["c"].state, view.sites["c"].known) == ("down", False)
        assert view.sites["a"].known
        assert set(view.groups) == {"alpha", "beta"}


@in_loop
async def test_epochs_pass_with_their_reasons_times_and_pauses(tmp_path: Path) -> None:
    """Those of an operator's change, of a site that fails, and of its return."""
    async with cluster_of(tmp_path) as cluster:
        sites = {name: site_of(cluster[name]) for name in "ab"}
        await cluster["a"].add_group("gamma", ["a", "b"])
        await cluster.kill("c")
        await until(lambda: "c" in sites["a"].core.layout.absent)
        await cluster.start("c")
        await all_back(cluster)
        await until(lambda: not sites["b"].core.layout.absent)
        told = {
            name: {"state": "up", "reasons": [], **status_of(site_of(node))}
            for name, node in cluster.nodes.items()
        }
    view = overview("demo", told, 1.0)
    changed, excluded, returned = view.passages
    assert changed.reason == "group gamma is added, of a, b"
    assert excluded.reason == "c is excluded"
    assert "c" not in excluded.sites
    assert returned.reason == "c returns"
    assert set(GROUPS) <= set(view.groups)
    assert changed.at_ns < excluded.at_ns < returned.at_ns
    for passage in view.passages:
        assert passage.pause_ms is not None
        assert 0 < passage.pause_ms < 30_000
