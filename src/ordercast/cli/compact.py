"""`ordercast compact CLUSTER SITE`: give the free pages of a store back to the file system."""

import argparse
import time

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.runtime import as_bytes, cluster_arguments, cluster_of, store_of
from ordercast.model.errors import ConfigError
from ordercast.model.time_left import time_left

DESCRIPTION = """\
Make the file of a store as small as what it holds, while the site is stopped. (A site
that runs does that by itself when more than a quarter of the file is free.) Ctrl-C ends
it at any time, and nothing is lost."""

EXAMPLE = """\
example:
  ordercast compact cluster.toml a"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser)
    parser.add_argument("site", metavar="SITE", help="whose store")


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster import processes
    from ordercast.net.store.compaction import compact

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
