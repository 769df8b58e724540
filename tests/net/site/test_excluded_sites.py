"""Nodes under `exclude`: dead members, sides without a majority, rollbacks, and what comes back."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.model.epochs import RemoveProducer
from ordercast.net.export.history import export
from ordercast.net.site.node import site_of
from support.clusters.excluding import (
    GROUPS,
    QUICK,
    all_back,
    cluster_of,
    collected,
    cut_off_root,
    messages,
    root_of,
    until,
)
from support.clusters.served import served
from support.clusters.sites import turns
from support.harness.loops import in_loop


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@in_loop
async def test_the_rest_goes_on_without_a_dead_member_and_it_returns(
    tmp_path: Path, deliver: str
) -> None:
    async with cluster_of(tmp_path, deliver) as cluster:
        await (await cluster["a"].multicast("alpha", b"one")).stable()
        for site in "abc":  # one of them is the root, one the manager
            await cluster.kill(site)
            others = [other for other in "abc" if other != site]
            for other in others:
                await (await cluster[other].multicast("alpha", other.encode())).stable()
            assert list((await cluster[others[0]].status())["excluded"]) == [site]
            node = await cluster.start(site)
            await (await node.multicast("alpha", b"back")).stable()  # waits until it is
            assert (await node.status())["standing"] == "present"
        orders = [
            [item.payload for item in await collected(cluster[site], 10, start=1)] for site in "abc"
        ]
        assert orders[0] == orders[1] == orders[2]
        assert {site_of(node).stream.attempt for node in cluster.nodes.values()} == {1}


@in_loop
async def test_what_is_taken_back_and_delivered_again_has_its_headers(tmp_path: Path) -> None:
    red = {"colour": b"red"}
    async with cluster_of(tmp_path) as cluster:
        root = await cut_off_root(cluster, red)
        reader = cluster[root].deliveries()
        before = await messages(reader, 4)
        cluster.heal()
        assert isinstance(await anext(reader), ordercast.Rollback)
        await all_back(cluster)
        await cluster[root].flush("stable")
        first, rolled, *again = await collected(cluster[root], 6, start=1)
        assert isinstance(rolled, ordercast.Rollback)
        assert first.headers == {}
        for found in (before[1:], again):
            assert [item.headers for item in found] == [red] * len(found)
        times = {item.payload: item.sent_ns for item in before}
        sent_again = [item for item in again if item.payload in times]
        assert [item.payload for item in sent_again] == [b"root 0", b"root 1", b"root 2"]
        assert all(times[item.payload] == item.sent_ns for item in sent_again)


@in_loop
async def test_a_cut_off_root_takes_back_what_only_it_had(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        root = await cut_off_root(cluster)
        reader = cluster[root].deliveries()
        before = await messages(reader, 4)
        assert [item.payload for item in before] == [b"first", b"root 0", b"root 1", b"root 2"]
        cluster.heal()
        rolled = await anext(reader)
        assert isinstance(rolled, ordercast.Rollback)
        assert rolled.position == 1
        assert [message for _, message in rolled.annulled] == [item.id for item in before[1:]]
        assert [position for position, _ in rolled.annulled] == [2, 3, 4]
        await all_back(cluster)
        await cluster[root].flush("stable")
        again = await collected(cluster[root], 6, start=1)
        assert again[1] == rolled
        live = [again[0], *again[2:]]
        for site in "abc":
            if site != root:
                seen = await collected(cluster[site], 5, start=1)
                assert [item.id for item in seen] == [item.id for item in live]
        assert [item.position for item in live] == [1, 2, 3, 4, 5]
        assert [item.attempt for item in live] == [1, 2, 2, 2, 2]


@in_loop
async def test_at_safe_a_cut_off_root_delivers_nothing_that_is_taken_back(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "safe") as cluster:
        await (await cluster["a"].multicast("alpha", b"first")).stable()
        root = root_of(cluster)
        others = [site for site in "abc" if site != root]
        cluster.split([root], others)
        await cluster[root].multicast("alpha", b"root")
        await (await cluster[others[0]].multicast("alpha", b"other")).stable()
        assert site_of(cluster[root]).stream.delivered == 1
        cluster.heal()
        orders = [await collected(cluster[site], 3, start=1) for site in "abc"]
        assert [item.payload for item in orders[0]] == [b"first", b"other", b"root"]
        assert [[item.id for item in order] for order in orders[1:]] == [
            [item.id for item in orders[0]]
        ] * 2


@in_loop
async def test_what_was_confirmed_and_taken_back_is_told_after_a_restart(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        root = await cut_off_root(cluster)
        await collected(cluster[root], 4)
        await cluster[root].confirm(4)
        cluster.heal()
        await until(lambda: site_of(cluster[root]).stream.attempt == 2)
        await cluster[root].confirm(4)  # of an application that has not been told yet
        assert site_of(cluster[root]).stream.confirmed == 1
        node = await cluster.restart(root)
        found = await collected(node, 5)
        assert isinstance(found[0], ordercast.Rollback)
        assert [item.attempt for item in found[1:]] == [2, 2, 2, 2]
        await node.confirm(5)
        await (await node.multicast("alpha", b"later")).stable()
        assert [item.payload for item in await collected(node, 1)] == [b"later"]


@in_loop
async def test_who_says_which_attempt_it_had_is_told_what_was_taken_back(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        root = await cut_off_root(cluster)
        cluster.heal()
        await all_back(cluster)
        await cluster[root].flush("stable")
        stale = await collected(cluster[root], 2, start=4, attempt=1)
        assert isinstance(stale[0], ordercast.Rollback)
        assert (stale[1].position, stale[1].attempt) == (2, 2)
        knowing = await collected(cluster[root], 1, start=4, attempt=2)
        assert knowing[0].position == 4


@in_loop
async def test_without_a_majority_callers_are_told(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "safe") as cluster:
        await (await cluster["a"].multicast("alpha", b"first")).stable()
        cluster.split(["a"], ["b", "c"])
        await until(lambda: site_of(cluster["a"]).presence.state() == "no majority")
        changing = asyncio.create_task(cluster["a"].leave("alpha"))
        await until(lambda: site_of(cluster["a"]).presence.hopeless)
        with pytest.raises(ordercast.NotInMajority, match="no majority of the voters"):
            await cluster["a"].multicast("alpha", b"x")
        with pytest.raises(ordercast.NotInMajority, match="no majority"):
            cluster["a"].multicast_nowait("alpha", b"x")
        with pytest.raises(ordercast.NotInMajority, match="may be done"):
            await changing
        with pytest.raises(ordercast.NotInMajority, match="no majority"):
            await cluster["a"].join("beta")
        status = await cluster["a"].status()
        assert status["standing"] == "no majority"
        assert "no majority" in status["why_not"]
        cluster.heal()
        await all_back(cluster)
        await (await cluster["a"].multicast("alpha", b"again")).stable()


@in_loop
async def test_a_group_whose_members_are_all_gone_is_frozen_until_one_returns(
    tmp_path: Path,
) -> None:
    groups = {"alpha": ["a", "b", "c"], "gamma": ["d"]}
    async with cluster_of(tmp_path, groups=groups, voters=["a", "b", "c"]) as cluster:
        await (await cluster["a"].multicast("gamma", b"before")).stable()
        await cluster.kill("d")
        receipt = await cluster["a"].multicast("gamma", b"meanwhile")
        await until(lambda: "gamma" in site_of(cluster["a"]).core.layout.frozen)
        await turns()  # the site's own: then its node has heard of it too
        assert (await cluster["a"].status())["frozen"] == {"gamma": ["d"]}
        with pytest.raises(ordercast.NotInMajority, match="'gamma' waits"):
            await cluster["a"].multicast("gamma", b"x")
        await (await cluster["a"].multicast("alpha", b"others go on")).stable()
        await cluster.start("d")
        await receipt.stable()
        payloads = [item.payload for item in await collected(cluster["d"], 2, start=1)]
        assert payloads == [b"before", b"meanwhile"]


@in_loop
async def test_in_causal_order_nothing_overtakes_what_waits_for_a_frozen_group(
    tmp_path: Path,
) -> None:
    groups = {"alpha": ["a", "b", "c", "d"], "gamma": ["d"]}
    options: dict[str, Any] = {"voters": ["a", "b", "c"], "causal": True}
    async with cluster_of(tmp_path, "safe", groups, **options) as cluster:
        await (await cluster["a"].multicast("gamma", b"before")).stable()
        await cluster.kill("d")
        receipt = await cluster["a"].multicast("gamma", b"meanwhile")
        await until(lambda: "gamma" in site_of(cluster["a"]).core.layout.frozen)
        await turns()
        with pytest.raises(ordercast.NotInMajority, match="in causal order: behind what waits"):
            cluster["a"].multicast_nowait("alpha", b"x")
        follows = asyncio.create_task(cluster["a"].multicast("alpha", b"follows"))
        await (await cluster["b"].multicast("alpha", b"another's")).stable()
        assert {d.protocol for d in site_of(cluster["a"]).core.layout.domains.values()} == {
            "centralized"
        }
        assert not follows.done()
        await cluster.start("d")
        await receipt.stable()
        await (await follows).stable()
        payloads = [item.payload for item in await collected(cluster["d"], 4, start=1)]
        assert payloads == [b"before", b"another's", b"meanwhile", b"follows"]
        assert {d.protocol for d in site_of(cluster["a"]).core.layout.domains.values()} == {
            "propagation"
        }


@in_loop
async def test_a_list_of_sites_that_an_absence_keeps_apart_waits_for_it(tmp_path: Path) -> None:
    groups = {"alpha": ["a", "b"], "beta": ["b", "c"]}
    async with cluster_of(tmp_path, "safe", groups) as cluster:
        await (await cluster["a"].multicast_to(["a", "c"], b"before")).stable()
        await cluster.kill("b")
        receipt = await cluster["a"].multicast_to(["a", "c"], b"meanwhile")
        await until(lambda: "b" in site_of(cluster["a"]).core.layout.absent)
        with pytest.raises(ordercast.NotInMajority, match="a, c: apart while b is absent"):
            await cluster["a"].multicast_to(["a", "c"], b"x")
        await (await cluster["a"].multicast("alpha", b"to itself")).stable()
        await cluster.start("b")
        await receipt.stable()
        payloads = [item.payload for item in await collected(cluster["c"], 2, start=1)]
        assert payloads == [b"before", b"meanwhile"]


@pytest.mark.parametrize("through_a_client", [False, True])
@in_loop
async def test_a_member_that_does_not_read_is_excluded_where_that_is_asked_for_until_it_reads(
    tmp_path: Path, through_a_client: bool
) -> None:
    options: dict[str, Any] = {"on_failure": "exclude", "slow_member": "exclude", "deliver": "safe"}
    async with served(
        tmp_path, GROUPS, timeouts=QUICK, limits={"unread_messages": 4}, **options
    ) as sites:
        cluster = sites.cluster
        readers = [asyncio.create_task(_read_on(cluster[site], [])) for site in "ab"]
        number = 0
        while "c" not in site_of(cluster["a"]).core.layout.absent:
            number += 1
            await cluster["a"].multicast("alpha", b"%d" % number)
            await asyncio.sleep(0.02)
        await cluster["a"].flush("stable")
        assert site_of(cluster["a"]).stream.delivered == number
        async with sites.connect("c") as client:
            seen: list[bytes] = []
            node = client if through_a_client else cluster["c"]
            readers.append(asyncio.create_task(_read_on(node, seen)))
            await until(lambda: len(seen) == number)
            await all_back(cluster)
            await (await node.multicast("alpha", b"reads")).stable()
            await until(lambda: len(seen) == number + 1)
            assert seen == [*(b"%d" % n for n in range(1, number + 1)), b"reads"]
            assert {site_of(one).stream.attempt for one in cluster.nodes.values()} == {1}
            for reader in readers:
                reader.cancel()


async def _read_on(node: Any, seen: list[bytes]) -> None:
    async for item in node.deliveries():
        if isinstance(item, ordercast.Delivery):
            seen.append(item.payload)
            await node.confirm(item.position)


@pytest.mark.parametrize("kept", [True, False])
@in_loop
async def test_a_client_hears_of_a_rollback_from_its_daemon(tmp_path: Path, kept: bool) -> None:
    options: dict[str, Any] = {"on_failure": "exclude"}
    if not kept:
        options |= {"dir": None, "durability": "memory"}
    async with served(tmp_path, GROUPS, deliver="agreed", timeouts=QUICK, **options) as sites:
        cluster = sites.cluster
        await (await cluster["a"].multicast("alpha", b"zero")).stable()
        root = root_of(cluster)
        async with sites.connect(root) as client:
            reader = client.deliveries()
            assert [item.payload for item in await messages(reader, 1)] == [b"zero"]
            await cut_off_root(cluster)
            before = await messages(reader, 4)
            await client.confirm(before[-1].position)
            cluster.heal()
            rolled = await anext(reader)
            assert isinstance(rolled, ordercast.Rollback)
            assert [message for _, message in rolled.annulled] == [i.id for i in before[1:]]
            (again,) = await messages(reader, 1)
            assert (again.payload, again.position, again.attempt) == (b"other", 3, 2)
            assert site_of(cluster[root]).stream.confirmed == 2


@in_loop
async def test_the_history_of_a_rollback_holds(tmp_path: Path) -> None:
    stores, out = tmp_path / "stores", tmp_path / "history"
    async with cluster_of(stores) as cluster:
        root = await cut_off_root(cluster)
        cluster.heal()
        await all_back(cluster)
        await cluster[root].flush("stable")
        await asyncio.gather(*(collected(cluster[site], 5, start=1) for site in "abc"))
        await asyncio.sleep(0.2)
    export(stores, out, ended=["a", "b", "c"])
    history = read_history(out)
    report = check_history(history)
    assert report.ok, report
    assert report.annulled == 3
    kinds = [event.kind for event in history.events if event.site == root]
    told = [kind for kind in kinds if kind in ("excluded", "rollback", "returned")]
    assert told in (
        ["rollback"],
        ["excluded", "rollback", "returned"],
    )  # it may hear of all at once


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@in_loop
async def test_all_sites_are_killed_at_once_and_go_on(tmp_path: Path, deliver: str) -> None:
    async with cluster_of(tmp_path, deliver) as cluster:
        await (await cluster["a"].multicast("alpha", b"one")).stable()
        receipts = [await cluster[site].multicast("alpha", site.encode()) for site in "abc"]
        await asyncio.gather(*(receipt.accepted() for receipt in receipts))
        for site in "abc":
            await cluster.kill(site)
        for site in "abc":
            await cluster.start(site)
        await (await cluster["b"].multicast("alpha", b"two")).stable()
        orders = [await collected(cluster[site], 5, start=1) for site in "abc"]
        payloads = [item.payload for item in orders[0]]
        assert sorted(payloads[1:]) == [b"a", b"b", b"c", b"two"]
        for order in orders[1:]:
            assert [item.id for item in order] == [item.id for item in orders[0]]


@in_loop
async def test_a_cold_start_with_a_torn_store_goes_on_without_its_past(tmp_path: Path) -> None:
    """All were killed. The site whose store is damaged does not start on it; without it, it returns
    as the next incarnation, and what it had acknowledged the others have."""
    async with cluster_of(tmp_path, "safe") as cluster:
        await (await cluster["c"].multicast("alpha", b"one")).stable()
        for site in "abc":
            await cluster.kill(site)
        (tmp_path / "c.db").write_bytes(b"torn" * 1024)
        for site in "ab":
            await cluster.start(site)
        with pytest.raises(ordercast.StoreCorrupt, match=r"c\.db"):
            await cluster.start("c")
        for path in tmp_path.glob("c.*"):
            path.unlink()
        node = await cluster.start("c")
        await (await node.multicast("alpha", b"two")).stable()  # waits until it is back
        assert node.incarnation > 1
        payloads = [item.payload for item in await collected(cluster["a"], 2, start=1)]
        assert payloads == [b"one", b"two"]
        assert [item.payload for item in await collected(node, 1, start=1)] == [b"two"]


@in_loop
async def test_behind_a_message_of_a_removed_producer_others_go_on() -> None:
    """The epoch ends before either has its place; the producer of the first is gone by then."""
    async with cluster_of(None) as cluster:
        root = root_of(cluster)
        others = [site for site in "abc" if site != root]
        node = cluster[others[0]]
        await (await node.produce("sink", 1, "alpha", [b"1"])).stable()
        if site_of(cluster[root]).core.manager.leads:  # then another site must, to be quick
            cluster.split([root], others)
            await (await node.multicast("alpha", b"without the root")).stable()
            cluster.heal()
            await all_back(cluster)
        cluster.split([root], others)
        gone = await node.produce("sink", 2, "alpha", [b"2"])
        rest = await node.multicast("alpha", b"rest")
        waiting = [asyncio.ensure_future(receipt.stable()) for receipt in (gone, rest)]
        await cluster[others[1]].change(RemoveProducer("sink"))
        refused, reached = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(refused, ordercast.UnknownGroup)
        assert reached is None
        with pytest.raises(ordercast.UnknownGroup):
            await gone.stable()
