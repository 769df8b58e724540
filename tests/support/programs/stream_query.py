"""A program with a query of Spark from one group to another, for tests that kill it.

Arguments: the cluster file, the folder of stores, the checkpoint, and `go` (until it is killed) or
`finish` (what is there now); if wanted a master, whose workers have this Python.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ordercast.pipeline.session import open_session
from ordercast.pipeline.streams.source import ADMISSION

PER_BATCH = 700
CLUSTER = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
}


def start(spark: SparkSession, words: list[str]) -> Any:
    """The even numbers of alpha go to gamma, in their order."""
    file, stores, checkpoint, mode = words[:4]
    place = {"nodes": file, "dir": stores, "timeout": "120"}
    rows = (
        spark.readStream.format("ordercast")
        .options(**place, sites="b", subscribe="alpha", maxOffsetsPerTrigger=str(PER_BATCH))
        .load()
    )
    even = rows.where("cast(cast(payload as string) as int) % 2 = 0").select("payload")
    writing = even.writeStream.format("ordercast").options(**place, site="c", group="gamma")
    writing = writing.option("checkpointLocation", checkpoint)
    trigger: Callable[..., Any] = writing.trigger
    writing = (
        trigger(availableNow=True) if mode == "finish" else trigger(processingTime="0 seconds")
    )
    return writing.start()


def finish(spark: SparkSession, words: list[str]) -> None:
    """Read what is there now. Below Spark 4.2 a run has one batch, and the first run may repeat
    the last batch: so it is run until there is no new one."""
    offsets = Path(words[2]) / "offsets"
    repeated = ADMISSION
    while True:
        begun = len(list(offsets.glob("[0-9]*")))
        start(spark, words).awaitTermination()
        if repeated and (ADMISSION or len(list(offsets.glob("[0-9]*"))) == begun):
            return
        repeated = True


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
                start(spark, words).awaitTermination()
            except PySparkException as error:  # such as a worker that was killed four times
                print(str(error)[-1500:], flush=True)


if __name__ == "__main__":
    main()
