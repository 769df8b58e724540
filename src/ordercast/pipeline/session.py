"""The one place that makes a Spark session, for the verbs; library functions take the caller's.

A session is local by default, and ends with its verb. The JVM's words go to a file, which is shown
only when the JVM does not start. pyspark is imported when a session is opened, so that a missing
package is told in one line.
"""

import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ordercast.model.errors import ConfigError
from ordercast.pipeline.complaints import essence
from ordercast.pipeline.interrupts import held_interrupts, interruptible, quiet_interrupts
from ordercast.pipeline.java import Java, require_java
from ordercast.pipeline.progress import saying, show_progress
from ordercast.pipeline.shipping import PYTHON, python_of, shipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession

DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "2g"
_QUIET = Path(__file__).with_name("log4j2.properties")
_MOST_SLOTS = 4096  # at most
_NO_LIMIT = 2**31 - 1  # of executors, as Spark says it
_SPARKS_SLOTS = 200  # its default for shuffles
_SHUFFLES = "spark.sql.shuffle.partitions"
_PACKAGES, _PY_FILES = "spark.jars.packages", "spark.submit.pyFiles"
_SERVERS_OWN = "a Spark Connect server is started with it, and a client cannot change it"
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Alone, the first option leaves 48 MB for compiled code. A session of some minutes fills that, and
the JVM ends: "Out of space in CodeCache". 240 MB is what Java has without it."""
_NOISE = ("WARNING: Using incubator", "Setting default log level", "To adjust logging level")
_LAST_LINES = 60  # enough for the last page of Java; what was wrong earlier is not why it ended
_MEMORY = re.compile(r"[1-9]\d*[kmgtKMGT]")


@contextmanager
def open_session(
    app: str,
    *,
    master: str | None = None,
    memory: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: bool | None = None,
    tell: bool = False,
    brief: bool = False,
) -> Iterator["SparkSession"]:
    """A session for a verb; where this process has one already, that one, and it stays open.

    `master`: of a cluster, or `sc://…` for a Spark Connect server; by default what SPARK_REMOTE in
    the environment names, else here. `memory` is the JVM's. `conf`: settings of Spark, which win
    over ours. `progress`: a bar on standard error (default: when that is a terminal), and words
    while Spark starts (default: yes). `tell`: say on standard error which Java is used. `brief`:
    for little work, where a JVM that compiles quickly rather than well takes half the time.

    Raises ConfigError, in one line: without Spark or Java, where Spark does not start, and for what
    Spark throws within the block.
    """
    sql = require_pyspark()
    if memory is not None and not _MEMORY.fullmatch(memory):
        raise ConfigError(f"--memory: {memory!r} is not a size like 2g or 512m")
    master = master or os.environ.get("SPARK_REMOTE")
    bar = sys.stderr.isatty() if progress is None else progress
    active = open_already(sql)
    if active is not None:
        with _one_line_errors(), show_progress(active) if bar else nullcontext():
            yield active
    elif (master or "").startswith("sc://"):
        _refuse_servers_own(memory, conf or {})
        with (
            interruptible(),
            _connected(sql, app, str(master), conf or {}) as session,
            _one_line_errors(),
            show_progress(session) if bar else nullcontext(),
        ):
            yield session
    else:
        java = require_java()
        if tell:
            print(f"Spark {_version()} on {java}", file=sys.stderr, flush=True)
        chosen = (master or DEFAULT_MASTER, memory or DEFAULT_MEMORY, conf or {})
        starting = nullcontext() if progress is False else saying("starting Spark")
        with (
            interruptible(),
            quiet_interrupts(),
            _started(sql, app, java, *chosen, brief, starting) as session,
            _one_line_errors(),
            show_progress(session) if bar else nullcontext(),
        ):
            yield session


def open_already(sql: Any) -> "SparkSession | None":
    """The session of this process that is open, whichever thread opened it."""
    active: SparkSession | None = sql.SparkSession.getActiveSession()
    if active is None:
        other = getattr(sql.SparkSession, "_instantiatedSession", None)
        if other is not None and other._sc._jsc is not None:
            active = other
    return active


def is_connect(session: object) -> bool:
    """Whether it is one of Spark Connect, whose driver is another process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def require_pyspark() -> Any:
    """`pyspark.sql`, or the one line that says how to get it."""
    # Arrow functions need the others, and fail late.
    return _required("this needs Spark", "pandas", "pyarrow", "numpy", "pyspark.sql")


def require_tables() -> None:
    """What results and their intervals need, also without Spark."""
    _required("this needs tables and statistics", "pyarrow", "numpy", "scipy.special")


