"""A session's settings, without Spark: partitions, packages, what a Connect server refuses. And
interrupts, wherever they come."""

import random
import signal
import socket
import socketserver
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark.accumulators import AccumulatorTCPServer

from ordercast.cli import main
from ordercast.history.writer import write_history
from ordercast.model.errors import ConfigError
from ordercast.pipeline import interrupts, open_session
from ordercast.pipeline.session import last_words, settings_of, slots
from support.cases.fuzz import right_history


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


def test_the_package_for_s3_is_that_of_sparks_own_hadoop() -> None:
    """A wrong one fails late, with a class that is missing."""
    jars = Path(pyspark.__file__).parent / "jars"
    (api,) = jars.glob("hadoop-client-api-*.jar")
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")
    hadoop = api.stem.removeprefix("hadoop-client-api-")
    assert f"`org.apache.hadoop:hadoop-aws:{hadoop}`" in page
    release = ".".join(pyspark.__version__.split(".")[:2])
    assert f"{hadoop} in Spark {release}" in page


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


ENDED = """\
WARNING: Using incubator modules: jdk.incubator.vector
Setting default log level to "WARN".
Exception in thread "dag-scheduler-event-loop" java.lang.InternalError: no such method
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4560)
Caused by: java.lang.VirtualMachineError: Out of space in CodeCache for method handle intrinsic
\t... 39 more
"""


def test_a_jvm_that_has_ended_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "jvm.log"
    log.write_text(ENDED)
    said = "Out of space in CodeCache for method handle intrinsic"
    assert last_words(50, log) == f"Spark's JVM ended with exit code 50: {said}"
    log.write_text("".join(ENDED.splitlines(keepends=True)[:2]))
    assert last_words(-9, log) == "Spark's JVM was killed by signal 9"


JAVA = """#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "17.0.1"' >&2 && exit 0
echo 'Error: it does not start' >&2
exit 1
"""


@pytest.mark.parametrize(("more", "hinted"), [([], True), (["--conf", "spark.a=b"], False)])
def test_a_small_history_gets_a_hint_at_the_engine_in_memory(
    more: list[str],
    hinted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It comes while Spark starts; here with a Java that does not. Who wants something of Spark
    gets none."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text(JAVA, encoding="utf-8")
    (tmp_path / "bin" / "java").chmod(0o755)
    for name in ("JAVA_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, str(tmp_path))
    write_history(right_history(random.Random(1)), tmp_path / "h")
    assert main(["audit", str(tmp_path / "h"), *more]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("ordercast: Spark does not start with --master local[*]")
    hints = [line for line in said if "--engine memory judges so few before Spark" in line]
    assert [line.split()[1] for line in hints] == (["rows:"] if hinted else [])
