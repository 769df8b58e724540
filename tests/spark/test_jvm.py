"""The JVM of a session lives as long as the session."""

from typing import Any

from pyspark.sql import SparkSession


def test_a_jvm_that_compiles_quickly_has_room_for_all_that_it_compiles(spark: SparkSession) -> None:
    """When the room is full, the JVM ends. This suite alone fills 48 MB."""
    jvm: Any = spark._jvm
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    room = {pool.getName(): pool.getUsage().getMax() for pool in pools}
    assert sum(size for name, size in room.items() if name.startswith("Code")) >= 200 << 20
