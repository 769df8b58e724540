"""Deliveries as a source of Spark, and groups as its sink: docs/streams.md has the argument.

`pyspark_ordercast` enters, which Spark finds by its name, and whoever follows a history.
"""
