"""The format `ordercast` in Spark: it reads in batches, and goes on. That it reads a history as
Spark reads its files is shown on a cluster (`test_standalone_cluster.py`)."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ordercast import Delivery
from ordercast.history.rows import Delivered, History
from ordercast.history.writer import write_history
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from ordercast.pipeline.streams.source import ADMISSION
from support.clusters.campaigns.stream_kills import StreamCase, run_stream
from support.clusters.served import served
from support.harness.loops import in_loop
from support.judges.kept_rows import judge_kept, judge_sent
from support.programs.stream_query import finish

CLIENT = """
import json, sys
import pyarrow as pa
from pyspark.sql import SparkSession
from ordercast.pipeline.streams.source import ADMISSION

remote, place, checkpoint = sys.argv[1:]
place = json.loads(place)
spark = SparkSession.builder.remote(remote).getOrCreate()

def in_order(parts):
    # The rows of a task. Spark sorts no stream, and promises no order behind a shuffle.
    if found := list(parts):
        yield from pa.Table.from_batches(found).sort_by("n").to_batches()

read = spark.read.format("ordercast").options(**place, subscribe="alpha").load()
found = [[row.site, row.position, int(row.payload)] for row in read.collect()]
stream = spark.readStream.format("ordercast").options(**place, subscribe="alpha")
rows = stream.options(maxOffsetsPerTrigger="60", readerName="mine").load()
rows = rows.selectExpr(
    "cast(cast(payload as string) as int) as n", "n % 7 as key", "payload",
    "map('key', cast(cast(key as string) as binary)) as headers",
    "if(n % 2 = 0, 'beta', 'gamma') as group",
).repartition(3, "key").mapInArrow(in_order, "n int, key int, payload binary,"
    " headers map<string, binary>, group string")
sink = rows.select("payload", "headers", "group").writeStream.format("ordercast")
sink = sink.options(**place, producer="mine", checkpointLocation=checkpoint)
for _ in range(1 if ADMISSION else 3):  # below Spark 4.2 each is one batch; one may be repeated
    sink.trigger(availableNow=True).start().awaitTermination()
try:
    spark.read.format("ordercast").option("subscribes", "x").load("h").collect()
except Exception as error:
    said = next(each for each in str(error).splitlines() if "errors.ConfigError: " in each)
