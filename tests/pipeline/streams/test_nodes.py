"""Daemons as a feed, without Spark: the source's own reader, kills, losses, grants."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordercast import Client, Delivery, connect
from ordercast.model.errors import ConfigError, Error, NotGranted
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from ordercast.net.site.node import site_of
from ordercast.pipeline.streams import columns
from ordercast.pipeline.streams.feed import DataLoss
from ordercast.pipeline.streams.options import source_options
from ordercast.pipeline.streams.source import BatchReader, QueryReader
from support.clusters.served import Served, served
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b"], "beta": ["a"]}
ALL = ["send:*", "read:*", "observe:*", "admin:*"]


async def send(client: Client, *texts: str) -> None:
    for text in texts:
        group = {"a": "alpha", "b": "beta"}[text[0]]
        await (await client.multicast(group, text.encode(), {"h": text.encode()})).stable()


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    found = tmp_path / "certs"
    write_certificates("local", ["a", "b"], found)
    add_client_certificates("local", ["spark", "other"], found)
    return found


def tls_options(sites: Served, certs: Path, name: str = "spark", **more: str) -> dict[str, str]:
    nodes = ",".join(sites.address(site) for site in "ab")
    return {"nodes": nodes, "cert": str(certs / "clients" / f"{name}.pem"), **more}


def open_tls(tmp_path: Path, certs: Path, *grants: str) -> Any:
    table = {"socket": ALL, "site:*": ALL, "client:spark": list(grants)}
    return served(tmp_path, GROUPS, remote=True, tls={"dir": str(certs)}, grants=table)


def rows_of(reader: Any, partitions: list[Any]) -> list[dict[str, Any]]:
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


def stream(**options: str) -> QueryReader:
    return QueryReader(source_options({"timeout": "20", "readerName": "spark", **options}))


class Query:
    """What Spark does with a reader, batch by batch, in a thread."""

    def __init__(self, reader: QueryReader, start: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self.start = start

    async def batch(self) -> list[tuple[str, int, str]]:
        return [
            (row["site"], row["position"], (row["payload"] or b"").decode())
            for row in await asyncio.to_thread(self._batch)
        ]

    def _batch(self) -> list[dict[str, Any]]:
        reader = self.reader
        if self.start is None:
            self.start = reader.initialOffset()
        else:
            reader.commit(self.start)
        end = reader.latestOffset(self.start, reader.getDefaultReadLimit())
        found = rows_of(reader, reader.partitions(self.start, end))
        self.start = end
        return found

    async def stop(self) -> None:
        await asyncio.to_thread(self.reader.stop)


async def eventually(query: Query, count: int) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    while len(found) < count:
        found += await query.batch()
    return found


@in_loop
async def test_a_query_reads_each_site_in_its_order_and_leaves_the_application_alone(
    tmp_path: Path, certs: Path
) -> None:
    async with open_tls(tmp_path, certs, "read:*") as sites, sites.connect("a") as client:
        await send(client, "a1", "b1", "a2")
        query = Query(stream(**tls_options(sites, certs, readerName="lake", includeHeaders="true")))
        found = await eventually(query, 5)
        assert sorted(found) == [
            ("a", 1, "a1"), ("a", 2, "b1"), ("a", 3, "a2"), ("b", 1, "a1"), ("b", 2, "a2"),
        ]  # fmt: skip
        await send(client, "a3")
        assert sorted(await eventually(query, 2)) == [("a", 4, "a3"), ("b", 3, "a3")]
        await query.batch()
        status = await client.status()
        assert status["confirmed"] == 0
        assert status["readers"]["lake"]["confirmed"] == 3  # one batch late
        items = client.deliveries()
        first = next(
            item for item in [await anext(items) for _ in range(2)] if type(item) is Delivery
        )
        assert first.payload == b"a1"
        await query.stop()


@in_loop
async def test_columns_are_those_of_the_table_and_of_the_message(tmp_path: Path) -> None:
    async with served(tmp_path, GROUPS) as sites, sites.connect("a") as client:
        await send(client, "b1")
        options = local(sites, sites="a", includeHeaders="true")
        reader = BatchReader(source_options(options))
        (row,) = await asyncio.to_thread(lambda: rows_of(reader, reader.partitions()))
        assert (row["group_name"], row["origin"], row["seq"], row["epoch"]) == ("beta", "a", 1, 1)
        assert dict(row["headers"]) == {"h": b"b1"}
        assert row["sent_at"].timestamp() == pytest.approx(row["sent_ns"] / 1e9, abs=1e-5)
        assert (row["request"], row["part"], len(row["client"])) == (1, 0, 32)
        assert row["digest"] is not None
        assert "spark" not in (await client.status())["readers"]  # a batch leaves nothing behind


def local(running: Served, /, **options: str) -> dict[str, str]:
    """The sites' sockets, by a cluster file."""
    file = running.directory / "cluster.toml"
    lines = ["[cluster]", 'name = "local"', 'durability = "os"']
    for n, site in enumerate("ab"):
        lines += [f"[sites.{site}]", f'address = "127.0.0.1:{9000 + n}"']
    lines += ["[groups]", "alpha = ['a', 'b']", "beta = ['a']"]
    file.write_text("\n".join(lines))
    return {"nodes": str(file), "dir": str(running.directory), "timeout": "20", **options}


