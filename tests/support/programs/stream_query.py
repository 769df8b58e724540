"""A program with two queries of Spark, for tests that kill it: from one group to another, and all
that three sites deliver into Parquet files.

Arguments: the cluster file, the folder of stores, the folder of the queries, and `go` (until it is
killed) or `finish` (what is there now); if wanted a master, whose workers have this Python.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ordercast.net.client.client import connect
from ordercast.net.cluster.file import read_cluster
from ordercast.pipeline.session import open_session
from ordercast.pipeline.streams.source import ADMISSION

PER_BATCH = 20_000  # positions of all sites of a query
SENDING, KEEPING, ROWS = "sending", "keeping", "rows"  # two checkpoints, and the files
SITES = ("a", "b", "c")
CLUSTER = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
}


def start(spark: SparkSession, words: list[str], name: str) -> Any:
    """The even numbers of alpha go to gamma, in their order; or all deliveries are kept."""
    file, stores, folder, mode = words[:4]
    place = {"nodes": file, "dir": stores, "timeout": "120"}
    source = spark.readStream.format("ordercast").options(**place)
    source = source.option("maxOffsetsPerTrigger", str(PER_BATCH))
    if name == SENDING:
        rows = source.options(sites="b", subscribe="alpha", readerName="sender").load()
        even = rows.where("cast(cast(payload as string) as int) % 2 = 0").select("payload")
        writing = even.writeStream.format("ordercast").options(**place, site="c", group="gamma")
    else:
        rows = source.options(sites=",".join(SITES), readerName="keeper").load()
        rows = rows.select("site", "position", "kind", "group_name", "payload")
        writing = rows.writeStream.format("parquet").option("path", f"{folder}/{ROWS}")
    writing = writing.option("checkpointLocation", f"{folder}/{name}")
    trigger: Callable[..., Any] = writing.trigger
    writing = (
        trigger(availableNow=True) if mode == "finish" else trigger(processingTime="0 seconds")
    )
    return writing.start()


def go(spark: SparkSession, words: list[str]) -> None:
    """Until one of the queries fails."""
    queries = [start(spark, words, name) for name in (SENDING, KEEPING)]
    try:
        spark.streams.resetTerminated()
        spark.streams.awaitAnyTermination()
    finally:
        for query in queries:
            query.stop()


def finish(spark: SparkSession, words: list[str]) -> None:
    """Read what is there now: all that is to be sent, and then all that is to be kept. Below Spark
    4.2 a run has one batch, and the first run may repeat the last batch: so it is run until there
    is no new one."""
    for name in (SENDING, KEEPING):
        asyncio.run(_settled(Path(words[0]), Path(words[1])))
        offsets = Path(words[2]) / name / "offsets"
        repeated = ADMISSION
        while True:
            begun = len(list(offsets.glob("[0-9]*")))
            start(spark, words, name).awaitTermination()
            over = ADMISSION or len(list(offsets.glob("[0-9]*"))) == begun
            if repeated and over:
                break
            repeated = True


async def _settled(file: Path, stores: Path) -> None:
    """Wait until the source can read all that was sent."""
    for site in SITES:
        async with connect(read_cluster(file), site, stores, start_s=60, patience_s=60) as client:
            status = await client.status()
            while not status["quiet"] or status["settled"] < status["position"]:
                await asyncio.sleep(0.05)
                status = await client.status()


def main() -> None:
    words = sys.argv[1:]
    master, conf = (words[4], CLUSTER) if words[4:] else ("local[2,4]", {})
    with open_session(
        "q", master=master, memory="1g", conf=conf, progress=False, brief=True
    ) as spark:
        while True:
            try:
                if words[3] == "finish":
                    return finish(spark, words)
                go(spark, words)
            except PySparkException as error:  # such as a worker that was killed four times
                print(str(error)[-1500:], flush=True)


if __name__ == "__main__":
    main()
