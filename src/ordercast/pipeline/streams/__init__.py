"""Deliveries as a source of Spark, and groups as its sink: docs/streams.md has the argument.

Spark enters by `pyspark_ordercast`, which it finds by name. The live audit enters too.
"""
