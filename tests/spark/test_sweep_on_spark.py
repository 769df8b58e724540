"""Sweeps on Spark: the same rows however the work is split and wherever it is done."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ordercast.cli import main
from ordercast.history.reader import read_history
from ordercast.pipeline.grids import SweepResult, sweep
from ordercast.pipeline.sweeps import rounds, workers
from ordercast.pipeline.sweeps.spec import parse_spec
from ordercast.pipeline.sweeps.swept_verb import Measured
from ordercast.pipeline.sweeps.tasks import Point, tasks_of
from ordercast.pipeline.sweeps.workers import on_spark, partitions_for

SIM = """
[sweep]
verb = "sim"
seed = 5
repeat = 3
history = true
[grid]
protocol = ["propagation", "centralized"]
faults = ["", "loss=0.1"]
[fixed]
groups = 3
sites = 6
size = 3
messages = 30
"""
PLAN = """
[sweep]
verb = "plan"
seed = 2
until = {measure = "depth_mean", within = "10%"}
[grid]
sites = [10, 40]
sizes = ["fixed", "exponential"]
[fixed]
builder = "greedy"
groups = 10
size = 4
"""


def run(
    spark: SparkSession, text: str, out: Path, partitions: int | None = None, **options: Any
) -> SweepResult:
    spec = parse_spec(text, source="s.toml")
    return sweep(spark, spec, out, partitions=partitions, **{"audited": False, **options})


def deliveries(out: Path) -> list[tuple[Any, ...]]:
    return sorted(msgspec.structs.astuple(row) for row in read_history(out / "history").deliveries)


def rows(out: Path) -> list[dict[str, Any]]:
    """Every run with its seed, its measures and the hash of its history."""
    found: list[dict[str, Any]] = pq.read_table(out / "runs.parquet").to_pylist()
    return found


def test_rows_are_identical_with_1_2_and_7_partitions_and_in_processes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One of them in a session that wants Arrow's large types."""
    tables, large = {}, "spark.sql.execution.arrow.useLargeVarTypes"
    for partitions in (1, 2, 7):
        spark.conf.set(large, str(partitions == 2).lower())
        result = run(spark, SIM, tmp_path / str(partitions), partitions)
        spark.conf.unset(large)
        assert result.ok
        tables[partitions] = rows(tmp_path / str(partitions))
    assert len(tables[1]) == 12
    assert len({row["history_hash"] for row in tables[1]}) == 12
    assert tables[1] == tables[2] == tables[7]
    assert deliveries(tmp_path / "1") == deliveries(tmp_path / "7")
    without = sweep(None, parse_spec(SIM, source="s.toml"), tmp_path / "processes", partitions=2)
    assert without.ok
    for name in ("results.csv", "results.parquet", "table.csv", "runs.parquet"):
        files = [(tmp_path / place / name).read_bytes() for place in ("7", "processes")]
        assert files[0] == files[1], name
    assert deliveries(tmp_path / "processes") == deliveries(tmp_path / "7")


IN_A_CLUSTER = """
import sys
from pathlib import Path
from ordercast.pipeline.session import open_session
from ordercast.pipeline.grids import sweep
from ordercast.pipeline.sweeps.spec import parse_spec

with open_session(
    "cluster", master="local-cluster[2,1,1024]", memory="512m", brief=True
) as spark:
    spec = parse_spec(sys.argv[1], source="s.toml")
    sweep(spark, spec, Path(sys.argv[2]), partitions=4, audited=False)
"""


def test_rows_are_identical_on_a_cluster_of_processes(spark: SparkSession, tmp_path: Path) -> None:
    """Two executors in processes of their own, which have Python workers of their own."""
    run(spark, SIM, tmp_path / "local")
    command = [sys.executable, "-c", IN_A_CLUSTER, SIM, str(tmp_path / "cluster")]
    environment = {name: text for name, text in os.environ.items() if "PYSPARK" not in name}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "cluster") == rows(tmp_path / "local")
    csv = [(tmp_path / place / "results.csv").read_text() for place in ("cluster", "local")]
    assert csv[0] == csv[1]


