"""The format `ordercast` of Spark. Spark looks for modules named `pyspark_…` by itself, and takes
the `DefaultSource` of each: `spark.readStream.format("ordercast")` needs no registration."""

from ordercast.pipeline.streams.format import OrdercastFormat

DefaultSource = OrdercastFormat

__all__ = ["DefaultSource"]
