"""The daemon that forks Spark's Python workers, with the sink's modules imported before it forks.

A worker ends with each task that fails. So the next one has nothing to import. (Arrow makes its
threads anew after a fork.)
"""

import pandas  # type: ignore[import-untyped]
import pyarrow.compute
import pyspark.sql.conversion
import pyspark.sql.pandas.serializers
import pyspark.worker
from pyspark import daemon

import ordercast.pipeline.streams.format

__all__ = ["ordercast", "pandas", "pyarrow", "pyspark"]

if __name__ == "__main__":
    daemon.manager()