print(json.dumps([found, said]))
spark.stop()
"""


def write(folder: Path, rows: range) -> None:
    made = [
        Delivered(site, n, 1, 1, "alpha", "a", 1, n, n, headers='{"t":"aGk="}', sent_ns=n * 1000)
        for site in "ab"
        for n in rows
    ]
    write_history(History(deliveries=made), folder)


def behind(told: Any) -> int:
    """How many positions a query is behind its sites, by its progress."""
    end, latest = ({**json.loads(told[name])} for name in ("endOffset", "latestOffset"))
    return sum(latest[site][1] - end[site][1] for site in latest)


def test_a_query_reads_in_batches_and_goes_on_behind_its_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "h", range(1, 31))

    def run() -> list[int]:
        stream = spark.readStream.format("ordercast").option("maxOffsetsPerTrigger", "20")
        query = (
            stream.load(str(tmp_path / "h"))
            .writeStream.option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"), format="parquet")
        )
        query.awaitTermination()
        read = [told for told in query.recentProgress if told["numInputRows"]]
        lags.append([behind(told["sources"][0]) for told in read] if ADMISSION else [])
        return [told["numInputRows"] for told in read]

    lags: list[list[int]] = []
    if ADMISSION:
        assert run() == [20, 20, 20]
        assert lags == [[40, 20, 0]]  # positions behind the sites, after each batch
    else:  # Spark asks for one batch, and does not say where it starts
        assert run() == [60]
    write(tmp_path / "more", range(31, 36))
    (tmp_path / "more" / "deliveries").rename(tmp_path / "h" / "deliveries" / "more")
    assert run() == [10]
    rows = spark.read.parquet(str(tmp_path / "out")).select("site", "position").collect()
    assert sorted(map(tuple, rows)) == [(site, n) for site in "ab" for n in range(1, 36)]
    last = max((tmp_path / "c" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offsets = last.read_text(encoding="utf-8").splitlines()
    assert json.loads(offsets[-1]) == {"a": [1, 35], "b": [1, 35]}


def test_a_mistake_is_one_line_of_the_error(spark: SparkSession) -> None:
    wrong = spark.read.format("ordercast").option("subscribes", "x").option("history", "h")
    with pytest.raises(PySparkException) as found:
        wrong.load()
    line = next(line for line in str(found.value).splitlines() if "errors.ConfigError: " in line)
    assert line.endswith("subscribes: 'x': there is no such option (did you mean 'subscribe'?)")


def test_queries_send_and_keep_each_row_of_three_sites_once_over_kills(
    spark: SparkSession, tmp_path: Path
) -> None:
    """SIGKILL of the driver, of a worker and of a daemon; the last commits are forgotten, and
    another driver, this one, ends the queries."""

    def ended(words: list[str]) -> list[str]:
        finish(spark, words)
        return []

    case = StreamCase(2, ("a node", "a worker", "the driver"), batches=2)
    found = run_stream(case, tmp_path, ended)
    assert found.wrong == []
    assert found.counts["sent"] > 1_000
    assert found.counts["rows kept"] >= 3 * found.counts["sent"] - 1  # all at two, a half at two
    assert found.counts["batches of both queries"] >= 5


@in_loop
async def test_a_client_of_spark_connect_sends_rows_with_headers_to_the_groups_that_they_name(
    connect: str, tmp_path: Path
) -> None:
    """It has no Java: source and sink run at the server. Over TLS both ways, as a producer with a
    name. Batches of Spark end within those of the sender. `key` decides about the task of a row,
    and rows of one key keep their order."""
    certs, groups = tmp_path / "certs", {"alpha": ["a"], "beta": ["a", "b"], "gamma": ["a", "b"]}
    write_certificates("local", ["a", "b"], certs)
    add_client_certificates("local", ["spark"], certs)
    everything = ["send:*", "read:*", "observe:*", "admin:*"]
    grants = {"socket": everything, "site:*": everything, "client:spark": ["read:*", "send:*"]}
    environment = {n: text for n, text in os.environ.items() if "SPARK" not in n}
    environment["JAVA_HOME"] = "/nowhere"
    async with (
        served(tmp_path, groups, remote=True, tls={"dir": str(certs)}, grants=grants) as sites,
        sites.connect("a") as client,
    ):
        numbers = [str(n).encode() for n in range(100)]
        await (await client.produce("p", 1, "alpha", numbers)).stable()
        place = {"nodes": sites.address("a"), "cert": str(certs / "clients" / "spark.pem")}
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", CLIENT, connect, json.dumps(place), str(tmp_path / "c")],
            env=environment, capture_output=True, text=True, timeout=170, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        read, said = json.loads(done.stdout)
        assert read == [["a", n + 1, n] for n in range(100)]
        assert said.endswith("(did you mean 'subscribe'?)")
        assert (tmp_path / "c" / "ordercast" / "producer").read_text(encoding="utf-8") == "mine"
        found: dict[str, dict[bytes, list[int]]] = {"beta": {}, "gamma": {}}
        following = client.deliveries(len(numbers) + 1)
        while sum(len(rows) for keys in found.values() for rows in keys.values()) < len(numbers):
            if isinstance(item := await anext(following), Delivery):
                found[item.group].setdefault(item.headers["key"], []).append(int(item.payload))
        for odd, group in enumerate(("beta", "gamma")):
            assert found[group] == {
                str(key).encode(): [n for n in range(100) if n % 2 == odd and n % 7 == key]
                for key in range(7)
            }
        await following.aclose()
        assert (await client.status())["position"] == 2 * len(numbers)


def test_the_judges_of_streams_find_what_is_wrong() -> None:
    wanted = ["2", "4", "6"]
    assert judge_sent("b", wanted, wanted) == []
    for got, said in (
        (["2", "4"], "lost ['6']"),
        (["2", "4", "4", "6"], "twice ['4']"),
        (["4", "2", "6"], "another order"),
    ):
        assert said in judge_sent("b", wanted, got)[0]
    logs = {"a": [(n, "alpha", str(n)) for n in range(1, 4)], "b": [(1, "alpha", "1")]}
    one, two, three = logs["a"]
    assert judge_kept(logs, dict(logs)) == []
    for rows, said in (
        ([one, three], "2 of 3 rows: too many [], lost [(2, 'alpha', '2')]"),
        ([one, two, two, three], "too many [(2, 'alpha', '2')], lost []"),
        ([two, one, three], "another order"),
        ([one, two, (3, "gamma", "3")], "too many [(3, 'gamma', '3')], lost [(3, 'alpha', '3')]"),
    ):
        assert said in judge_kept(logs, {**logs, "a": rows})[0]
