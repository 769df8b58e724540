"""The format `ordercast` of Spark: its schema, its readers and its writer."""

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from ordercast.model.errors import ConfigError
from ordercast.pipeline.streams.columns import spark_schema
from ordercast.pipeline.streams.options import query_options, sink_options, source_options
from ordercast.pipeline.streams.sink import SinkWriter
from ordercast.pipeline.streams.source import BatchReader, QueryReader


class OrdercastFormat(DataSource):
    """`spark.read`, `spark.readStream` and `writeStream` with `format("ordercast")`."""

    @classmethod
    def name(cls) -> str:
        return "ordercast"

    def schema(self) -> str:
        return spark_schema(source_options(self.options).headers)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return BatchReader(source_options(self.options))

    def streamReader(  # noqa: N802
        self,
        schema: StructType,  # noqa: ARG002
    ) -> DataSourceStreamReader:
        return QueryReader(query_options(self.options))

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamWriter:
        return SinkWriter(sink_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002
        raise ConfigError("format ordercast: write a stream (writeStream): batches have no number")
