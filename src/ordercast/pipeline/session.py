"""The one place that makes a Spark session, for the verbs; library functions take the caller's.

A session is local by default, and ends with its verb. The JVM's words go to a file, which is shown
only when the JVM does not start. pyspark is imported when a session is opened, so that a missing
package is told in one line.
"""

import importlib
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ordercast.model.errors import ConfigError
from ordercast.pipeline.java import Java, require_java
from ordercast.pipeline.progress import saying, show_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession

DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "2g"
_QUIET = Path(__file__).with_name("log4j2.properties")
_MEMORY = re.compile(r"[1-9]\d*[kmgtKMGT]")


@contextmanager
def open_session(
    app: str,
    *,
    master: str | None = None,
    memory: str | None = None,
    progress: bool | None = None,
    tell: bool = False,
    brief: bool = False,
) -> Iterator["SparkSession"]:
    """A session for a verb; where this process has one already, that one, and it stays open.

    `memory` is the JVM's. `progress`: a bar on standard error (default: when that is a terminal).
    `tell`: say on standard error which Java is used. `brief`: for little work, where a JVM that
    compiles quickly rather than well takes half the time.
    """
    sql = require_pyspark()
    if memory is not None and not _MEMORY.fullmatch(memory):
        raise ConfigError(f"--memory: {memory!r} is not a size like 2g or 512m")
    bar = sys.stderr.isatty() if progress is None else progress
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        with _one_line_errors(), show_progress(active) if bar else nullcontext():
            yield active
    elif (master or "").startswith("sc://"):
        with _connected(sql, app, str(master)) as session, _one_line_errors():
            yield session
    else:
        java = require_java()
        if tell:
            print(f"Spark {_version()} on {java}", file=sys.stderr, flush=True)
        chosen = (master or DEFAULT_MASTER, memory or DEFAULT_MEMORY)
        starting = saying("starting Spark") if bar else nullcontext()
        with (
            _quiet_interrupts(),
            _started(sql, app, java, *chosen, brief, starting) as session,
            _one_line_errors(),
            show_progress(session) if bar else nullcontext(),
        ):
            yield session


def require_pyspark() -> Any:
    """`pyspark.sql`, or the one line that says how to get it."""
    try:
        for name in ("pandas", "pyarrow", "numpy"):  # Arrow functions need them, and fail late
            importlib.import_module(name)
        return importlib.import_module("pyspark.sql")
    except ImportError as error:
        raise ConfigError(
            f"this needs Spark, which the extra 'spark' brings ({error.name} is missing):"
            " pip install 'ordercast[spark]'"
        ) from None


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What Spark throws is a page of Java; a verb's user gets the line that matters."""
    kinds = (
        importlib.import_module("pyspark.errors").PySparkException,
        importlib.import_module("py4j.protocol").Py4JError,
    )
    try:
        yield
    except kinds as error:
        raise ConfigError(f"Spark failed: {_essence(str(error))}") from error


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """Ctrl-C ends the work with KeyboardInterrupt and nothing else.

    The bridge to the JVM logs a page about every interrupted call, by its own loggers and by the
    root one. It also does so when the session is closed after an error: then the silence stays.
    """
    root, bridge = logging.getLogger(), logging.getLogger("py4j")
    level = bridge.level
    root.addFilter(_not_the_bridge)
    bridge.setLevel(logging.CRITICAL + 1)
    yield
    root.removeFilter(_not_the_bridge)
    bridge.setLevel(level)


