"""One Spark session for the whole suite: a JVM takes seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ordercast.pipeline.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with open_session(
        "tests", master="local[2]", memory="1g", progress=False, brief=True
    ) as session:
        yield session
