"""`ordercast audit HISTORY`: every check of docs/checks.md on a history of any size."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ordercast.cli.audit_follow import follow_arguments, require_follow, run_follow
from ordercast.cli.colours import BAD_WORDS, GOOD_WORDS, coloured, verdict_words
from ordercast.cli.command import GOOD, INCOMPLETE, UsageError, one_of, print_json
from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.spark_options import (
    SPARK_OPTIONS,
    refuse_spark_options,
    session_options,
    spark_arguments,
)
from ordercast.model.errors import reason
from ordercast.model.verb_options import flag_of
from ordercast.sim.trace.exports import require_writable

DESCRIPTION = """\
Judge a history: was every message delivered once, as it was sent, to all members and
only to them, in one order everywhere? Each check counts what is wrong, exactly, and
shows the smallest witness of it. A history is a folder of Parquet tables (or any URI
that Spark reads) as 'ordercast sim --history' writes it. The checks are defined by
'ordercast docs checks'; 'ordercast docs audit' tells how histories larger than memory
are judged. With --follow it goes on as the history grows, and prints the verdict each
time it changes ('ordercast docs follow')."""

EXAMPLE = """\
example:
  ordercast sim groups.toml --faults loss=0.1,partition=2 --history out/history
  ordercast audit out/history
  ordercast audit --follow out/history --checkpoint out/state
  ordercast audit --follow cluster.toml
  ordercast audit --follow --context shop

exit code: 0 when nothing is wrong, 1 when something is, 2 when it cannot be read"""

ENGINES = ("spark", "memory", "auto")
_SMALL = 5_000_000  # rows
_IN_MEMORY = 2_000_000  # rows, about a gigabyte: up to here 'auto' takes one process
_NEED_SPARK = ("violations", *SPARK_OPTIONS)
_HINT = 100_000  # rows, judged in less than a second by one process


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "history",
        metavar="HISTORY",
        nargs="?",
        help="the folder, or a URI; with --follow also the cluster file of sites on this machine",
    )
    parser.add_argument(
        "--engine",
        metavar="NAME",
        type=one_of(*ENGINES),
        help="spark (default); memory: one process, quicker for small histories; or auto: by size",
    )
    parser.add_argument("--causal", action="store_true", help="check causal order, too")
    parser.add_argument(
        "--run", metavar="NAME", dest="runs", nargs="+", action="extend",
        help="judge only these runs of the history (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--draw", metavar="FILE.svg", help="draw the first violation (others: FILE-CHECK.svg)"
    )
    parser.add_argument("--violations", metavar="DIR", help="write every violation as Parquet")
    follow_arguments(parser)
    spark_arguments(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="say which Java is used")


def run(args: argparse.Namespace) -> int:
    require_follow(args)
    if args.follow:
        return run_follow(args)
    if args.draw is not None:
        require_writable(args.draw, "--draw")
        if not args.draw.endswith(".svg"):
            raise UsageError(f"--draw {args.draw}: the name must end in .svg")
    engine = _chosen(args) if args.engine == "auto" else args.engine or "spark"
    found = _in_memory(args) if engine == "memory" else _on_spark(args)
    drawn = [] if args.draw is None else _draw(found, Path(args.draw))
    if args.json:
        print_json({**found, **({} if args.draw is None else {"drawn": drawn})})
    else:
        print(as_text(found))
        if args.violations is not None:
            print(f"violations   {args.violations}")
        for file in drawn:
            print(f"drawn        {file}")
    return GOOD if found["ok"] else INCOMPLETE


def _chosen(args: argparse.Namespace) -> str:
    """By size; what only Spark can do, Spark does."""
    needed = next((name for name in _NEED_SPARK if getattr(args, name)), None)
    if needed is None and "://" not in args.history:
        from ordercast.history.reader import count_rows

        rows = count_rows(Path(args.history), "deliveries") + count_rows(Path(args.history), "sent")
        engine, why = ("memory" if rows <= _IN_MEMORY else "spark"), f"{rows:,} rows"
    else:
        engine, why = "spark", "a URI" if needed is None else flag_of(needed)
    print(f"engine {engine}: {why}", file=sys.stderr, flush=True)
    return engine


def _draw(found: dict[str, Any], target: Path) -> list[str]:
    """A picture of each check's witness; the first has the name that was asked for."""
    from ordercast.web.witness_picture import draw_witness

    files: list[str] = []
    for name, witness in found["witnesses"].items():
        file = target.with_name(f"{target.stem}-{name}.svg") if files else target
        try:
            file.write_text(draw_witness(name, witness) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--draw {file}: {reason(error)}") from None
        files.append(str(file))
    return files


def _in_memory(args: argparse.Namespace) -> dict[str, Any]:
    from ordercast.check.report import check_history
    from ordercast.check.runs import choose_runs, named_runs, require_runs
    from ordercast.history.reader import read_history

    refuse_spark_options(args, _NEED_SPARK)
    with ProgressLine(0.0) as lines:
        lines.show(f"reading {args.history}")
        history = read_history(Path(args.history))
        if args.runs:
            require_runs(args.runs, named_runs(history))
            history = choose_runs(history, args.runs)
        lines.show(f"judging {len(history.deliveries):,} deliveries")
        return check_history(history, causal=args.causal).as_json()


def _on_spark(args: argparse.Namespace) -> dict[str, Any]:
    from ordercast.pipeline.session import open_already, open_session, require_pyspark

    sql = require_pyspark()
    from ordercast.pipeline.audits.audit import audit_tables
    from ordercast.pipeline.audits.frames import check_place, read_frames

    if args.violations is not None and Path(args.violations).exists():
        raise UsageError(f"--violations {args.violations}: is there already")
    place = check_place(args.history)  # what is wrong with it is told before Spark starts
    rows = _SMALL if place.groups is None else sum(group.rows for group in place.groups)
    if rows <= _HINT and open_already(sql) is None and not any(map(vars(args).get, _NEED_SPARK)):
        print(
            f"{rows:,} rows: --engine memory judges so few before Spark has started",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    session = open_session(
        "ordercast audit", tell=args.verbose, brief=rows < _SMALL, **session_options(args)
    )
    with session as spark:
        frames = read_frames(spark, place)
        result = audit_tables(
            spark, frames, causal=args.causal, groups=place.groups, runs=args.runs
        )
        if args.violations is not None:
            result.violations.write.parquet(args.violations)
    return result.as_json()


def as_text(found: dict[str, Any]) -> str:
    """The verdict for a person: what was judged, each check, and witnesses of what is wrong."""
    told = {name: count for name, count in found["informative"].items() if count}
    rows, messages, sites = (f"{found[name]:,}" for name in ("rows", "messages", "sites"))
    size = f"{rows} deliveries of {messages} messages at {sites} sites"
    runs = f" in {found['runs']:,} runs" if found["runs"] > 1 else ""
    lines = [f"history      {size}{runs}, judged in {found['seconds']:.1f} s"]
    for name, count in found["checks"].items():
        shown = coloured(f"{count:,}", BAD_WORDS) if count else coloured("ok", GOOD_WORDS)
        lines.append(f"{name:<16} {shown}")
        if name in found["witnesses"]:
            lines.append(f"    {json.dumps(found['witnesses'][name])}")
    if told:
        lines.append(
            "besides      " + ", ".join(f"{count:,} {name}" for name, count in told.items())
        )
    if found["truncated"]:
        lines.append(
            f"not finished {', '.join(found['truncated'])}: the witness may not be smallest"
        )
    lines.append(f"verdict      {verdict_words('' if found['ok'] else 'VIOLATIONS')}")
    return "\n".join(lines)
