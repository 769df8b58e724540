"""The daemon that forks Spark's Python workers, with the sink's modules imported before it forks.

A worker ends with each task that fails. So the next one has little to import. (Arrow starts
threads, so it is left to the workers.)
"""

import pyspark.worker
from pyspark import daemon

import ordercast.pipeline.streams.format

__all__ = ["ordercast", "pyspark"]

if __name__ == "__main__":
    daemon.manager()
