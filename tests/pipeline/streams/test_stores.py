"""Stores as a feed, without Spark."""

from pathlib import Path
from typing import Any

import pytest

from ordercast import local_cluster
from ordercast.model.errors import ConfigError
from ordercast.pipeline.streams.feed import DataLoss
from ordercast.pipeline.streams.options import source_options
from ordercast.pipeline.streams.source import BatchReader, QueryReader
from support.harness.loops import in_loop


def read(folder: Path, **options: str) -> list[dict[str, Any]]:
    reader = BatchReader(source_options({"store": str(folder), **options}))
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


@in_loop
async def test_stores_of_running_sites_have_what_was_delivered(tmp_path: Path) -> None:
    groups = {"alpha": ["a", "b"], "beta": ["b"]}
    async with local_cluster(groups, dir=tmp_path, durability="os") as cluster:
        node = cluster["a"]
        for n in range(20):
            group = "beta" if n % 4 == 0 else "alpha"
            await (await node.multicast(group, b"%d" % n, {"n": b"%d" % n})).stable()
        assert {row["payload"] for row in read(tmp_path)} <= {b"%d" % n for n in range(20)}
        await (await node.multicast(["alpha", "beta"], b"both", {"n": b"both"})).stable()
        await (await node.multicast("alpha", b"last", {"n": b"last"})).stable()
    reader = QueryReader(source_options({"store": str(tmp_path)}))
    ends = reader.latestOffset(reader.initialOffset(), None)
    found = read(tmp_path, includeHeaders="true", maxRecordsPerPartition="3")
    both = [b"both", b"last"]
    sent = {
        "a": [*(b"%d" % n for n in range(20) if n % 4), *both],
        "b": [*(b"%d" % n for n in range(20)), *both],
    }
    for site, payloads in sent.items():
        _, last = ends[site]  # the file may not know yet that the last one was delivered
        assert len(payloads) - 1 <= last <= len(payloads)
        assert [row["payload"] for row in found if row["site"] == site] == payloads[:last]
    assert all(dict(row["headers"]) == {"n": row["payload"]} for row in found)
    assert [row["payload"] for row in read(tmp_path, sites="b", subscribe="beta")] == [
        *(b"%d" % n for n in range(0, 20, 4)), b"both",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"sites: .* has no store of 'c'"):
        read(tmp_path, sites="c")


def query(folder: Path, **options: str) -> QueryReader:
    return QueryReader(source_options({"store": str(folder), **options}))


def batch(reader: QueryReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Where a batch ends, and the kinds and positions of its rows."""
    end = reader.latestOffset(start, None)
    rows = [
        (row["kind"], row["position"])
        for part in reader.partitions(start, end)
        for found in reader.read(part)
        for row in found.to_pylist()
    ]
    return end, rows


async def send(folder: Path, count: int, size: int = 1, *, done: bool = False) -> None:
    options: dict[str, Any] = {"durability": "os", "deliver": "safe"}
    async with local_cluster({"alpha": ["a"]}, dir=folder, **options) as cluster:
        for _ in range(count):
            await (await cluster["a"].multicast("alpha", bytes(size))).stable()
        if done:
            await cluster["a"].confirm((await cluster["a"].status())["position"])


@in_loop
async def test_a_store_that_is_older_than_the_query_or_another_one_is_a_loss_of_data(
    tmp_path: Path,
) -> None:
    """As after `restore`: later positions are given to other messages."""
    file = tmp_path / "a.db"
    await send(tmp_path, 2)
    copy = file.read_bytes()
    await send(tmp_path, 3)
    reader, reckless = query(tmp_path), query(tmp_path, failOnDataLoss="false")
    end, rows = batch(reader, reader.initialOffset())
    assert rows == [("delivery", n) for n in range(1, 6)]
    assert batch(reckless, end) == (end, [])
    file.write_bytes(copy)
    for each in (reader, query(tmp_path)):
        with pytest.raises(DataLoss, match=r"site a: positions from 6 on .* log ends at 2: it is"):
            batch(each, end)
    anew, rows = batch(query(tmp_path, failOnDataLoss="false"), end)
    assert rows == [("gap", 1), ("delivery", 1), ("delivery", 2)]
    assert batch(query(tmp_path), anew) == (anew, [])
    file.unlink()
    await send(tmp_path, 7)
    with pytest.raises(
        DataLoss, match=r"site a: positions from 6 on .* another store than the one"
    ):
        batch(reader, end)
    anew, rows = batch(reckless, end)
    assert rows == [("gap", 1), *(("delivery", n) for n in range(1, anew["a"][1] + 1))]
    _, rows = batch(reckless, anew)
    assert rows == [("delivery", n) for n in range(anew["a"][1] + 1, 8)]


@in_loop
async def test_a_query_that_began_before_the_first_message_is_told_what_is_gone(
    tmp_path: Path,
) -> None:
    await send(tmp_path, 0)
    start = query(tmp_path).initialOffset()
    assert start == {"a": [1, 0]}
    while query(tmp_path).initialOffset()["a"][1] <= 0:
        await send(tmp_path, 50, 10_000, done=True)
    with pytest.raises(DataLoss, match=r"site a: positions 1 to \d+ cannot be read: they are"):
        batch(query(tmp_path), start)
    reader = query(tmp_path)
    (part,) = reader.partitions(start, query(tmp_path).latestOffset())
    with pytest.raises(DataLoss, match=r"site a: positions 1 to \d+ cannot be read: they are"):
        list(reader.read(part))
    _, rows = batch(query(tmp_path, failOnDataLoss="false"), start)
    assert rows[0] == ("gap", 1)
