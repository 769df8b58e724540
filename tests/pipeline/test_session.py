"""A session's settings, without Spark: partitions, packages, what a Connect server refuses. And
interrupts, wherever they come."""

import signal
import socket
import socketserver
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.accumulators import AccumulatorTCPServer

from ordercast.model.errors import ConfigError
from ordercast.pipeline import interrupts, open_session
from ordercast.pipeline.session import settings_of, slots


class Interrupted:
    """Is interrupted where Python forgets it: what is raised there goes no further."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


def interrupted_while_forgetting(number: signal.Signals) -> None:
    with interrupts.interruptible():
        held = [Interrupted(number)]
        held.clear()
        threading.Event().wait(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_not_lost_where_an_object_is_forgotten(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_while_forgetting(number)
    assert capsys.readouterr().err == ""


class _Fails(socketserver.BaseRequestHandler):
    error: type[Exception]

    def handle(self) -> None:
        raise self.error


@pytest.mark.parametrize(("error", "silent"), [(EOFError, True), (KeyError, False)])
def test_a_jvm_that_is_gone_leaves_no_page_of_its_counters(
    error: type[Exception], silent: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = type("Fails", (_Fails,), {"error": error})
    with (
        interrupts.quiet_interrupts(),
        AccumulatorTCPServer(("127.0.0.1", 0), handler, "") as server,
        socket.create_connection(("127.0.0.1", server.server_address[1])),
    ):
        server.handle_request()
    assert ("Traceback" not in capsys.readouterr().err) is silent
    assert "handle_error" not in vars(AccumulatorTCPServer)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, 6),
        ({"enabled": "true", "maxExecutors": "10"}, 40),
        ({"enabled": "true", "maxExecutors": "1"}, 6),
        ({"enabled": "true"}, 200),  # what is there now says nothing of what will be
        ({"enabled": "true", "maxExecutors": "infinity"}, 200),
        ({"enabled": "true", "maxExecutors": str(2**31 - 1)}, 200),
        ({"enabled": "false", "maxExecutors": "10"}, 6),
    ],
)
def test_partitions_are_as_many_as_the_cluster_may_give(
    settings: dict[str, str], wanted: int
) -> None:
    found = {f"spark.dynamicAllocation.{name}": text for name, text in settings.items()}
    found["spark.executor.cores"] = "4"
    session: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(defaultParallelism=6), conf=SimpleNamespace(get=found.get)
    )
    assert slots(session) == wanted


def test_words_of_a_command_line_are_settings() -> None:
    found = settings_of(["spark.a=b=c"], "org:name:1,org:other:2", "one.py,two.zip")
    assert found == {
        "spark.a": "b=c", "spark.jars.packages": "org:name:1,org:other:2",
        "spark.submit.pyFiles": "one.py,two.zip",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="--conf: 'a=b' is not spark"):
        settings_of(["a=b"])


@pytest.mark.parametrize(
    ("option", "asked"),
    [
        ("--memory", {"memory": "4g"}),
        ("--packages", {"conf": settings_of([], "org:name:1")}),
        ("--conf spark.hadoop.fs.s3a.endpoint", {"conf": {"spark.hadoop.fs.s3a.endpoint": "x"}}),
    ],
)
def test_what_a_connect_server_starts_with_is_refused_before_it_is_asked(
    option: str, asked: Any
) -> None:
    with (
        pytest.raises(ConfigError, match=f"^{option}: a Spark Connect server is started with it"),
        open_session("x", master="sc://127.0.0.1:1", **asked),
    ):
        raise AssertionError
