"""Messages with ids of the sender's own, through daemons and nodes: over kills of sites and of the
program, and when they come too late."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from net.client.test_producers import OUTSIDE, delivered, numbered
from net.client.test_several_addresses import client, running_three
from ordercast.core import ids as core_ids
from ordercast.model.epochs import ID_WINDOW, RemoveProducer
from ordercast.model.errors import ConfigError, Error, Expired
from ordercast.model.limits import IDS
from ordercast.model.messages import MARK_BITS
from ordercast.net.local import local_cluster
from ordercast.net.site.copies import ids as site_ids
from ordercast.net.site.node import site_of
from ordercast.net.store.inspection import inspect_store
from support.clusters.killed_daemons import send_over_kills
from support.clusters.served import served
from support.clusters.sites import until
from support.harness.loops import in_loop


@contextmanager
def window_of(most: int) -> Iterator[None]:
    with patch.object(core_ids, "REMEMBERED", most), patch.object(site_ids, "IDS", most):
        yield


async def sent(sender: Any, chosen: str, payload: bytes = b"", **options: Any) -> None:
    body = payload or chosen.encode()
    await (await sender.multicast("alpha", body, id=chosen, **options)).stable()


@in_loop
async def test_what_a_killed_daemon_has_taken_is_delivered_once_and_in_order(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b", "c") as remote:
        await send_over_kills(
            running, remote, lambda n: remote.multicast("alpha", b"%d" % n, id=f"order {n}")
        )
        async with client(running, "b") as later:  # the program comes back with its ids alone
            for number in range(1, 63):
                again = await later.multicast("alpha", b"%d" % number, id=f"order {number}")
            await again.stable()
            told = (await later.status())["producers"]
            assert told == [{"producer": ID_WINDOW, "group": "alpha", "number": 62}]
        for site in "abc":
            assert await delivered(running, site, b"62") == numbered(range(1, 63))


@in_loop
async def test_a_batch_under_one_id_is_all_or_nothing_and_each_sender_has_its_own(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running, client(running, "a") as remote:
        for _ in range(3):
            receipt = await remote.multicast_many("alpha", [b"1", b"2", b"3"], id="batch")
            await receipt.stable()
        await sent(remote, "batch", b"a copy")
        node = running.cluster["b"]
        await sent(node, "batch", b"of the node")
        await sent(node, "batch", b"of the node, again")
        headed = await node.multicast("alpha", b"end", {"colour": b"red"}, id="end")
        await headed.stable()
        want = [b"1", b"2", b"3", b"of the node", b"end"]
        for site in "abc":
            assert await delivered(running, site, b"end") == want


@in_loop
async def test_what_comes_too_late_is_refused_and_not_sent_twice(tmp_path: Path) -> None:
    with window_of(6):
        async with running_three(tmp_path) as running, client(running, "a", "b") as remote:
            mark = await remote.id_mark("alpha")
            await sent(remote, "first", since=mark)
            await sent(remote, "first", b"a copy", since=mark)
            for number in range(8):
                await sent(remote, str(number))
            assert await remote.id_mark("alpha") == mark + 9
            for sender in (remote, running.cluster["b"]):
                with pytest.raises(Expired, match="id 'first' came too late for group 'alpha'"):
                    await sent(sender, "first", b"too late", since=mark)
            await sent(remote, "7", b"a copy", since=mark)  # it is remembered
            await running.kill("a")
            await until(lambda: remote.site == "b")
            with pytest.raises(Expired):
                await sent(remote, "first", b"too late", since=mark)
            await sent(remote, "end")
            want = [b"first", *numbered(range(8)), b"end"]
            assert await delivered(running, "c", b"end") == want


@in_loop
async def test_more_than_the_window_may_be_sent_at_once(tmp_path: Path) -> None:
    with window_of(24):
        async with running_three(tmp_path) as running:
            node = running.cluster["b"]
            mark = await node.id_mark("alpha")
            receipts = [
                await node.multicast("alpha", b"%d" % number, id=str(number))
                for number in range(100)
            ]
            for receipt in receipts:
                await receipt.stable()
            assert await node.id_mark("alpha") == mark + 100


@in_loop
async def test_a_full_window_takes_no_more_of_a_store_than_docs_ids_says(tmp_path: Path) -> None:
    async with local_cluster({"alpha": ["a"]}, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        for part in range(5):
            count = IDS // 4
            ids = [f"{part}.{number}" for number in range(count)]
            receipts = [await node.multicast("alpha", b"x", id=each) for each in ids]
            for receipt in receipts:
                await receipt.stable()
        await node.confirm(len(ids) * 5)
    size = inspect_store(tmp_path / "a.db").tables["checkpoint"]["bytes"]
    assert IDS * 25 < size < IDS * (36 + len("alpha")) + 1_000


@in_loop
async def test_a_group_that_has_forgotten_its_ids_takes_no_mark_from_before(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running, client(running, "a") as remote:
        mark = await remote.id_mark("alpha")
        await sent(remote, "x", since=mark)
        await remote.change(RemoveProducer(ID_WINDOW, "alpha"))
        with pytest.raises(Expired):
            await sent(remote, "x", b"again", since=mark)
        await sent(remote, "y")
        assert await delivered(running, "c", b"y") == [b"x", b"y"]


@in_loop
async def test_ids_are_texts_for_one_group(tmp_path: Path) -> None:
    groups = {"alpha": ["a", "b"], "beta": ["b", "c"]}
    async with served(tmp_path, groups) as running:
        node = running.cluster["a"]
        with pytest.raises(ConfigError, match="id: '' is not 1 to 128 printable characters"):
            await node.multicast("alpha", b"", id="")
        with pytest.raises(ConfigError, match="id: 7 is not 1 to 128 printable"):
            await node.multicast("alpha", b"", id=7)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="since: 0 is no mark that id_mark has told"):
            await node.multicast("alpha", b"", id="x", since=0)
        with pytest.raises(ConfigError, match="goes to one group, not to a list"):
            await node.multicast_many(["alpha"], [b""], id="x")
        with pytest.raises(Error, match="is far above the mark"):
            await node.multicast("alpha", b"", id="x", since=(await node.id_mark("alpha")) + 9_999)
        with pytest.raises(Error, match="is far above the mark"):
            await node.multicast("beta", b"", id="x", since=(await node.id_mark("beta")) + 9_999)
        await sent(node, "x" * 128)
        assert site_of(node).core.layout.groups["alpha"] == ("a", "b")
        assert IDS == 2_048


@in_loop
async def test_ids_go_through_daemons_of_other_sites_too(tmp_path: Path) -> None:
    async with (
        running_three(tmp_path, OUTSIDE) as running,
        client(running, "d", "e", "a") as remote,
    ):
        await send_over_kills(
            running, remote, lambda n: remote.multicast("alpha", b"%d" % n, id=f"order {n}")
        )
        async with client(running, "e") as later:  # the program comes back with its ids alone
            for number in range(1, 63):
                again = await later.multicast("alpha", b"%d" % number, id=f"order {number}")
            await again.stable()
            assert await later.id_mark("alpha") & ((1 << MARK_BITS) - 1) == 62
        for site in "abc":
            assert await delivered(running, site, b"62") == numbered(range(1, 63))


@in_loop
async def test_a_site_that_is_no_member_asks_what_comes_too_late(tmp_path: Path) -> None:
    with window_of(6):
        async with running_three(tmp_path, OUTSIDE) as running, client(running, "d") as remote:
            mark = await remote.id_mark("alpha")
            await sent(remote, "first", since=mark)
            await sent(remote, "first", b"a copy", since=mark)
            for number in range(8):
                await sent(remote, str(number))
            for sender in (remote, running.cluster["e"]):
                with pytest.raises(Expired, match="id 'first' came too late for group 'alpha'"):
                    await sent(sender, "first", b"too late", since=mark)
            await sent(remote, "7", b"a copy", since=mark)  # it is remembered
            await sent(remote, "end")
            want = [b"first", *numbered(range(8)), b"end"]
            assert await delivered(running, "c", b"end") == want


@in_loop
async def test_other_sites_than_members_may_send_more_than_the_window_at_once(
    tmp_path: Path,
) -> None:
    with window_of(24):
        async with running_three(tmp_path, OUTSIDE) as running:
            node = running.cluster["e"]
            receipts = [
                await node.multicast("alpha", b"%d" % number, id=str(number))
                for number in range(100)
            ]
            for receipt in receipts:
                await receipt.stable()
            with pytest.raises(ConfigError, match="goes to one group, not to a list"):
                await node.multicast_many(["alpha"], [b""], id="x")
