"""A standalone Spark cluster on this machine: a master and workers, each a process of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from ordercast.pipeline.java import require_java
from support.harness.ports import free_ports

_HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_START_S = 120
_PYTHON = b"-m\0pyspark."  # in the command of a Python worker; that of a JVM names pyspark as well


@dataclass
class SparkCluster:
    """`workers` are processes of the system; each starts executors as its children."""

    master: str
    workers: list[subprocess.Popen[bytes]]


def family(pid: int) -> list[int]:
    """A process and all that it has started, the youngest first. Some may end meanwhile."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for children in Path(f"/proc/{one}/task").glob("*/children"):
                found += [int(child) for child in children.read_text().split()]
    return found[::-1]


def programs_of(pid: int) -> list[str]:
    """What a process and all that it has started run."""
    found = []
    for each in family(pid):
        with suppress(OSError):
            command = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")[0].decode()
            found += [Path(command).name] if command else []
    return found


def python_workers(pid: int) -> list[int]:
    """The Python workers of Spark among all that a process has started, however far down."""
    parents: dict[int, int] = {}
    workers = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            stat = (path / "stat").read_text(encoding="utf-8", errors="replace")
            parents[int(path.name)] = int(stat.rsplit(")", 1)[1].split()[1])
            if _PYTHON in (path / "cmdline").read_bytes():
                workers.add(int(path.name))
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted((found - {pid}) & workers)


def kill(pids: Iterable[int]) -> int:
    """By SIGKILL; how many there still were."""
    done = 0
    for pid in list(pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            done += 1
    return done


@contextmanager
def spark_cluster(
    folder: Path, workers: int, *, hosts_apart: bool = False, programs: Path | None = None
) -> Iterator[SparkCluster]:
    """Workers with one core each. `hosts_apart`: on loopback addresses of their own, so that Spark
    takes them for several hosts. `programs`: the first folder in which they look for programs."""
    ports = free_ports(2 + 2 * workers)
    java = require_java()
    environment = {
        **{name: text for name, text in os.environ.items() if "SPARK" not in name},
        "SPARK_HOME": str(_HOME), "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **({} if java.home is None else {"JAVA_HOME": str(java.home)}),
        **({} if programs is None else {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}),
    }  # fmt: skip
    begun: list[subprocess.Popen[bytes]] = []

    def begin(name: str, host: str, kind: str, *words: str) -> None:
        command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}",
                   "--host", host, *words]  # fmt: skip
        own = {**environment, "SPARK_LOCAL_IP": host}
        with (folder / f"{name}.log").open("wb") as log:
            begun.append(subprocess.Popen(command, env=own, stdout=log, stderr=log, cwd=folder))

    master = f"spark://{_HOST}:{ports[0]}"
    try:
        begin(
            "master", _HOST, "master.Master", "--port", str(ports[0]),
            "--webui-port", str(ports[1]),
        )  # fmt: skip
        for number in range(workers):
            work = folder / f"work{number}"
            host = f"127.0.0.{1 + number}" if hosts_apart else _HOST
            begin(f"worker{number}", host, "worker.Worker", "--port", str(ports[2 + 2 * number]),
                  "--webui-port", str(ports[3 + 2 * number]), "--cores", "1", "--memory", "1g",
                  "--work-dir", str(work), master)  # fmt: skip
        for number in range(workers):
            _await(folder / f"worker{number}.log", "Successfully registered with master")
        yield SparkCluster(master, begun[1:])
    finally:
        for process in reversed(begun):
            if process.poll() is None:
                kill(family(process.pid))
            process.wait()


def _await(log: Path, words: str) -> None:
    deadline = time.monotonic() + _START_S
    while words not in log.read_text(errors="replace"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{log.name} does not say {words!r}: {log.read_text()[-2000:]}")
        time.sleep(0.1)
