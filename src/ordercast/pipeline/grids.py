"""`sweep`: run every point of a spec's grid as often as asked for, on the caller's Spark session or
in processes of this machine.

The output folder holds `results.csv` and `results.parquet` (mean and 95 % interval of every measure
at every point), `table.csv` (a row for each point, for a person), `runs.parquet` (every run),
`meta.json`, and in `rows/` what is needed to take an interrupted sweep up again; with `history`,
the histories of all runs as one history.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.pipeline.complaints import essence
from ordercast.pipeline.sweeps.processes import cores, on_processes
from ordercast.pipeline.sweeps.results import (
    Results,
    results_of,
    write_results,
    write_runs,
    write_wide,
)
from ordercast.pipeline.sweeps.rounds import Progress, Progressed, Runner, run_points
from ordercast.pipeline.sweeps.spec import SweepSpec, read_spec
from ordercast.pipeline.sweeps.store import HISTORY, RunStore
from ordercast.pipeline.sweeps.swept_verb import Experiment, swept_verb
from ordercast.pipeline.sweeps.tasks import FinishedRun, Point
from ordercast.pipeline.sweeps.workers import on_spark, partitions_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ordercast.check.report import Report
    from ordercast.pipeline.audits.audit import AuditResult

NAME, WIDE = "results", "table.csv"


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep found: `results` has a row for each point and measure, `files` is what was
    written. `reused` runs were there from before; `unreached` points were run as often as allowed,
    and their intervals are too wide all the same. `audit`: the verdict on all histories, if they
    were kept."""

    results: Results
    folder: Path
    files: Sequence[Path]
    points: int
    runs: int
    reused: int
    seconds: float
    failed: Sequence[FinishedRun]
    violated: Sequence[FinishedRun]
    unreached: Sequence[Point]
    audit: "AuditResult | Report | None" = None

    @property
    def ok(self) -> bool:
        """Every run went well, no guarantee was violated, and every interval is narrow enough."""
        broken = self.failed or self.violated or self.unreached
        return not broken and (self.audit is None or self.audit.ok)

    def as_json(self) -> dict[str, Any]:
        """The object that `ordercast sweep --json` prints. Raises nothing."""
        return {
            "ok": self.ok,
            "points": self.points,
            "runs": self.runs,
            "reused": self.reused,
            "seconds": round(self.seconds, 3),
            "failed": [
                {"point": run.key, "repetition": run.repetition, "seed": run.seed,
                 "error": run.error}
                for run in self.failed
            ],
            "violated": [
                {"point": run.key, "repetition": run.repetition, "seed": run.seed, **run.notes}
                for run in self.violated
            ],
            "unreached": [dict(point.config) for point in self.unreached],
            "audit": None if self.audit is None else self.audit.as_json(),
            "out": str(self.folder),
            "files": [str(file) for file in self.files],
            "results": [row.as_json() for row in self.results.rows],
        }  # fmt: skip


def sweep(
    spark: "SparkSession | None",
    spec: SweepSpec | str | Path,
    out: str | Path,
    *,
    partitions: int | None = None,
    progress: Progress | None = None,
    audited: bool = True,
) -> SweepResult:
    """Run every point of the spec's grid, and write the results into the folder `out`.

    `spark`: your session, Spark Connect too; it is neither made nor stopped here. None: processes
    of this machine, without Java, which give the same rows. `spec`: as `read_spec` gives it, or the
    name of its file. `partitions`: the shares of a wave of runs, or the processes; by default as
    many as the cluster, or this machine, runs at a time. `progress` hears after every wave how many
    runs are done and how many are wanted.

    An interrupted sweep, given again, goes on. Where histories are kept, all of them are `audited`
    together. A run that fails is a row `failed` of its point, not an exception.

    Raises ConfigError: for a mistake in the spec, for a folder that holds results of another
    sweep, and where Spark cannot read the histories.
    """
    if not isinstance(spec, SweepSpec):
        spec = read_spec(str(spec))
    out = Path(out)
    points = points_of(spec)
    causal = all(point.config.get("causal", False) for point in points)
    if spark is None:
        with on_processes(experiment_of(spec), partitions or cores()) as runner:
            result = run_sweep(spec, points, out, runner, progress)
        if not spec.history or not audited:
            return result
        return replace(result, audit=check_folder(out / HISTORY, causal=causal))
    partitions = partitions or partitions_for(spark)
    runner = on_spark(spark, experiment_of(spec), partitions)
    result = run_sweep(spec, points, out, runner, progress, least_wave=partitions)
    if not spec.history or not audited:
        return result
    return replace(result, audit=audit_history(spark, out / HISTORY, causal=causal))


