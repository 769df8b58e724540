"""Deliveries as a source of Spark, and groups as its sink: docs/streams.md has the argument.

Entered by `following` and users: Spark finds `pyspark_ordercast` by name.
"""
