"""Functions from Arrow to Arrow on the caller's session, whatever types it wants of them.

A session may ask for Arrow's large types (`spark.sql.execution.arrow.useLargeVarTypes`), and then
refuses the others, though its schemas do not name them.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Steps = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

Data = TypeVar("Data", bound=Any)  # a batch or a table
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


def map_batches(frame: "DataFrame", step: "Steps", ddl: str) -> "DataFrame":
    """`mapInArrow` of a step that makes small types."""
    if not _wants_large(frame.sparkSession):
        return frame.mapInArrow(step, ddl)

    def large(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return map(_enlarged, step(batches))

    return frame.mapInArrow(large, ddl)


def map_groups(
    frame: "DataFrame", key: str, step: "Callable[[pa.Table], pa.Table]", ddl: str
) -> "DataFrame":
    """`applyInArrow` of a step that makes small types, to the rows of each key."""
    grouped = frame.groupBy(key)
    if not _wants_large(frame.sparkSession):
        return grouped.applyInArrow(step, ddl)
    return grouped.applyInArrow(lambda table: _enlarged(step(table)), ddl)


def _wants_large(spark: "SparkSession") -> bool:
    return str(spark.conf.get(_LARGE, "false")).lower() == "true"


def _enlarged(data: Data) -> Data:
    import pyarrow as pa

    large = {pa.binary(): pa.large_binary(), pa.string(): pa.large_string()}
    fields = [field.with_type(large.get(field.type, field.type)) for field in data.schema]
    found: Data = data.cast(pa.schema(fields))
    return found
