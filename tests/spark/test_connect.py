"""Over Spark Connect: the client has no Java, and the results are those of every other way."""

import json
import os
import subprocess
import sys
from pathlib import Path

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.pipeline import parse_spec, sweep

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
import json, sys
from ordercast.pipeline import open_session, parse_spec, read_history, sweep
from ordercast.pipeline import audit
from ordercast.pipeline.audits import audit as audits

remote, spec, out = sys.argv[1:]
with open_session("client", master=remote) as spark:
    done = sweep(spark, parse_spec(spec, source="s.toml"), out, audited=False)
    small = audit(spark, **read_history(spark, f"{out}/history"))
    audits.ROWS_AT_DRIVER = 0  # the server divides the tables, however few rows they have
    divided = audit(spark, **read_history(spark, f"{out}/history"))
    print(json.dumps({
        "session": type(spark).__module__, "ok": done.ok, "small": small.as_json(),
        "divided": divided.as_json(), "rows": done.results.as_frame(spark).count(),
        "violations": divided.violations.count(),
    }))
"""


def test_a_client_gives_the_same_bytes_as_processes(connect: str, tmp_path: Path) -> None:
    out, here = tmp_path / "out", tmp_path / "here"
    environment = {n: text for n, text in os.environ.items() if "SPARK" not in n}
    environment |= {"JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, connect, SPEC, str(out)],
        env=environment, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["session"].startswith("pyspark.sql.connect")
    assert (told["ok"], told["violations"]) == (True, 0)
    same = sweep(None, parse_spec(SPEC, source="s.toml"), here, audited=False)
    assert told["rows"] == len(same.results.rows)
    for name in ("results.csv", "results.parquet", "table.csv", "runs.parquet"):
        assert (out / name).read_bytes() == (here / name).read_bytes(), name
    expected = check_history(read_history(here / "history")).as_json()
    for way in ("small", "divided"):
        assert {**told[way], "seconds": 0} == {**expected, "seconds": 0}, way
