"""Over Spark Connect: the client has no Java, and the results are those of every other way. The
client follows a history, too: a folder by itself, a URI through the server; and the server lends it
the batches of streams."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.pipeline import parse_spec, sweep
from ordercast.pipeline.following.figure import Figure, as_lines
from ordercast.pipeline.following.figures_in_process import WindowFigures
from support.cases.growing import parts_of_history, ten_a_second
from support.cases.portions import joined

SPEC = """
[sweep]
verb = "sim"
seed = 5
repeat = 3
history = true
[grid]
protocol = ["propagation", "centralized"]
[fixed]
groups = 3
sites = 6
size = 3
messages = 40
"""
CLIENT = """
import contextlib, io, json, shutil, sys, time
from ordercast.cli import main
from ordercast.model.errors import ConfigError
from ordercast.pipeline import follow, open_session, parse_spec, read_history, sweep
from ordercast.pipeline import audit
from ordercast.pipeline.audits import audit as audits
from ordercast.pipeline.following import tables
from pathlib import Path
from pyspark.sql import functions
from support.cases.growing import GrowingHistory, parts_of_history, ten_a_second
from support.cases.portions import joined

remote, spec, out = sys.argv[1:]

def judged(state, *place, **streams):
    query = follow(spark, *place, **streams, checkpoint=f"{out}/{state}", once=True)
    assert query.await_termination()
    query.stop()
    return [verdict.report for verdict in query.verdicts()]

def complaint(call, *words, **more):
    try:
        call(*words, **more)
    except ConfigError as error:
        return str(error)

def opened(conf):
    with open_session("client", master=remote, conf=conf):
        raise AssertionError("it is open")

def shipped():
    import own_module
    return own_module.ANSWER

static = complaint(opened, {"spark.executor.memory": "2g"})
missing = complaint(opened, {"spark.submit.pyFiles": out + "/nowhere.py"})
conf = {"spark.submit.pyFiles": f"{out}/own_module.py", "spark.sql.shuffle.partitions": "3"}
with open_session("client", master=remote, conf=conf) as spark:
    asked = spark.range(1).select(functions.udf(shipped, "int")().alias("n")).first().n
    settings = [asked, spark.conf.get("spark.sql.shuffle.partitions"), static, missing]
conf.pop("spark.submit.pyFiles")
with open_session("client", master=remote, conf=conf) as spark:  # docs/follow.md: without files
    done = sweep(spark, parse_spec(spec, source="s.toml"), out, audited=False)
    small = audit(spark, **read_history(spark, f"{out}/history"))
    audits.ROWS_AT_DRIVER = 0  # the server divides the tables, however few rows they have
    divided = audit(spark, **read_history(spark, f"{out}/history"))
    tables.files_per_batch = 1  # a batch has a file of each table
    growing = GrowingHistory(Path(out) / "growing")
    followed = []
    *right, wrong = parts_of_history(3)
    for part in (joined(right), wrong):
        growing.append(part)
        streams = tables.read_streams(spark, str(growing.folder))
        followed.append([judged("a", growing.folder), judged("b", growing.folder.as_uri()),
                         judged("c", **streams)])
    shutil.rmtree(f"{out}/c/query")  # the offsets of Spark
    lost = complaint(judged, "c", **streams)
    running = follow(spark, **streams, every_s=0.1)
    assert next(running.verdicts()).report["rows"] < followed[-1][-1][-1]["rows"]
    running.stop()
    growing = GrowingHistory(Path(out) / "timed")
    growing.append(ten_a_second())
    said, shown = io.StringIO(), io.StringIO()
    words = ["audit", "--follow", "--once", growing.folder.as_uri(), "--json",
             "--checkpoint", f"{out}/d", "--figures", f"{out}/figures"]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(shown):
        codes = [main(words), main(words)]  # the second goes on from the checkpoint
    assert said.getvalue(), shown.getvalue()
    until = time.monotonic() + 10  # a lender may be called after the end
    while (names := spark.sql("SHOW VIEWS IN global_temp").count()) and time.monotonic() < until:
        time.sleep(0.1)
    print(json.dumps({
        "settings": settings, "followed": followed, "lost": lost, "names": names,
        "figures": shown.getvalue(), "codes": codes,
        "verb": said.getvalue().splitlines()[-1],
        "session": type(spark).__module__, "ok": done.ok, "small": small.as_json(),
        "divided": divided.as_json(), "rows": done.results.as_frame(spark).count(),
        "violations": divided.violations.count(),
    }))
"""


def test_a_client_gives_the_same_bytes_as_processes(connect: str, tmp_path: Path) -> None:
    out, here = tmp_path / "out", tmp_path / "here"
    out.mkdir()
    (out / "own_module.py").write_text("ANSWER = 42\n", encoding="utf-8")
    environment = {n: text for n, text in os.environ.items() if "SPARK" not in n}
    environment |= {"JAVA_HOME": "/nowhere", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, connect, SPEC, str(out)],
        env=environment, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["session"].startswith("pyspark.sql.connect")
    assert (told["ok"], told["violations"]) == (True, 0)
    *settings, static, missing = told["settings"]
    assert settings == [42, "3"]  # --py-files and --conf reach the server
    assert static.startswith("--conf spark.executor.memory: a Spark Connect server is started with")
    assert missing.startswith("--py-files")
    assert "nowhere.py" in missing
    assert "\n" not in static + missing
    same = sweep(None, parse_spec(SPEC, source="s.toml"), here, audited=False)
    assert told["rows"] == len(same.results.rows)
    for name in ("results.csv", "results.parquet", "table.csv", "runs.parquet"):
        assert (out / name).read_bytes() == (here / name).read_bytes(), name
    expected = check_history(read_history(here / "history")).as_json()
    for way in ("small", "divided"):
        assert {**told[way], "seconds": 0} == {**expected, "seconds": 0}, way
    *right, wrong = parts_of_history(3)
    parts = [joined(right), wrong]
    for count, ways in enumerate(told["followed"], 1):
        whole = {**check_history(joined(parts[:count])).as_json(), "seconds": 0}
        assert [{**way[-1], "seconds": 0} for way in ways] == [whole] * 3
        assert [len(way) for way in ways] == (
            [1, 2, 2] if count == 1 else [2, 2, 2]
        )  # the kept one
    assert told["lost"].startswith("batch 0 of the query comes after batch 2 of the checkpoint")
    assert told["names"] == 0  # a name is for as long as a batch is lent
    timed = check_history(ten_a_second()).as_json()
    assert json.loads(told["verb"])["checks"] == timed["checks"]
    assert told["codes"] == [0 if timed["ok"] else 1] * 2
    expected_figures: list[Figure] = []
    WindowFigures(tmp_path / "same", expected_figures.extend).take(0, ten_a_second())
    assert all(line in told["figures"] for line in as_lines(expected_figures))
    (written,) = (pq.read_table(file) for file in (out / "figures").rglob("*.parquet"))
    alike = [dataclasses.astuple(each)[1:] for each in expected_figures]
    assert [tuple(row.values())[1:] for row in written.to_pylist()] == alike
