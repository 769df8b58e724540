"""A lake as a stream of Spark, without a JVM: each append once, whatever is merged."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ordercast.history.lake import read_lake
from ordercast.history.lake_compaction import compact_lake
from ordercast.history.reader import read_history
from ordercast.model.errors import ConfigError
from ordercast.net.export.lake_export import append
from ordercast.pipeline.following.lakes import LakeReader
from ordercast.pipeline.following.query import FilesRead
from support.stores.exporting import Cluster


def rows_of(reader: LakeReader, start: dict[str, int], end: dict[str, int]) -> Counter[Any]:
    """Rows of all tables, with what tells them apart."""
    names = ("table_name", "site", "position", "origin", "group_name", "seq", "n", "epoch")
    return Counter(
        tuple(row[name] for name in names)
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for row in batch.to_pylist()
    )


@pytest.mark.parametrize("seed", range(4))
def test_each_append_is_read_once_whatever_is_merged(seed: int, tmp_path: Path) -> None:
    """A batch that is run again, when its files were merged with others, has the same rows."""
    chance = random.Random(seed)
    cluster, lake = Cluster(tmp_path), tmp_path / "lake"
    cluster.some(1)
    append(tmp_path, lake)
    reader = LakeReader(lake)
    at, total = reader.initialOffset(), Counter[Any]()
    batches: list[tuple[dict[str, int], dict[str, int], Counter[Any]]] = []
    for step in range(8):
        if chance.random() < 0.7:
            cluster.some(1)
            append(tmp_path, lake)
        if chance.random() < 0.4:
            compact_lake(lake, keep_s=3600)
        if chance.random() < 0.6 or step == 7:
            end = reader.latestOffset(at)
            found = rows_of(reader, at, end)
            batches.append((at, end, found))
            total += found
            at = end
        for start, end, found in batches:
            assert rows_of(reader, start, end) == found
    whole = read_history(lake)
    assert Counter(name for name, *_ in total.elements()) == Counter(
        {name: len(rows) for name, rows in whole.tables().items() if rows}
    )
    assert max(total.values()) == 1
    read = FilesRead(lake)
    for part in reader.partitions({"append": 0}, at):
        for batch in reader.read(part):
            read.add(pa.Table.from_batches([batch]))
    again = [len(portion.deliveries) for portion in read.read_again()]
    assert sum(again) == len(whole.deliveries)
    cluster.close()


def test_what_was_merged_and_removed_before_it_was_read_is_named(tmp_path: Path) -> None:
    cluster, lake = Cluster(tmp_path), tmp_path / "lake"
    for _ in range(3):
        cluster.some(1)
        append(tmp_path, lake)
    reader = LakeReader(lake)
    first, last = {"append": 1}, reader.latestOffset({"append": 1})
    compact_lake(lake, keep_s=3600)
    assert reader.partitions(first, last)
    compact_lake(lake, keep_s=0)
    with pytest.raises(ConfigError, match="was compacted, and what was merged removed"):
        reader.partitions(first, last)
    found = read_lake(lake)
    assert found is not None
    assert reader.partitions({"append": 0}, last)
    cluster.close()
