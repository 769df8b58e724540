"""The sink, as Spark calls it: tasks stage rows, and a commit sends them (docs/streams.md)."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from ordercast.model.errors import ConfigError
from ordercast.model.headers import header_items
from ordercast.model.names import require_name, shown
from ordercast.pipeline.streams.nodes import client_of
from ordercast.pipeline.streams.options import SinkOptions
from ordercast.pipeline.streams.sending import commit_batch
from ordercast.pipeline.streams.staging import StagedFile, StagedRow, Staging

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # of a task, as Spark names them
# Spark 4.0 gives rows, not Arrow batches.
_Writer: Any = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


@dataclass
class Staged(WriterCommitMessage):
    """What a task tells the commit."""

    producer: str
    query: str
    file: StagedFile


class SinkWriter(_Writer):  # type: ignore[misc]
    """`write` runs in tasks, `commit` at the driver; each has a copy of its own."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        _require_columns(options, schema)

    def write(self, iterator: Iterator[Any]) -> Staged:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        batch = None if context is None else context.getLocalProperty(_BATCH)
        if context is None or batch is None or not (query or self.options.producer):
            raise ConfigError("producer: Spark does not tell the query's id here; name one")
        name = self.options.producer or f"spark-{query}"
        rows = (staged_row(row, self.options.group) for row in rows_in(iterator))
        staging = Staging(self.options.staging)
        file = staging.stage(int(batch), context.partitionId(), rows)
        return Staged(name, query or "", file)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        told = [message for message in messages if isinstance(message, Staged)]
        if len(told) < len(messages):
            raise ConfigError(f"batch {batchId}: {len(messages) - len(told)} tasks told nothing")
        producer = self.options.producer or next((each.producer for each in told), "")
        options = self.options
        asyncio.run(
            commit_batch(
                Staging(options.staging),
                producer,
                batchId,
                [each.file for each in told],
                lambda: client_of(options.nodes, None, options.site),
                chosen=bool(options.producer),
                query=next((each.query for each in told), ""),
            )
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove nothing: a commit that failed may have fixed these files."""


def rows_in(iterator: Iterator[Any]) -> Iterator[Mapping[str, Any]]:
    """Rows of Arrow batches, or Spark's own."""
    for item in iterator:
        if hasattr(item, "to_pylist"):
            yield from item.to_pylist()
        else:
            yield item.asDict()


def staged_row(row: Mapping[str, Any], group: str | None) -> StagedRow:
    payload = row["payload"]
    if payload is None:
        raise ConfigError("payload: a row has none (null); filter such rows out before the sink")
    data = payload.encode() if isinstance(payload, str) else bytes(payload)
    found = row.get("group")
    if found is None:
        found = group
    if found is None:
        raise ConfigError("group: a row has none (null), and there is no option 'group'")
    headers = row.get("headers")
    return StagedRow(require_name(found, "group"), data, header_items(dict(headers or {})))


def _require_columns(options: SinkOptions, schema: StructType) -> None:
    types = {field.name: field.dataType for field in schema.fields}
    if "payload" not in types:
        raise ConfigError(f"payload: there is no such column among {', '.join(types)}")
    if not isinstance(types["payload"], BinaryType | StringType):
        raise ConfigError(f"payload: {types['payload'].simpleString()} is not binary or string")
    if "group" not in types and options.group is None:
        raise ConfigError("group: name it as an option, or as a column of the rows")
    if not isinstance(types.get("group", StringType()), StringType):
        raise ConfigError(f"group: {types['group'].simpleString()} is not string")
    headers = types.get("headers", MapType(StringType(), BinaryType()))
    if not (
        isinstance(headers, MapType)
        and isinstance(headers.keyType, StringType)
        and isinstance(headers.valueType, BinaryType)
    ):
        raise ConfigError(f"headers: {headers.simpleString()} is not map<string,binary>")
    extra = sorted(set(types) - {"payload", "group", "headers"})
    if extra:
        raise ConfigError(f"{extra[0]}: {shown(extra)} are no columns of the sink; select others")