def _not_the_bridge(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _version() -> str:
    return str(importlib.import_module("pyspark").__version__)


@contextmanager
def _connected(sql: Any, app: str, url: str) -> Iterator["SparkSession"]:
    """A session of a Spark Connect server, which has its own Java and memory."""
    try:
        session = sql.SparkSession.builder.remote(url).appName(app).getOrCreate()
    except Exception as error:
        raise ConfigError(f"--master {url}: {_essence(str(error))}") from None
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _started(
    sql: Any,
    app: str,
    java: Java,
    master: str,
    memory: str,
    brief: bool,
    starting: AbstractContextManager[None],
) -> Iterator["SparkSession"]:
    _prepare_environment(java, local=master.startswith("local"))
    # A JVM that is interrupted may still write there: what it leaves is not our user's concern.
    with tempfile.TemporaryDirectory(
        prefix="ordercast-spark-", ignore_cleanup_errors=True
    ) as scratch:
        log = Path(scratch) / "jvm.log"
        settings = {**_settings(scratch, memory), "spark.master": master, "spark.app.name": app}
        if brief:
            settings["spark.driver.extraJavaOptions"] += " -XX:TieredStopAtLevel=1"
        if master.startswith("local"):
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        with log.open("wb") as said, starting:
            session, gateway = _start(sql, settings, said, log)
        # Spark's own handler talks to the JVM while the main thread does: that ends in a traceback.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield session
        except BaseException:
            with suppress(Exception):  # after Ctrl-C within a call it may answer no more
                session.stop()
            _end(gateway)
            raise
        session.stop()
        _end(gateway)


def _prepare_environment(java: Java, *, local: bool) -> None:
    """What the JVM and its Python workers inherit."""
    if java.home is None:
        os.environ.pop("JAVA_HOME", None)  # that Java did not answer, and Spark would try it first
    else:
        os.environ["JAVA_HOME"] = str(java.home)
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _settings(scratch: str, memory: str) -> dict[str, str]:
    return {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": scratch,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # a quarter less time than 10,000
        # Two partitions beat 200 on two cores; what needs more says so where it shuffles.
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    }


def _start(sql: Any, settings: dict[str, str], said: IO[bytes], log: Path) -> tuple[Any, Any]:
    core = importlib.import_module("pyspark")
    gateways = importlib.import_module("pyspark.java_gateway")
    conf = core.SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    try:
        gateway = gateways.launch_gateway(conf, popen_kwargs={"stdout": said, "stderr": said})
    except Exception as error:
        words = log.read_text(encoding="utf-8", errors="replace")
        raise ConfigError(
            f"Spark does not start with --master {settings['spark.master']} and"
            f" --memory {settings['spark.driver.memory']}: {_essence(words or str(error))}"
        ) from None
    context = None
    try:
        context = core.SparkContext(gateway=gateway, conf=conf)
        return sql.SparkSession(context), gateway
    except Exception as error:
        words = str(error)  # asks the JVM
        if context is not None:
            context.stop()
        _end(gateway)
        raise ConfigError(
            f"--master {settings['spark.master']}: Spark does not start: {_essence(words)}"
        ) from None


def _end(gateway: Any) -> None:
    """End the JVM, which lives as long as its standard input is open, and forget it."""
    core = importlib.import_module("pyspark")
    with suppress(Exception):  # one that failed to start may have closed its side already
        gateway.shutdown()
    with suppress(OSError):
        gateway.proc.stdin.close()
    gateway.proc.wait()
    core.SparkContext._gateway = None
    core.SparkContext._jvm = None


def _essence(words: str) -> str:
    """The line of a complaint that says what happened, without the name of the exception.

    Of causes the last one tells most; Python's own come last, too.
    """
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    start = r"(?P<by>Caused by: |: |Exception in thread \S+ )?"
    named = re.compile(start + r"[\w.$]+(?:Exception|Error): (?P<why>.+)")
    found = [match for line in lines if (match := named.match(line))]
    causes = [match["why"] for match in found if match["by"] == "Caused by: "]
    plain = [line for line in lines if "incubator" not in line and not line.startswith("at ")]
    said = causes[-1:] or [match["why"] for match in found] or plain[1:] or plain
    file = re.search(r"reading file (?:file:/*(?=/))?(\S+?)\.?(?:\s|$)", words)
    return (f"{file[1]}: " if file else "") + (said[0] if said else "it says nothing")
