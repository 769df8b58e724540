"""`ordercast audit --follow`: the verdict of a history that grows, as it changes."""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.check.live import PATIENCE, WINDOW
from ordercast.cli.backup import copy_store
from ordercast.cli.colours import BAD_WORDS, coloured, verdict_words
from ordercast.cli.command import GOOD, INCOMPLETE, MISSING, UsageError, whole_number
from ordercast.cli.destination import destination, local_destination, place_arguments
from ordercast.cli.requests import seconds
from ordercast.cli.runtime import print_line, say
from ordercast.cli.spark_options import SPARK_OPTIONS, session_options
from ordercast.model.errors import ConfigError, Error
from ordercast.model.verb_options import flag_of
from ordercast.net.client.destinations import Destination, RemoteDestination

if TYPE_CHECKING:
    from ordercast.pipeline.following.figure import Figure
    from ordercast.pipeline.following.verdicts import LiveVerdict

FOLLOWING = ("dir", "context", "checkpoint", "every", "once", "figures", "window", "patience")
_SPARK = "spark"
_ONLY_WHOLE = ("causal", "runs", "draw", "violations")
_ONE_PROCESS = "a cluster is followed by one process"
_EVERY_FAR_S = 10.0  # between two looks at stores elsewhere: each look copies them whole


