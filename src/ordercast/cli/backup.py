"""`ordercast backup CLUSTER SITE FILE`: a copy of a site's store, while it runs or not."""

import argparse
import time
from pathlib import Path

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.runtime import as_bytes, cluster_arguments, cluster_of, elsewhere, store_of
from ordercast.model.time_left import time_left

DESCRIPTION = """\
Copy the store of a site to FILE, whether the site runs or not: as the store was at one
moment. The copy is read back before it gets its name; a file that is there stays.
What it is good for: 'ordercast restore --help'. An application's own data are not in it."""

EXAMPLE = """\
example:
  ordercast backup cluster.toml a a-monday.backup
  ordercast inspect a-monday.backup"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser)
    parser.add_argument("site", metavar="SITE", help="whose store")
    parser.add_argument("file", metavar="FILE", help="the copy, which must not be there")


def run(args: argparse.Namespace) -> int:
    from ordercast.model.errors import ConfigError
    from ordercast.net.store.backup import back_up

    cluster, directory = cluster_of(args, "backup")
    store = store_of(cluster, args.site, directory)
    if not store.exists():
        raise ConfigError(f"{store}: there is no such store{elsewhere(cluster, directory)}")
    begun = time.monotonic()
    lines = ProgressLine(2.0)

    def progress(left: int, pages: int) -> None:
        copied, took_s = pages - left, time.monotonic() - begun
        share = copied * 100 // max(pages, 1)
        lines.tell(lambda: f"{share} % copied{time_left(took_s, copied, pages)}")

    with lines:
        found = back_up(store, Path(args.file), None if args.json else progress)
    told = {
        "site": args.site,
        "file": args.file,
        "bytes": found.bytes["file"],
        "boot": found.boot,
        "row": found.rows[1],
        "position": found.positions["logged"],
        "seconds": round(time.monotonic() - begun, 3),
    }
    if args.json:
        print_json(told)
    else:
        size = as_bytes(found.bytes["file"])
        print(f"{args.file}: store of {args.site} up to position {told['position']:,}, {size}")
    return GOOD
