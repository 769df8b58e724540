"""Options of the format: a mistake is one line that names the option and its value."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from ordercast.model.errors import ConfigError
from ordercast.pipeline.streams.format import OrdercastFormat
from ordercast.pipeline.streams.offsets import Offset
from ordercast.pipeline.streams.options import query_options, sink_options, source_options
from ordercast.pipeline.streams.source import BatchReader


def test_names_are_taken_in_any_case_and_a_path_is_a_history() -> None:
    found = source_options(
        {
            "PATH": "file:///data/h",
            "STARTINGOFFSETS": '{"a": [1, 4]}',
            "maxoffsetspertrigger": "10",
            "subscribe": "beta, alpha",
            "failOnDataLoss": "False",
        }
    )
    assert found.history == Path("/data/h")
    assert found.starting == {"a": Offset(1, 4)}
    assert (found.most_positions, found.groups) == (10, ("alpha", "beta"))
    assert not found.fail_on_data_loss
    assert found.ending == "latest"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "one of nodes, history and store says what is read: none of them is given"),
        ({"nodes": "tls://x:1", "store": "d"}, "says what is read: nodes and store"),
        ({"history": "h", "startingOffset": "x"}, "startingOffset: 'x': there is no such option"),
        ({"history": "s3a://b/h"}, "history: 's3a://b/h' is not a folder of this machine"),
        ({"history": "dbfs:/h"}, "history: 'dbfs:/h' is not a folder of this machine"),
        ({"history": "file://host/h"}, "history: 'file://host/h' is not a folder of this machine"),
        ({"history": "h", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger: '0' is not a whole"),
        ({"history": "h", "maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger: '-1' is not"),
        (
            {"history": "h", "failOnDataLoss": "no"},
            "failOnDataLoss: 'no' is neither true nor false",
        ),
        ({"history": "h", "endingOffsets": "now"}, "endingOffsets: 'now' is not JSON"),
        ({"history": "h", "sites": "a,,b"}, "sites: '' is not a name"),
        ({"history": "h", "readerName": "a b"}, "readerName: 'a b' is not a name"),
        ({"nodes": "c.toml", "timeout": "soon"}, "timeout: 'soon' is not a number of seconds"),
    ],
)
def test_a_mistake_in_an_option_of_the_source_is_one_line(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as found:
        source_options(options)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_a_stream_has_no_end() -> None:
    given = {"history": "h", "endingoffsets": "latest"}
    for begin in (query_options, lambda told: OrdercastFormat(told).streamReader(StructType())):
        with pytest.raises(ConfigError, match=r"endingOffsets: is for spark\.read"):
            begin(given)
    assert isinstance(OrdercastFormat(given).reader(StructType()), BatchReader)
    assert query_options({"history": "h"}) == source_options({"history": "h"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "nodes: is missing"),
        ({"nodes": "c.toml"}, "stagingLocation: is missing"),
        ({"nodes": "c.toml", "stagingLocation": "hdfs://x/y"}, "stagingLocation: 'hdfs://x/y'"),
        (
            {"nodes": "c.toml", "stagingLocation": "/d", "group": "a b"},
            "group: 'a b' is not a name",
        ),
        (
            {"nodes": "c.toml", "stagingLocation": "/d", "topic": "a"},
            "topic: 'a': there is no such",
        ),
    ],
)
def test_a_mistake_in_an_option_of_the_sink_is_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as found:
        sink_options(options)
    assert said in str(found.value)


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        *((f"{scheme}chk", "cannot hold staged rows") for scheme in ("s3a://b/", "dbfs:/")),
        ("hdfs:/chk", "cannot hold staged rows"),
        ("file://host/chk", "cannot hold staged rows"),
        ("", "cannot hold staged rows"),
        ("chk", "is a relative path"),
        ("file:chk", "is a relative path"),
        ("hdfs:chk", "is a relative path"),
    ],
)
def test_rows_are_staged_only_where_driver_and_tasks_have_one_folder(
    checkpoint: str, said: str
) -> None:
    """What Spark takes for a folder elsewhere was a relative folder here, of whoever ran there."""
    for name in ("checkpointLocation", "stagingLocation"):
        with pytest.raises(ConfigError) as found:
            sink_options({"nodes": "c.toml", name: checkpoint})
        assert str(found.value).startswith(f"{name}: ")
        assert "\n" not in str(found.value)
        if name == "checkpointLocation":
            assert said in str(found.value)
    for same in ("/chk", "file:/chk", "file:///chk", "file://localhost/chk"):
        given = {"nodes": "c.toml", "checkpointLocation": same}
        assert sink_options(given).staging == Path("/chk/ordercast")


def test_rows_are_staged_under_the_checkpoint_unless_a_folder_is_named() -> None:
    given = {"nodes": "c.toml", "checkpointLocation": "/data/c"}
    assert sink_options(given).staging == Path("/data/c/ordercast")
    assert sink_options({**given, "stagingLocation": "/data/s"}).staging == Path("/data/s")
