"""The format `ordercast_lake` of Spark: the stream of a lake that `follow` reads. Spark finds it as
it finds `pyspark_ordercast`; a format that is registered by hand would be planned at the driver by
the name of the executors' Python."""

from ordercast.pipeline.following.lakes import LakeFormat

DefaultSource = LakeFormat

__all__ = ["DefaultSource"]
