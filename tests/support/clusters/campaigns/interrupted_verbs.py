"""Verbs of the pipeline on Spark, as processes that get a signal at any moment: with a JVM of their
own, on a standalone cluster whose executors get our package, or as a client of a Spark Connect
server.

One line, exit code 130, no temporary folder, no page of Python or Java.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
import venv
from collections import Counter
from pathlib import Path

from ordercast.pipeline.session import open_session
from support.cases.fuzz import right_history
from support.cases.growing import GrowingHistory
from support.harness.ports import free_ports
from support.harness.spark_cluster import spark_cluster

VERBS = ("audit", "sweep", "reproduce", "follow", "figures", "connect", "cluster", "demo")
LONGEST_S = 25.0  # after the start of the verb
_SPEC = """
[sweep]
verb = "sim"
seed = 5
repeat = 200
[grid]
protocol = ["propagation", "centralized"]
[fixed]
groups = 3
sites = 6
size = 3
messages = 200
"""
_QUIET = re.compile(r"starting Spark|what is done is kept in | *\d+\.\d s  ")  # the last: of a demo


def run_interrupted(chance: random.Random, folder: Path) -> tuple[list[str], Counter[str]]:
    """What is wrong, and what was interrupted."""
    verb = chance.choice(VERBS)
    if verb == "cluster":
        return on_cluster(chance, folder)
    if verb != "connect":
        return interrupted(verb, [], chance, folder)
    port = free_ports(1)[0]
    conf = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    with open_session("server", master="local[2]", memory="1g", progress=False, conf=conf):
        verb = chance.choice(("audit", "sweep", "reproduce", "follow"))
        return interrupted(verb, ["--remote", f"sc://127.0.0.1:{port}"], chance, folder)


def on_cluster(chance: random.Random, folder: Path) -> tuple[list[str], Counter[str]]:
    """A verb that ships package and dependencies to workers whose Python has neither, asks one of
    them, and works there. In some cases it must first make the archives."""
    venv.create(folder / "bare", symlinks=True)
    verb = chance.choice(("audit", "sweep", "reproduce", "follow", "figures"))
    cache = folder / "cache" if chance.random() < 0.3 else None
    with spark_cluster(folder, 2, programs=folder / "bare" / "bin") as cluster:
        words = ["--master", cluster.master, "--memory", "512m", "--conf",
                 "spark.executor.memory=512m", "spark.driver.host=127.0.0.1"]  # fmt: skip
        wrong, counts = interrupted(verb, words, chance, folder, cache)
    if cache is not None and (drafts := list(cache.rglob("*.tmp"))):
        wrong.append(f"{verb}: leaves {drafts[0].name} in the cache")
    return wrong, Counter({f"on a cluster: {name}": n for name, n in counts.items()})


def interrupted(
    verb: str,
    remote: list[str],
    chance: random.Random,
    folder: Path,
    cache: Path | None = None,
) -> tuple[list[str], Counter[str]]:
    """One verb; `remote`: words that name a Connect server or a cluster. `cache`: the user's."""
    number = chance.choice((signal.SIGINT, signal.SIGTERM))
    scratch = folder / "scratch"
    scratch.mkdir()
    delay = chance.uniform(0.5, LONGEST_S)
    environment = {name: text for name, text in os.environ.items() if "SPARK" not in name}
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)
    with subprocess.Popen(
        [sys.executable, "-m", "ordercast.cli", *_words(verb, remote, chance, folder)],
        env={**environment, "TMPDIR": str(scratch)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=folder,
    ) as process:  # fmt: skip
        end = time.monotonic() + delay
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is not None:
            process.communicate()
            return [], Counter({"over before the signal": 1})
        # A terminal sends it to all processes; a supervisor to the verb.
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        sent = time.monotonic()
        try:
            _, complaints = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return [f"{verb}: does not end after {number.name} at {delay:.2f} s"], Counter()
    wrong = _judged(process.returncode, complaints, scratch, process.pid)
    what = f"{verb}: {number.name} after {delay:.2f} s"
    took = Counter({"seconds until they ended": round(time.monotonic() - sent)})
    return [f"{what}: {each}" for each in wrong], took + Counter({f"{verb} interrupted": 1})


def _words(verb: str, remote: list[str], chance: random.Random, folder: Path) -> list[str]:
    if verb == "demo":
        return ["demo", "--stream"]
    common = remote or ["--master", "local[2]", "--memory", "512m"]
    if verb == "sweep":
        (folder / "s.toml").write_text(_SPEC, encoding="utf-8")
        return ["sweep", "s.toml", "--out", "out", *common]
    if verb == "reproduce":
        return ["reproduce", "--only", "gs-graph1", "--quick", "--out", "out", *common]
    GrowingHistory(folder / "h").append(right_history(chance))
    if verb == "audit":
        return ["audit", "h", *common]
    more = ["--figures", "figures"] if verb == "figures" else []
    if chance.random() < 0.5:
        more += ["--checkpoint", "state"]
    return ["audit", "--follow", "h", *more, *common]


def _judged(code: int, complaints: str, scratch: Path, group: int) -> list[str]:
    wrong = []
    if code != 130:
        wrong.append(f"exit code {code}")
    lines = [line for line in complaints.splitlines() if line and not _QUIET.match(line)]
    said = [line for line in lines if not line.startswith("ordercast: interrupted")]
    if said or not complaints.rstrip().endswith("interrupted"):
        wrong.append(f"says {complaints[-1500:]!r}")
    left = [path.name for path in scratch.iterdir()]
    if left:
        wrong.append(f"leaves {', '.join(sorted(left))}")
    time.sleep(1.0)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return wrong
    return [*wrong, "leaves processes"]
