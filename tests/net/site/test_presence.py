"""What operators are told of failures: since when there is no majority, who is excluded, what was
taken back; and that a store keeps its level and policy."""

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.cli.status import as_table
from ordercast.model.errors import ConfigError, NotInMajority, UnknownGroup
from ordercast.net.client.overview import overview
from ordercast.net.cluster.certificates import make_site_certificate, read_authority
from ordercast.net.daemon.metrics import exposition
from ordercast.net.daemon.operator_log import OperatorLog
from ordercast.net.local import local_cluster
from ordercast.net.site.node import site_of
from ordercast.net.site.status import status_of, troubles, warnings
from support.clusters.excluding import GROUPS, all_back, cluster_of, cut_off_root, until
from support.clusters.processes import NAME, write_cluster
from support.harness.loops import in_loop


@in_loop
async def test_who_leads_hears_of_a_majority_until_it_steps_down(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await (await cluster["a"].multicast("alpha", b"one")).stable()
        leading = [site_of(node).core.manager for node in cluster.nodes.values()]
        await until(lambda: sum(each.leads for each in leading) == 1)
        (manager,) = [node for node in cluster.nodes.values() if site_of(node).core.manager.leads]
        begun = time.monotonic_ns()
        await until(lambda: site_of(manager).core.manager.led_at > begun)
        cluster.split([manager.site], [site for site in "abc" if site != manager.site])
        await until(lambda: not site_of(manager).core.manager.leads)
        assert site_of(manager).core.manager.led_at > begun
        await until(lambda: status_of(site_of(manager))["standing"] == "no majority")
        assert status_of(site_of(manager))["manager"] is None
        cluster.heal()
        await all_back(cluster)


@in_loop
async def test_a_cluster_that_waits_for_its_founding_says_whom_to_start(tmp_path: Path) -> None:
    path = write_cluster(tmp_path, GROUPS, {"durability": "os"}, tls=False)
    async with AsyncExitStack() as stack:
        node = ordercast.Node.open
        nodes = {s: await stack.enter_async_context(node(path, s, dir=tmp_path)) for s in "ab"}
        cause = "not founded yet: founding needs every voter once; start c"
        await until(lambda: status_of(site_of(nodes["a"]))["why_not"] == cause)
        await until(lambda: site_of(nodes["a"]).presence.hopeless)
        assert troubles(status_of(site_of(nodes["a"])))[0] == cause
        with pytest.raises(NotInMajority, match=cause):
            await nodes["a"].multicast("alpha", b"x")
        with pytest.raises(NotInMajority, match=cause):
            await nodes["a"].produce("sink", 1, "alpha", [b"x"])


@pytest.mark.parametrize("policy", ["exclude", "wait"])
def test_what_needs_a_feature_waits_for_the_founding(tmp_path: Path, policy: str) -> None:
    """Before it nobody knows the features, and nobody may say that one is missing."""

    @in_loop
    async def run() -> None:
        options = {"durability": "os", "on_failure": policy}
        path = write_cluster(tmp_path, GROUPS, options, tls=False)
        async with AsyncExitStack() as stack:
            node = ordercast.Node.open
            nodes = {s: await stack.enter_async_context(node(path, s, dir=tmp_path)) for s in "ab"}
            sends = [
                asyncio.ensure_future(call)
                for call in (
                    nodes["a"].produce("sink", 1, "alpha", [b"produced"]),
                    nodes["a"].multicast("alpha", b"with an id", id="one"),
                    nodes["b"].multicast("alpha", b"with a header", {"key": b"value"}),
                )
            ]
            with pytest.raises(UnknownGroup):
                await nodes["a"].produce("sink", 1, "alhpa", [b"x"])
            mark = asyncio.ensure_future(nodes["b"].id_mark("alpha"))
            await asyncio.sleep(0.3)
            assert not any(call.done() for call in (*sends, mark))
            await stack.enter_async_context(node(path, "c", dir=tmp_path))
            for receipt in await asyncio.gather(*sends):
                await receipt.stable()
            await mark

    run()


@in_loop
async def test_a_certificate_that_ends_soon_is_in_status_and_metrics(tmp_path: Path) -> None:
    path = write_cluster(tmp_path, {"alpha": ["a"]}, {"durability": "memory"}, tls=True)
    authority = read_authority(tmp_path / "certs")
    make_site_certificate(authority, NAME, "a", tmp_path / "certs", days=3)
    async with ordercast.Node.open(path, "a", dir=tmp_path) as node:
        status = status_of(site_of(node))
    assert 2 * 86_400 < status["certificate_ends_s"] <= 3 * 86_400
    status["certificate_ends_s"] = 3 * 86_400 - 60
    told = "its certificate expires in 2 days; 'ordercast certs' makes another"
    shown = {"state": "up", "reasons": [], "warnings": warnings(status), **status}
    assert f"a: {told}" in table({"a": shown}).splitlines()
    assert b"ordercast_certificate_ends_seconds{" in (exposition(status) or b"")
    assert warnings({**status, "certificate_ends_s": 60 * 86_400}) == []
    assert "has expired" in warnings({**status, "certificate_ends_s": -1})[0]


def table(statuses: dict[str, dict[str, Any]]) -> str:
    return as_table(statuses, overview("", statuses, 0.0))


@in_loop
async def test_nobody_goes_on_without_a_majority(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.kill("c")
        await until(lambda: "c" in site_of(cluster["a"]).core.layout.absent)
        status = {**status_of(site_of(cluster["a"])), "manager": None}
        told = table({"a": {"state": "unwell", "reasons": [], **status}})
        assert told.splitlines()[-1] == "excluded: c; nothing goes on without a majority"
        await cluster.start("c")
        await all_back(cluster)


@in_loop
async def test_a_site_is_well_without_one_that_is_excluded(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await cluster.kill("c")
        await until(lambda: "c" in site_of(cluster["a"]).core.layout.absent)
        status: dict[str, Any] = {**status_of(site_of(cluster["a"])), "standing": "present"}
        link = {"peer": "c", "state": "waiting", "since_s": 1.0, "last_error": "refused"}
        assert troubles({**status, "links": [link]}) == []
        assert troubles({**status, "links": [{**link, "peer": "b"}]}) != []
        first = {**link, "peer": "b", "state": "dialling", "since_s": 0.0, "last_error": ""}
        assert troubles({**status, "links": [first]}) == []
        assert troubles({**status, "links": [{**first, "since_s": 1.0}]}) != []
        assert troubles({**status, "links": [{**first, "last_error": "refused"}]}) != []
        told = table({"a": {"state": "up", "reasons": [], **status}})
        assert "excluded: c; the others go on without it" in told.splitlines()
        await cluster.start("c")
        await all_back(cluster)


@in_loop
async def test_a_rollback_is_told_to_the_operator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ordercast.net.daemon")
    told: list[tuple[str, dict[str, Any]]] = []
    async with cluster_of(tmp_path) as cluster:
        root = await cut_off_root(cluster)
        watcher = OperatorLog(
            site_of(cluster[root]), lambda kind, detail: told.append((kind, detail))
        )
        try:
            cluster.heal()
            await until(lambda: any(kind == "rollback" for kind, _ in told))
        finally:
            watcher.close()
        assert ("rollback", {"position": 1, "attempt": 2}) in told
        assert "rolled back: what was delivered behind 1 never happened" in caplog.text
        await all_back(cluster)


@pytest.mark.parametrize(("field", "other"), [("deliver", "agreed"), ("on_failure", "wait")])
@in_loop
async def test_a_store_keeps_its_level_and_policy(tmp_path: Path, field: str, other: str) -> None:
    groups = {"alpha": ["a"]}
    async with local_cluster(groups, dir=tmp_path, durability="os"):
        pass
    with pytest.raises(ConfigError) as caught:
        async with local_cluster(groups, dir=tmp_path, durability="os", **{field: other}):
            pass
    assert str(caught.value).startswith(f"cluster: cluster.{field}: {other!r}, but ")
    assert "was run with" in str(caught.value)
    async with local_cluster(groups, dir=tmp_path, durability="os", stability="train"):
        pass


@in_loop
async def test_a_voter_that_is_lost_for_ever_is_done_without(tmp_path: Path) -> None:
    """It votes no longer, its own group goes, then it is retired; nobody had to start it."""
    groups = {"alpha": ["a", "b", "c"], "gamma": ["c"]}
    async with cluster_of(tmp_path, "safe", groups) as cluster:
        await cluster.kill("c")
        node = cluster["a"]
        await until(lambda: "c" in site_of(node).core.layout.absent)
        with pytest.raises(ConfigError, match="'c' is a voter"):
            await node.retire_site("c")
        await node.remove_voter("c")
        assert site_of(node).core.layout.voters == ("a", "b")
        with pytest.raises(ConfigError, match="'c' is the last member of 'gamma'"):
            await node.retire_site("c")
        await node.remove_group("gamma")
        await node.retire_site("c")
        assert list(site_of(node).core.layout.roster) == ["a", "b"]
        assert not site_of(node).core.layout.absent
        await (await cluster["b"].multicast("alpha", b"on")).stable()


@in_loop
async def test_an_absent_site_cannot_become_a_voter(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, voters=["a", "b"]) as cluster:
        await cluster.kill("c")
        await until(lambda: "c" in site_of(cluster["a"]).core.layout.absent)
        with pytest.raises(ConfigError, match="site 'c' is absent"):
            await cluster["a"].add_voter("c")


@in_loop
async def test_the_last_two_members_of_a_group_are_not_retired_at_once(tmp_path: Path) -> None:
    """Each of them may go while the other is there; the second is refused."""
    groups = {"alpha": ["a", "c", "d"], "gone": ["b", "e"]}
    async with cluster_of(tmp_path, "safe", groups, voters=["a", "c", "d"]) as cluster:
        for site in ("b", "e"):
            await cluster.kill(site)
        node = cluster["a"]
        await until(lambda: sorted(site_of(node).core.layout.absent) == ["b", "e"])
        results = await asyncio.gather(
            node.retire_site("b"), cluster["c"].retire_site("e"), return_exceptions=True
        )
        (refused,) = [result for result in results if result is not None]
        assert isinstance(refused, ConfigError)
        assert "is the last member of 'gone'" in str(refused)
        await (await cluster["d"].multicast("alpha", b"on")).stable()


@in_loop
async def test_names_that_differ_by_case_alone_are_not_added_at_once() -> None:
    groups = {"alpha": ["a"], "beta": ["b"], "gamma": ["c"]}
    async with local_cluster(groups) as cluster:
        for first, second in (
            (
                cluster["a"].add_site("d", "127.0.0.1:7104"),
                cluster["b"].add_site("D", "127.0.0.1:7105"),
            ),
            (cluster["a"].add_group("g", ["a"]), cluster["b"].add_group("G", ["b"])),
        ):
            results = await asyncio.gather(first, second, return_exceptions=True)
            (refused,) = [result for result in results if result is not None]
            assert isinstance(refused, ConfigError)
            assert "is there already" in str(refused)
        await (await cluster["c"].multicast("gamma", b"on")).stable()
