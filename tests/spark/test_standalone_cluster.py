"""The pipeline on a standalone master with two workers whose Python has nothing of ours.

Package and dependencies are shipped. An executor is killed in the middle of a sweep, and a whole
worker in the middle of an audit; results are byte-identical.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.pipeline import parse_spec, sweep
from support.harness.spark_cluster import spark_cluster

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
from support.harness.spark_cluster import family, kill
from ordercast.pipeline import open_session, parse_spec, sweep
from ordercast.pipeline.audits import audit as audits
from ordercast.pipeline.audits.frames import check_place, read_frames

master, spec, out, *workers = sys.argv[1:]
in_sweep, in_audit = [], []

def first_wave(done, wanted):
    if not in_sweep:
        assert done < wanted, "the sweep is over already"
        in_sweep.append(kill(family(int(workers[0]))[:-1]))

class Killer(logging.Handler):
    def emit(self, record):
        if record.getMessage() == "looking for cuts":
            in_audit.append(kill(family(int(workers[1]))))

conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
with open_session("cluster", master=master, memory="512m", conf=conf, brief=True) as spark:
    done = sweep(spark, parse_spec(spec, source="s.toml"), out, audited=False, partitions=8,
                 progress=first_wave)
    audits.ROWS_AT_DRIVER = 0  # Spark divides the tables, however few rows they have
    logger = logging.getLogger("ordercast.pipeline.audit")
    logger.setLevel(logging.INFO)
    logger.addHandler(Killer())
    place = check_place(str(Path(out) / "history"))
    frames = read_frames(spark, place)
    found = audits.audit_tables(spark, frames, causal=False, groups=place.groups)
    print(json.dumps({"ok": done.ok, "in_sweep": in_sweep, "in_audit": in_audit,
                      "audit": found.as_json()}))
"""


def test_a_bare_cluster_that_loses_processes_gives_the_same_bytes(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    lacks = subprocess.run([python, "-c", "import ordercast"], capture_output=True, check=False)
    assert b"No module named 'ordercast'" in lacks.stderr
    environment = {n: text for n, text in os.environ.items() if "SPARK" not in n}
    environment |= {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(Path(__file__).parents[1])}
    out = tmp_path / "out"
    with spark_cluster(tmp_path, workers=2) as cluster:
        pids = [str(worker.pid) for worker in cluster.workers]
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, cluster.master, SPEC, str(out), *pids],
            env=environment, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    assert [count >= 1 for count in told["in_sweep"]] == [True]  # the executor
    assert [count >= 2 for count in told["in_audit"]] == [True]  # the worker and its executor
    sweep(None, parse_spec(SPEC, source="s.toml"), tmp_path / "here", audited=False)
    for name in ("results.csv", "results.parquet", "table.csv", "runs.parquet"):
        assert (out / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
    expected = check_history(read_history(tmp_path / "here" / "history")).as_json()
    assert {**told["audit"], "seconds": 0} == {**expected, "seconds": 0}