def _required(what: str, *names: str) -> Any:
    try:
        return [importlib.import_module(name) for name in names][-1]
    except ImportError as error:
        raise ConfigError(
            f"{what}, which the extra 'spark' brings ({error.name} is missing):"
            " pip install 'ordercast[spark]'"
        ) from None


def settings_of(
    words: Sequence[str], packages: str | None = None, py_files: str | None = None
) -> dict[str, str]:
    """Spark's settings from a command line: `K=V` words, Maven packages and Python files."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.startswith("spark."):
            raise ConfigError(f"--conf: {word!r} is not spark.NAME=VALUE")
        found[name] = value
    more = {_PACKAGES: packages, _PY_FILES: py_files}
    return found | {name: value for name, value in more.items() if value is not None}


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
        raise ConfigError(f"Spark failed: {essence(str(error))}") from error


def _version() -> str:
    return str(importlib.import_module("pyspark").__version__)


@contextmanager
def _connected(sql: Any, app: str, url: str, conf: Mapping[str, str]) -> Iterator["SparkSession"]:
    """A session of a Spark Connect server, which has its own Java and memory."""
    try:
        session = sql.SparkSession.builder.remote(url).appName(app).getOrCreate()
    except Exception as error:
        raise ConfigError(f"--master {url}: {essence(str(error))}") from None
    try:
        _set_at_server(session, conf)
        _require_same(session, url)
        yield session
    finally:
        session.stop()


def _refuse_servers_own(memory: str | None, conf: Mapping[str, str]) -> None:
    """What is fixed when a Spark Connect server starts: Spark would take it without a word."""
    asked = {"--memory": memory, "--packages": conf.get(_PACKAGES)}
    asked |= {f"--conf {name}": name for name in conf if name.startswith("spark.hadoop.")}
    for option, value in asked.items():
        if value is not None:
            raise ConfigError(f"{option}: {_SERVERS_OWN}")


def _set_at_server(session: Any, conf: Mapping[str, str]) -> None:
    for name, value in conf.items():
        try:
            if name == _PY_FILES:
                session.addArtifacts(*filter(None, value.split(",")), pyfile=True)
            else:
                session.conf.set(name, value)
        except Exception as error:
            if name == _PY_FILES:
                raise ConfigError(f"--py-files {value}: {essence(str(error))}") from None
            if "CANNOT_MODIFY" not in str(error):
                raise ConfigError(f"--conf {name}={value}: {essence(str(error))}") from None
            raise ConfigError(f"--conf {name}: {_SERVERS_OWN}") from None


@contextmanager
def _started(
    sql: Any,
    app: str,
    java: Java,
    master: str,
    memory: str,
    conf: Mapping[str, str],
    brief: bool,
    starting: AbstractContextManager[None],
) -> Iterator["SparkSession"]:
    local = master.startswith("local")
    _prepare_environment(java, local=local)
    # A JVM that is interrupted may still write there: what it leaves is not our user's concern.
    with tempfile.TemporaryDirectory(
        prefix="ordercast-spark-", ignore_cleanup_errors=True
    ) as scratch:
        log = Path(scratch) / "jvm.log"
        settings = session_settings(app, master, memory, conf, scratch, brief=brief)
        processes: list[subprocess.Popen[bytes]] = []
        with (
            log.open("wb") as said,
            starting,
            held_interrupts(lambda: _kill(processes)) as held,
            _noted(processes, held),
            _environment({} if local else python_of(settings[PYTHON], Path(scratch))),
        ):
            try:
                session, gateway = _start(sql, settings, said, log)
            except Exception:
                _forget(processes)
                if held:
                    raise KeyboardInterrupt from None
                raise
        # Spark's own handler talks to the JVM while the main thread does: that ends in a traceback.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            if held:
                raise KeyboardInterrupt
            if not local:
                _require_same(session, master)
            if _SHUFFLES not in conf:
                session.conf.set(_SHUFFLES, str(slots(session)))
            yield session
            session.stop()
        except BaseException as error:
            with suppress(Exception):  # after Ctrl-C within a call it may answer no more
                session.stop()
            code = _end(gateway)
            if code and isinstance(error, Exception):
                raise ConfigError(last_words(code, log)) from error
            raise
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


def _require_same(session: "SparkSession", master: str) -> None:
    from ordercast.pipeline.preflight import require_same

    require_same(session, f"--master {master}")


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Variables that Spark looks at when a session starts."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def session_settings(
    app: str, master: str, memory: str, conf: Mapping[str, str], scratch: str, *, brief: bool
) -> dict[str, str]:
    """All that Spark is started with; `conf` wins."""
    settings = {**_settings(scratch, memory), "spark.master": master, "spark.app.name": app}
    if brief:
        settings["spark.driver.extraJavaOptions"] += f" {_QUICK_COMPILER}"
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return {**settings, **conf}
    return {**settings, **conf, **shipped(conf, os.environ.get("PYSPARK_PYTHON"))}


def _settings(scratch: str, memory: str) -> dict[str, str]:
    return {
        "spark.driver.memory": memory,
        # The last: what the JVM itself writes goes with the folder, too, also when it is killed.
        "spark.driver.extraJavaOptions": (
            f'-Dlog4j2.configurationFile={_QUIET.as_uri()} "-Djava.io.tmpdir={scratch}"'
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": scratch,
        "spark.local.dir": scratch,  # what an interrupted JVM leaves goes with the folder
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # a quarter less time than 10,000
    }


def slots(session: "SparkSession") -> int:
    """How many tasks can run at a time, now or when the cluster gives all that it may give. Two
    partitions beat 200 on two cores; what needs more says so where it shuffles. Also over Spark
    Connect. Under dynamic allocation without a maximum, the present executors say nothing: then at
    least Spark's own default, and small partitions are merged."""
    try:
        now = int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no such thing
        now = _counted(session)

    def setting(name: str, default: str) -> str:
        return str(session.conf.get(name, default))

    if setting("spark.dynamicAllocation.enabled", "false") != "true":
        return now
    most = setting("spark.dynamicAllocation.maxExecutors", "infinity")
    if not most.isdecimal() or int(most) >= _NO_LIMIT:
        return max(now, _SPARKS_SLOTS)
    return max(now, int(most) * int(setting("spark.executor.cores", "1")))