def check_folder(folder: Path, *, causal: bool) -> "Report":
    """The verdict on a history, in this process."""
    from ordercast.check.report import check_history
    from ordercast.history.reader import read_history

    return check_history(read_history(folder), causal=causal)


def audit_history(spark: "SparkSession", folder: Path, *, causal: bool = False) -> "AuditResult":
    """The verdict on a history in a folder, which the session's executors must be able to read."""
    from ordercast.pipeline.audits.audit import audit_tables

    try:
        tables = {name: spark.read.parquet(str((folder / name).resolve())) for name in TABLES}
    except Exception as error:
        raise ConfigError(
            f"{folder}: Spark cannot read it: {essence(str(error))}; put it where the cluster finds"
            " it and run 'ordercast audit'"
        ) from None
    return audit_tables(spark, tables, causal=causal)


def run_sweep(
    spec: SweepSpec,
    points: Sequence[Point],
    out: Path,
    runner: Runner,
    progress: Progress | None = None,
    least_wave: int | None = None,
) -> SweepResult:
    """The sweep itself; only the runner knows where the work is done."""
    begun = time.monotonic()
    store = RunStore(out, _identity(spec), history=spec.history)
    known = store.open()
    state = Progressed(points, spec.repeats, least_wave)
    try:
        run_points(state, spec.seed, runner, store, known, progress)
    finally:  # also after Ctrl-C: what is done is kept, and can be read
        complete = not state.missing(spec.seed) and not state.under_way
        results = results_of(state)
        files = [
            *write_results(results, out, NAME),
            write_wide(results, out / WIDE),
            write_runs(state, out),
        ]
        runs = [run for point in points for run in state.runs(point)]
        store.write_meta(
            {"complete": complete, "source": Path(spec.source).name, "points": len(points),
             "runs": len(runs), "grid": {k: list(v) for k, v in spec.grid.items()},
             "fixed": dict(spec.fixed), "bounds": [b.text() for b in spec.repeats.bounds]}
        )  # fmt: skip
    return SweepResult(
        results=results,
        folder=out,
        files=[*files, *([out / HISTORY] if spec.history else [])],
        points=len(points),
        runs=len(runs),
        reused=len(runs) - state.ran,
        seconds=time.monotonic() - begun,
        failed=[run for run in runs if run.error],
        violated=[run for run in runs if run.measures.get("violations")],
        unreached=state.unreached(),
    )


def points_of(spec: SweepSpec) -> list[Point]:
    """The grid; a combination that cannot work is a point that fails, unless they all do."""
    points = []
    verb = swept_verb(spec.verb)
    for config in spec.configs():
        try:
            verb.check(config, spec.read)
        except ConfigError as error:
            points.append(Point.of(config, str(error)))
        else:
            points.append(Point.of(config))
    if all(point.trouble for point in points):
        raise ConfigError(f"{spec.source}: {points[0].trouble}")
    return points


def experiment_of(spec: SweepSpec) -> Experiment:
    return swept_verb(spec.verb).experiment(spec.files, spec.seconds, spec.history)


def _identity(spec: SweepSpec) -> dict[str, Any]:
    return {
        "kind": "sweep",
        "verb": spec.verb,
        "seed": spec.seed,
        "seconds": spec.seconds,
        "history": spec.history,
        "files": {
            name: hashlib.sha256(text.encode()).hexdigest() for name, text in spec.files.items()
        },
    }
