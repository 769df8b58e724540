"""Changes of a running cluster, in one process: who is told what, where in the stream, and what
becomes of messages that are under way meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.epochs.streams import ends
from ordercast.model.epochs import AddGroup, JoinGroup
from ordercast.model.errors import ConfigError, Error, UnknownGroup
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site import receipts
from ordercast.net.site.node import Node, site_of
from ordercast.net.site.stream import EpochOpened
from support.clusters.sites import GROUPS, is_quiet, read, turns, until
from support.harness.loops import in_loop

QUICK: dict[str, Any] = {"timeouts": {"suspect": "100ms"}}
APART = {"alpha": ["a", "b"], "beta": ["c", "d"]}


def told(items: list[Any]) -> list[Any]:
    """Epochs by their number and this site's groups, messages by what they say."""
    return [
        (item.epoch, item.groups) if isinstance(item, EpochOpened) else item.payload
        for item in items
    ]


async def settled(cluster: LocalCluster) -> None:
    """All sites have heard the same."""
    nodes = cluster.nodes.values()
    last = max(site_of(node).core.layout.count for node in nodes)
    await until(lambda: all(site_of(node).core.layout.count >= last for node in nodes))


async def founded(cluster: LocalCluster) -> None:
    """The voters have met: from now on a majority of them decides."""
    await until(
        lambda: all(site_of(node).core.layout.count >= 1 for node in cluster.nodes.values())
    )


async def say(node: Node, group: str, payload: bytes) -> None:
    await (await node.multicast(group, payload)).stable()


