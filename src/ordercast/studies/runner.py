"""`reproduce`: run, draw and compare what is asked for, on the caller's Spark session.

The output folder gets `<name>.csv`, `<name>.parquet` and `<name>.png` for each, and `index.html`
with all that the folder holds. What was run before, also by another reproduction of the same
family, is not run again.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.model.errors import ConfigError
from ordercast.model.version import __version__
from ordercast.pipeline.sweeps.results import read_results, results_of, write_results
from ordercast.pipeline.sweeps.rounds import Progress, Progressed, Runner, run_points
from ordercast.pipeline.sweeps.store import RunStore, write_whole
from ordercast.pipeline.sweeps.tasks import FinishedRun, Point
from ordercast.pipeline.sweeps.workers import on_spark, partitions_for
from ordercast.plan.canvas import save, style
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.figures import require_figures
from ordercast.studies.page import Section, page, quick_parameters
from ordercast.studies.reproduction import SEED, Finding, Reproduction

if TYPE_CHECKING:
    from ordercast.pipeline.session import SparkSession

LOGGER = logging.getLogger(__name__)

INDEX = "index.html"
_PIXELS_PER_INCH = 160
_ROWS = "rows"
_TOLD = "reproduced.json"  # how each figure in the folder came about


@dataclass(frozen=True, slots=True)
class Reproduced:
    name: str
    points: int
    runs: int
    seconds: float
    quick: bool
    failed: Sequence[FinishedRun]
    unreached: Sequence[Point]
    findings: Sequence[Finding]
    files: Sequence[Path]

    def as_json(self) -> dict[str, Any]:
        return {
            "points": self.points,
            "runs": self.runs,
            "seconds": round(self.seconds, 3),
            "quick": self.quick,
            "failed": [{"seed": run.seed, "error": run.error} for run in self.failed],
            "unreached": [dict(point.config) for point in self.unreached],
            "findings": [asdict(finding) for finding in self.findings],
            "files": [str(file) for file in self.files],
        }


def reproduce(
    spark: "SparkSession",
    wanted: Sequence[Reproduction],
    out: Path,
    *,
    quick: bool = False,
    tell: Callable[[Reproduced], None] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Reproduced]:
    """Neither makes nor stops a session. `tell` hears of each one when it is done, `progress` of
    its name, the runs done and the runs wanted."""
    require_figures()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out}: {(error.strerror or str(error)).lower()}") from None
    partitions = partitions_for(spark)
    done = []
    for each in wanted:
        LOGGER.info("%s", each.name)
        runner = on_spark(spark, each.family.experiment, partitions)
        heard = None if progress is None else partial(progress, each.name)
        reproduced = _reproduce(each, runner, out, quick, heard)
        _remember(out, reproduced, quick_parameters(each) if quick else "")
        write_index(out, {**CATALOGUE, **{one.name: one for one in wanted}})
        done.append(reproduced)
        if tell is not None:
            tell(reproduced)
    return done


def _reproduce(
    wanted: Reproduction, runner: Runner, out: Path, quick: bool, progress: Progress | None
) -> Reproduced:
    begun = time.monotonic()
    family = wanted.family.name
    store = RunStore(out / _ROWS / family, {"kind": "reproduce", "family": family, "seed": SEED})
    known = store.open()
    points = [Point.of(config) for config in wanted.points(quick)]
    state = Progressed(points, wanted.repeats(quick))
    run_points(state, SEED, runner, store, known, progress)
    results = wanted.table(results_of(state))
    runs = [run for point in points for run in state.runs(point)]
    files = write_results(results, out, wanted.name)
    results = read_results(files[-1])  # as the page will find them
    picture = out / f"{wanted.name}.png"
    with style():
        save(wanted.draw(results), str(picture), _PIXELS_PER_INCH)
    return Reproduced(
        name=wanted.name,
        points=len(points),
        runs=len(runs),
        seconds=time.monotonic() - begun,
        quick=quick,
        failed=[run for run in runs if run.error],
        unreached=state.unreached(),
        findings=list(wanted.find(results)),
        files=[*files, picture],
    )


def write_index(out: Path, known: Mapping[str, Reproduction]) -> Path:
    """The page with everything that the folder holds."""
    told = _told(out)
    sections = []
    for name, each in known.items():
        results = out / f"{name}.parquet"
        if name in told and results.exists():
            sections.append(Section(each, each.find(read_results(results)), told[name]))
    write_whole(out / INDEX, page(sections))
    return out / INDEX


def _remember(out: Path, done: Reproduced, instead: str) -> None:
    told = _told(out)
    told[done.name] = {
        "points": done.points,
        "runs": done.runs,
        "seconds": round(done.seconds, 1),
        "quick": done.quick,
        "instead": instead,
        "failed": len(done.failed),
        "unreached": len(done.unreached),
        "version": __version__,
        "seed": SEED,
    }
    write_whole(out / _ROWS / _TOLD, json.dumps(told, indent=1) + "\n")


def _told(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / _ROWS / _TOLD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
