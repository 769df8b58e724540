"""A history as a feed, without Spark: the rows of each range, rollbacks, growth, losses."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ordercast.history.rows import Delivered, Event, History
from ordercast.history.writer import write_history
from ordercast.model.errors import ConfigError
from ordercast.pipeline.streams.feed import DataLoss
from ordercast.pipeline.streams.offsets import Offset
from ordercast.pipeline.streams.options import source_options
from ordercast.pipeline.streams.source import BatchReader, QueryReader, SitePartition


def delivered(site: str, position: int, attempt: int = 1, **more: Any) -> Delivered:
    group = more.pop("group_name", "alpha" if position % 2 else "beta")
    return Delivered(site, position, attempt, 1, group, "a", 1, position, position, **more)


def write(folder: Path, rows: list[Delivered], events: list[Event] | None = None) -> Path:
    write_history(History(deliveries=rows, events=events or []), folder)
    return folder


def rows_of(reader: Any, partitions: list[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for partition in partitions:
        for batch in reader.read(partition):
            found += batch.to_pylist()
    return found


def positions(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row["site"], row["position"]) for row in rows]


def stream(folder: Path, **options: str) -> QueryReader:
    return QueryReader(source_options({"history": str(folder), **options}))


def test_a_batch_has_the_rows_between_its_offsets(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered(s, n) for s in "ab" for n in range(1, 8)])
    options = {
        "history": str(folder),
        "startingOffsets": '{"a": [1, 2]}',
        "endingOffsets": '{"a": [1, 6], "b": [1, 3]}',
        "subscribe": "alpha",
    }
    reader = BatchReader(source_options(options))
    found = rows_of(reader, reader.partitions())
    assert positions(found) == [("a", 3), ("a", 5), ("b", 1), ("b", 3)]
    assert {row["kind"] for row in found} == {"delivery"}
    assert [row["payload"] for row in found] == [None] * 4


def test_what_was_sent_to_several_groups_is_read_by_each_of_them(tmp_path: Path) -> None:
    several = "@205830ca5b23bbe3"
    rows = [
        delivered("a", 1, group_name="alp.a"),
        delivered("a", 2, group_name=several, addressed="beta,alpha"),
        delivered("a", 3, group_name=several, addressed="alpha2,beta"),
        delivered("a", 4, group_name=several),
        delivered("a", 5, group_name="alpha"),
    ]
    folder = write(tmp_path / "h", rows)
    for groups, found in (("alpha", [2, 5]), ("alp.a", [1]), ("beta,alpha2", [2, 3])):
        options = {"history": str(folder), "subscribe": groups}
        reader = BatchReader(source_options(options))
        read = rows_of(reader, reader.partitions())
        assert [row["position"] for row in read] == found


def test_headers_and_times_are_as_the_message_says_them(tmp_path: Path) -> None:
    rows = [delivered("a", 1, sent_ns=5_000_007_000, headers='{"t":"aGk="}'), delivered("a", 2)]
    folder = write(tmp_path / "h", rows)
    reader = BatchReader(source_options({"history": str(folder), "includeHeaders": "true"}))
    one, two = rows_of(reader, reader.partitions())
    assert dict(one["headers"]) == {"t": b"hi"}
    assert (one["sent_at"].timestamp(), one["sent_ns"]) == (5.000007, 5_000_007_000)
    assert (dict(two["headers"]), two["sent_at"]) == ({}, None)


def test_a_stream_reads_what_is_added_once(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", n) for n in range(1, 6)])
    reader = stream(folder, maxOffsetsPerTrigger="2")
    start = reader.initialOffset()
    assert start == {"a": [1, 0]}
    found = []
    for round_ in range(5):
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        found += positions(rows_of(reader, reader.partitions(start, end)))
        start = end
        if round_ == 2:
            more = write(tmp_path / "more", [delivered("a", n) for n in (6, 7)])
            (more / "deliveries").rename(folder / "deliveries" / "day=2")
    assert found == [("a", n) for n in range(1, 8)]
    assert reader.reportLatestOffset() == {"a": [1, 7]}


def test_a_query_that_ends_reads_up_to_what_was_there_when_it_began(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", n) for n in range(1, 6)])
    reader = stream(folder)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    more = write(tmp_path / "more", [delivered(s, n) for s in "ab" for n in (6, 7)])
    (more / "deliveries").rename(folder / "deliveries" / "more")
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {"a": [1, 5]}
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    later = stream(folder, maxOffsetsPerTrigger="3")  # site b is new to it, and begins with 6
    first = later.latestOffset(end, later.getDefaultReadLimit())
    assert first == {"a": [1, 6], "b": [1, 6]}
    assert positions(rows_of(later, later.partitions(end, first))) == [("a", 6), ("b", 6)]
    assert later.latestOffset(first, None) == {"a": [1, 7], "b": [1, 7]}


def test_without_limits_of_spark_the_reader_keeps_its_own(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", n) for n in range(1, 6)])
    reader = stream(folder, maxOffsetsPerTrigger="2")
    reader.initialOffset()
    assert [reader.latestOffset()["a"][1] for _ in range(4)] == [2, 4, 5, 5]


def test_files_that_are_not_in_order_give_rows_in_order(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", n) for n in range(1, 9)])
    (file,) = (folder / "deliveries").glob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.take(pa.array([5, 0, 3, 6])), file)
    pq.write_table(table.take(pa.array([1, 7, 2, 4])), file.with_name("other.parquet"))
    reader = BatchReader(source_options({"history": str(folder)}))
    assert positions(rows_of(reader, reader.partitions())) == [("a", n) for n in range(1, 9)]


def rolled_back(position: int, attempt: int) -> Event:
    return Event("a", 1, "rollback", position, attempt, 1, 0, "{}")


def test_what_was_taken_back_is_left_out(tmp_path: Path) -> None:
    rows = [delivered("a", n) for n in range(1, 6)] + [delivered("a", n, 2) for n in (3, 4)]
    folder = write(tmp_path / "h", rows, [rolled_back(2, 2)])
    reader = BatchReader(source_options({"history": str(folder)}))
    found = rows_of(reader, reader.partitions())
    assert [(row["position"], row["attempt"]) for row in found] == [(1, 1), (2, 1), (3, 2), (4, 2)]


def test_a_query_that_has_read_what_is_taken_back_fails_or_reads_anew(tmp_path: Path) -> None:
    rows = [delivered("a", n) for n in range(1, 6)] + [delivered("a", n, 2) for n in (3, 4)]
    folder = write(tmp_path / "h", rows, [rolled_back(2, 2)])
    with pytest.raises(DataLoss, match=r"site a: positions from 5 on .* taken back"):
        stream(folder).latestOffset({"a": [1, 5]}, None)
    reader = stream(folder, failOnDataLoss="false")
    end = reader.latestOffset({"a": [1, 5]}, None)
    found = rows_of(reader, reader.partitions({"a": [1, 5]}, end))
    assert found[0]["kind"] == "gap"
    assert [row["position"] for row in found[1:]] == [1, 2, 3, 4]


def test_a_history_that_begins_above_the_query_is_a_loss_of_data(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", n) for n in range(6, 9)])
    with pytest.raises(DataLoss, match="site a: positions 4 to 5 cannot be read"):
        stream(folder).latestOffset({"a": [1, 3]}, None)
    reader = stream(folder, failOnDataLoss="false")
    end = reader.latestOffset({"a": [1, 3]}, None)
    gap, *rest = rows_of(reader, reader.partitions({"a": [1, 3]}, end))
    assert (gap["kind"], gap["position"], gap["positions"]) == ("gap", 4, 2)
    assert [row["position"] for row in rest] == [6, 7, 8]
    assert stream(folder).initialOffset() == {"a": [1, 5]}  # the earliest that there is


def test_a_query_that_began_before_the_first_row_is_told_what_is_gone(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", n) for n in range(6, 9)])
    with pytest.raises(DataLoss, match="site a: positions 1 to 5 cannot be read"):
        stream(folder).latestOffset({"a": [1, 0]}, None)
    reader = stream(folder)
    with pytest.raises(DataLoss, match="site a: positions 1 to 5 cannot be read"):
        rows_of(reader, reader.partitions({"a": [1, 0]}, {"a": [1, 8]}))
    reader = stream(folder, startingOffsets='{"a": [1, 0]}')  # as "earliest"
    assert reader.initialOffset() == {"a": [1, 5]}


def test_a_history_that_ends_below_the_query_is_a_loss_of_data(tmp_path: Path) -> None:
    """As one that was made anew of stores that were restored from older copies: its next rows are
    others than those that the query has read."""
    folder = write(tmp_path / "h", [delivered("a", n) for n in range(1, 4)])
    with pytest.raises(DataLoss, match=r"site a: positions from 6 on .* the history ends at 3: it"):
        stream(folder).latestOffset({"a": [1, 5]}, None)
    reader = stream(folder, failOnDataLoss="false")
    end = reader.latestOffset({"a": [1, 5]}, None)
    gap, *rest = rows_of(reader, reader.partitions({"a": [1, 5]}, end))
    assert (gap["kind"], gap["position"], gap["positions"]) == ("gap", 1, 0)
    assert [row["position"] for row in rest] == [1, 2, 3]


def test_a_run_is_chosen(tmp_path: Path) -> None:
    rows = [delivered("a", 1, run="x"), delivered("a", 1, run="y"), delivered("a", 2, run="y")]
    folder = write(tmp_path / "h", rows)
    with pytest.raises(
        ConfigError, match=r"is of run 'x', and maybe others: choose one with 'run'"
    ):
        stream(folder).initialOffset()
    reader = BatchReader(source_options({"history": str(folder), "run": "y"}))
    assert positions(rows_of(reader, reader.partitions())) == [("a", 1), ("a", 2)]


def test_a_run_that_only_a_folder_names_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", n) for n in range(1, 4)])
    (file,) = (folder / "deliveries").glob("*.parquet")
    (folder / "deliveries" / "run=b").mkdir()
    file.rename(file.parent / "run=b" / file.name)
    with pytest.raises(ConfigError, match="field 'run' is only in the name of the folder"):
        stream(folder).latestOffset()
    with pytest.raises(ConfigError, match="field 'run' is only in the name of the folder"):
        BatchReader(source_options({"history": str(folder)})).partitions()


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such folder"):
        stream(tmp_path / "none").initialOffset()
    folder = write(tmp_path / "h", [delivered("alice", 1)])
    with pytest.raises(ConfigError, match=r"sites: .* has no deliveries of 'alcie' .*'alice'"):
        stream(folder, sites="alcie").initialOffset()
    with pytest.raises(ConfigError, match=r"startingOffsets: 'alcie' is none of .*'alice'"):
        stream(folder, startingOffsets='{"alcie": [1, 1]}').initialOffset()
    more = {"history": str(folder), "endingOffsets": '{"alcie": [1, 1]}'}
    with pytest.raises(ConfigError, match=r"endingOffsets: 'alcie' is none of .*'alice'"):
        BatchReader(source_options(more)).partitions()
    (file,) = (folder / "deliveries").glob("*.parquet")
    file.write_bytes(b"PAR1 no more")
    with pytest.raises(ConfigError, match="cannot be read as Parquet"):
        stream(folder).initialOffset()


def test_an_empty_batch_has_no_rows(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", 1)])
    reader = BatchReader(source_options({"history": str(folder), "startingOffsets": "latest"}))
    (partition,) = reader.partitions()
    assert isinstance(partition, SitePartition)
    assert list(reader.read(partition)) == []


def test_an_offset_has_the_attempt_of_what_was_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "h", [delivered("a", 1), delivered("a", 2, 3)])
    assert stream(folder).feed.latest({}) == {"a": Offset(3, 2)}
