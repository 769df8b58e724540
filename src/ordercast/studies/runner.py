"""`reproduce`: run, draw and compare what is asked for, on the caller's Spark session or in
processes of this machine.

The output folder gets `<name>.csv`, `<name>.parquet` and the figure as `<name>.png`, `<name>.svg`
and `<name>.pdf` for each, and `index.html` with all that the folder holds. What was run before,
also by another reproduction of the same family, is not run again.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.model.errors import ConfigError
from ordercast.pipeline.sweeps.processes import cores, on_processes
from ordercast.pipeline.sweeps.results import Results, read_results, results_of, write_results
from ordercast.pipeline.sweeps.rounds import Progress, Progressed, Runner, run_points
from ordercast.pipeline.sweeps.store import RunStore, write_whole
from ordercast.pipeline.sweeps.tasks import FinishedRun, Point
from ordercast.pipeline.sweeps.workers import on_spark, partitions_for
from ordercast.plan.canvas import save, style
from ordercast.studies.catalogue import CATALOGUE, named
from ordercast.studies.facts import ROWS, remember, sections_of
from ordercast.studies.figures import require_figures
from ordercast.studies.page import page, quick_parameters
from ordercast.studies.reproduction import SEED, Finding, Reproduction

if TYPE_CHECKING:
    from ordercast.pipeline.session import SparkSession

LOGGER = logging.getLogger(__name__)

INDEX = "index.html"
_PIXELS_PER_INCH = 160
_PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What a reproduction found: `results` are its numbers, `findings` the paper's statements
    beside them, `files` what was written."""

    name: str
    points: int
    runs: int
    seconds: float
    quick: bool
    failed: Sequence[FinishedRun]
    unreached: Sequence[Point]
    findings: Sequence[Finding]
    files: Sequence[Path]
    results: Results

    def as_json(self) -> dict[str, Any]:
        """What `ordercast reproduce --json` prints of it. Raises nothing."""
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
    spark: "SparkSession | None",
    wanted: Sequence[Reproduction | str],
    out: str | Path,
    *,
    quick: bool = False,
    tell: Callable[[Reproduced], None] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Reproduced]:
    """Redo tables and figures of the papers, and set each beside what its paper says.

    `spark`: your session, Spark Connect too; it is neither made nor stopped here. None: processes
    of this machine, without Java, which give the same rows. `wanted`: by name (`ordercast reproduce
    --list`), or as `named` gives them. `quick`: fewer points and runs. `tell` hears of each one
    when it is done, `progress` of its name, the runs done and the runs wanted.

    Raises ConfigError: for a name that is not there, a folder that cannot be written or holds runs
    of another release, and without matplotlib.
    """
    require_figures()
    out = Path(out)
    whole = [one for each in wanted for one in (named([each]) if isinstance(each, str) else [each])]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out}: {(error.strerror or str(error)).lower()}") from None
    partitions = None if spark is None else partitions_for(spark)
    done = []
    for each in whole:
        LOGGER.info("%s", each.name)
        heard = None if progress is None else partial(progress, each.name)
        with _runner(spark, each, partitions) as runner:
            reproduced = _reproduce(each, runner, out, quick, heard)
        remember(out, each.name, _how(reproduced, quick_parameters(each) if quick else ""))
        write_index(out, {**CATALOGUE, **{one.name: one for one in whole}})
        done.append(reproduced)
        if tell is not None:
            tell(reproduced)
    return done


@contextmanager
def _runner(
    spark: "SparkSession | None", each: Reproduction, partitions: int | None
) -> Iterator[Runner]:
    if spark is None or partitions is None:
        with on_processes(each.family.experiment, cores()) as runner:
            yield runner
    else:
        yield on_spark(spark, each.family.experiment, partitions)


def _reproduce(
    wanted: Reproduction, runner: Runner, out: Path, quick: bool, progress: Progress | None
) -> Reproduced:
    begun = time.monotonic()
    family = wanted.family.name
    store = RunStore(out / ROWS / family, {"kind": "reproduce", "family": family, "seed": SEED})
    known = store.open()
    points = [Point.of(config) for config in wanted.points(quick)]
    state = Progressed(points, wanted.repeats(quick))
    run_points(state, SEED, runner, store, known, progress)
    results = wanted.table(results_of(state))
    runs = [run for point in points for run in state.runs(point)]
    files = write_results(results, out, wanted.name)
    results = read_results(files[-1])  # as the page will find them
    pictures = [out / f"{wanted.name}{ending}" for ending in _PICTURES]
    with style():
        figure = wanted.draw(results)
        for picture in pictures:
            save(figure, str(picture), _PIXELS_PER_INCH)
    return Reproduced(
        name=wanted.name,
        points=len(points),
        runs=len(runs),
        seconds=time.monotonic() - begun,
        quick=quick,
        failed=[run for run in runs if run.error],
        unreached=state.unreached(),
        findings=list(wanted.find(results)),
        files=[*files, *pictures],
        results=results,
    )


def write_index(out: Path, known: Mapping[str, Reproduction]) -> Path:
    """The page with everything that the folder holds."""
    write_whole(out / INDEX, page(sections_of(out, known)))
    return out / INDEX


def _how(done: Reproduced, instead: str) -> dict[str, Any]:
    return {
        "points": done.points,
        "runs": done.runs,
        "seconds": round(done.seconds, 1),
        "quick": done.quick,
        "instead": instead,
        "failed": len(done.failed),
        "unreached": len(done.unreached),
    }
