"""`ordercast sweep SPEC`: a grid of plans or simulations on Spark, with means and intervals."""

import argparse
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.command import GOOD, INCOMPLETE, NowAndThen, print_json

if TYPE_CHECKING:
    from ordercast.pipeline.sweep import SweepResult
    from ordercast.pipeline.sweeps.results import ResultRow

DESCRIPTION = """\
Run every point of a grid as often as a spec file says, on Spark: on this machine, or
on the cluster that --master names. Each measure gets its mean and 95 % interval.
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

_QUIET_S = 3.0  # between two lines about progress
_SHOWN = 60  # rows of results on the screen


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="the spec file (TOML)")
    parser.add_argument(
        "--out", metavar="DIR", default="out", help="where results go (default: out)"
    )
    parser.add_argument("--master", metavar="URL", help="the Spark master (default: local[*])")
    parser.add_argument("--memory", metavar="SIZE", help="of the driver's JVM (default: 2g)")


def run(args: argparse.Namespace) -> int:
    from ordercast.pipeline.session import open_session
    from ordercast.pipeline.sweep import points_of, sweep
    from ordercast.pipeline.sweeps.spec import read_spec

    spec = read_spec(args.spec)
    points_of(spec)  # what cannot work is told before Spark starts
    out = Path(args.out)
    session = open_session(
        "ordercast sweep", master=args.master, memory=args.memory,
        brief=not spec.history,  # the JVM works hard for an audit only
    )  # fmt: skip
    with session as spark, keeping(out):
        result = sweep(spark, spec, out, progress=partial(progress(), ""))
    if args.json:
        print_json(result.as_json())
    else:
        print(as_text(result))
    return GOOD if result.ok else INCOMPLETE


@contextmanager
def keeping(out: Path) -> Iterator[None]:
    """Ctrl-C ends the work at once and says what becomes of it.

    Spark's own handler talks to the JVM while the main thread does, which ends in a traceback;
    and the bridge to the JVM logs a page about every interrupted call, by its own loggers and by
    the root one.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    root, bridge = logging.getLogger(), logging.getLogger("py4j")
    level = bridge.level
    root.addFilter(_not_the_bridge)
    bridge.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except KeyboardInterrupt:
        print(f"what is done is kept in {out}; the same command goes on", file=sys.stderr)
        raise
    finally:
        root.removeFilter(_not_the_bridge)
    bridge.setLevel(level)  # after an error it stays: closing the session would log as well


def _not_the_bridge(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def progress() -> Callable[[str, int, int], None]:
    """Counts the runs of something, where there is no bar."""
    lines = NowAndThen(_QUIET_S)

    def tell(of: str, done: int, wanted: int) -> None:
        if not sys.stderr.isatty():
            lines.tell(lambda: f"{of}{done:,} of {wanted:,} runs")

    return tell


def as_text(result: "SweepResult") -> str:
    reused = f", {result.reused:,} of them from before" if result.reused else ""
    lines = [f"{result.points:,} points, {result.runs:,} runs{reused}; {result.seconds:.1f} s", ""]
    lines += _table(result)
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
        found = f"VIOLATIONS: {checks}" if checks else "no violation"
        lines.append(f"\naudit of {result.audit.rows:,} deliveries in all runs: {found}")
    if result.unreached:
        lines.append(
            f"\n{len(result.unreached):,} points were run as often as allowed, and their intervals"
            f" are too wide all the same, e.g. {dict(result.unreached[0].config)}"
        )
    lines.append("\nwritten: " + ", ".join(str(file) for file in result.files))
    return "\n".join(lines)


def _table(result: "SweepResult") -> list[str]:
    """The first rows, with the parameters that vary."""
    from ordercast.plan.report import aligned

    results = result.results
    varying = [
        name
        for name in results.parameters
        if len({str(row.parameters.get(name)) for row in results.rows}) > 1
    ]
    cells = [[*varying, "measure", "mean", "ci95", "runs"]]
    for row in results.rows[:_SHOWN]:
        shown = [str(row.parameters.get(name, "")) for name in varying]
        cells.append([*shown, row.measure, *_numbers(row)])
    lines = aligned(cells, left=range(len(varying) + 1))
    more = len(results.rows) - _SHOWN
    return [*lines, f"... {more:,} more rows"] if more > 0 else lines


def _numbers(row: "ResultRow") -> list[str]:
    mean = "" if row.mean is None else f"{row.mean:,.4g}"
    interval = "" if row.ci95 is None else f"± {row.ci95:,.3g}"
    return [mean, interval, f"{row.runs:,}"]
