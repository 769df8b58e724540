"""The pipeline on a standalone master with workers whose Python has nothing of ours. Two workers
have executors at a time.

Package and dependencies are shipped. A worker is killed, with its executor, in the middle of a
sweep, a reproduction, an audit and a live audit of a lake; results are byte-identical. The source
is found by its name. A JVM that ends is told in one line.
"""

import csv
import json
import os
import struct
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.history.rows import Delivered, History
from ordercast.history.writer import write_history
from ordercast.net.export.lake_export import append
from ordercast.pipeline import parse_spec, sweep
from ordercast.pipeline.sweeps.results import read_results
from ordercast.studies import reproduce
from ordercast.studies.paper_listing import PaperListing
from support.cases.small_graphs import small_graphs
from support.harness.browser import browsing, listen
from support.harness.spark_cluster import spark_cluster
from support.stores.exporting import Cluster

SPEC = """
[sweep]
verb = "sim"
seed = 5
repeat = 8
history = true
[grid]
protocol = ["propagation", "centralized"]
[fixed]
groups = 3
sites = 6
size = 3
messages = 40
"""
DRIVER = """
import json, logging, sys
from pathlib import Path
from support.cases.small_graphs import small_graphs
from support.harness.spark_cluster import family, kill, programs_of
from ordercast.model.errors import ConfigError
from ordercast.pipeline import follow, open_session, parse_spec, sweep
from ordercast.pipeline.audits import audit as audits
from ordercast.pipeline.audits.frames import check_place, read_frames
from ordercast.pipeline.following.query import FollowQuery
from ordercast.pipeline.preflight import require_same
from ordercast.studies import reproduce
from pyspark.sql import functions

master, spec, folder, *workers = sys.argv[1:]
folder, out = Path(folder), Path(folder) / "out"
workers, killed = [int(worker) for worker in workers], {}

def kill_worker(verb):
    # The one whose executor runs most Pythons, and these. Another worker gets the next executor.
    if verb not in killed:
        pythons = {pid: " ".join(programs_of(pid)).count("python") for pid in workers}
        pid = max(workers, key=pythons.get)
        killed[verb] = programs_of(pid)
        kill(family(pid))
        workers.remove(pid)

def wave(done, wanted):
    assert done < wanted or "sweep" in killed, "the sweep is over already"
    kill_worker("sweep")

def wave_of_figure(_name, done, wanted):
    assert done < wanted or "reproduce" in killed, "the reproduction is over already"
    kill_worker("reproduce")

class Killer(logging.Handler):
    def emit(self, record):
        if record.getMessage() == "looking for cuts":
            kill_worker("audit")

before_reading = FollowQuery._require_next

def kill_before_reading(query, batch):  # Spark has planned the batch
    kill_worker("follow")
    before_reading(query, batch)

def own():
    import own_module, sys
    return json.dumps([own_module.ANSWER, sys.prefix])

def preflight(python):
    spark.sparkContext.pythonExec = str(python)
    try:
        require_same(spark, "--master x")
    except ConfigError as error:
        return str(error)

def read_by_name():
    found = spark.read.format("ordercast").option("includeHeaders", "true").load(f"{folder}/h")
    columns = ("site", "position", "attempt", "epoch", "group_name", "origin", "seq", "sent_ns")
    plain = spark.read.parquet(f"{folder}/h/deliveries").select(*columns).collect()
    rows = found.collect()
    (row,) = [row for row in rows if (row.site, row.position) == ("b", 7)]
    told = [row["kind"], row["payload"], bytes(row["headers"]["t"]).decode(),
            row["sent_at"].microsecond]
    same = sorted(tuple(row[name] for name in columns) for row in rows)
    return [same == sorted(map(tuple, plain)), len(plain), told]

def followed():
    FollowQuery._require_next = kill_before_reading
    query = follow(spark, folder / "lake", checkpoint=folder / "state", once=True)
    verdicts = [verdict.report for verdict in query.verdicts()]
    query.stop()
    return verdicts[-1]

conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.cores.max": "2", "spark.submit.pyFiles": f"{folder}/own_module.py"}

def verbs():
    done = sweep(spark, parse_spec(spec, source="s.toml"), out, audited=False, partitions=8,
                 progress=wave)
    drawn = reproduce(spark, small_graphs(), folder / "figures", quick=True,
                      progress=wave_of_figure)
    audits.ROWS_AT_DRIVER = 0  # Spark divides the tables, however few rows they have
    logger = logging.getLogger("ordercast.pipeline.audit")
    logger.setLevel(logging.INFO)
    logger.addHandler(Killer())
    place = check_place(str(out / "history"))
    frames = read_frames(spark, place)
    found = audits.audit_tables(spark, frames, causal=False, groups=place.groups)
    told = {"ok": done.ok, "audit": found.as_json(), "source": read_by_name(), "lake": followed(),
            "programs": sum(map(programs_of, workers), []), "killed": killed}
    told["own"] = spark.range(1).select(functions.udf(own)().alias("own")).first().own
    told["figures"] = [[one.points, one.runs, one.failed, one.results.as_frame(spark).count()]
                       for one in drawn]
    told["preflight"] = preflight(folder / "lonely")
    return told

try:
    with open_session("cluster", master=master, memory="512m", conf=conf, brief=True) as spark:
        told = verbs()
        spark._jvm.java.lang.Runtime.getRuntime().halt(3)
except ConfigError as error:
    print(json.dumps({**told, "ended": str(error)}))
"""
LONELY = """#!/bin/sh
PYTHONPATH=$(echo "$PYTHONPATH" | tr : '\\n' | grep 'zip$' | paste -sd:) exec {python} "$@"
"""


