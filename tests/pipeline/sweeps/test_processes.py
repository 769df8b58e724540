"""Sweeps in processes of this machine: the rows of this process, and no run that takes others with
it."""

import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ordercast.cli import main
from ordercast.pipeline import parse_spec, sweep
from ordercast.pipeline.grids import experiment_of, points_of, run_sweep
from ordercast.pipeline.sweeps.processes import on_processes, work
from ordercast.pipeline.sweeps.swept_verb import Measured
from ordercast.pipeline.sweeps.tasks import Point, tasks_of
from ordercast.pipeline.sweeps.units import unit_of
from support.harness.runners import here

SIM = """
[sweep]
verb = "sim"
seed = 5
repeat = 2
history = true
[grid]
protocol = ["propagation", "centralized"]
faults = ["", "loss=0.1"]
[fixed]
groups = 3
sites = 6
size = 3
messages = 20
"""


def test_rows_are_those_of_one_process_and_histories_are_judged(tmp_path: Path) -> None:
    spec = parse_spec(SIM, source="s.toml")
    found = sweep(None, spec, tmp_path / "several", partitions=3)
    run_sweep(spec, points_of(spec), tmp_path / "one", here(experiment_of(spec)))
    for name in ("results.csv", "results.parquet", "table.csv", "runs.parquet"):
        several, one = ((tmp_path / place / name).read_bytes() for place in ("several", "one"))
        assert several == one, name
    assert found.ok
    assert found.audit is not None
    assert (found.audit.runs, found.audit.messages) == (8, 160)


def dies(config: Any, _seed: int, _run: str) -> Measured:
    print("between the answers")
    if config["n"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if config["n"] == 4:
        raise ValueError("bad luck")
    return Measured({"n": float(config["n"])})


def test_a_run_that_kills_its_worker_is_one_failed_run() -> None:
    tasks = [task for n in range(8) for task in tasks_of(Point.of({"n": n}), [1], 1)]
    with on_processes(dies, 2) as run:
        outcomes = {outcome.key: outcome for outcome in run(tasks)}
        again = run(tasks[:2])
    assert len(outcomes) == 8
    assert outcomes['{"n":3}'].error == "the worker died: signal SIGKILL"
    assert outcomes['{"n":4}'].error == "ValueError: bad luck"
    good = [outcome.measures["n"] for outcome in outcomes.values() if not outcome.error]
    assert sorted(good) == [0, 1, 2, 5, 6, 7]
    assert sorted(outcome.measures["n"] for outcome in again) == [0, 1]


def test_a_worker_whose_outcome_nobody_reads_ends_without_a_word() -> None:
    """So it is when the process that started it is killed during a run."""
    (task,) = tasks_of(Point.of({"n": 1}), [1], 1)
    command = f"import sys; sys.path[:] = {sys.path!r}; from {work.__module__} import work; work()"
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as worker:  # fmt: skip
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stderr is not None
        worker.stdout.close()
        for message in map(pickle.dumps, (dies, task)):
            worker.stdin.write(struct.pack(">Q", len(message)) + message)
        worker.stdin.close()
        assert worker.stderr.read() == b"between the answers\n"
    assert worker.returncode == 0


COMMAND = "import sys; from ordercast.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_one_line_and_the_same_command_goes_on(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, out = tmp_path / "s.toml", tmp_path / "out"
    spec.write_text(SIM.replace("history = true", "").replace("repeat = 2", "repeat = 100"))
    arguments = ["sweep", str(spec), "--engine", "processes", "--out", str(out), "--json"]
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        first = out / "rows" / "part-00000.parquet"
        while not first.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        said, complaints = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert f"what is done is kept in {out}; the same command goes on" in complaints
    assert "Traceback" not in complaints
    with pytest.raises(ProcessLookupError):  # nobody of its group is left
        os.killpg(process.pid, 0)
    spec.write_text(SIM.replace("history = true", "").replace("repeat = 2", "repeat = 1"))
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["reused"] > 0


def test_options_of_spark_need_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "s.toml"
    spec.write_text(SIM)
    assert main(["sweep", str(spec), "--engine", "processes", "--master", "local[2]"]) == 2
    assert "--master needs --engine spark" in capsys.readouterr().err


PLAN = """
[sweep]
verb = "plan"
repeat = 2
[grid]
sites = [10, 20, 400]
builder = ["greedy", "star"]
[fixed]
groups = 6
size = 12
"""


def test_the_table_for_a_person_is_wide_and_has_units_and_failures(tmp_path: Path) -> None:
    found = sweep(None, parse_spec(PLAN, source="p.toml"), tmp_path, partitions=1)
    table = found.results.as_wide()
    assert isinstance(table, pa.Table)
    assert table.num_rows == 6
    assert table.field("depth_mean").metadata == {b"unit": b"hops"}
    assert table.column("failed").to_pylist() == [1, 1, 0, 0, 0, 0]  # 12 do not fit 10 sites
    rows = {(row["sites"], row["builder"]): row for row in table.to_pylist()}
    (row,) = found.results.where(sites=20, builder="star", measure="depth_mean")
    assert rows[20, "star"]["depth_mean"] == row.mean
    assert rows[20, "star"]["depth_mean_ci95"] == row.ci95
    head = (tmp_path / "table.csv").read_text().splitlines()[0]
    assert "delay_ms [ms],delay_ms_ci95 [ms]" in head
    assert found.results.as_arrow().num_rows == len(found.results.rows)


def test_units_come_from_names() -> None:
    measures = ("latency_ms_p99", "seconds", "greedy/depth_max", "frames_per_message", "domains")
    assert [unit_of(name) for name in measures] == ["ms", "s", "hops", "frames", ""]
    assert unit_of("messages_on_hops") == "messages"


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_a_plot_is_the_same_every_time(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "p.toml"
    spec.write_text(PLAN.replace("[10, 20", "[20, 40"))
    pictures = []
    for name in ("one", "other"):
        file = tmp_path / f"{name}.{ending}"
        words = ["sweep", str(spec), "--engine", "processes", "--out", str(tmp_path / "out")]
        assert main([*words, "--plot", str(file)]) == 0
        assert f"drawn: {file}" in capsys.readouterr().out
        pictures.append(file.read_bytes())
    assert pictures[0] == pictures[1]
    if ending == "svg":
        text = pictures[0].decode()
        assert all(word in text for word in ("depth_mean", "hops", "builder star"))


def test_a_plot_of_nothing_and_a_wrong_name_are_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "p.toml"
    one = PLAN.replace("[10, 20, 400]", "[20]").replace('["greedy", "star"]', '["star"]')
    spec.write_text(one.replace("repeat = 2", "repeat = 1"))
    words = ["sweep", str(spec), "--engine", "processes", "--out", str(tmp_path / "out")]
    assert main([*words, "--plot", str(tmp_path / "a.gif")]) == 2
    assert "--plot" in capsys.readouterr().err
    assert main([*words, "--plot", str(tmp_path / "a.svg")]) == 2
    assert "no parameter changes any measure" in capsys.readouterr().err