@in_loop
async def test_a_joiner_begins_with_the_epoch_that_admits_it() -> None:
    async with local_cluster(GROUPS, **QUICK) as cluster:
        a, c = cluster["a"], cluster["c"]
        await say(a, "alpha", b"before")
        await c.join("alpha")
        await say(a, "alpha", b"after")
        opened, first = await read(c, 2)
        assert (opened.groups, opened.joined) == (("alpha", "beta"), ("alpha",))
        assert (opened.epoch, opened.position, opened.after) == (2, 0, (1,))
        assert dict(opened.members) == {"alpha": ("a", "b", "c"), "beta": ("b", "c")}
        assert (first.payload, first.position, first.epoch) == (b"after", 1, 2)
        seen = await read(a, 3)
        assert told(seen) == [b"before", (2, ("alpha",)), b"after"]
        assert (seen[1].joined, seen[1].position) == ((), 1)


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])
def test_each_kind_of_change_opens_an_epoch_in_which_messages_flow(
    stored: bool, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        options: dict[str, Any] = {"dir": tmp_path, "durability": "os"} if stored else {}
        async with local_cluster(GROUPS, **QUICK, **options) as cluster:
            a, b, c = cluster["a"], cluster["b"], cluster["c"]
            await b.add_group("gamma", ["a", "c"])
            await say(c, "gamma", b"1")
            await a.switch_protocol("centralized")
            await say(c, "gamma", b"2")
            await a.use_builder("balanced")
            await say(b, "beta", b"3")
            await c.switch_protocol("propagation", site="c")
            await say(c, "gamma", b"4")
            await b.leave("beta", "c")  # and is in gamma still
            await say(c, "beta", b"5")
            await b.remove_group("gamma")  # c is in none now
            await say(c, "beta", b"6")
            with pytest.raises(UnknownGroup, match="there is no group 'gamma'"):
                await a.multicast("gamma", b"")
            await settled(cluster)
            status = await b.status()
            assert status["protocol"] == "propagation"
            assert [epoch["builder"] for epoch in status["epochs"]] == ["balanced"]
            at_a: list[Any] = [b"1", (3, ("alpha", "gamma")), b"2", (4, ("alpha", "gamma"))]
            at_a += [(5, ("alpha", "gamma")), b"4", (6, ("alpha", "gamma")), (7, ("alpha",))]
            assert told(await read(a, 9)) == [(2, ("alpha", "gamma")), *at_a]
            assert [m for m in told(await read(b, 9)) if isinstance(m, bytes)] == [b"3", b"5", b"6"]
            at_c = [m for m in told(await read(c, 9)) if isinstance(m, bytes)]
            assert at_c == [b"1", b"2", b"3", b"4"]
            assert (await c.status())["epoch"] == 0

    run()


@in_loop
async def test_domains_merge_and_split_and_the_others_do_not_notice() -> None:
    groups = {**APART, "rest": ["x", "y"]}
    async with local_cluster(groups, **QUICK) as cluster:
        a, d, x = cluster["a"], cluster["d"], cluster["x"]
        await say(x, "rest", b"1")
        await a.add_group("both", ["a", "d"])
        await say(d, "both", b"merged")
        assert (await a.status())["epoch"] == (await d.status())["epoch"] == 4
        await a.remove_group("both")
        await say(a, "alpha", b"split")
        await say(d, "beta", b"too")
        await say(x, "rest", b"2")
        assert told(await read(a, 4)) == [
            (4, ("alpha", "both")), b"merged", (5, ("alpha",)), b"split",
        ]  # fmt: skip
        assert told(await read(d, 4))[2:] == [(6, ("beta",)), b"too"]
        rest = await read(x, 2)
        assert told(rest) == [b"1", b"2"]
        assert {item.epoch for item in rest} == {3}


@in_loop
async def test_what_cannot_be_is_refused_and_nothing_happens() -> None:
    async with local_cluster(GROUPS, **QUICK) as cluster:
        a = cluster["a"]
        for wrong, why in [
            (a.join("alpah", "c"), "there is no group 'alpah'.*alpha"),
            (a.join("alpha", "z"), "there is no site 'z'"),
            (a.join("alpha", "b"), "site 'b' is in group 'alpha' already"),
            (a.leave("beta"), "site 'a' is not in group 'beta'"),
            (a.add_group("Alpha", ["a"]), "group 'alpha' is there already"),
            (a.add_group("no name", ["a"]), "no name"),
            (a.add_group("gamma", []), "gamma"),
            (a.retire_site("a"), "site 'a' is a voter"),
            (a.switch_protocol("nope"), "there is no protocol 'nope'"),
            (a.use_builder("nope"), "nope"),
            (a.change(JoinGroup("alpha", "c"), AddGroup("alpha", ("a",))), "is there already"),
            (a.change(), "^change: there is no edit in it$"),
        ]:
            with pytest.raises(ConfigError, match=why) as caught:
                await wrong
            assert "\n" not in str(caught.value)
        assert site_of(a).core.layout.last_epoch == 1
        await say(a, "alpha", b"x")
        assert told(await read(a, 1)) == [b"x"]


@in_loop
async def test_messages_are_accepted_while_a_change_waits_and_ordered_behind_it(
    tmp_path: Path,
) -> None:
    async with local_cluster(
        GROUPS, dir=tmp_path, durability="os", on_failure="wait", **QUICK
    ) as cluster:
        a, b = cluster["a"], cluster["b"]
        await say(a, "alpha", b"before")
        await founded(cluster)
        await cluster.kill("c")
        change = asyncio.create_task(a.join("beta"))
        await until(lambda: bool(site_of(b).core.layout.closing and site_of(a).core.layout.closing))
        await until(
            lambda: all(engine.epoch_state.closed for engine in site_of(a).core.engines.values())
        )
        receipt = await a.multicast("alpha", b"meanwhile")
        await receipt.accepted()
        told_now = (await a.status())["changes"]
        assert [change["edits"] for change in told_now] == [["a joins beta"]]
        manager = (await a.status())["manager"]
        leads = cluster[manager] if manager in cluster.nodes else a
        assert [each["waits_for"] for each in (await leads.status())["changes"]] in (
            [["c"]],
            [None],
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await receipt.ordered()
        assert not change.done()
        await cluster.start("c")
        await change
        await receipt.stable()
        assert told(await read(b, 3)) == [b"before", (2, ("alpha", "beta")), b"meanwhile"]
        assert (await a.status())["changes"] == []


@in_loop
async def test_what_no_epoch_takes_raises_unknown_group_and_its_numbers_begin_anew(
    tmp_path: Path,
) -> None:
    groups = {**GROUPS, "gamma": ["a", "b"]}
    async with local_cluster(
        groups, dir=tmp_path, durability="os", on_failure="wait", **QUICK
    ) as cluster:
        a = cluster["a"]
        kept = await a.multicast("gamma", b"in time")
        await kept.stable()
        await founded(cluster)
        await cluster.kill("c")
        change = asyncio.create_task(a.remove_group("gamma"))
        await until(lambda: bool(site_of(a).core.layout.closing))
        await until(
            lambda: all(engine.epoch_state.closed for engine in site_of(a).core.engines.values())
        )
        late = [await a.multicast("gamma", b"%d" % n) for n in range(3)]
        waiting = asyncio.gather(*(r.ordered() for r in late[:2]), return_exceptions=True)
        await late[1].accepted()
        assert site_of(a).core.window.unstable == 3
        await cluster.start("c")
        await change
        assert all(isinstance(error, UnknownGroup) for error in await waiting)
        for receipt in late:
            with pytest.raises(UnknownGroup, match=r"message \d to gamma was not sent"):
                await receipt.stable()
        await kept.stable()
        await a.flush("stable")
        assert site_of(a).core.window.unstable == site_of(a).core.admission.messages == 0
        await a.add_group("gamma", ["a", "c"])
        again = await a.multicast("gamma", b"again")
        await again.stable()
        assert again.seq == late[0].seq == 2
        with pytest.raises(UnknownGroup):  # although there is such a message now
            await late[0].stable()
        seen = await read(a, 4)
        assert [m for m in told(seen) if isinstance(m, bytes)] == [b"in time", b"again"]
        a = await cluster.restart("a")  # who asks a later run is told as much
        await site_of(a).sender.reached("stable", "gamma", again.seq)
        with pytest.raises(UnknownGroup):
            await site_of(a).sender.reached("stable", "gamma", again.seq + 1)


@in_loop
async def test_epochs_are_read_again_after_a_restart_at_their_places(tmp_path: Path) -> None:
    async with local_cluster(
        GROUPS, dir=tmp_path, durability="os", on_failure="wait", **QUICK
    ) as cluster:
        a, b = cluster["a"], cluster["b"]
        for n in range(3):
            await say(a, "alpha", b"%d" % n)
            await a.switch_protocol("centralized" if n % 2 == 0 else "propagation")
        await say(a, "alpha", b"last")
        whole = told(await read(b, 7))
        assert whole == [
            b"0", (2, ("alpha", "beta")), b"1", (3, ("alpha", "beta")), b"2",
            (4, ("alpha", "beta")), b"last",
        ]  # fmt: skip
        for _ in range(2):
            b = await cluster.restart("b")
            assert told(await read(b, 7)) == whole
            assert told(await read(b, 5, start=2)) == whole[1:6]  # behind 1 stands the epoch 2
            assert told(await read(b, 3, start=3)) == whole[3:6]
            batches = [batch async for batch in _some(b.batches(), 7)]
            assert [getattr(batch, "epoch", None) for batch in batches] == [1, 2, 2, 3, 3, 4, 4]
        await b.confirm(3)
        b = await cluster.restart("b")
        assert told(await read(b, 2)) == whole[5:]
        items = b.deliveries(start=5)
        assert await is_quiet(items)
        await say(a, "alpha", b"more")
        assert told([await anext(items)]) == [b"more"]


async def _some(items: Any, count: int) -> Any:
    async for item in items:
        yield item
        count -= 1
        if not count:
            return


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_all_sites_killed_within_a_change_finish_it_when_they_are_back(
    order: str, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        async with local_cluster(
            GROUPS, dir=tmp_path, durability="os", on_failure="wait", **QUICK
        ) as cluster:
            a = cluster["a"]
            await say(a, "alpha", b"before")
            receipt = await a.multicast("alpha", b"under way")
            await founded(cluster)
            await cluster.kill("c")
            change = asyncio.create_task(a.change(JoinGroup("alpha", "c"), name="mine"))
            await until(lambda: bool(site_of(a).core.layout.closing))
            await receipt.accepted()
            await cluster.kill("b")
            await cluster.kill("a")
            with pytest.raises(Error, match="the change was asked for, and may be done"):
                await change
            for site in order:
                await cluster.start(site)
            await cluster["b"].change(JoinGroup("alpha", "c"), name="mine")  # not done twice
            await settled(cluster)
            await say(cluster["c"], "alpha", b"after")
            assert told(await read(cluster["c"], 2))[-1] == b"after"
            messages = [m for m in told(await read(cluster["b"], 4)) if isinstance(m, bytes)]
            assert messages == [b"before", b"under way", b"after"]
            assert site_of(cluster["a"]).core.layout.last_epoch == 2

    run()


@in_loop
async def test_a_change_waits_for_a_majority_and_a_cancelled_one_may_be_done() -> None:
    async with local_cluster({"alpha": ["a", "b", "c"]}, **QUICK) as cluster:
        a = cluster["a"]
        await a.add_group("beta", ["a"])
        cancelled = asyncio.create_task(a.add_group("gamma", ["a"]))
        await asyncio.sleep(0)
        cancelled.cancel()
        await until(lambda: "gamma" in site_of(a).core.layout.groups)
        for site in "bc":
            await cluster.kill(site)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await a.add_group("delta", ["a"])
        assert "delta" not in site_of(a).core.layout.groups


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])
def test_a_site_is_added_joins_restarts_and_is_retired(stored: bool, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        options: dict[str, Any] = (
            {"dir": tmp_path, "durability": "os", "on_failure": "wait"} if stored else {}
        )
        async with local_cluster(GROUPS, **QUICK, **options) as cluster:
            a = cluster["a"]
            d = await cluster.add("d")
            assert d.admitted
            assert (await d.status())["epoch"] == 0
            await say(d, "alpha", b"from outside")
            await d.join("alpha")
            await say(a, "alpha", b"to d")
            assert told(await read(d, 2)) == [(2, ("alpha",)), b"to d"]
            if stored:
                d = await cluster.restart("d")
                await say(d, "alpha", b"again")
                assert told(await read(d, 3))[1:] == [b"to d", b"again"]
            with pytest.raises(ConfigError, match="site 'd' runs already"):
                await cluster.add("d")
            await a.retire_site("d")
            await until(lambda: d.retired)
            await turns()
            assert not d.admitted
            with pytest.raises(UnknownGroup, match="site 'd' is retired"):
                await d.multicast("alpha", b"")
            with pytest.raises(ConfigError, match="there is no site 'd'"):
                await cluster.retire("d")
            await cluster.kill("d")
            e = await cluster.add("e")
            await e.join("alpha")
            await cluster.retire("e")
            assert e.retired
            await say(a, "alpha", b"without d")
            with pytest.raises(ConfigError, match="there is no site 'e'"):
                _ = cluster["e"]
            last = (await read(cluster["b"], 8 if stored else 7))[-1]
            assert last.payload == b"without d"

    run()


@in_loop
async def test_a_newcomer_can_send_nothing_before_it_is_admitted() -> None:
    async with local_cluster(GROUPS, **QUICK) as cluster:
        cluster._added["d"] = None  # its operator is too early
        d = await cluster.start("d")
        for wrong in (d.multicast("alpha", b""), d.multicast_to(["a"], b"")):
            with pytest.raises((UnknownGroup, ConfigError)):
                await wrong
        await cluster["a"].add_site("d", "")
        await until(lambda: d.admitted)
        await say(d, "alpha", b"x")
        assert told(await read(cluster["a"], 1)) == [b"x"]


@in_loop
async def test_a_window_that_is_full_opens_again_when_its_messages_are_refused(
    tmp_path: Path,
) -> None:
    groups = {**GROUPS, "gamma": ["a", "b"]}
    limits = {"window_messages": 2}
    async with local_cluster(
        groups, dir=tmp_path, durability="os", on_failure="wait", limits=limits, **QUICK
    ) as cluster:
        a = cluster["a"]
        await say(a, "gamma", b"x")
        await founded(cluster)
        await cluster.kill("c")
        change = asyncio.create_task(a.remove_group("gamma"))
        await until(lambda: bool(site_of(a).core.layout.closing))
        await until(
            lambda: all(engine.epoch_state.closed for engine in site_of(a).core.engines.values())
        )
        for _ in range(2):
            await a.multicast("gamma", b"")
        waits = [asyncio.create_task(a.multicast("gamma", b"in line")) for _ in range(3)]
        other = asyncio.create_task(a.multicast("alpha", b"in line too"))
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in (*waits, other))
        await cluster.start("c")
        await change
        for task in waits:
            with pytest.raises(UnknownGroup):
                await task
        await (await other).stable()


@in_loop
async def test_receipts_of_streams_that_are_forgotten_are_stable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups and lists that nobody sends to any more are forgotten, also by the stages."""
    monkeypatch.setattr(ends, "FEW", 0)
    monkeypatch.setattr(receipts, "FEW", 0)
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        a = cluster["a"]
        sent = [await a.multicast_to(["a", "c"], b"x")]
        for number in range(10):
            await a.add_group(f"passing{number}", ["a", "b"])
            sent.append(await a.multicast(f"passing{number}", b"x"))
            await sent[-1].stable()
            await a.remove_group(f"passing{number}")
        known = {group for last in site_of(a).stages._last.values() for group in last}
        assert sum(receipt.group not in known for receipt in sent) >= 2
        async with asyncio.timeout(20):
            for receipt in sent:
                await receipt.stable()
        again = await a.multicast_to(["a", "c"], b"y")
        assert again.seq > sent[0].seq
        await again.stable()