def test_a_sweep_that_is_killed_goes_on_and_ends_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed by a signal after its first waves, on the way from one Spark job to the next."""
    monkeypatch.setattr(rounds, "_LEAST_WAVE", 4)
    monkeypatch.setattr(rounds, "_WAVE_GROWTH", 1)

    def interrupt(done: int, _wanted: int) -> None:
        if done >= 8:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(spark, SIM, tmp_path / "cut", 4, progress=interrupt)
    assert len(rows(tmp_path / "cut")) == 8
    resumed = run(spark, SIM, tmp_path / "cut", audited=True)
    assert (resumed.runs, resumed.reused) == (12, 8)
    assert resumed.audit is not None
    assert resumed.audit.ok
    assert (resumed.audit.runs, resumed.audit.messages) == (12, 12 * 30)
    run(spark, SIM, tmp_path / "whole")
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    assert (tmp_path / "cut" / "results.csv").read_text() == (
        tmp_path / "whole" / "results.csv"
    ).read_text()
    assert deliveries(tmp_path / "cut") == deliveries(tmp_path / "whole")


COMMAND = "import sys; from ordercast.cli import main; sys.exit(main(sys.argv[1:]))"


def test_ctrl_c_loses_nothing_that_is_done_and_the_same_command_goes_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal sends the signal to all processes of the command, the JVM and its workers too."""
    assert spark.version  # the second time, the command uses the session that is there
    spec, out = tmp_path / "s.toml", tmp_path / "out"
    spec.write_text(SIM.replace("history = true", "").replace("repeat = 3", "repeat = 40"))
    arguments = ["sweep", str(spec), "--out", str(out), "--json"]
    command = [sys.executable, "-c", COMMAND, *arguments]
    environment = {name: text for name, text in os.environ.items() if "PYSPARK" not in name}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        first = out / "rows" / "part-00000.parquet"
        deadline = time.monotonic() + 120
        while not first.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        said, complaints = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert f"what is done is kept in {out}; the same command goes on" in complaints
    assert "Traceback" not in complaints
    kept = len(rows(out))
    assert 0 < kept < 160
    assert json.loads((out / "meta.json").read_text())["complete"] is False
    main(arguments)
    resumed = json.loads(capsys.readouterr().out)
    assert (resumed["failed"], resumed["violated"], resumed["ok"]) == ([], [], True)
    assert (resumed["runs"], resumed["reused"]) == (160, kept)
    assert len({row["history_hash"] for row in rows(out)}) == 160


def dies(config: Any, _seed: int, _run: str) -> Measured:
    if config["n"] == 3:
        os._exit(9)
    if config["n"] == 4:
        raise ValueError("bad luck")
    return Measured({"n": float(config["n"])})


def test_a_run_that_kills_its_worker_is_one_failed_run(spark: SparkSession) -> None:
    tasks = [task for n in range(6) for task in tasks_of(Point.of({"n": n}), [1], 1)]
    outcomes = on_spark(spark, dies, 4)(tasks)
    by_key = {outcome.key: outcome for outcome in outcomes}
    assert len(outcomes) == len(by_key) == 6
    assert by_key['{"n":3}'].error.startswith("the worker died: ")
    assert by_key['{"n":4}'].error == "ValueError: bad luck"
    assert by_key['{"n":5}'].measures == {"n": 5.0}
    assert by_key['{"n":3}'].seed == tasks[3].seed


class Unknown:
    """An experiment of a package that the workers do not have."""

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, ("no_such_package",)

    def __call__(self, _config: Any, _seed: int, _run: str) -> Measured:
        return Measured({})


def test_only_a_crash_is_looked_for_by_halving(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with every run is told at once, whole."""
    jobs = []
    once = workers._run
    monkeypatch.setattr(workers, "_run", lambda *given: jobs.append(1) or once(*given))  # type: ignore[func-returns-value]
    tasks = [task for n in range(8) for task in tasks_of(Point.of({"n": n}), [1], 1)]
    with pytest.raises(Exception, match="No module named 'no_such_package'"):
        on_spark(spark, Unknown(), 4)(tasks)
    assert len(jobs) == 1


def test_the_session_is_asked_how_many_cores_it_has(spark: SparkSession) -> None:
    assert partitions_for(spark) == 4 * 2


def test_the_command_writes_files_and_prints_one_object(
    spark: SparkSession,  # the command uses the session that is there
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark.version
    spec = tmp_path / "s.toml"
    spec.write_text(PLAN.replace("size = 4", "size = 11"))
    arguments = ["sweep", str(spec), "--out", str(tmp_path / "out"), "--json"]
    assert main(arguments) == 1  # groups of 11 do not fit 10 sites
    printed = json.loads(capsys.readouterr().out)
    assert (printed["ok"], printed["points"]) == (False, 4)
    assert {run["error"] for run in printed["failed"]} == {"size: groups of 11 do not fit 10 sites"}
    for file in printed["files"]:
        assert Path(file).exists()
    good = [row for row in printed["results"] if row["measure"] == "depth_mean"]
    assert [row["sites"] for row in good] == [40, 40]
    assert all(row["ci95"] <= 0.1 * row["mean"] for row in good)