def _counted(session: "SparkSession") -> int:
    """The partitions that the session itself makes: as a rule, one for each core."""
    from pyspark.sql import functions as sql

    ids = session.range(_MOST_SLOTS).select(sql.spark_partition_id().alias("part"))
    # Counted here: a `distinct` is a shuffle, for which a fresh JVM takes seconds.
    return len({row.part for row in ids.collect()})


def _start(sql: Any, settings: dict[str, str], said: IO[bytes], log: Path) -> tuple[Any, Any]:
    core = importlib.import_module("pyspark")
    gateways = importlib.import_module("pyspark.java_gateway")
    conf = core.SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    # A group of its own: the script that starts the JVM has processes, too, which end with it.
    options = {"stdout": said, "stderr": said, "process_group": 0}
    try:
        gateway = gateways.launch_gateway(conf, popen_kwargs=options)
    except Exception as error:
        words = log.read_text(encoding="utf-8", errors="replace")
        raise ConfigError(
            f"Spark does not start with --master {settings['spark.master']} and"
            f" --memory {settings['spark.driver.memory']}: {essence(words or str(error))}"
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
            f"--master {settings['spark.master']}: Spark does not start: {essence(words)}"
        ) from None


@contextmanager
def _noted(processes: list["subprocess.Popen[bytes]"], held: list[int]) -> Iterator[None]:
    """Note the processes that Spark starts in the block: it tells of the JVM only when that is
    ready. `held`: interrupts, which may have come a moment before there was a process."""
    gateways: Any = importlib.import_module("pyspark.java_gateway")

    def popen(*words: Any, **options: Any) -> "subprocess.Popen[bytes]":
        processes.append(subprocess.Popen(*words, **options))
        if held:
            _kill(processes)
        return processes[-1]

    before, gateways.Popen = gateways.Popen, popen
    try:
        yield
    finally:
        gateways.Popen = before


def _kill(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _forget(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Processes of a start that failed: Spark leaves their pipes open."""
    _kill(processes)
    for process in processes:
        process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()


def last_words(code: int, log: Path) -> str:
    """The message about a JVM that has ended by itself: errors of calls to it do not tell why."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    words = "\n".join(line for line in said[-_LAST_LINES:] if not line.startswith(_NOISE))
    return f"Spark's JVM {how}" + (f": {essence(words)}" if words.strip() else "")


def _end(gateway: Any) -> int:
    """End the JVM, which lives as long as its standard input is open, and forget it. Its exit code:
    0, unless it has ended before."""
    core = importlib.import_module("pyspark")
    with suppress(Exception):  # one that failed to start may have closed its side already
        gateway.shutdown()
    with suppress(OSError):
        gateway.proc.stdin.close()
    code = int(gateway.proc.wait())
    core.SparkContext._gateway = None
    core.SparkContext._jvm = None
    return code