@in_loop
async def test_an_arrow_batch_ends_when_its_payloads_are_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of Arrow holds 2 GiB, and so many messages as a batch has may have more."""
    monkeypatch.setattr(columns, "BATCH_BYTES", 100)
    async with served(tmp_path, {"alpha": ["a"]}) as sites, sites.connect("a") as client:
        sent = [bytes([n]) * 60 for n in range(5)]
        for payload in sent:
            await (await client.multicast("alpha", payload)).stable()
        reader = BatchReader(source_options(local(sites, sites="a")))
        (part,) = await asyncio.to_thread(reader.partitions)
        found = await asyncio.to_thread(lambda: list(reader.read(part)))
        assert [batch["payload"].to_pylist() for batch in found] == [sent[:2], sent[2:4], sent[4:]]


@in_loop
async def test_a_site_that_is_killed_is_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path, GROUPS) as sites, sites.connect("a") as client:
        query = Query(stream(**local(sites, sites="a,b", subscribe="alpha")))
        await send(client, "a1")
        assert len(await eventually(query, 2)) == 2
        await send(client, "a2")
        end = await asyncio.to_thread(query.reader.feed.latest, {})
        await sites.kill("b")
        planned = query.reader.partitions(query.start or {}, {s: list(o) for s, o in end.items()})
        reading = asyncio.create_task(asyncio.to_thread(rows_of, query.reader, planned))
        await sites.start("b")
        found = [(row["site"], row["payload"]) for row in await reading]
        assert sorted(found) == [("a", b"a2"), ("b", b"a2")]
        await query.stop()


@in_loop
async def test_where_spark_does_not_say_where_a_batch_starts_a_new_query_keeps_its_limit(
    tmp_path: Path,
) -> None:
    """As Spark calls below 4.2: it asks for the first end before it asks where the query begins,
    and more may come in between. After a restart nobody knows how far the query is, so the first
    end has no limit."""
    async with served(tmp_path, GROUPS) as sites, sites.connect("a") as client:
        await send(client, "a1", "b1", "a2", "b2", "a3")
        while (await client.status())["settled"] < 5:
            await asyncio.sleep(0.01)

        def ends(starting: str, *, first: bool) -> list[Any]:
            options = {"maxOffsetsPerTrigger": "2", "startingOffsets": starting}
            reader = stream(**local(sites, sites="a", **options))
            end = reader.latestOffset()
            found: list[Any] = [reader.initialOffset() if first else None, end]
            for _ in range(2):
                if found[-2] is not None:
                    reader.partitions(*found[-2:])
                found.append(reader.latestOffset())
            reader.stop()
            return [None if each is None else each["a"][1] for each in found]

        for starting, wanted in (
            ("earliest", [0, 2, 4, 5]),
            ('{"a": [1, 1]}', [1, 3, 5, 5]),
            ("latest", [5, 5, 5, 5]),
        ):
            assert await asyncio.to_thread(ends, starting, first=True) == wanted
            assert await asyncio.to_thread(ends, starting, first=False) == [None, 5, 5, 5]
            await client.remove_reader("spark")
        for limit in ({}, {"maxOffsetsPerTrigger": "2"}):
            reader = stream(**local(sites, sites="a", startingOffsets="latest", **limit))
            end = await asyncio.to_thread(reader.latestOffset)
            await send(client, "a4")
            while (status := await client.status())["settled"] < status["position"]:
                await asyncio.sleep(0.01)
            assert await asyncio.to_thread(reader.initialOffset) == end
            await asyncio.to_thread(reader.stop)
            await client.remove_reader("spark")


@in_loop
async def test_a_site_without_its_store_is_a_loss_of_data(tmp_path: Path) -> None:
    """Its positions begin anew, which no number tells: the reader is gone."""
    async with served(tmp_path, GROUPS) as sites, sites.connect("a") as client:
        await send(client, "a1", "a2", "a3")
        query = Query(stream(**local(sites, sites="a", subscribe="alpha")))
        await eventually(query, 3)
        await client.remove_reader("spark")
        # To ask how far a site is makes no reader: it would hide that one is gone.
        await asyncio.to_thread(query.reader.prepareForTriggerAvailableNow)
        with pytest.raises(
            DataLoss, match=r"site a: positions from 4 on .* reader 'spark' is gone"
        ):
            await query.batch()
        await query.stop()
        reckless = stream(**local(sites, sites="a", subscribe="alpha", failOnDataLoss="false"))
        other = Query(reckless, query.start)
        found = await other.batch()
        assert found[0] == ("a", 1, "")
        assert [payload for _, _, payload in found[1:]] == ["a1", "a2"]
        assert await eventually(other, 1) == [("a", 3, "a3")]
        await client.remove_reader("spark")
        # Nor does what is asked for the progress of the query.
        assert await asyncio.to_thread(reckless.reportLatestOffset) == {"a": [1, 3]}
        assert (await other.batch())[0] == ("a", 1, "")
        await other.stop()


@in_loop
@pytest.mark.parametrize("more", [1, 6])
async def test_a_store_that_is_lost_is_a_loss_of_data_however_far_the_new_one_has_come(
    tmp_path: Path, more: int
) -> None:
    groups, quick = {"alpha": ["a", "b", "c"]}, {"suspect": "200ms"}
    async with served(tmp_path, groups, timeouts=quick) as sites:
        async with sites.connect("b") as sender:
            await send(sender, *(f"a{n}" for n in range(1, 5)))
        query = Query(stream(**local(sites, sites="a")))
        await eventually(query, 4)
        await sites.kill("a")
        for file in tmp_path.glob("a.db*"):
            file.unlink()
        await sites.start("a")
        async with sites.connect("a") as client:
            await send(client, *(f"a{n}" for n in range(more)))
            while (status := await client.status())["settled"] < status["position"]:
                await asyncio.sleep(0.01)
            assert status["settled"] >= more
        with pytest.raises(DataLoss, match=r"site a: positions from 5 on .*'spark' is gone"):
            await query.batch()
        await query.stop()


async def all_settled(client: Client) -> None:
    while (status := await client.status())["settled"] < status["position"]:
        await asyncio.sleep(0.01)


@in_loop
async def test_a_query_that_began_before_the_first_message_is_told_what_is_gone(
    tmp_path: Path,
) -> None:
    """Position 0 is as good as any other: the reader kept from there on, up to its limit."""
    groups = {"alpha": ["a"], "beta": ["a"]}
    async with served(tmp_path, groups) as sites, sites.connect("a") as client:
        options = local(sites, sites="a", subscribe="alpha")
        query = Query(stream(**options))
        assert await query.batch() == []
        await query.stop()
        assert query.start == {"a": [1, 0]}
        await send(client, "a1")
        store = site_of(sites.cluster["a"]).store
        while await asyncio.to_thread(lambda: store.first) <= 1:
            for _ in range(10):
                await (await client.multicast("beta", bytes(10_000))).stable()
            await client.confirm((await client.status())["position"])
            await client.reset_reader("spark")  # as its limit does
        await sites.kill("a")  # what is in memory is read although it was removed
        await sites.start("a")
        query = Query(stream(**options), query.start)
        with pytest.raises(DataLoss, match=r"site a: positions 1 to \d+ cannot be read: they are"):
            await query.batch()
        await query.stop()


@in_loop
async def test_a_site_that_is_new_to_a_query_begins_with_what_is_kept(tmp_path: Path) -> None:
    """Also where a batch is smaller than what is gone."""
    groups = {"alpha": ["a", "b"], "beta": ["a"]}
    async with (
        served(tmp_path, groups, unnamed_reader=False) as sites,
        sites.connect("a") as client,
    ):
        await client.open_reader("old", "*")
        await send(client, *(f"a{n}" for n in range(30)))
        store = site_of(sites.cluster["a"]).store
        while await asyncio.to_thread(lambda: store.first) <= 20:
            for _ in range(10):
                await (await client.multicast("beta", bytes(10_000))).stable()
            await client.reset_reader("old", 26)
        await sites.kill("a")
        await sites.start("a")
        await all_settled(client)
        before = Query(stream(**local(sites, sites="b")))
        await before.batch()
        await before.stop()
        options = local(sites, sites="a,b", maxOffsetsPerTrigger="7", maxRecordsPerPartition="3")
        query = Query(stream(**options), before.start)
        found: list[tuple[str, int, str]] = []
        while ("a", 30, "a29") not in found:
            found += await query.batch()
        positions = [position for site, position, _ in found if site == "a"]
        assert 20 < positions[0] <= 26
        assert positions == list(range(positions[0], positions[-1] + 1))
        await query.stop()


@in_loop
async def test_a_store_that_is_older_than_the_query_is_a_loss_of_data(tmp_path: Path) -> None:
    """As after `restore --exact` of all stores. The reader is there, but later positions are given
    to other messages."""
    async with served(tmp_path, {"alpha": ["a"]}) as sites:
        async with sites.connect("a") as client:
            await send(client, "a1", "a2")
        query = Query(stream(**local(sites, sites="a")))
        await eventually(query, 2)
        await sites.kill("a")
        copies = [(file, file.read_bytes()) for file in tmp_path.glob("a.db*")]
        await sites.start("a")
        async with sites.connect("a") as client:
            await send(client, "a3", "a4")
        await eventually(query, 2)
        await sites.kill("a")
        await sites.start("a")
        assert await query.batch() == []  # it has all that it had
        await sites.kill("a")
        for file in tmp_path.glob("a.db*"):
            file.unlink()
        for file, data in copies:
            file.write_bytes(data)
        await sites.start("a")
        reckless = stream(**local(sites, sites="a", failOnDataLoss="false"))
        for reader in (query.reader, stream(**local(sites, sites="a"))):
            again = Query(reader, query.start)
            with pytest.raises(DataLoss, match=r"site a: positions from 5 on .* log ends at 2, as"):
                await again.batch()
            await again.stop()
        other = Query(reckless, query.start)
        assert await eventually(other, 3) == [("a", 1, ""), ("a", 1, "a1"), ("a", 2, "a2")]
        async with sites.connect("a") as client:
            await send(client, "a5")
        assert await eventually(other, 1) == [("a", 3, "a5")]
        await other.stop()


@in_loop
async def test_a_reader_that_others_have_made_again_is_another_one(tmp_path: Path) -> None:
    """If it is in another store, positions began anew."""
    async with served(tmp_path, {"alpha": ["a"]}) as sites, sites.connect("a") as client:
        await send(client, "a1", "a2")
        query = Query(stream(**local(sites, sites="a")))
        await eventually(query, 2)
        await query.batch()
        await client.remove_reader("spark")
        await client.open_reader("spark", "*")
        with pytest.raises(
            DataLoss, match=r"site a: positions from 3 on .* removed and made again"
        ):
            await query.batch()
        await query.stop()
        reckless = Query(stream(**local(sites, sites="a", failOnDataLoss="false")), query.start)
        assert await reckless.batch() == []
        await client.remove_reader("spark")
        await client.open_reader("spark", "*")
        assert (await reckless.batch())[0] == ("a", 1, "")
        await send(client, "a3")
        assert ("a", 3, "a3") in await eventually(reckless, 2)
        await reckless.stop()


@in_loop
async def test_a_query_that_goes_on_with_more_groups_than_its_reader_has_is_refused(
    tmp_path: Path,
) -> None:
    """The reader would give none of their messages, and the query would pass them over."""
    async with served(tmp_path, GROUPS) as sites, sites.connect("a") as client:
        await send(client, "a1", "b1")
        before = Query(stream(**local(sites, sites="a", subscribe="alpha")))
        await eventually(before, 1)
        await before.stop()
        await send(client, "b2", "a2")
        for groups in ("beta", "alpha,beta", "*"):
            wrong = Query(stream(**local(sites, sites="a", subscribe=groups)), before.start)
            with pytest.raises(
                ConfigError, match=r"subscribe: reader 'spark' of site a .* alpha al"
            ):
                await wrong.batch()
            await wrong.stop()
        await client.open_reader("all", "*")
        options = local(sites, sites="a", subscribe="beta", readerName="all")
        fewer = Query(stream(**options), before.start)
        assert await eventually(fewer, 1) == [("a", 3, "b2")]
        await fewer.stop()


@in_loop
async def test_what_was_shed_is_told_to_a_batch_and_read_by_a_query(tmp_path: Path) -> None:
    groups = {"alpha": ["a"], "beta": ["a"]}
    limits = {"unread_messages": 3}
    async with (
        served(tmp_path, groups, limits=limits, slow_member="shed") as sites,
        sites.connect("a") as client,
    ):
        await send(client, *(f"a{n}" for n in range(1, 9)))
        await all_settled(client)
        query = Query(stream(**local(sites, sites="a")))
        assert [text for *_, text in await eventually(query, 8)] == [f"a{n}" for n in range(1, 9)]
        await query.stop()
        reader = BatchReader(source_options(local(sites, sites="a", subscribe="beta")))
        assert await asyncio.to_thread(lambda: rows_of(reader, reader.partitions())) == []
        reader = BatchReader(source_options(local(sites, sites="a")))
        with pytest.raises(DataLoss, match=r"positions 4 to 4 cannot be read: they were shed"):
            await asyncio.to_thread(lambda: rows_of(reader, reader.partitions()))
        options = local(sites, sites="a", failOnDataLoss="false")
        reader = BatchReader(source_options(options))
        found = await asyncio.to_thread(lambda: rows_of(reader, reader.partitions()))
        assert [row["position"] for row in found] == list(range(1, 9))
        assert {row["kind"] for row in found[3:]} == {"gap"}


@in_loop
async def test_what_is_no_longer_kept_fails_the_query_or_is_a_gap(tmp_path: Path) -> None:
    groups = {"alpha": ["a"], "beta": ["a"]}
    async with (
        served(tmp_path, groups, unnamed_reader=False) as sites,
        sites.connect("a", patience_s=60.0) as client,
    ):
        await send(client, *(f"a{n}" for n in range(1, 9)))
        query = Query(stream(**local(sites, sites="a")))
        await eventually(query, 8)
        await query.stop()
        store = site_of(sites.cluster["a"]).store
        while await asyncio.to_thread(lambda: store.first) <= 3:
            for _ in range(10):
                await (await client.multicast("beta", bytes(10_000))).stable()
            await client.reset_reader("spark")
        await sites.kill("a")  # what is in memory is read although it was removed
        await sites.start("a")
        start, end = {"a": [1, 2]}, {"a": [1, 8]}
        reader = stream(**local(sites, sites="a"))
        with pytest.raises(DataLoss, match=r"site a: positions 3 to \d cannot be read"):
            await asyncio.to_thread(lambda: rows_of(reader, reader.partitions(start, end)))
        reader.stop()
        reader = stream(**local(sites, sites="a", failOnDataLoss="false"))
        gap, *rest = await asyncio.to_thread(lambda: rows_of(reader, reader.partitions(start, end)))
        assert (gap["kind"], gap["position"]) == ("gap", 3)
        assert gap["positions"] + len(rest) == 6
        reader.stop()


@in_loop
async def test_a_query_without_the_grant_is_refused_in_one_line(
    tmp_path: Path, certs: Path
) -> None:
    async with open_tls(tmp_path, certs, "read:alpha") as sites, sites.connect("a") as client:
        await send(client, "a1", "b1")
        refused: list[tuple[Callable[[], QueryReader], type[Error], str]] = [
            (lambda: stream(**tls_options(sites, certs)), NotGranted, "client:spark"),
            (lambda: stream(**tls_options(sites, certs, "other")), Error, "client:other"),
        ]
        for made, kind, said in refused:
            reader = made()
            with pytest.raises(kind) as found:
                await asyncio.to_thread(reader.initialOffset)
            assert said in str(found.value)
            assert "\n" not in str(found.value)
            await asyncio.to_thread(reader.stop)
        query = Query(stream(**tls_options(sites, certs, subscribe="alpha")))
        assert sorted(await eventually(query, 2)) == [("a", 1, "a1"), ("b", 1, "a1")]
        await send(client, "a2")
        await eventually(query, 2)
        await query.batch()  # a reader of all its groups moves it: no operator is needed
        assert (await client.status())["readers"]["spark"]["confirmed"] >= 1
        await query.stop()


@in_loop
async def test_a_batch_with_a_grant_for_one_group_ends_before_what_is_withheld(
    tmp_path: Path, certs: Path
) -> None:
    async with open_tls(tmp_path, certs, "read:alpha") as sites, sites.connect("a") as client:
        await send(client, "a1", "b1")
        options = {**tls_options(sites, certs), "nodes": sites.address("a")}
        reader = BatchReader(source_options(options))
        found = await asyncio.to_thread(lambda: rows_of(reader, reader.partitions()))
        assert [row["payload"] for row in found] == [b"a1"]


@in_loop
async def test_only_who_may_read_all_groups_of_a_reader_moves_it_and_only_forward(
    tmp_path: Path, certs: Path
) -> None:
    async with open_tls(tmp_path, certs, "read:alpha") as sites, sites.connect("a") as client:
        await send(client, "a1", "a2", "b1")
        await client.open_reader("all", "*")
        await client.open_reader("some", ["alpha"])
        options = tls_options(sites, certs)
        async with connect(sites.address("a"), cert=options["cert"]) as remote:
            with pytest.raises(NotGranted):
                await remote.reset_reader("all", 2)
            assert await remote.reset_reader("some", 3) == 3
            for back in (2, 0, None):
                with pytest.raises(NotGranted):
                    await remote.reset_reader("some", back)
            follower = client.deliveries(reader="some")
            reading = asyncio.create_task(anext(follower))
            while not (await client.status())["readers"]["some"]["followers"]:
                await asyncio.sleep(0)
            with pytest.raises(NotGranted):  # it would take the turn from somebody
                await remote.reset_reader("some", 4)
            reading.cancel()
            await follower.aclose()


@in_loop
async def test_wrong_sites_and_groups_are_named(tmp_path: Path) -> None:
    async with served(tmp_path, GROUPS) as sites:
        for options, said in (
            ({}, "sites: is missing; which sites of"),
            ({"sites": "a", "subscribe": "alpa"}, "subscribe: there is no group 'alpa' (did you"),
            ({"sites": "b", "subscribe": "beta"}, "subscribe: site b is no member of group 'beta'"),
        ):
            reader = stream(**local(sites, **options))
            with pytest.raises(ConfigError) as found:
                await asyncio.to_thread(reader.initialOffset)
            assert said in str(found.value)
            await asyncio.to_thread(reader.stop)


@in_loop
async def test_a_query_begins_only_under_a_name_and_one_that_had_none_goes_on(
    tmp_path: Path,
) -> None:
    """Two queries without one would share a reader: what one confirms is gone for the other. Older
    checkpoints are of the reader `spark`."""
    async with served(tmp_path, GROUPS) as sites, sites.connect("a") as client:
        await send(client, "a1", "a2")
        unnamed = QueryReader(source_options(local(sites, sites="a")))
        for begin in (unnamed.initialOffset, Query(unnamed)._batch):
            with pytest.raises(ConfigError, match="readerName: is missing; a query of nodes keeps"):
                await asyncio.to_thread(begin)
        assert (await client.status())["readers"] == {}
        older = Query(stream(**local(sites, sites="a")))
        assert await eventually(older, 2) == [("a", 1, "a1"), ("a", 2, "a2")]
        await older.stop()
        await send(client, "a3")
        later = Query(unnamed, older.start)
        assert await eventually(later, 1) == [("a", 3, "a3")]
        for _ in range(2):  # one batch late
            await later.batch()
        assert (await client.status())["readers"]["spark"]["confirmed"] == 3
        await later.stop()
        await client.open_reader("own", "*")  # and gets a name of its own
        await client.remove_reader("spark")
        await send(client, "a4")
        moved = Query(stream(**local(sites, sites="a", readerName="own")), later.start)
        assert await eventually(moved, 1) == [("a", 4, "a4")]
        await moved.stop()
        batch = BatchReader(source_options(local(sites, sites="a")))  # has no reader
        assert len(await asyncio.to_thread(lambda: rows_of(batch, batch.partitions()))) == 4