def follow_arguments(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("a history that grows")
    own.add_argument(
        "--follow", action="store_true", help="go on judging as files come, until Ctrl-C"
    )
    place_arguments(own)
    own.add_argument(
        "--checkpoint", metavar="DIR", help="keep the state there, and go on from it (a crash too)"
    )
    own.add_argument(
        "--every", metavar="SECONDS", type=seconds,
        help="between two looks (default: 1; with a context: 10)",
    )  # fmt: skip
    own.add_argument("--once", action="store_true", help="stop when all that is there is judged")
    own.add_argument(
        "--figures", metavar="DIR",
        help="rates, latencies and lag per site and group, shown and written there as Parquet",
    )  # fmt: skip
    own.add_argument(
        "--patience", metavar="ROWS", type=whole_number(0),
        help="held rows above which violations are counted for good (default: 200,000)",
    )  # fmt: skip
    own.add_argument(
        "--window", metavar="ROWS", type=whole_number(1),
        help="held rows above which an absent site holds no more of them (default: 2,000,000)",
    )  # fmt: skip


def require_follow(args: argparse.Namespace) -> None:
    """Options that mean nothing together are the user's mistake."""
    for name in FOLLOWING:
        if not args.follow and getattr(args, name):
            raise UsageError(f"{flag_of(name)} needs --follow")
    if args.history is None and not args.follow:
        raise UsageError(f"{MISSING} HISTORY; see 'ordercast audit --help'")
    if args.history is not None and args.context:
        raise UsageError(f"--context and {args.history!r} contradict each other")
    if args.dir and not is_cluster(args):
        raise UsageError(f"--dir is for a cluster file, and {args.history!r} is none")
    for name in _ONLY_WHOLE:
        if args.follow and getattr(args, name):
            option = "--run" if name == "runs" else flag_of(name)
            raise UsageError(f"{option} cannot be had with --follow: it needs the whole history")


def run_follow(args: argparse.Namespace) -> int:
    verdicts = _in_process(args) if _engine(args) == "memory" else _on_spark(args)
    ok = True
    with verdicts as found:
        for verdict in _changes(found):
            _tell(args, verdict)
            ok = verdict.ok
    return GOOD if ok else INCOMPLETE


def _engine(args: argparse.Namespace) -> str:
    needed = next((name for name in SPARK_OPTIONS if getattr(args, name)), None)
    if args.engine == "memory" and needed is not None:
        raise UsageError(f"{flag_of(needed)} needs --engine spark")
    if is_cluster(args):
        if needed is not None:
            raise UsageError(f"{flag_of(needed)}: {_ONE_PROCESS}")
        if args.engine == _SPARK:
            raise UsageError(
                f"--engine spark: {_ONE_PROCESS}; leave this out, or append the stores to a lake"
                " ('ordercast export --append') and follow the lake"
            )
        return "memory"
    if args.engine == "auto":
        return _SPARK if needed is not None or "://" in args.history else "memory"
    return str(args.engine or _SPARK)


def is_cluster(args: argparse.Namespace) -> bool:
    """Whether a cluster is given in place of a history: its file, or where its daemons are."""
    if args.history is None:
        return True
    return bool(args.follow and args.history.endswith(".toml") and Path(args.history).is_file())


@contextmanager
def _in_process(args: argparse.Namespace) -> Iterator[Iterable["LiveVerdict"]]:
    from ordercast.pipeline.following.in_process import EVERY_S, follow_folder

    if is_cluster(args):
        with _of_cluster(args) as found:
            yield found
        return
    yield follow_folder(
        Path(args.history),
        checkpoint=None if args.checkpoint is None else Path(args.checkpoint),
        every_s=args.every or EVERY_S,
        once=args.once,
        patience=PATIENCE if args.patience is None else args.patience,
        window=args.window or WINDOW,
        figures=None if args.figures is None else Path(args.figures),
        on_figures=_shown(args),
    )


@contextmanager
def _of_cluster(args: argparse.Namespace) -> Iterator[Iterable["LiveVerdict"]]:
    """The stores are appended to a lake: in the checkpoint, or for as long as this runs."""
    from ordercast.pipeline.following.in_process import EVERY_S, follow_folder

    if args.history is None:
        place = destination(args, None, "audit")
    else:
        place = local_destination(args, args.history, "audit")
    here = not isinstance(place, RemoteDestination)
    with tempfile.TemporaryDirectory(prefix="ordercast-follow-") as scratch:
        kept = None if args.checkpoint is None else Path(args.checkpoint)
        lake = (Path(scratch) if kept is None else kept) / "lake"
        yield follow_folder(
            lake,
            _look(place, lake),
            checkpoint=None if kept is None else kept / "state",
            every_s=args.every or (EVERY_S if here else _EVERY_FAR_S),
            once=args.once,
            patience=PATIENCE if args.patience is None else args.patience,
            window=args.window or WINDOW,
            figures=None if args.figures is None else Path(args.figures),
            on_figures=_shown(args),
        )


def _look(place: Destination, lake: Path) -> Callable[[], None]:
    """Append to the lake what is new in the stores of a folder, or of the daemons elsewhere."""
    from ordercast.net.export.lake_export import append

    def look() -> None:
        if not isinstance(place, RemoteDestination):
            append(place.directory, lake)
            return
        with tempfile.TemporaryDirectory(prefix="ordercast-copies-") as copies:
            if _copied(place, Path(copies)):
                append(Path(copies), lake)
            elif not lake.exists():
                raise ConfigError(f"context {place.context.name!r}: no site gave its store")

    return look


def _copied(place: RemoteDestination, directory: Path) -> bool:
    """Copy the stores of the sites that answer. What fails may be there at the next look."""
    from ordercast.net.client.statuses import ask_all

    found = False
    try:
        statuses = asyncio.run(ask_all(place))
    except Error as error:
        say(str(error))
        return False
    for site in [site for site, status in statuses.items() if "position" in status]:
        try:
            copy_store(place, site, directory / f"{site}.db")
            found = True
        except (Error, OSError) as error:
            say(f"{site}: its store was not copied: {error}")
    return found


@contextmanager
def _on_spark(args: argparse.Namespace) -> Iterator[Iterable["LiveVerdict"]]:
    from ordercast.pipeline.session import is_connect, open_session, require_pyspark

    require_pyspark()
    from ordercast.pipeline.audits.frames import check_place
    from ordercast.pipeline.following.query import follow

    check_place(args.history)  # what is wrong with it is told before Spark starts
    options = session_options(args)
    with open_session("ordercast audit", tell=args.verbose, brief=True, **options) as spark:
        if args.figures is not None and args.py_files and is_connect(spark):
            raise UsageError(
                "--py-files: not with --figures over Spark Connect, whose later jobs do not find"
                " these files any more"
            )
        query = follow(
            spark, args.history, checkpoint=args.checkpoint, every_s=args.every or 1.0,
            once=args.once, patience=PATIENCE if args.patience is None else args.patience,
            window=args.window or WINDOW,
        )  # fmt: skip
        figures = None if args.figures is None else _figures(args, spark)
        try:
            yield query.verdicts()
            if figures is not None and args.once:
                figures.awaitTermination()
        finally:
            query.stop()
            if figures is not None:
                figures.stop()


def _shown(args: argparse.Namespace) -> Callable[[Sequence["Figure"]], None]:
    from ordercast.pipeline.following.figure import as_lines

    def show(rows: Sequence["Figure"]) -> None:
        print("\n".join(as_lines(rows)), file=sys.stderr if args.json else sys.stdout, flush=True)

    return show


def _figures(args: argparse.Namespace, spark: Any) -> Any:
    from ordercast.pipeline.following.checkpoints import FIGURES
    from ordercast.pipeline.following.figures_on_spark import figures
    from ordercast.pipeline.following.lakes import table_streams

    frames = table_streams(spark, args.history)
    place = None if args.checkpoint is None else Path(args.checkpoint) / FIGURES
    return figures(
        frames["deliveries"], frames["sent"], out=args.figures, on_figures=_shown(args),
        checkpoint=place, every_s=args.every or 1.0, once=args.once,
    )  # fmt: skip


def _changes(verdicts: Iterable["LiveVerdict"]) -> Iterator["LiveVerdict"]:
    """The verdicts that differ from the one before."""
    before: dict[str, Any] | None = None
    for verdict in verdicts:
        now = {n: v for n, v in verdict.as_json().items() if n not in ("seconds", "batch")}
        if now != before:
            before = now
            yield verdict


def _tell(args: argparse.Namespace, verdict: "LiveVerdict") -> None:
    if args.json:
        for alert in verdict.alerts:
            print_line(alert.as_json())
        print_line(verdict.as_json())
        return
    for alert in verdict.alerts:
        sign = coloured("ALERT", BAD_WORDS)
        print(f"{sign}        {alert.check} {alert.count:,}: {json.dumps(alert.witness)}")
    print(as_line(verdict), flush=True)


def as_line(verdict: "LiveVerdict") -> str:
    """For a person: one line per change."""
    found = verdict.report
    wrong = [f"{name} {count:,}" for name, count in found["checks"].items() if count]
    parts = [
        f"{found['rows']:,} deliveries of {found['messages']:,} messages at {found['sites']} sites",
        verdict_words("" if found["ok"] else f"VIOLATIONS: {', '.join(wrong)}"),
    ]
    if found["truncated"]:
        parts.append(f"inexact: {', '.join(found['truncated'])}")
    if verdict.holding:
        most = verdict.holding[0]
        parts.append(f"{most['site']} lacks {most['messages']:,} ({verdict.held:,} rows held)")
    return "; ".join(parts)
