"""Functions from Arrow to Arrow on the caller's session, whatever types it wants of them.

A session may ask for Arrow's large types (`spark.sql.execution.arrow.useLargeVarTypes`). It gives
them then, and refuses the others, though its schemas do not name them.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Steps = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

Data = TypeVar("Data", bound=Any)  # a batch or a table
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"
_LARGE_GROUPS = (4, 2)  # below this release a session wants small types of groups all the same


def map_batches(frame: "DataFrame", step: "Steps", ddl: str) -> "DataFrame":
    """`mapInArrow`."""
    if not _gives_large(frame.sparkSession):
        return frame.mapInArrow(step, ddl)

    def large(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return (_typed(batch, large=True) for batch in step(batches))

    return frame.mapInArrow(large, ddl)


def map_groups(
    frame: "DataFrame", key: str, step: "Callable[[pa.Table], pa.Table]", ddl: str
) -> "DataFrame":
    """`applyInArrow`, to the rows of each key."""
    grouped, spark = frame.groupBy(key), frame.sparkSession
    if not _gives_large(spark):
        return grouped.applyInArrow(step, ddl)
    large = tuple(map(int, spark.version.split(".")[:2])) >= _LARGE_GROUPS
    return grouped.applyInArrow(lambda table: _typed(step(table), large=large), ddl)


def _gives_large(spark: "SparkSession") -> bool:
    return str(spark.conf.get(_LARGE, "false")).lower() == "true"


def _typed(data: Data, *, large: bool) -> Data:
    import pyarrow as pa

    pairs = ((pa.binary(), pa.large_binary()), (pa.string(), pa.large_string()))
    wanted = {pair[not large]: pair[large] for pair in pairs}
    fields = [field.with_type(wanted.get(field.type, field.type)) for field in data.schema]
    found: Data = data.cast(pa.schema(fields))
    return found
