"""One Spark session for the whole suite: a JVM takes seconds to start. It is a Connect
server, too."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ordercast.pipeline.session import open_session
from support.harness.ports import free_ports

ADDRESS = "127.0.0.1"


@pytest.fixture(scope="session")
def connect_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="session")
def spark(connect_port: int) -> Iterator[SparkSession]:
    conf = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": ADDRESS,
        "spark.connect.grpc.binding.port": str(connect_port),
    }
    with open_session(
        "tests", master="local[2]", memory="1g", progress=False, brief=True, conf=conf
    ) as session:
        yield session


@pytest.fixture(scope="session")
def connect(spark: SparkSession, connect_port: int) -> str:
    """The address of the suite's session for Spark Connect."""
    assert spark.version
    return f"sc://{ADDRESS}:{connect_port}"
