"""`ordercast export CLUSTER OUT`: the stores of a cluster as one history, running or not."""

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.command import GOOD, MISSING, UsageError, print_json
from ordercast.cli.destination import dir_argument, first_word_is_cluster, local_destination
from ordercast.cli.runtime import say
from ordercast.history.lake import FORMATS

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster
    from ordercast.net.export.history import Exported

DESCRIPTION = """\
Write all stores under DIR as a history (Parquet) that 'ordercast audit' judges. Sites
may run meanwhile. A site that is quiet, running or closed, gets an 'end': then the
audit also asks whether anything was lost. Needs the extra 'history'. With --append, OUT is
a lake: each call adds what is new, by day, and changes nothing that is there."""

EXAMPLE = """\
example:
  ordercast export cluster.toml history
  ordercast audit history
  ordercast export cluster.toml lake --append"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="+", metavar="CLUSTER OUT", help="the cluster file, the directory to write"
    )
    dir_argument(parser)
    parser.add_argument("--replace", action="store_true", help="replace a history that is there")
    parser.add_argument("--append", action="store_true", help="append what is new to a lake")
    parser.add_argument(
        "--format", choices=FORMATS, help="of a new lake; 'delta' needs the extra 'delta'"
    )


def run(args: argparse.Namespace) -> int:
    if args.append and args.replace:
        raise UsageError("--append and --replace exclude each other")
    if args.format and not args.append:
        raise UsageError("--format is for a lake: give --append, too")
    file = args.words.pop(0) if first_word_is_cluster(args.words, args) else None
    if len(args.words) != 1:
        what = f"one argument too many: {args.words[1]!r}" if args.words else f"{MISSING} OUT"
        raise UsageError(f"{what}; see 'ordercast export --help'")
    place = local_destination(args, file, "export")
    cluster, directory = place.cluster, place.directory
    out = Path(args.words[0])
    if "://" in args.words[0]:
        raise UsageError(f"{args.words[0]}: an export goes to a folder of this machine")
    if args.append:
        done = _append(cluster, directory, out, args)
    else:
        done = _export(cluster, directory, out, args)
    result = {
        "out": str(out),
        "sites": done.sites,
        "missing": done.missing,
        "ended": done.ended,
        "sent": done.sent,
        "deliveries": done.deliveries,
        "gaps": done.gaps,
    }
    if args.append:
        result["append"] = done.append
    if args.json:
        print_json(result)
        return GOOD
    print(f"{out}: {done.sent:,} sent, {done.deliveries:,} deliveries of {len(done.sites):,} sites")
    if done.missing:
        print(f"not in {directory}: {', '.join(done.missing)}")
    return GOOD


def _export(cluster: "Cluster", directory: Path, out: Path, args: argparse.Namespace) -> "Exported":
    from ordercast.net.export.history import export

    progress = None if args.json else _progress
    quiet = _quiet(cluster, directory)
    done = export(directory, out, ended=list(quiet), replace=args.replace, progress=progress)
    if quiet and _quiet(cluster, directory) != quiet:
        say("sites have sent or delivered meanwhile: once more, without an end for them")
        done = export(directory, out, replace=True, progress=progress)
    return done


def _append(cluster: "Cluster", directory: Path, out: Path, args: argparse.Namespace) -> "Exported":
    """Only sites that were quiet before and after it have an `end`: the stores are read between."""
    from ordercast.net.export.appending import append

    progress = None if args.json else _progress
    quiet = _quiet(cluster, directory)
    return append(
        directory, out, kind=args.format, ended=list(quiet), progress=progress,
        still=lambda: _quiet(cluster, directory) == quiet,
    )  # fmt: skip


def _quiet(cluster: "Cluster", directory: Path) -> dict[str, tuple[int, int]]:
    """The running sites that have nothing outstanding, and how far each has come. None unless all
    of them are quiet: one that is not may still have messages for the others."""
    from ordercast.net.client.statuses import ask
    from ordercast.net.cluster.processes import sites_here

    found = asyncio.run(ask(cluster, sites_here(cluster, directory), directory))
    up = {site: status for site, status in found.items() if "position" in status}
    if not all(status["quiet"] for status in up.values()):
        return {}
    return {site: (status["boot"], status["logged"]) for site, status in up.items()}


def _progress(site: str, table: str, rows: int) -> None:
    say(f"{site}: {table}: {rows:,} rows")
