"""`ordercast export CLUSTER OUT`: the stores of a cluster as one history, running or not."""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ordercast.cli.backup import copy_store
from ordercast.cli.command import GOOD, MISSING, UsageError, print_json
from ordercast.cli.destination import (
    destination,
    first_word_is_cluster,
    goes_elsewhere,
    place_arguments,
)
from ordercast.cli.runtime import say
from ordercast.history.lake import FORMATS
from ordercast.net.client.destinations import Destination, LocalDestination, RemoteDestination

if TYPE_CHECKING:
    from ordercast.net.export.history import Exported

DESCRIPTION = """\
Write all stores under DIR as a history (Parquet) that 'ordercast audit' judges. Sites
may run meanwhile. A site that is quiet, running or closed, gets an 'end': then the
audit also asks whether anything was lost. Needs the extra 'history'. With --append, OUT is
a lake: each call adds what is new, by day, and changes nothing that is there. With a
context the stores of the sites that answer are copied to here first, as by 'backup'."""

EXAMPLE = """\
example:
  ordercast export cluster.toml history
  ordercast audit history
  ordercast export cluster.toml lake --append
  ordercast export history --context shop"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="+", metavar="CLUSTER OUT", help="the cluster file, the directory to write"
    )
    place_arguments(parser)
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
    file = args.words.pop(0) if names_cluster(args.words, args) else None
    if len(args.words) != 1:
        what = f"one argument too many: {args.words[1]!r}" if args.words else f"{MISSING} OUT"
        raise UsageError(f"{what}; see 'ordercast export --help'")
    out = Path(args.words[0])
    if "://" in args.words[0]:
        raise UsageError(f"{args.words[0]}: an export goes to a folder of this machine")
    place = destination(args, file, "export")
    if isinstance(place, RemoteDestination):
        done = _fetched(place, out, args)
    else:
        done = _written(place.directory, out, args, lambda: _quiet(place))
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
        where = "no copy" if isinstance(place, RemoteDestination) else f"not in {place.directory}"
        print(f"{where}: {', '.join(done.missing)}")
    return GOOD


def names_cluster(words: Sequence[str], args: argparse.Namespace) -> bool:
    """Whether the first word is the cluster file. OUT is a path too: a word alone is OUT where
    something else says where to go, unless it is plainly a file."""
    if len(words) == 1 and args.context is None and goes_elsewhere(args):
        return words[0].endswith(".toml") or Path(words[0]).is_file()
    return first_word_is_cluster(words, args)


def _fetched(place: RemoteDestination, out: Path, args: argparse.Namespace) -> "Exported":
    """Of copies of the stores of all sites that answer. A site has an `end` if all were quiet
    before the copies and after them."""
    before = _quiet(place)
    with tempfile.TemporaryDirectory(prefix="ordercast-export-") as scratch:
        directory = Path(scratch)
        for site in before.sites:
            say(f"{site}: asked for a copy of its store")
            copy_store(place, site, directory / f"{site}.db")
        still = _quiet(place) == before
        return _written(directory, out, args, lambda: before if still else _Asked([], {}))


def _written(
    directory: Path, out: Path, args: argparse.Namespace, asked: Callable[[], "_Asked"]
) -> "Exported":
    return (_append if args.append else _export)(directory, out, args, asked)


def _export(
    directory: Path, out: Path, args: argparse.Namespace, asked: Callable[[], "_Asked"]
) -> "Exported":
    from ordercast.net.export.history import export

    progress = None if args.json else _progress
    quiet = asked().quiet
    done = export(directory, out, ended=list(quiet), replace=args.replace, progress=progress)
    if quiet and asked().quiet != quiet:
        say("sites have sent or delivered meanwhile: once more, without an end for them")
        done = export(directory, out, replace=True, progress=progress)
    return done


def _append(
    directory: Path, out: Path, args: argparse.Namespace, asked: Callable[[], "_Asked"]
) -> "Exported":
    """Only sites that were quiet before and after it have an `end`: the stores are read between."""
    from ordercast.net.export.lake_export import append

    progress = None if args.json else _progress
    quiet = asked().quiet
    return append(
        directory, out, kind=args.format, ended=list(quiet), progress=progress,
        still=lambda: asked().quiet == quiet,
    )  # fmt: skip


class _Asked(NamedTuple):
    """The sites that answer. If none of them has anything outstanding, how far each has come: one
    that has may still have messages for the others."""

    sites: list[str]
    quiet: dict[str, tuple[int, int]]


def _quiet(place: Destination) -> _Asked:
    from ordercast.net.client.statuses import ask, ask_all
    from ordercast.net.cluster.processes import sites_here

    if isinstance(place, LocalDestination):
        sites = sites_here(place.cluster, place.directory)
        found = asyncio.run(ask(place.cluster, sites, place.directory))
    else:
        found = asyncio.run(ask_all(place))
    up = {site: status for site, status in found.items() if "position" in status}
    if not all(status["quiet"] for status in up.values()):
        return _Asked(list(up), {})
    return _Asked(list(up), {site: (up[site]["boot"], up[site]["logged"]) for site in up})


def _progress(site: str, table: str, rows: int) -> None:
    say(f"{site}: {table}: {rows:,} rows")
