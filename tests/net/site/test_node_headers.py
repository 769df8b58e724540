"""Headers, the time of sending and the addressed groups: with every way of sending, over restarts,
returns, readers and exports, and not before all sites have them."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.check.report import check_history
from ordercast.history.digest import digest
from ordercast.model.errors import ConfigError, TooLarge
from ordercast.model.features import FEATURES, HEADERS
from ordercast.net.export.history import collect
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.site.node import Node, site_of
from support.clusters.sites import GROUPS, read_messages, until
from support.harness.loops import in_loop

RED = {"colour": b"red"}
TWO = {"size": b"\x00\xff", "colour": b""}


@in_loop
async def test_every_way_of_sending_takes_headers() -> None:
    async with local_cluster(GROUPS) as cluster:
        a, b = cluster["a"], cluster["b"]
        began = time.time_ns()
        await a.multicast("beta", b"1", RED)
        await a.multicast("beta", b"2")  # it joins the batch
        await a.multicast("beta", b"3", headers=TWO)
        a.multicast_nowait("beta", b"4", RED)
        await a.multicast_many("beta", [b"5", b"6"], TWO)
        await a.multicast_to(["b", "c"], b"7", RED)
        await a.multicast(["beta", "alpha", "beta"], b"8", TWO)
        a.multicast_nowait(("alpha", "beta"), b"9", RED)
        each: list[dict[str, bytes] | None] = [RED, RED, None, TWO, {}, RED]
        await a.multicast_many("beta", [b"%d" % n for n in range(20, 26)], each)
        await (await a.multicast_many(["alpha", "beta"], [b"10", b"11"])).stable()
        ended = time.time_ns()
        found = await read_messages(b, 17, 1)
        assert [(item.payload, item.headers, item.groups) for item in found] == [
            (b"1", RED, ("beta",)),
            (b"2", {}, ("beta",)),
            (b"3", TWO, ("beta",)),
            (b"4", RED, ("beta",)),
            (b"5", TWO, ("beta",)),
            (b"6", TWO, ("beta",)),
            (b"7", RED, ()),
            (b"8", TWO, ("beta", "alpha")),
            (b"9", RED, ("alpha", "beta")),
            *((b"%d" % n, one or {}, ("beta",)) for n, one in enumerate(each, 20)),
            (b"10", {}, ("alpha", "beta")),
            (b"11", {}, ("alpha", "beta")),
        ]
        times = [item.sent_ns for item in found]
        assert began <= times[0] <= times[-1] <= ended
        assert times == sorted(times)
        flat = []
        async for batch in b.batches(1):
            assert isinstance(batch, ordercast.DeliveredBatch)
            flat += [(headers, batch.groups, batch.sent_ns) for headers in batch.headers]
            if batch.last == 17:
                break
        assert flat == [(item.headers, item.groups, item.sent_ns) for item in found]
        found[0].headers["colour"] = b"blue"
        assert found[0].headers == RED, "each caller has its own"


@in_loop
async def test_headers_that_are_wrong_are_refused_and_nothing_is_sent() -> None:
    async with local_cluster(GROUPS) as cluster:
        node = cluster["a"]
        wrong: Any
        for wrong, error in (
            ({"": b""}, ConfigError), ({"a": "text"}, ConfigError), ([1], ConfigError),
            ({"a": bytes(5_000)}, TooLarge), ({str(n): b"" for n in range(33)}, TooLarge),
        ):  # fmt: skip
            with pytest.raises(error):
                await node.multicast("alpha", b"x", wrong)
            with pytest.raises(error):
                await node.multicast(["alpha", "beta"], b"x", wrong)
            with pytest.raises(error):
                node.multicast_nowait("alpha", b"x", wrong)
            with pytest.raises(error):
                await node.multicast_many("alpha", [b"x"], wrong)
            with pytest.raises(error):
                await node.multicast_many("alpha", [b"x", b"y"], [RED, wrong])
            with pytest.raises(error):
                await node.multicast_to(["a"], b"x", wrong)
        with pytest.raises(ConfigError, match="headers: 1 mappings for 2 messages"):
            await node.multicast_many("alpha", [b"x", b"y"], [RED])
        assert site_of(node).core.admission.messages == 0
        receipt = await node.multicast("alpha", b"x", {})
        assert receipt.seq == 1


async def follow(node: Node, count: int, confirmed: int) -> list[Any]:
    """What the reader `billing` gets, which confirms up to a position then."""
    found: list[Any] = []
    items = node.deliveries(reader="billing", groups=["alpha"])
    async for item in items:
        if isinstance(item, ordercast.Delivery):
            found.append(item)
            if len(found) == count:
                await node.confirm(confirmed, reader="billing")
                await items.aclose()
                break
    return found


@in_loop
async def test_stores_backlogs_and_readers_keep_them(tmp_path: Path) -> None:
    """A batch is cut where a reader begins or ends within it."""
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        a = cluster["a"]
        await a.multicast_many("alpha", [b"%d" % n for n in range(10)], RED)
        await a.multicast("alpha", b"10")
        await (await a.multicast("alpha", b"11", TWO)).stable()
        expected = [*([RED] * 10), {}, TWO]
        first = await read_messages(cluster["b"], 12, 1)
        assert [item.headers for item in first] == expected
        assert await follow(cluster["b"], 12, 4) == first
        await cluster.restart("b")
        b = cluster["b"]
        assert await read_messages(b, 12, 1) == first
        assert await follow(b, 8, 4) == first[4:]
        ranged = [item async for item in b.read("billing", 3, 7)]
        assert ranged == first[2:7]
        cut = await anext(aiter(b.batches(6)))
        assert isinstance(cut, ordercast.DeliveredBatch)
        assert (cut.position, cut.headers, cut.sent_ns) == (6, [RED] * 5, first[5].sent_ns)


@in_loop
async def test_a_site_that_was_away_is_given_them_too(tmp_path: Path) -> None:
    options: dict[str, Any] = {"timeouts": {"suspect": "300ms"}, "durability": "os"}
    groups = {"alpha": ["a", "b", "c"]}
    async with local_cluster(groups, dir=tmp_path, **options) as cluster:
        await (await cluster["b"].multicast(["alpha"], b"before", RED)).stable()
        await cluster.kill("c")
        await (await cluster["a"].multicast("alpha", b"without", TWO)).stable()
        found = await read_messages(await cluster.start("c"), 2, 1)
        assert [(item.payload, item.headers, item.groups) for item in found] == [
            (b"before", RED, ("alpha",)),
            (b"without", TWO, ("alpha",)),
        ]
        times = [item.sent_ns for item in found]
        assert times == [item.sent_ns for item in await read_messages(cluster["a"], 2, 1)]


@in_loop
async def test_an_export_has_them_and_its_digests_cover_the_headers(tmp_path: Path) -> None:
    async with local_cluster(GROUPS, dir=tmp_path, durability="os") as cluster:
        await cluster["a"].multicast("alpha", b"x", TWO)
        await cluster["a"].multicast("alpha", b"y")
        await (await cluster["c"].multicast(["beta", "alpha"], b"z")).stable()
        found = {item.payload: item for item in await read_messages(cluster["b"], 3, 1)}
        x, y, z = (found[payload] for payload in (b"x", b"y", b"z"))
        await cluster["b"].confirm(3)
    _, history = collect(tmp_path)
    sent = {row.digest: row for row in history.sent}
    first = sent[digest(b"x", x.header_items)]
    assert first.headers == '{"colour":"","size":"AP8="}'
    assert (first.sent_ns, first.addressed) == (x.sent_ns, None)
    assert (sent[digest(b"y")].headers, sent[digest(b"y")].addressed) == (None, None)
    assert sent[digest(b"z")].addressed == "beta,alpha"
    rows = {row.position: row for row in history.deliveries if row.site == "b"}
    for item in (x, y, z):
        row = rows[item.position]
        assert row.digest == digest(item.payload, item.header_items)
        assert (row.sent_ns, bool(row.headers)) == (item.sent_ns, bool(item.headers))
    assert rows[z.position].addressed == "beta,alpha"
    assert check_history(history).ok


def without_headers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Sites that start from now on run a release without headers. Returns what ends this."""
    meaning = FEATURES[HEADERS]
    monkeypatch.delitem(FEATURES, HEADERS)
    return lambda: monkeypatch.setitem(FEATURES, HEADERS, meaning)


