"""Live figures as a streaming query of Spark."""

from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from ordercast.model.errors import ConfigError
from ordercast.pipeline.following.figure import COLUMNS, LATE_S, PERCENTILES, WINDOW_S, Figure
from ordercast.pipeline.following.lent_batches import LentQuery
from ordercast.pipeline.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def figures(
    deliveries: "DataFrame",
    sent: "DataFrame",
    *,
    out: str | Path | None = None,
    on_figures: Callable[[Sequence[Figure]], None] | None = None,
    checkpoint: str | Path | None = None,
    window_s: int = WINDOW_S,
    late_s: int = LATE_S,
    every_s: float = 1.0,
    once: bool = False,
) -> "StreamingQuery | LentQuery":
    """Start a streaming query over the two tables, which are streams. A window is told once, as
    soon as a row comes that is `late_s` seconds younger than the end of the window. Rows of the
    window that come later are left out. `out`: a folder of Parquet files; a repeated batch
    overwrites its own. `on_figures` is called in this process. Over Spark Connect `out` and
    `checkpoint` are paths at the server. Raises ConfigError if neither `out` nor `on_figures` is
    given."""
    if out is None and on_figures is None:
        raise ConfigError("figures need 'out', 'on_figures' or both")

    def tell(frame: "DataFrame", batch: int) -> None:
        # Collect it once: it is small, and Spark would compute the windows again for each use.
        told = beside_each_other(frame).orderBy("window_start", "group_name", "site").toArrow()
        if told.num_rows and out is not None:
            name = f"{_place(out)}/batch-{batch:012}"
            written = frame.sparkSession.createDataFrame(told).coalesce(1)
            written.write.mode("overwrite").parquet(name)
        if told.num_rows and on_figures is not None:
            on_figures([_figure(row) for row in told.to_pylist()])

    writer = by_window(deliveries, sent, window_s, late_s).writeStream.outputMode("append")
    trigger = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
    writer = writer.queryName("ordercast figures").trigger(**trigger)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", _place(checkpoint))
    spark = deliveries.sparkSession
    if is_connect(spark):
        return LentQuery(spark, writer, tell)
    return writer.foreachBatch(tell).start()


def _figure(row: dict[str, Any]) -> Figure:
    start = row["window_start"].astimezone(UTC).replace(tzinfo=None)
    return Figure(**{**row, "window_start": start})


def _place(name: str | Path) -> str:
    """An absolute path: a server may have started in another folder."""
    text = str(name).rstrip("/")
    return text if "://" in text else str(Path(text).resolve())


def by_window(
    deliveries: "DataFrame", sent: "DataFrame", window_s: int, late_s: int
) -> "DataFrame":
    """The figures of one site and one group in a window."""
    told = f.col("sent_ns") if "sent_ns" in deliveries.columns else f.lit(None).cast("long")
    rows = deliveries.select(
        "site", "group_name", _time("delivered_ns").alias("at"), f.lit(1).alias("delivered"),
        ((f.col("delivered_ns") - told) / 1e6).alias("latency"),
    )  # fmt: skip
    sends = sent.select(
        f.col("origin").alias("site"), "group_name", _time("sent_ns").alias("at"),
        f.lit(0).alias("delivered"), f.lit(None).cast("double").alias("latency"),
    )  # fmt: skip
    every = rows.unionAll(sends).withWatermark("at", f"{late_s} seconds")
    percentiles = f.percentile_approx("latency", list(PERCENTILES), 1_000)
    found = every.groupBy(f.window("at", f"{window_s} seconds"), "site", "group_name").agg(
        f.sum("delivered").alias("deliveries"),
        f.sum(1 - f.col("delivered")).alias("sends"),
        percentiles.alias("percentiles"),
        f.max("latency").alias("latency_max_ms"),
        f.max(f.when(f.col("delivered") == 1, f.col("at"))).alias("last"),
    )
    return found.select(
        f.col("window.start").alias("window_start"), "site", "group_name", "deliveries", "sends",
        (f.col("deliveries") / window_s).alias("rate"),
        ((f.col("deliveries") + f.col("sends")) / window_s).alias("load"),
        f.col("percentiles")[0].alias("latency_p50_ms"),
        f.col("percentiles")[1].alias("latency_p99_ms"), "latency_max_ms", "last",
    )  # fmt: skip


def beside_each_other(frame: "DataFrame") -> "DataFrame":
    """How far each site is behind the furthest of the group in the window. A window that is closed
    comes in one batch, with all its sites."""
    group = Window.partitionBy("window_start", "group_name")
    lag = _seconds(f.max("last").over(group)) - _seconds(f.col("last"))
    return (
        frame.withColumn("behind", f.max("deliveries").over(group) - f.col("deliveries"))
        .withColumn("lag_ms", f.round(lag * 1_000, 3))
        .select(*COLUMNS)
    )


def _time(column: str) -> "Column":
    return f.timestamp_micros((f.col(column) / 1_000).cast("long"))


def _seconds(column: "Column") -> "Column":
    return column.cast("double")
