"""`ordercast reproduce`: the papers' tables and figures from scratch, beside what they say."""

import argparse
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.colours import BAD_WORDS, GOOD_WORDS, WARNING_WORDS, coloured
from ordercast.cli.command import GOOD, INCOMPLETE, print_json
from ordercast.cli.spark_options import engine, engine_argument, spark_arguments
from ordercast.cli.sweep import keeping, progress
from ordercast.pipeline.progress import above_progress

if TYPE_CHECKING:
    from ordercast.studies.reproduction import Reproduction
    from ordercast.studies.runner import Reproduced

DESCRIPTION = """\
Redo the tables and figures of the papers on Spark (or without Java, with --engine
processes), and set each beside what its paper says about it: NAME.csv, NAME.parquet and
the figure as NAME.png, .svg and .pdf for each, and index.html with all of them.
What is done is kept, and the same command goes on where an interrupted one ended."""

EXAMPLE = """\
example:
  ordercast reproduce --list
  ordercast reproduce --only gs-graph1 gs-graph2 --quick --out figures
  ordercast reproduce --except scale-internet --out figures

names: gs-table1, gs-table2, gs-graph1 ... gs-graph5, gs-exponential, gs-load,
       gs-setup, gs-change, gs-failure, tom-table1, tom-figure5, tom-given, tom-rings,
       tom-loss, swap-latency, swap-locality, swap-throughput, swap-change, stab-table1,
       stab-table4, stab-figure6 ... stab-figure10, stab-scale, stab-variants, stab-load,
       stab-trigger, scale-forest, scale-ordering, scale-churn, scale-internet"""


_COLOURS = {"agrees": GOOD_WORDS, "partly": WARNING_WORDS, "differs": BAD_WORDS}
_WIDTH = 84  # of the lines below a statement


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", metavar="NAME", nargs="+", action="extend", default=[],
        help="only these (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--except", metavar="NAME", nargs="+", action="extend", default=[], dest="without",
        help="not these: scale-internet takes longest",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="tell what there is, and run nothing")
    parser.add_argument("--quick", action="store_true", help="fewer points and runs: minutes")
    parser.add_argument("--out", metavar="DIR", default="out", help="where they go (default: out)")
    engine_argument(parser)
    spark_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.studies.catalogue import named
    from ordercast.studies.figures import require_figures
    from ordercast.studies.runner import INDEX, reproduce

    wanted = named(args.only, args.without)
    if args.list:
        return _list(args, wanted)
    require_figures()
    out = Path(args.out)
    begun, count = time.monotonic(), progress()
    with engine(args, "ordercast reproduce", brief=True) as spark, keeping(out):
        done = reproduce(
            spark, wanted, out, quick=args.quick, tell=None if args.json else _tell_above,
            progress=lambda name, *runs: count(f"{name}: ", *runs),
        )  # fmt: skip
    complete = not any(each.failed or each.unreached for each in done)
    if args.json:
        print_json(
            {
                "ok": complete,
                "seconds": round(time.monotonic() - begun, 3),
                "out": str(out),
                "index": str(out / INDEX),
                "reproduced": {each.name: each.as_json() for each in done},
            }
        )
    else:
        print(f"\nwritten: {out / INDEX} ({time.monotonic() - begun:.0f} s)")
    return GOOD if complete else INCOMPLETE


def _list(args: argparse.Namespace, wanted: "list[Reproduction]") -> int:
    if args.json:
        rows = [{"name": each.name, "source": each.source, "title": each.title} for each in wanted]
        print_json({"reproductions": rows})
        return GOOD
    width = max(len(each.name) for each in wanted)
    for each in wanted:
        print(f"{each.name:<{width}}  {each.title} ({each.source})")
    return GOOD


def _tell_above(done: "Reproduced") -> None:
    with above_progress():
        _tell(done)
        sys.stdout.flush()


def _tell(done: "Reproduced") -> None:
    kind = ", quick: other parameters" if done.quick else ""
    print(f"{done.name}: {done.points:,} points, {done.runs:,} runs, {done.seconds:.1f} s{kind}")
    for finding in done.findings:
        whose = "" if finding.kind == "claim" else f" ({finding.kind})"
        judged = coloured(f"{finding.verdict:8}", _COLOURS.get(finding.verdict, ""))
        print(f"  {judged}  {finding.statement}{whose}")
        print(textwrap.indent(textwrap.fill(finding.measured, _WIDTH), " " * 12))
    if done.failed:
        print(f"  {len(done.failed):,} runs failed, the first: {done.failed[0].error}")
    if done.unreached:
        print(f"  {len(done.unreached):,} points did not reach the interval asked for")
