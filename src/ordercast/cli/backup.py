"""`ordercast backup CLUSTER SITE FILE`: a copy of a site's store, while it runs or not."""

import argparse
import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.destination import destination
from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.runtime import as_bytes, cluster_arguments, elsewhere, store_of
from ordercast.model.time_left import time_left
from ordercast.net.client.destinations import Destination, RemoteDestination

if TYPE_CHECKING:
    from ordercast.net.store.backup import Progress
    from ordercast.net.store.inspection import StoreReport

DESCRIPTION = """\
Copy the store of a site to FILE, whether the site runs or not: as the store was at one
moment. The copy is read back before it gets its name; a file that is there stays.
What it is good for: 'ordercast restore --help'. An application's own data are not in it.
With a context the daemon makes the copy and sends it here; that needs the grant 'admin'."""

EXAMPLE = """\
example:
  ordercast backup cluster.toml a a-monday.backup
  ordercast inspect a-monday.backup
  ordercast backup a a-monday.backup --context shop"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser, remote=True)
    parser.add_argument("site", metavar="SITE", help="whose store")
    parser.add_argument("file", metavar="FILE", help="the copy, which must not be there")


def run(args: argparse.Namespace) -> int:
    place = destination(args, args.cluster, "backup")
    begun = time.monotonic()
    lines = ProgressLine(2.0)

    def progress(left: int, whole: int) -> None:
        copied, took_s = whole - left, time.monotonic() - begun
        share = copied * 100 // max(whole, 1)
        lines.tell(lambda: f"{share} % copied{time_left(took_s, copied, whole)}")

    with lines:
        found = copy_store(place, args.site, Path(args.file), None if args.json else progress)
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


def copy_store(
    place: Destination, site: str, file: Path, progress: "Progress | None" = None
) -> "StoreReport":
    """A copy of the store in the place's directory, or of the daemon's that has it elsewhere."""
    from ordercast.model.errors import ConfigError
    from ordercast.net.store.backup import back_up, write_copy

    if isinstance(place, RemoteDestination):
        return write_copy(file, lambda draft: asyncio.run(_fetch(place, site, draft, progress)))
    store = store_of(place.cluster, site, place.directory)
    if not store.exists():
        there = elsewhere(place.cluster, place.directory)
        raise ConfigError(f"{store}: there is no such store{there}")
    return back_up(store, file, progress)


async def _fetch(
    place: RemoteDestination, site: str, draft: Path, progress: "Progress | None"
) -> None:
    from ordercast.net.client.store_fetch import fetch_store

    async with place.client(site) as client:
        await fetch_store(client, draft, progress)
