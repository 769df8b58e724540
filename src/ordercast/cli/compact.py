"""`ordercast compact CLUSTER SITE`: give the free pages of a store back to the file system.
`ordercast compact LAKE`: merge the small files of a lake."""

import argparse
import time
from pathlib import Path

from ordercast.cli.command import GOOD, UsageError, print_json
from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.runtime import as_bytes, cluster_arguments, cluster_of, store_of
from ordercast.history.lake import LAKE_FILE
from ordercast.model.errors import ConfigError
from ordercast.model.time_left import time_left

DESCRIPTION = """\
Make the file of a store as small as what it holds, while the site is stopped. (A site
that runs does that by itself when more than a quarter of the file is free.) Ctrl-C ends
it at any time, and nothing is lost.

Given a lake ('ordercast export --append'), merge its small files; readers see the same
rows all the while."""

EXAMPLE = """\
example:
  ordercast compact cluster.toml a
  ordercast compact lake"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser)
    parser.add_argument("site", metavar="SITE | LAKE", help="whose store, or the folder of a lake")
    parser.add_argument(
        "--keep", type=float, metavar="SECONDS",
        help="of a lake: how long merged files stay for readers that have begun; default 3600",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster import processes
    from ordercast.net.store.compaction import compact

    if args.cluster is None and (Path(args.site) / LAKE_FILE).exists():
        return _compact_lake(args)
    if args.keep is not None:
        raise UsageError(f"--keep is for a lake, and {args.site!r} is none")
    cluster, directory = cluster_of(args, "compact")
    store = store_of(cluster, args.site, directory)
    daemon = processes.running(directory, args.site)
    if daemon is not None:
        raise ConfigError(
            f"site {args.site!r} runs here (process {daemon.pid}), and gives back what is free by"
            " itself: stop it first"
        )
    begun = time.monotonic()
    lines = ProgressLine(2.0)
    most = 0

    def progress(left: int) -> None:
        nonlocal most
        most = max(most, left)
        took_s = time.monotonic() - begun
        rest = time_left(took_s, most - left, most)
        lines.tell(lambda: f"{as_bytes(left)} to give back{rest}")

    with lines:
        done = compact(store, None if args.json else progress)
    if args.json:
        seconds = round(time.monotonic() - begun, 3)
        print_json({"site": args.site, "store": str(store), **done._asdict(), "seconds": seconds})
    else:
        print(f"{store}: {as_bytes(done.before)} before, {as_bytes(done.after)} now")
    return GOOD


def _compact_lake(args: argparse.Namespace) -> int:
    from ordercast.history.lake_compaction import KEEP_S, compact_lake

    begun = time.monotonic()
    keep_s = KEEP_S if args.keep is None else args.keep
    if not 0 <= keep_s < 1e9:
        raise UsageError(f"--keep: {keep_s:g} is not a number of seconds from 0 on")
    lines = ProgressLine(2.0)

    def progress(table: str, done: int, total: int) -> None:
        lines.tell(lambda: f"{table}: {done:,} of {total:,} merged")

    with lines:
        done = compact_lake(
            Path(args.site), keep_s=keep_s, progress=None if args.json else progress
        )
    if args.json:
        seconds = round(time.monotonic() - begun, 3)
        print_json({"lake": args.site, **done._asdict(), "seconds": seconds})
    else:
        print(f"{args.site}: {done.before:,} files before, {done.after:,} now")
    return GOOD
