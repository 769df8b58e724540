"""Stores as a feed, without Spark."""

from pathlib import Path
from typing import Any

import pytest

from ordercast import local_cluster
from ordercast.model.errors import ConfigError
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
