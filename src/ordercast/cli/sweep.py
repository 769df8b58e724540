"""`ordercast sweep SPEC`: a grid of plans or simulations, with means and intervals."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.colours import verdict_words
from ordercast.cli.command import GOOD, INCOMPLETE, print_json
from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.spark_options import engine, engine_argument, spark_arguments
from ordercast.cli.sweep_table import result_lines
from ordercast.pipeline.progress import above_progress

if TYPE_CHECKING:
    from ordercast.pipeline.grids import SweepResult

DESCRIPTION = """\
Run every point of a grid as often as a spec file says, on Spark: on this machine, or
on the cluster that --master names (or without Java, with --engine processes). Each
measure gets its mean and 95 % interval.
Runs have seeds of their own, so the results do not depend on who did what; what is
done is kept, and the same command goes on where an interrupted one ended."""

EXAMPLE = """\
example:
  sweep.toml:
    [sweep]
    verb = "plan"                                        # or "sim", "stability"
    seed = 1
    until = {measure = "depth_mean", within = "10%"}     # or: repeat = 20
    [grid]
    sites = [50, 100, 200]
    builder = ["greedy", "balanced"]
    [fixed]
    groups = 20                                          # drawn at random, or a file
    size = 5

  ordercast sweep sweep.toml --out results"""

_PIXELS_PER_INCH = 160
_QUIET_S = 3.0  # between two lines about progress


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="the spec file (TOML)")
    parser.add_argument(
        "--out", metavar="DIR", default="out", help="where results go (default: out)"
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw every measure that varies (.svg, .png or .pdf)"
    )
    engine_argument(parser)
    spark_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.pipeline.grids import points_of, sweep
    from ordercast.pipeline.sweeps.spec import read_spec
    from ordercast.plan.canvas import require_drawable

    spec = read_spec(args.spec)
    points_of(spec)  # what cannot work is told before Spark starts
    if args.plot is not None:
        require_drawable(args.plot, "--plot")
    out = Path(args.out)
    # The JVM works hard for an audit only.
    with engine(args, "ordercast sweep", brief=not spec.history) as spark, keeping(out):
        result = sweep(spark, spec, out, progress=partial(progress(), ""))
    if args.plot is not None:
        _plot(result, args.plot)
    if args.json:
        print_json({**result.as_json(), **({} if args.plot is None else {"plot": args.plot})})
    else:
        print(as_text(result))
        if args.plot is not None:
            print(f"drawn: {args.plot}")
    return GOOD if result.ok else INCOMPLETE


def _plot(result: "SweepResult", path: str) -> None:
    from ordercast.plan.canvas import save, style
    from ordercast.studies.sweep_plot import sweep_figure

    with style():
        save(sweep_figure(result.results), path, _PIXELS_PER_INCH)


@contextmanager
def keeping(out: Path) -> Iterator[None]:
    """Ctrl-C ends the work at once and tells how to go on with it."""
    try:
        yield
    except KeyboardInterrupt:
        with above_progress():
            print(f"what is done is kept in {out}; the same command goes on", file=sys.stderr)
        raise


def progress() -> Callable[[str, int, int], None]:
    """Counts the runs of something, where there is no bar."""
    lines = ProgressLine(_QUIET_S)

    def tell(of: str, done: int, wanted: int) -> None:
        if not sys.stderr.isatty():
            lines.tell(lambda: f"{of}{done:,} of {wanted:,} runs")

    return tell


def as_text(result: "SweepResult") -> str:
    reused = f", {result.reused:,} of them from before" if result.reused else ""
    lines = [f"{result.points:,} points, {result.runs:,} runs{reused}; {result.seconds:.1f} s", ""]
    lines += result_lines(result.results)
    if result.failed:
        first = result.failed[0]
        lines.append(f"\n{len(result.failed):,} runs failed, the first: {first.error}")
        lines.append(f"  (seed {first.seed}: {first.key})")
    if result.violated:
        notes = result.violated[0].notes
        lines.append(f"\n{len(result.violated):,} runs VIOLATE a guarantee: {notes['violation']}")
        lines.append(f"  replay: {notes['replay']}")
    if result.audit is not None:
        checks = ", ".join(f"{n:,} {name}" for name, n in result.audit.checks.items() if n)
        found = verdict_words(f"VIOLATIONS: {checks}" if checks else "")
        lines.append(f"\naudit of {result.audit.rows:,} deliveries in all runs: {found}")
    if result.unreached:
        lines.append(
            f"\n{len(result.unreached):,} points were run as often as allowed, and their intervals"
            f" are too wide all the same, e.g. {dict(result.unreached[0].config)}"
        )
    lines.append("\nwritten: " + ", ".join(str(file) for file in result.files))
    return "\n".join(lines)