async def sought(node: Node, payload: bytes) -> ordercast.Delivery:
    """The last message with this payload that the site has delivered, when it has one."""
    async for item in node.deliveries(1):
        if isinstance(item, ordercast.Delivery) and item.payload == payload:
            return item
    raise AssertionError("deliveries end")


async def refused(cluster: LocalCluster, site: str) -> bool:
    with pytest.raises(ConfigError, match="headers: this cluster does not use them yet, because"):
        await cluster[site].multicast("alpha", b"x", RED)
    await cluster[site].multicast(["alpha", "beta"], b"plain " + site.encode())
    item = await sought(cluster["b"], b"plain " + site.encode())
    assert (item.groups, item.headers) == ((), {})
    return not item.sent_ns


@pytest.mark.parametrize("policy", ["exclude", "wait"])
def test_headers_are_refused_until_every_site_is_upgraded(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgraded = without_headers(monkeypatch)

    @in_loop
    async def main() -> None:
        options: dict[str, Any] = {"on_failure": policy, "durability": "os"}
        async with local_cluster(GROUPS, dir=tmp_path, **options) as cluster:
            assert await refused(cluster, "a")
            upgraded()
            for site in "ab":
                await cluster.restart(site)
                assert await refused(cluster, site)
            await cluster.restart("c")
            for site in "abc":
                layout = site_of(cluster[site]).core
                await until(lambda layout=layout: HEADERS in layout.layout.features)  # type: ignore[misc]
            receipt = await cluster["a"].multicast(["alpha", "beta"], b"now", RED)
            await receipt.stable()
            item = await sought(cluster["c"], b"now")
            assert (item.payload, item.headers, item.groups) == (b"now", RED, ("alpha", "beta"))
            assert item.sent_ns > 0

    main()
    _, history = collect(tmp_path)
    assert check_history(history).ok
    shown = [row.headers for row in history.deliveries if row.headers is not None]
    assert shown
    assert all(json.loads(text) == {"colour": "cmVk"} for text in shown)
