"""Rounds, waves, interruptions and failures, with the real runs in this process."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ordercast.cli import main
from ordercast.history.reader import read_history
from ordercast.model.errors import ConfigError
from ordercast.pipeline.grids import SweepResult, experiment_of, points_of, run_sweep
from ordercast.pipeline.sweeps import rounds
from ordercast.pipeline.sweeps.results import read_results
from ordercast.pipeline.sweeps.rounds import Progressed, run_points
from ordercast.pipeline.sweeps.spec import SweepSpec, parse_spec, read_spec
from ordercast.pipeline.sweeps.store import RunStore
from ordercast.pipeline.sweeps.swept_verb import swept_verb
from ordercast.pipeline.sweeps.tasks import FinishedRun, Task
from support.harness.runners import here

PLAN = """
[sweep]
verb = "plan"
seed = 3
repeat = 4
[grid]
sites = [10, 20, 40]
builder = ["greedy", "star"]
[fixed]
groups = 6
size = 4
"""
SIM = """
[sweep]
verb = "sim"
repeat = 2
history = true
[grid]
faults = ["", "loss=0.1"]
[fixed]
groups = 3
sites = 6
size = 3
messages = 20
"""


class Counting:
    """A runner that does the real work and remembers whom it did it for."""

    def __init__(self, spec: SweepSpec, stop_after: int | None = None) -> None:
        self.runs: list[tuple[str, int]] = []
        self.waves = 0
        self._run = here(experiment_of(spec))
        self._stop_after = stop_after

    def __call__(self, tasks: Sequence[Task]) -> list[FinishedRun]:
        if self._stop_after is not None and self.waves == self._stop_after:
            raise KeyboardInterrupt
        self.waves += 1
        self.runs += [(task.point.key, task.repetition) for task in tasks]
        return self._run(tasks)


def run(text: str, out: Path, stop_after: int | None = None) -> tuple[SweepResult, Counting]:
    spec = parse_spec(text, source="s.toml")
    runner = Counting(spec, stop_after)
    return run_sweep(spec, points_of(spec), out, runner), runner


def files(out: Path) -> dict[str, Any]:
    """All that a reader sees of the results."""
    return {
        "csv": (out / "results.csv").read_text(),
        "parquet": pq.read_table(out / "results.parquet").to_pylist(),
        "runs": pq.read_table(out / "runs.parquet").to_pylist(),
        "meta": json.loads((out / "meta.json").read_text()),
    }


@pytest.fixture(autouse=True)
def small_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_LEAST_WAVE", 5)
    monkeypatch.setattr(rounds, "_WAVE_GROWTH", 1)


def test_every_point_and_measure_has_a_row_with_mean_interval_and_runs(tmp_path: Path) -> None:
    result, runner = run(PLAN, tmp_path)
    assert (result.points, result.runs, len(runner.runs), result.ok) == (6, 24, 24, True)
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert list(rows[0]) == [
        "sites", "builder", "groups", "size", "measure", "mean", "ci95", "runs", "error", "seed",
    ]  # fmt: skip
    depths = {
        (row["sites"], row["builder"]): float(row["mean"])
        for row in rows
        if row["measure"] == "depth_mean"
    }
    assert len(depths) == 6
    assert all(depth == 1.0 for (_, builder), depth in depths.items() if builder == "star")
    assert {row["runs"] for row in rows} == {"4"}


def test_the_tables_are_what_the_runs_say(tmp_path: Path) -> None:
    run(PLAN, tmp_path)
    runs = pq.read_table(tmp_path / "runs.parquet").to_pylist()
    assert len(runs) == 24
    mine = [r["load_max"] for r in runs if (r["sites"], r["builder"]) == (20, "greedy")]
    (row,) = read_results(tmp_path / "results.parquet").where(
        sites=20, builder="greedy", measure="load_max"
    )
    assert row.mean == sum(mine) / 4
    assert sorted(r["repetition"] for r in runs if r["sites"] == 10) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_what_is_documented_is_what_is_measured(tmp_path: Path) -> None:
    plan, _ = run(PLAN.replace('"star"]', '"auto"]'), tmp_path / "plan")
    sim, _ = run(SIM, tmp_path / "sim")
    for verb, result in (("plan", plan), ("sim", sim)):
        assert {row.measure for row in result.results.rows} == set(swept_verb(verb).measures)


LIKE_SIM = """
[sweep]
verb = "sim"
[grid]
wake = ["0ms", "2ms"]
replies = [0, 0.3]
[fixed]
groups = "g.toml"
longest_sync = "5ms"
tie = ["c", "b"]
origins = ["a", "c"]
faults = {loss = 0.1}
timing = {ack_delay = "2ms"}
messages = 25
"""


def test_a_run_is_what_sim_does_with_the_same_options_and_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.toml").write_text('[groups]\nx = ["a", "b", "c"]\ny = ["b", "c", "d"]\n')
    (tmp_path / "s.toml").write_text(LIKE_SIM)
    spec = read_spec(str(tmp_path / "s.toml"))
    run_sweep(spec, points_of(spec), tmp_path / "out", here(experiment_of(spec)))
    swept = pq.read_table(tmp_path / "out" / "runs.parquet").to_pylist()
    assert len({row["history_hash"] for row in swept}) == 4
    same = ["--longest-sync", "5ms", "--tie", "c,b", "--origins", "a,c", "--messages", "25",
            "--faults", "loss=0.1", "--timing", "ack_delay=2ms"]  # fmt: skip
    for row in swept:
        mine = ["--seed", str(row["seed"]), "--wake", row["wake"], "--replies", str(row["replies"])]
        assert main(["sim", str(tmp_path / "g.toml"), "--json", *same, *mine]) == 0
        assert json.loads(capsys.readouterr().out)["history_hash"] == row["history_hash"]


@pytest.mark.parametrize("stop_after", [0, 1, 3])
def test_an_interrupted_sweep_goes_on_and_ends_the_same(tmp_path: Path, stop_after: int) -> None:
    _, whole = run(PLAN, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(PLAN, tmp_path / "cut", stop_after)
    meta = json.loads((tmp_path / "cut" / "meta.json").read_text())
    assert (meta["complete"], meta["runs"]) == (False, 5 * stop_after)
    resumed, rest = run(PLAN, tmp_path / "cut")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert len(rest.runs) == 24 - 5 * stop_after
    assert resumed.reused == 5 * stop_after
    assert set(rest.runs) <= set(whole.runs)


def test_a_finished_sweep_is_not_run_again(tmp_path: Path) -> None:
    run(PLAN, tmp_path)
    before = files(tmp_path)
    again, runner = run(PLAN, tmp_path)
    assert runner.runs == []
    assert (again.runs, again.reused) == (24, 24)
    assert files(tmp_path) == before


def test_a_larger_grid_and_more_repetitions_do_only_what_is_new(tmp_path: Path) -> None:
    run(PLAN, tmp_path / "grown")
    larger = PLAN.replace("[10, 20, 40]", "[10, 20, 30]").replace("repeat = 4", "repeat = 5")
    _, runner = run(larger, tmp_path / "grown")
    assert len(runner.runs) == 2 * 5 + 4
    run(larger, tmp_path / "new")
    assert files(tmp_path / "grown")["csv"] == files(tmp_path / "new")["csv"]


@pytest.mark.parametrize(
    ("old", "new", "what"), [("seed = 3", "seed = 4", "seed"), ("plan", "sim", "verb")]
)
def test_a_folder_with_another_sweep_is_refused(
    tmp_path: Path, old: str, new: str, what: str
) -> None:
    run(PLAN, tmp_path)
    other = PLAN.replace(old, new).replace('"star"]', '"balanced"]')
    with pytest.raises(ConfigError, match=f"holds results of another {what} .*another --out"):
        run(other, tmp_path)


def test_an_out_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file: (not a directory|file exists)"):
        run(PLAN, tmp_path / "file")


def test_half_written_files_are_cleared_away(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(SIM, tmp_path / "cut", 0)
    torn = tmp_path / "cut" / "rows" / ".part-00000.parquet.1.tmp"
    torn.write_bytes(b"PAR1 and nothing else")
    orphan = tmp_path / "cut" / "history" / "sent" / "part-00000.parquet"
    orphan.write_bytes(b"the rows of this wave were never written")
    run(SIM, tmp_path / "cut")
    assert not torn.exists()
    assert len(read_history(tmp_path / "cut" / "history").sent) == 80


def test_runs_are_repeated_until_the_interval_is_narrow(tmp_path: Path) -> None:
    bound = 'until = {measure = "depth_mean", within = "4%", at_least = 4}'
    result, runner = run(PLAN.replace("repeat = 4", bound), tmp_path)
    assert result.unreached == []
    runs = {}
    for row in result.results.rows:
        if row.measure == "depth_mean":
            assert row.mean is not None
            assert row.ci95 is not None
            assert row.ci95 <= 0.04 * row.mean
            runs[row.parameters["sites"], row.parameters["builder"]] = row.runs
    assert runs[40, "star"] == 4  # always 1: the first round is enough
    assert runs[40, "greedy"] > 20
    assert sum(runs.values()) == len(runner.runs)


def test_an_interrupted_search_for_narrow_intervals_ends_the_same(tmp_path: Path) -> None:
    bound = 'until = {measure = "depth_mean", within = "4%", at_least = 4}'
    text = PLAN.replace("repeat = 4", bound)
    run(text, tmp_path / "whole")
    for stop_after in (3, 4):
        with pytest.raises(KeyboardInterrupt):
            run(text, tmp_path / "cut", stop_after)
    run(text, tmp_path / "cut")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_an_absolute_bound_and_a_limit_on_the_runs(tmp_path: Path) -> None:
    bound = 'until = {measure = "load_max", plus_minus = 0.01, at_least = 3, at_most = 9}'
    result, _ = run(PLAN.replace("repeat = 4", bound), tmp_path)
    assert not result.ok
    greedy = [point for point in result.unreached if point.config["builder"] == "greedy"]
    assert len(greedy) == 3
    assert {row.runs for row in result.results.where(builder="greedy")} == {9}


def test_a_failed_run_is_a_row_with_its_error_and_seed(tmp_path: Path) -> None:
    """Groups of 4 do not fit 3 sites, and a spread of 0.05 does not reach 4 of 10."""
    text = PLAN.replace("[10, 20, 40]", "[3, 10]").replace("size = 4", "size = 4\nspread = 0.05")
    result, runner = run(text.replace('"greedy", "star"', '"star"'), tmp_path)
    assert not result.ok
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    failed = {row["sites"]: row for row in rows if row["measure"] == "failed"}
    assert failed["3"]["error"] == "size: groups of 4 do not fit 3 sites"
    assert failed["10"]["error"] == "spread: 0.05 is too narrow for groups of 4 sites"
    assert (failed["10"]["runs"], failed["10"]["mean"]) == ("4", "")
    assert int(failed["10"]["seed"]) == result.failed[-4].seed
    assert len(runner.runs) == 4  # what cannot work is not even tried


def test_failed_runs_are_tried_again_when_the_sweep_is(tmp_path: Path) -> None:
    text = PLAN.replace("size = 4", "size = 4\nspread = 0.05").replace("builder", "objective")
    text = text.replace('"greedy", "star"', '"load"').replace("[10, 20, 40]", "[10]")
    _, first = run(text, tmp_path)
    again, second = run(text, tmp_path)
    assert sorted(first.runs) == sorted(second.runs)
    assert len(again.failed) == 4


def test_an_error_of_the_code_itself_is_a_row_too(tmp_path: Path) -> None:
    spec = parse_spec(PLAN, source="s.toml")

    def breaks(config: Any, seed: int, run: str) -> Any:
        if config["sites"] == 20:
            raise ZeroDivisionError("deep inside\nand over two lines")
        return experiment_of(spec)(config, seed, run)

    result = run_sweep(spec, points_of(spec), tmp_path, here(breaks))
    assert {run.error for run in result.failed} == {
        "ZeroDivisionError: deep inside and over two lines"
    }
    assert len(result.failed) == 8
    assert len(result.results.where(measure="depth_mean")) == 4


def test_histories_of_all_runs_are_one_history_by_run(tmp_path: Path) -> None:
    result, _ = run(SIM, tmp_path)
    assert result.ok
    history = read_history(tmp_path / "history")
    names = {row.run for row in history.sent}
    assert len(names) == 4
    assert {row.run for row in history.deliveries} == names
    assert len(history.sent) == 4 * 20
    hashes = pq.read_table(tmp_path / "runs.parquet").column("history_hash").to_pylist()
    assert len(set(hashes)) == 4


def test_histories_are_not_held_in_memory(tmp_path: Path) -> None:
    spec = parse_spec(SIM, source="s.toml")
    points = points_of(spec)
    state = Progressed(points, spec.repeats)
    store = RunStore(tmp_path, {}, history=True)
    store.open()
    run_points(state, spec.seed, here(experiment_of(spec)), store)
    assert [run.history for point in points for run in state.runs(point)] == [b""] * 4
    assert len(read_history(tmp_path / "history").sent) == 80


def test_a_violated_run_is_told_with_the_line_that_replays_it(tmp_path: Path) -> None:
    text = SIM.replace('[grid]\nfaults = ["", "loss=0.1"]', "").replace(
        "messages = 20", "messages = 20\nsettle = '1ms'\nfaults = 'loss=0.4'"
    )
    result, _ = run(text, tmp_path)
    assert not result.ok
    assert result.failed == []
    notes = result.violated[0].notes
    assert notes["violation"].startswith("liveness")
    assert notes["replay"].startswith("ordercast sim ")