def prepare(folder: Path) -> None:
    """A history, a lake, a Python file for executors, and a Python that gets nothing of ours."""
    made = [
        Delivered(site, n, 1, 1, "alpha", "a", 1, n, n, headers='{"t":"aGk="}', sent_ns=n * 1000)
        for site in "ab"
        for n in range(1, 501)
    ]
    write_history(History(deliveries=made), folder / "h")
    (folder / "stores").mkdir()
    cluster = Cluster(folder / "stores")
    cluster.some(1)
    append(folder / "stores", folder / "lake")
    cluster.close()
    (folder / "own_module.py").write_text("ANSWER = 42\n", encoding="utf-8")
    python = folder / "bare" / "bin" / "python"
    (folder / "lonely").write_text(LONELY.format(python=python), encoding="utf-8")
    (folder / "lonely").chmod(0o755)


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height in pixels, from the header of a PNG file."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def look_at(index: Path) -> None:
    """In Chromium, also as narrow as a telephone: all papers, every figure, nothing cut off."""
    complaints: list[str] = []
    with browsing() as browser:
        page = browser.new_page()
        listen(page, complaints)
        page.goto(index.as_uri())
        text = page.inner_text("body")
        assert [name for name in ("[GS]", "[SWAP]", "[TOM]", "[STAB]") if name not in text] == []
        shown = page.evaluate("[...document.images].map(each => each.naturalWidth)")
        assert len(shown) == 2
        assert min(shown) > 500
        for width in (1_280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


def judge_figures(folder: Path, here: Path, told: Any) -> None:
    """Tables, figures and page, made on the cluster; the same by processes; and taken up again."""
    first, third = reproduce(None, small_graphs(), here, quick=True)
    for name in ("gs-graph1", "gs-graph3"):
        for ending in ("csv", "parquet", "png", "svg", "pdf"):
            file = f"{name}.{ending}"
            assert (folder / file).read_bytes() == (here / file).read_bytes(), file
    assert [each[:3] for each in told] == [[6, 36, []], [6, 36, []]]
    assert [each[3] for each in told] == [len(each.results.rows) for each in (first, third)]

    rows = list(csv.DictReader((folder / "gs-graph1.csv").read_text().splitlines()))
    assert list(rows[0]) == [
        "sites", "groups", "size", "protocol", "measure", "mean", "ci95", "runs", "error", "seed",
    ]  # fmt: skip
    depths = [row for row in rows if row["measure"] == "depth_mean"]
    assert len(depths) == 6
    assert {row["protocol"] for row in depths} == {"propagation"}
    assert all(float(row["mean"]) >= 1 and float(row["ci95"]) >= 0 for row in depths)
    assert {row["runs"] for row in rows} == {"6"}
    assert len(read_results(folder / "gs-graph1.parquet").rows) == len(rows)

    width, height = size_of(folder / "gs-graph1.png")
    assert width > 1000
    assert height > 500
    page = (folder / "index.html").read_text()
    for name in ("gs-graph1", "gs-graph3"):
        assert f'<img src="{name}.png"' in page
    for finding in (*first.findings, *third.findings):
        assert f'class="mark {finding.verdict}"' in page
    shown = {one["name"]: one for one in PaperListing(folder).listed()["papers"]}  # on the web page
    said = [finding["measured"] for finding in shown["gs-graph1"]["findings"]]
    assert said == [finding.measured for finding in first.findings]
    assert shown["gs-graph1"]["figure"]
    assert "36 runs" in shown["gs-graph1"]["run"]
    assert PaperListing(folder).figure("gs-graph1") == folder / "gs-graph1.png"
    assert not shown["gs-graph2"]["findings"]
    look_at(folder / "index.html")

    waves = list((folder / "rows" / "gs-forests" / "rows").iterdir())
    before = (folder / "gs-graph1.csv").read_bytes()
    (folder / "gs-graph1.csv").unlink()
    reproduce(None, small_graphs()[:1], folder, quick=True)
    assert (folder / "gs-graph1.csv").read_bytes() == before
    assert list((folder / "rows" / "gs-forests" / "rows").iterdir()) == waves  # nothing was run
    assert (folder / "index.html").read_text() == page  # what was there stays


def test_a_bare_cluster_that_loses_processes_gives_the_same_bytes(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    bare = tmp_path / "bare"
    lacks = subprocess.run(
        [bare / "bin" / "python", "-c", "import ordercast"], capture_output=True, check=False
    )
    assert b"No module named 'ordercast'" in lacks.stderr
    prepare(tmp_path)
    environment = {n: text for n, text in os.environ.items() if "SPARK" not in n}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[1])}
    out, here = tmp_path / "out", tmp_path / "here"
    with spark_cluster(tmp_path, workers=5, programs=bare / "bin") as cluster:
        pids = [str(worker.pid) for worker in cluster.workers]
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, cluster.master, SPEC, str(tmp_path), *pids],
            env=environment, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    assert sorted(told["killed"]) == ["audit", "follow", "reproduce", "sweep"]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for verb, programs in told["killed"].items():
        assert programs.count("java") >= 2, verb  # the worker and its executor
        assert version in programs, verb
    assert told["ended"].startswith("Spark's JVM ended with exit code 3")
    sweep(None, parse_spec(SPEC, source="s.toml"), here, audited=False)
    for name in ("results.csv", "results.parquet", "table.csv", "runs.parquet"):
        assert (out / name).read_bytes() == (here / name).read_bytes(), name
    judge_figures(tmp_path / "figures", here / "figures", told["figures"])
    expected = check_history(read_history(here / "history")).as_json()
    assert {**told["audit"], "seconds": 0} == {**expected, "seconds": 0}
    assert told["source"] == [True, 1_000, ["delivery", None, "hi", 7]]  # as Spark reads the files
    lake = check_history(read_history(tmp_path / "lake")).as_json()
    assert {**told["lake"], "seconds": 0} == {**lake, "seconds": 0}
    assert set(told["programs"]) == {"java", version}  # the executor's own read streams
    assert json.loads(told["own"]) == [42, str(bare)]
    assert told["preflight"].startswith("--master x: executor on ")
    assert (
        "has no ordercast, pyarrow, numpy, pandas, msgspec (ModuleNotFoundError"
        in (told["preflight"])
    )
