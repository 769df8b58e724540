"""What Prometheus reads from a running site about stability and dissemination."""

import asyncio
from pathlib import Path
from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from net.daemon.test_health import get
from ordercast.net.daemon.http import Http
from ordercast.net.local import local_cluster
from ordercast.net.site.meters.latencies import EVERY_NS
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.status import status_of
from support.clusters.processes import write_cluster
from support.harness.loops import in_loop
from support.network.multicasting import everywhere, opened, until_ways

GROUPS = {"alpha": ["a", "b", "c"]}
Scraped: TypeAlias = dict[str, dict[str, float]]  # by name, by the labels of its own
_COMMON = ("cluster", "site", "tracker")


async def scraped(http: Http) -> Scraped:
    answer = await get(http, b"GET /metrics HTTP/1.1\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK"), head
    found: Scraped = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            own = ",".join(value for name, value in sample.labels.items() if name not in _COMMON)
            found.setdefault(sample.name.removeprefix("ordercast_"), {})[own] = sample.value
    return found


async def serving(node: Node) -> Http:
    http = Http(lambda: status_of(site_of(node)), ("127.0.0.1", 0), node.site)
    await http.start()
    return http


@in_loop
async def test_a_scraper_sees_what_is_unstable_because_of_whom_and_for_how_long(
    tmp_path: Path,
) -> None:
    waits = {"durability": "os", "on_failure": "wait"}
    async with local_cluster(GROUPS, dir=tmp_path, **waits) as cluster:
        http = await serving(cluster["a"])
        try:
            await (await cluster["a"].multicast("alpha", b"x")).stable()
            before = await scraped(http)
            assert before["unstable_messages"] == {"": 0.0}
            assert before["stability_measured_total"] == {"": 1.0}
            assert 0 < before["time_to_stable_seconds"][""] == before["stability_seconds_total"][""]
            assert "stability_held_by" not in before
            await cluster.kill("c")
            receipt = await cluster["a"].multicast("alpha", b"y")
            await receipt.ordered()
            async with asyncio.timeout(60):
                while "c" not in (found := await scraped(http)).get("stability_waits_for", {}):
                    await asyncio.sleep(0.01)
            assert found["stability_waits_for"] == found["stability_held_by"] == {"c": 1.0}
            assert found["unstable_messages"] == {"": 1.0}
            await cluster.start("c")
            await receipt.stable()
            after = await scraped(http)
            assert after["unstable_messages"] == {"": 0.0}
            assert after["stability_measured_total"] == {"": 2.0}
            assert after["stability_seconds_total"][""] > before["stability_seconds_total"][""]
            assert "stability_held_by" not in after
        finally:
            await http.close()


@in_loop
async def test_a_scraper_sees_by_which_way_each_peer_is_served(tmp_path: Path) -> None:
    path = write_cluster(tmp_path, GROUPS, {"dissemination": "tree", "durability": "memory"})
    async with opened(path, "abc", tmp_path) as nodes:
        await until_ways(nodes, everywhere("abc", way="tree"))
        http = await serving(nodes["a"])
        try:
            while "packets_sent" not in (found := await scraped(http)).get(
                "dissemination_total", {}
            ):
                await (await nodes["a"].multicast("alpha", b"x")).stable()
            assert set(found["served_by"]) == {"b,tree", "c,tree"}
        finally:
            await http.close()


@in_loop
async def test_a_scraper_sees_how_long_messages_and_commits_take_and_each_groups_traffic(
    tmp_path: Path,
) -> None:
    groups = {"alpha": ["a", "b"], "beta": ["b", "c"]}
    async with local_cluster(groups, dir=tmp_path, durability="os") as cluster:
        http = await serving(cluster["a"])
        try:
            for seq in range(1, 4):
                receipt = await cluster["a"].multicast("alpha", b"12345")
                await receipt.stable()
                assert receipt.seq == seq
                await asyncio.sleep(EVERY_NS / 1e9)
            await (await cluster["a"].multicast("beta", b"x")).stable()
            async with asyncio.timeout(30):
                while site_of(cluster["a"]).stream.delivered < 3:
                    await asyncio.sleep(0.005)
            found = await scraped(http)
            assert found["send_to_ordered_seconds_count"] == {"": 4.0}
            assert found["send_to_stable_seconds_count"] == {"": 4.0}
            assert found["send_to_delivered_seconds_count"] == {"": 3.0}  # a is not in beta
            buckets = found["send_to_stable_seconds_bucket"]
            assert buckets["+Inf"] == 4.0
            assert list(buckets.values()) == sorted(buckets.values())
            assert found["send_to_ordered_seconds_sum"][""] > 0
            assert (
                found["send_to_ordered_seconds_sum"][""] <= found["send_to_stable_seconds_sum"][""]
            )
            assert found["store_commit_seconds_count"][""] >= 4
            assert found["store_commit_seconds_sum"][""] > 0
            assert found["group_sent_messages_total"] == {"alpha": 3.0, "beta": 1.0}
            assert found["group_delivered_messages_total"] == {"alpha": 3.0, "beta": 0.0}
            assert found["group_delivered_bytes_total"]["alpha"] >= 15.0
            assert "epoch_pause_seconds" not in found
            await cluster["a"].add_group("gamma", ["a"])
            assert (await scraped(http))["epoch_pause_seconds"][""] > 0
        finally:
            await http.close()
